local due = redis.call("ZRANGE", KEYS[1], "-inf", ARGV[1], "BYSCORE", "LIMIT", 0, 1)[1]
if due then
  redis.call("ZREM", KEYS[1], due)
end
return due
