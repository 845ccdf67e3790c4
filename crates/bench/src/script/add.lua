-- Adds a job. KEYS: wait, meta, id, events, marker, metrics. ARGV: packed {prefix, name, time}, data as JSON, packed options.
local arguments = cmsgpack.unpack(ARGV[1])
local options = cmsgpack.unpack(ARGV[3])
local id = redis.call("INCR", KEYS[3])
local job = arguments[1] .. id
local state = redis.call("HMGET", KEYS[2], "paused", "concurrency", "events")
if redis.call("EXISTS", job) == 1 then
  return id
end
redis.call("HMSET", job, "name", arguments[2], "data", ARGV[2], "opts", cjson.encode(options),
  "timestamp", arguments[3], "delay", options.delay or 0, "priority", options.priority or 0)
redis.call("RPUSH", KEYS[4], cjson.encode({ event = "added", jobId = id, name = arguments[2] }))
if not state[1] then
  redis.call("LPUSH", KEYS[1], id)
  redis.call("ZADD", KEYS[5], 0, "0")
end
redis.call("RPUSH", KEYS[4], cjson.encode({ event = "waiting", jobId = id }))
redis.call("LTRIM", KEYS[4], -1000, -1)
redis.call("HINCRBY", KEYS[6], "added", 1)
return id
