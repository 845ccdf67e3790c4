# What the runs ask of the store under test through Sidekiq's own connection: is it there, is it empty, what is it.

module Store
  CONNECTION_ERROR = Gate::SIX ? Redis::BaseConnectionError : RedisClient::ConnectionError

  # Ends the script unless the store answers and is empty, or may be emptied.
  def self.open(options)
    Sidekiq.redis do |store|
      store.flushdb if options[:flush]
      size = store.dbsize
      abort "#{options[:url]} holds #{size} keys: give an empty database, or --flush to empty it" unless size.zero?
    end
    puts "Sidekiq #{Sidekiq::VERSION} on #{name}, #{options[:url]}"
  rescue SystemCallError, CONNECTION_ERROR => error
    abort "#{options[:url]} does not answer: #{error.message}"
  end

  def self.info = Gate::SIX ? Sidekiq.redis_info : Sidekiq.default_configuration.redis_info

  def self.name
    version = info["darter_version"]
    version ? "Darter #{version}" : "Redis #{info["redis_version"]}"
  end

  # User and system CPU seconds that the store has used so far.
  def self.cpu_seconds = info.values_at("used_cpu_user", "used_cpu_sys").sum(&:to_f)
end
