# A real Sidekiq process with clients/ruby: `ruby sidekiq.rb 6|7|8` becomes Sidekiq's own command line, which loads this file again.

require_relative "../sidekiq/stack"

if $PROGRAM_NAME == __FILE__
  Stack.enter(ARGV.first)
  words = ["-r", __FILE__, "-e", "production", "-c", ENV.fetch("WORKER_THREADS", "1"), "-t", ENV.fetch("STOP_SECONDS", "4"), "-q", "mail"]
  exec(*Stack::RUBY, Gem.bin_path("sidekiq", "sidekiq"), *words)
end

require_relative "../../clients/ruby/darter_fetch"

# redis-rb 4.8 warns at each heartbeat of Sidekiq 6.4.
if Sidekiq::VERSION.start_with?("6.")
  Redis.sadd_returns_boolean = false
  Redis.silence_deprecations = true
end

RUNS = File.open(ENV.fetch("RUNS"), File::WRONLY | File::APPEND)

class Leased
  include Sidekiq::Job

  def perform
    RUNS.syswrite("start #{jid} #{Process.pid}\n")
    sleep(Float(ENV.fetch("WORK_SECONDS")))
    RUNS.syswrite("done #{jid} #{Process.pid}\n")
  end
end

Sidekiq.logger.level = Logger::WARN
Sidekiq.configure_server do |config|
  config.redis = {url: ENV.fetch("REDIS_URL")}
  Darter::Fetch.use(config, lease_seconds: Integer(ENV.fetch("LEASE_SECONDS")))
end
