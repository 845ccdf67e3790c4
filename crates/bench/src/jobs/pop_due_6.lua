local due = redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", ARGV[1], "LIMIT", 0, 1)[1]
if due then
  redis.call("ZREM", KEYS[1], due)
end
return due
