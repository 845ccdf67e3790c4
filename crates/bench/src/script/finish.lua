-- Finishes a job, if one is named, and takes the next. KEYS: wait, active, completed, delayed, stalled, meta, events, marker,
-- metrics. ARGV: the job's id or "", time, return value as JSON, packed {prefix, token, lock ms, completed jobs to keep}.
local options = cmsgpack.unpack(ARGV[4])
local prefix, time = options[1], tonumber(ARGV[2])

local function say(event, id)
  redis.call("RPUSH", KEYS[7], cjson.encode({ event = event, jobId = id, prev = "active" }))
end

local function remove_oldest()
  local over = redis.call("ZCARD", KEYS[3]) - options[4]
  if over > 0 then
    for _, id in ipairs(redis.call("ZRANGE", KEYS[3], 0, over - 1)) do
      redis.call("DEL", prefix .. id, prefix .. id .. ":logs", prefix .. id .. ":dependencies")
      redis.call("ZREM", KEYS[3], id)
    end
  end
end

local function finish(id)
  local job = prefix .. id
  if redis.call("EXISTS", job) == 0 then
    return redis.error_reply("ERR no job " .. id)
  end
  if redis.call("GET", job .. ":lock") == options[2] then
    redis.call("DEL", job .. ":lock")
    redis.call("SREM", KEYS[5], id)
  end
  redis.call("SCARD", job .. ":dependencies")
  redis.call("LREM", KEYS[2], -1, id)
  local state = redis.call("HMGET", job, "opts", "parentKey", "timestamp")
  local settings = cjson.decode(state[1])
  redis.call("HMSET", job, "returnvalue", ARGV[3], "finishedOn", time)
  redis.call("ZADD", KEYS[3], time, id)
  if settings.removeOnComplete then
    remove_oldest()
  end
  say("completed", id)
  redis.call("HINCRBY", KEYS[9], "completed", 1)
  redis.call("HSET", KEYS[9], "at", time)
end

local function promote()
  for _, id in ipairs(redis.call("ZRANGEBYSCORE", KEYS[4], 0, time, "LIMIT", 0, 100)) do
    redis.call("ZREM", KEYS[4], id)
    redis.call("LPUSH", KEYS[1], id)
  end
end

local function take()
  redis.call("HMGET", KEYS[6], "paused", "concurrency")
  redis.call("ZREM", KEYS[8], "0")
  local id = redis.call("RPOPLPUSH", KEYS[1], KEYS[2])
  if not id then
    return false
  end
  local job = prefix .. id
  redis.call("SET", job .. ":lock", options[2], "PX", options[3])
  redis.call("SADD", KEYS[5], id)
  redis.call("HMSET", job, "processedOn", time, "pb", options[2])
  redis.call("HINCRBY", job, "attemptsMade", 1)
  if redis.call("LLEN", KEYS[1]) > 0 then
    redis.call("ZADD", KEYS[8], 0, "0")
  else
    redis.call("ZCARD", KEYS[4])
    say("drained", id)
  end
  say("active", id)
  redis.call("LTRIM", KEYS[7], -1000, -1)
  return { id, redis.call("HGETALL", job) }
end

if ARGV[1] ~= "" then
  local failure = finish(ARGV[1])
  if failure then
    return failure
  end
end
promote()
return take()
