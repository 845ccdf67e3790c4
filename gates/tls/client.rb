# redis-rb and Sidekiq 6 over TLS, as `clients` starts it: client.rb PORT CA CERT KEY
# The workers load this file, too: what it is told is in the environment then.

require_relative "../sidekiq/stack"
Stack.enter("6")
require "openssl"

ENV["GATE_TLS"] ||= ARGV.join("\n")
PORT, AUTHORITY, CERTIFICATE, KEY = ENV["GATE_TLS"].split("\n", -1)
JOBS = 200
ssl = {ca_file: AUTHORITY, verify_mode: OpenSSL::SSL::VERIFY_PEER}
unless CERTIFICATE.empty?
  ssl[:cert] = OpenSSL::X509::Certificate.new(File.read(CERTIFICATE))
  ssl[:key] = OpenSSL::PKey.read(File.read(KEY))
end
CONNECTION = {url: "rediss://localhost:#{PORT}", ssl_params: ssl, reconnect_attempts: 0}.freeze
Sidekiq.configure_client { |config| config.redis = CONNECTION }
Sidekiq.configure_server { |config| config.redis = CONNECTION }

class Counted
  include Sidekiq::Worker

  def perform(number) = Sidekiq.redis { |redis| redis.sadd("worked", number) }
end

unless Sidekiq.server?
  redis = Redis.new(**CONNECTION)
  large = "x" * 3_000_000
  redis.set("large", large)
  abort "another value" if redis.get("large") != large
  counted = redis.pipelined { |pipeline| 1000.times { pipeline.incr("n") } }
  abort "another count" if counted.size != 1000
  JOBS.times { |number| Counted.perform_async(number) }
  words = [*Stack::RUBY, Gem.bin_path("sidekiq", "sidekiq"), "-r", __FILE__, "-c", "5", "-t", "5", "-q", "default"]
  workers = Process.spawn(*words)
  begin
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 60
    sleep 0.05 until redis.scard("worked") == JOBS || Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
  ensure
    Process.kill("TERM", workers)
    Process.wait(workers)
  end
  abort "#{redis.scard("worked")} of #{JOBS} jobs" if redis.scard("worked") != JOBS
  puts "served"
end
