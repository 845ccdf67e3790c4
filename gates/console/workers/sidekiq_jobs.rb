# What Sidekiq's workers run in the test of the console. Who ran is written down beside the store.

require "sidekiq"

class InvoiceJob
  include Sidekiq::Job

  def perform(_index)
    sleep(ENV.fetch("CONSOLE_SECONDS").to_f)
    File.write(File.join(ENV.fetch("GATE_FOLDER"), "#{Process.pid}.ran"), "#{jid}\n", mode: "a")
  end
end

Sidekiq.logger.level = Logger::WARN
Sidekiq.configure_client { |config| config.redis = {url: ENV["REDIS_URL"]} }
