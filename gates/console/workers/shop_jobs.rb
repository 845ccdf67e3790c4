# The jobs of shop.rb.

require "sidekiq"

# One that takes about so many milliseconds, and fails so often.
class ShopJob
  include Sidekiq::Job

  def self.takes(ms, fails: 0)
    define_method(:perform) do |*|
      sleep(ms * rand(0.5..1.5) / 1000)
      raise "the other side does not answer" if rand < fails
    end
  end
end

class ChargeCard < ShopJob
  takes 40, fails: 0.02
end

class UpdateCart < ShopJob
  takes 60
end

class OrderMail < ShopJob
  takes 130
end

class ReindexProduct < ShopJob
  takes 95
end

class PartnerExport < ShopJob
  sidekiq_options retry: 0
  takes 480, fails: 0.01
end

Sidekiq.logger.level = Logger::FATAL
Sidekiq.configure_client { |config| config.redis = {url: ENV["REDIS_URL"]} }
