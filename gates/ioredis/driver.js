// Each check runs over RESP3 and over RESP2, on a connection of its own.

const Redis = require("ioredis");
const { assert, run, until } = require("../checks");

const url = process.argv[2];

const checks = {
  async connects(redis) {
    assert.equal(await redis.ping(), "PONG");
    assert.equal(await redis.client("GETNAME"), "gate");
    assert.match(await redis.client("INFO"), new RegExp(`resp=${redis.options.protocol}`));
  },

  async "reads values"(redis) {
    await redis.set("text", "größer\r\n");
    assert.equal(await redis.get("text"), "größer\r\n");
    assert.equal(await redis.get("nothing"), null);
    await redis.set("bytes", Buffer.from([0, 255, 13, 10]));
    assert.deepEqual(await redis.getBuffer("bytes"), Buffer.from([0, 255, 13, 10]));
    await redis.hset("hash", { a: 1, b: "two" });
    assert.deepEqual(await redis.hgetall("hash"), { a: "1", b: "two" });
    await redis.zadd("zset", 1.5, "a", "inf", "b");
    assert.deepEqual(await redis.zrange("zset", 0, -1, "WITHSCORES"), ["a", "1.5", "b", "inf"]);
    await redis.sadd("set", "x", "y");
    assert.deepEqual((await redis.smembers("set")).sort(), ["x", "y"]);
    await assert.rejects(redis.incr("text"), /ERR value is not an integer/);
    await assert.rejects(redis.lpush("set", 1), /WRONGTYPE/);
  },

  async "pipelines"(redis) {
    const pipeline = redis.pipeline();
    for (let index = 0; index < 1000; index++) pipeline.incr("counter");
    pipeline.lpush("counter", 1).get("counter");
    const replies = await pipeline.exec();
    assert.deepEqual(replies.slice(0, 1000).map(([, value]) => value), Array.from({ length: 1000 }, (_, index) => index + 1));
    assert.match(replies[1000][0].message, /WRONGTYPE/);
    assert.deepEqual(replies[1001], [null, "1000"]);
  },

  async "transactions"(redis) {
    assert.deepEqual(await redis.multi().set("a", 1).incr("a").get("a").exec(), [[null, "OK"], [null, 2], [null, "2"]]);
    await redis.watch("a");
    const other = redis.duplicate();
    await other.set("a", 10);
    assert.equal(await redis.multi().incr("a").exec(), null);
    assert.equal(await other.get("a"), "10");
    await assert.rejects(redis.multi().set("a").exec(), /EXECABORT/);
    other.disconnect();
  },

  async "scripts"(redis) {
    redis.defineCommand("twice", { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1]) * 2" });
    assert.equal(await redis.twice("number", 4), 8);
    await redis.script("FLUSH");
    assert.equal(await redis.twice("number", 1), 10);
    const text = await redis.eval("return cjson.encode({KEYS[1], tonumber(ARGV[1]), cjson.decode(ARGV[2]).x})", 1, "k", 3, '{"x":[true]}');
    assert.equal(text, '["k",3,[true]]');
    await assert.rejects(redis.eval("return redis.error_reply('MINE of mine')", 0), /MINE of mine/);
    await assert.rejects(redis.evalsha("0".repeat(40), 0), /NOSCRIPT/);
  },

  async "publishes and subscribes"(redis) {
    const subscriber = redis.duplicate();
    const got = [];
    subscriber.on("message", (channel, message) => got.push(`${channel} ${message}`));
    subscriber.on("pmessage", (pattern, channel, message) => got.push(`${pattern} ${channel} ${message}`));
    assert.equal(await subscriber.subscribe("one", "two"), 2);
    assert.equal(await subscriber.psubscribe("o*"), 3);
    assert.equal(await redis.publish("one", "1"), 2);
    await until(() => got.length === 2);
    assert.deepEqual(got, ["one 1", "o* one 1"]);
    assert.equal(await subscriber.unsubscribe("one", "two"), 1);
    assert.equal(await subscriber.punsubscribe("o*"), 0);
    assert.equal(await subscriber.get("nothing"), null);
    subscriber.disconnect();
  },

  async "publishes on shard channels"(redis) {
    const subscriber = redis.duplicate();
    const got = [];
    subscriber.on("smessage", (channel, message) => got.push(`${channel} ${message}`));
    assert.equal(await subscriber.ssubscribe("shard"), 1);
    assert.equal(await redis.spublish("shard", "2"), 1);
    await until(() => got.length === 1);
    assert.deepEqual(got, ["shard 2"]);
    assert.equal(await subscriber.sunsubscribe("shard"), 0);
    subscriber.disconnect();
  },

  async "blocks"(redis) {
    const waiter = redis.duplicate();
    const popped = waiter.blpop("first", "second", 0);
    await redis.rpush("second", "value");
    assert.deepEqual(await popped, ["second", "value"]);
    assert.equal(await waiter.blpop("first", 0.05), null);
    const least = waiter.bzpopmin("zset", 0);
    await redis.zadd("zset", 2, "b");
    assert.deepEqual(await least, ["zset", "b", "2"]);
    const moved = waiter.blmove("from", "to", "LEFT", "RIGHT", 0);
    await redis.rpush("from", "x");
    assert.equal(await moved, "x");
    assert.equal(await redis.lpop("to"), "x");
    waiter.disconnect();
  },

  async "streams"(redis) {
    await redis.xgroup("CREATE", "stream", "group", "$", "MKSTREAM");
    const reader = redis.duplicate();
    const read = reader.xreadgroup("GROUP", "group", "one", "COUNT", 10, "BLOCK", 0, "STREAMS", "stream", ">");
    const id = await redis.xadd("stream", "*", "field", "value");
    assert.deepEqual(await read, [["stream", [[id, ["field", "value"]]]]]);
    assert.deepEqual(await redis.xpending("stream", "group"), [1, id, id, [["one", "1"]]]);
    const [next, claimed] = await redis.xautoclaim("stream", "group", "two", 0, "0");
    assert.deepEqual([next, claimed], ["0-0", [[id, ["field", "value"]]]]);
    assert.equal(await redis.xack("stream", "group", id), 1);
    assert.equal(await reader.xread("BLOCK", 20, "STREAMS", "stream", id), null);
    reader.disconnect();
  },

  async "scans"(redis) {
    const pipeline = redis.pipeline();
    for (let index = 0; index < 1000; index++) pipeline.set(`key:${index}`, index);
    await pipeline.exec();
    const found = new Set();
    for await (const keys of redis.scanStream({ match: "key:*", count: 100 })) keys.forEach((key) => found.add(key));
    assert.equal(found.size, 1000);
  },

  async "connects again"(redis) {
    const other = redis.duplicate();
    const id = await redis.client("ID");
    await other.client("KILL", "ID", id);
    await until(() => redis.status !== "ready");
    assert.equal(await redis.ping(), "PONG");
    assert.notEqual(await redis.client("ID"), id);
    other.disconnect();
  },
};

const named = {};
for (const protocol of [3, 2]) {
  for (const [name, check] of Object.entries(checks)) {
    named[`resp${protocol} ${name}`] = async () => {
      const redis = new Redis(url, { protocol, connectionName: "gate" });
      await redis.flushall();
      await check(redis);
      redis.disconnect();
    };
  }
}
run(named);
