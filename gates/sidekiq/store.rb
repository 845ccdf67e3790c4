# What the runs ask of the store under test through Sidekiq's own connection: is it there, is it empty, what is it.

module Store
  CONNECTION_ERROR = Gate::SIX ? Redis::BaseConnectionError : RedisClient::ConnectionError
  # Whatever the client may raise, also when the store answers with an error.
  ERROR = Gate::SIX ? Redis::BaseError : RedisClient::Error

  # Turns Sidekiq's client to the store. Ends the script unless it answers and is empty, or may be emptied.
  def self.open(url, flush:)
    point_to(url)
    Sidekiq.redis do |store|
      store.flushdb if flush
      size = store.dbsize
      abort "#{url} holds #{size} keys: give an empty database, or --flush (FLUSH=1) to empty it" unless size.zero?
    end
    puts "Sidekiq #{Sidekiq::VERSION} on #{name}, #{url}"
  rescue SystemCallError, CONNECTION_ERROR => error
    abort "#{url} does not answer: #{error.message}"
  end

  # User and system CPU seconds that the store has used so far.
  def self.cpu_seconds = info.values_at("used_cpu_user", "used_cpu_sys").sum(&:to_f)

  def self.used_bytes = info["used_memory"].to_i

  def self.info = Sidekiq.redis(&:info)

  def self.name
    version = info["darter_version"]
    version ? "Darter #{version}" : "Redis #{info["redis_version"]}"
  end

  # Sidekiq 7 keeps its first connection pool for good; what stands above that is a capsule of the thread; other
  # threads have that first pool.
  def self.point_to(url)
    ENV["REDIS_URL"] = url
    return Sidekiq.redis = Gate.settings(url) if Gate::SIX
    require "sidekiq/capsule"
    config = Sidekiq::Config.new
    config.logger = Sidekiq.logger
    [config, Sidekiq.default_configuration].each { |each| each.redis = Gate.settings(url) }
    Thread.current[:sidekiq_capsule] = config.default_capsule
  end
  private_class_method :point_to
end
