// Each check runs over RESP3 and over RESP2, on a connection of its own.

const { createClient, defineScript, WatchError, ErrorReply } = require("redis");
const { assert, run, until } = require("../checks");

const url = process.argv[2];

const checks = {
  async connects(redis) {
    assert.equal(await redis.ping(), "PONG");
    assert.equal(await redis.clientGetName(), "gate");
    assert.match(await redis.sendCommand(["CLIENT", "INFO"]), new RegExp(`resp=${redis.options.RESP}`));
  },

  async "reads values"(redis) {
    await redis.set("text", "größer\r\n", { expiration: { type: "EX", value: 100 } });
    assert.equal(await redis.get("text"), "größer\r\n");
    const seconds = await redis.ttl("text");
    assert.ok(seconds > 0 && seconds <= 100, String(seconds));
    assert.equal(await redis.get("nothing"), null);
    await redis.hSet("hash", { a: 1, b: "two" });
    assert.deepEqual({ ...(await redis.hGetAll("hash")) }, { a: "1", b: "two" });
    await redis.zAdd("zset", [{ score: 1.5, value: "a" }, { score: Infinity, value: "b" }]);
    assert.deepEqual(await redis.zRangeWithScores("zset", 0, -1), [{ value: "a", score: 1.5 }, { value: "b", score: Infinity }]);
    await redis.sAdd("set", ["x", "y"]);
    assert.deepEqual([...(await redis.sMembers("set"))].sort(), ["x", "y"]);
    await redis.geoAdd("geo", { member: "place", longitude: 13.4, latitude: 52.5 });
    assert.deepEqual(await redis.geoSearch("geo", { longitude: 13, latitude: 52 }, { radius: 100, unit: "km" }), ["place"]);
    await assert.rejects(redis.incr("text"), /ERR value is not an integer/);
    await assert.rejects(redis.lPush("set", "1"), /WRONGTYPE/);
  },

  async "pipelines"(redis) {
    const replies = await Promise.all(Array.from({ length: 1000 }, () => redis.incr("counter")));
    assert.deepEqual(replies, Array.from({ length: 1000 }, (_, index) => index + 1));
    const mixed = await Promise.allSettled([redis.lPush("counter", "1"), redis.get("counter")]);
    assert.match(mixed[0].reason.message, /WRONGTYPE/);
    assert.equal(mixed[1].value, "1000");
  },

  async "transactions"(redis) {
    assert.deepEqual(await redis.multi().set("a", "1").incr("a").get("a").exec(), ["OK", 2, "2"]);
    const other = await redis.duplicate().connect();
    await redis.watch("a");
    await other.set("a", "10");
    await assert.rejects(redis.multi().incr("a").exec(), WatchError);
    assert.equal(await other.get("a"), "10");
    await assert.rejects(redis.multi().addCommand(["SET", "a"]).exec(), ErrorReply);
    other.destroy();
  },

  async "scripts"(redis) {
    assert.equal(await redis.twice("number", "4"), 8);
    await redis.scriptFlush();
    assert.equal(await redis.twice("number", "1"), 10);
    const nested = await redis.eval("return {1, 'two', {3}, false, {ok = 'fine'}}");
    assert.deepEqual(nested, [1, "two", [3], null, "fine"]);
    await assert.rejects(redis.eval("return redis.error_reply('MINE of mine')"), /MINE of mine/);
    await assert.rejects(redis.evalSha("0".repeat(40)), /NOSCRIPT/);
  },

  async "publishes and subscribes"(redis) {
    const subscriber = await redis.duplicate().connect();
    const got = [];
    const listener = (message, channel) => got.push(`${channel} ${message}`);
    await subscriber.subscribe(["one", "two"], listener);
    await subscriber.pSubscribe("o*", listener);
    await subscriber.sSubscribe("shard", listener);
    assert.equal(await redis.publish("one", "1"), 2);
    assert.equal(await redis.sPublish("shard", "2"), 1);
    await until(() => got.length === 3);
    assert.deepEqual(got, ["one 1", "one 1", "shard 2"]);
    assert.deepEqual((await redis.pubSubChannels()).sort(), ["one", "two"]);
    await subscriber.unsubscribe();
    await subscriber.pUnsubscribe();
    await subscriber.sUnsubscribe();
    assert.equal(await redis.publish("one", "1"), 0);
    assert.equal(await subscriber.get("nothing"), null);
    subscriber.destroy();
  },

  async "blocks"(redis) {
    const waiter = await redis.duplicate().connect();
    const popped = waiter.blPop(["first", "second"], 0);
    await redis.rPush("second", "value");
    assert.deepEqual({ ...(await popped) }, { key: "second", element: "value" });
    assert.equal(await waiter.blPop("first", 0.05), null);
    const least = waiter.bzPopMin("zset", 0);
    await redis.zAdd("zset", { score: 2, value: "b" });
    assert.deepEqual({ ...(await least) }, { key: "zset", value: "b", score: 2 });
    const several = waiter.blmPop(0, ["from"], "LEFT", { COUNT: 2 });
    await redis.rPush("from", ["x", "y", "z"]);
    assert.deepEqual(await several, ["from", ["x", "y"]]);
    waiter.destroy();
  },

  async "streams"(redis) {
    await redis.xGroupCreate("stream", "group", "$", { MKSTREAM: true });
    const reader = await redis.duplicate().connect();
    const read = reader.xReadGroup("group", "one", { key: "stream", id: ">" }, { COUNT: 10, BLOCK: 0 });
    const id = await redis.xAdd("stream", "*", { field: "value" });
    const [entry] = (await read)[0].messages;
    assert.deepEqual([entry.id, { ...entry.message }], [id, { field: "value" }]);
    assert.equal((await redis.xPending("stream", "group")).pending, 1);
    const claimed = await redis.xAutoClaim("stream", "group", "two", 0, "0");
    assert.deepEqual([claimed.nextId, claimed.messages[0].id], ["0-0", id]);
    assert.equal((await redis.xInfoGroups("stream"))[0].consumers, 2);
    assert.equal(await redis.xAck("stream", "group", id), 1);
    assert.equal(await reader.xRead({ key: "stream", id }, { BLOCK: 20 }), null);
    reader.destroy();
  },

  async "scans"(redis) {
    await Promise.all(Array.from({ length: 1000 }, (_, index) => redis.set(`key:${index}`, index)));
    const found = new Set();
    for await (const keys of redis.scanIterator({ MATCH: "key:*", COUNT: 100 })) keys.forEach((key) => found.add(key));
    assert.equal(found.size, 1000);
  },

  async "connects again"(redis) {
    const other = await redis.duplicate().connect();
    const id = await redis.clientId();
    const ready = new Promise((resolve) => redis.once("ready", resolve));
    await other.sendCommand(["CLIENT", "KILL", "ID", String(id)]);
    await ready;
    assert.equal(await redis.ping(), "PONG");
    assert.notEqual(await redis.clientId(), id);
    other.destroy();
  },

  async "caches at the client"(redis) {
    const caching = createClient({ url, RESP: 3, clientSideCache: { maxEntries: 10, ttl: 0 } });
    caching.on("error", () => {});
    await caching.connect();
    await redis.set("cached", "1");
    assert.equal(await caching.get("cached"), "1");
    await redis.set("cached", "2");
    await until(async () => (await caching.get("cached")) === "2");
    caching.destroy();
  },
};

const twice = defineScript({
  NUMBER_OF_KEYS: 1,
  SCRIPT: "return redis.call('INCRBY', KEYS[1], ARGV[1]) * 2",
  parseCommand: (parser, key, amount) => (parser.pushKey(key), parser.push(amount)),
  transformReply: undefined,
});

const named = {};
for (const protocol of [3, 2]) {
  for (const [name, check] of Object.entries(checks)) {
    if (protocol === 2 && name === "caches at the client") continue;
    named[`resp${protocol} ${name}`] = async () => {
      const redis = createClient({ url, RESP: protocol, name: "gate", scripts: { twice } });
      redis.on("error", () => {});
      await redis.connect();
      await redis.flushAll();
      await check(redis);
      redis.destroy();
    };
  }
}
run(named);
