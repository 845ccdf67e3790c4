# Sidekiq's own Web UI alone, for `web`: REDIS_URL says which store, the session secret lives as long as the server.

require "securerandom"
require "sidekiq/web"
require "rack/session" unless Sidekiq::VERSION.start_with?("6.")

if Sidekiq::VERSION.start_with?("6.")
  Redis.sadd_returns_boolean = false
  Redis.silence_deprecations = true
end

use Rack::Session::Cookie, secret: SecureRandom.hex(32)
run Sidekiq::Web
