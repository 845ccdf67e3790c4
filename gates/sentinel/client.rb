# Sidekiq's connection through Sentinel, as `failover` starts it: client.rb 6|7|8 LIST PASSWORD SENTINEL_PORT…
# 6 brings redis-rb, 7 and 8 bring redis-client.

require_relative "../sidekiq/stack"
Stack.enter(ARGV[0])
six = ARGV[0] == "6"
$stdout.sync = true
name, password, *ports = ARGV.drop(1)
sentinels = ports.map { |port| {host: "127.0.0.1", port: port.to_i} }

connection =
  if six
    {url: "redis://jobs", sentinels: sentinels, role: :master, password: password}
  else
    {name: "jobs", sentinels: sentinels, password: password}
  end
Sidekiq.configure_client { |config| config.redis = connection }

errors = six ? Redis::BaseError : RedisClient::Error
say = ->(*words) { $stdout.write("#{words.join(" ")}\n") }

Thread.new do
  replica = six ? Redis.new(**connection, role: :slave) : RedisClient.sentinel(**connection, role: :replica).new_client
  loop do
    say.call("replica", replica.call("CONFIG", "GET", "port").to_a.flatten.last) if replica.call("LLEN", name).positive?
  rescue errors => error
    say.call("error of the replica", error.inspect)
  ensure
    sleep 0.05
  end
end

number = 0
is_over = false
until is_over
  number += 1
  begin
    Sidekiq.redis do |primary|
      say.call("primary", primary.call("CONFIG", "GET", "port").to_a.flatten.last)
      primary.call("RPUSH", name, number)
      say.call("wrote", number)
      is_over = primary.call("EXISTS", "over").positive?
    end
  rescue errors => error
    say.call("error", error.inspect)
  end
  sleep 0.01
end
say.call("list", *Sidekiq.redis { |primary| primary.call("LRANGE", name, 0, 99) })
