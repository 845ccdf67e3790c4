// Each check runs over RESP3 and over RESP2, on a connection of its own.

import java.net.URI;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import redis.clients.jedis.*;
import redis.clients.jedis.params.*;
import redis.clients.jedis.resps.*;

class JedisDriver extends Checks {
    interface Body {
        void run(Jedis redis) throws Throwable;
    }

    private final HostAndPort address;
    private RedisProtocol protocol;

    JedisDriver(URI url) {
        address = new HostAndPort(url.getHost(), url.getPort());
        for (RedisProtocol each : List.of(RedisProtocol.RESP3, RedisProtocol.RESP2)) {
            add(each, "connects", this::connects);
            add(each, "reads values", this::readsValues);
            add(each, "pipelines", this::pipelines);
            add(each, "transactions", this::transactions);
            add(each, "scripts", this::scripts);
            add(each, "publishes and subscribes", this::publishesAndSubscribes);
            add(each, "blocks", this::blocks);
            add(each, "streams", this::streams);
            add(each, "scans", this::scans);
            add(each, "pools", this::pools);
        }
    }

    private void add(RedisProtocol each, String name, Body body) {
        add(each.toString().toLowerCase() + " " + name, () -> {
            protocol = each;
            try (Jedis redis = connection()) {
                redis.flushAll();
                body.run(redis);
            }
        });
    }

    private JedisClientConfig config() {
        return DefaultJedisClientConfig.builder().protocol(protocol).clientName("gate").build();
    }

    private Jedis connection() {
        return new Jedis(address, config());
    }

    private void connects(Jedis redis) {
        equal(redis.ping(), "PONG");
        equal(redis.clientGetname(), "gate");
        equal(redis.clientInfo().contains("resp=" + protocol.version()), true);
    }

    private void readsValues(Jedis redis) {
        redis.set("text", "größer\r\n", SetParams.setParams().ex(100));
        equal(redis.get("text"), "größer\r\n");
        equal(redis.get("nothing"), null);
        redis.hset("hash", Map.of("a", "1", "b", "two"));
        equal(redis.hgetAll("hash"), Map.of("a", "1", "b", "two"));
        redis.zadd("zset", Map.of("a", 1.5, "b", Double.POSITIVE_INFINITY));
        equal(redis.zrangeWithScores("zset", 0, -1), List.of(new Tuple("a", 1.5), new Tuple("b", Double.POSITIVE_INFINITY)));
        redis.sadd("set", "x", "y");
        equal(redis.smembers("set"), Set.of("x", "y"));
        fails("ERR value is not an integer", () -> redis.incr("text"));
        fails("WRONGTYPE", () -> redis.lpush("set", "1"));
    }

    private void pipelines(Jedis redis) {
        Pipeline pipeline = redis.pipelined();
        for (int index = 0; index < 1000; index++) pipeline.incr("counter");
        Response<Long> wrong = pipeline.lpush("counter", "1");
        Response<String> last = pipeline.get("counter");
        List<Object> replies = pipeline.syncAndReturnAll();
        for (int index = 0; index < 1000; index++) equal(replies.get(index), index + 1L);
        fails("WRONGTYPE", wrong::get);
        equal(last.get(), "1000");
    }

    private void transactions(Jedis redis) {
        Transaction first = redis.multi();
        first.set("a", "1");
        first.incr("a");
        Response<String> value = first.get("a");
        equal(first.exec().size(), 3);
        equal(value.get(), "2");
        try (Jedis other = connection()) {
            redis.watch("a");
            Transaction second = redis.multi();
            other.set("a", "10");
            second.incr("a");
            equal(second.exec(), null);
        }
        equal(redis.get("a"), "10");
        Transaction wrong = redis.multi();
        wrong.sendCommand(Protocol.Command.SET, "a");
        fails("EXECABORT", wrong::exec);
    }

    private void scripts(Jedis redis) {
        String sha = redis.scriptLoad("return redis.call('INCRBY', KEYS[1], ARGV[1]) * 2");
        equal(redis.evalsha(sha, 1, "number", "4"), 8L);
        redis.scriptFlush();
        fails("NOSCRIPT", () -> redis.evalsha(sha, 1, "number", "1"));
        equal(redis.eval("return {1, 'two', {3}, cjson.encode({KEYS[1]})}", 1, "k"), List.of(1L, "two", List.of(3L), "[\"k\"]"));
        fails("MINE of mine", () -> redis.eval("return redis.error_reply('MINE of mine')"));
    }

    private void publishesAndSubscribes(Jedis redis) throws Exception {
        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        JedisPubSub subscriber = new JedisPubSub() {
            @Override
            public void onMessage(String channel, String message) {
                got.add(channel + " " + message);
            }

            @Override
            public void onPMessage(String pattern, String channel, String message) {
                got.add(pattern + " " + channel + " " + message);
            }

            @Override
            public void onSubscribe(String channel, int count) {
                if (count == 2) psubscribe("o*");
            }

            @Override
            public void onPSubscribe(String pattern, int count) {
                got.add("subscribed " + count);
            }
        };
        try (Jedis subscribed = connection()) {
            CompletableFuture<Void> ended = CompletableFuture.runAsync(() -> subscribed.subscribe(subscriber, "one", "two"));
            equal(got.poll(30, TimeUnit.SECONDS), "subscribed 3");
            equal(redis.publish("one", "1"), 2L);
            equal(Set.of(got.poll(30, TimeUnit.SECONDS), got.poll(30, TimeUnit.SECONDS)), Set.of("one 1", "o* one 1"));
            subscriber.unsubscribe();
            subscriber.punsubscribe();
            ended.get(30, TimeUnit.SECONDS);
            equal(subscribed.ping(), "PONG");
        }
    }

    /** Does `push` while `wait` waits. */
    private <T> T meanwhile(Jedis redis, Supplier<T> wait, Runnable push) throws Exception {
        CompletableFuture<T> got = CompletableFuture.supplyAsync(wait);
        until(() -> redis.info("clients").contains("blocked_clients:1"));
        push.run();
        return got.get(30, TimeUnit.SECONDS);
    }

    private void blocks(Jedis redis) throws Exception {
        try (Jedis waiter = connection()) {
            List<String> popped = meanwhile(redis, () -> waiter.blpop(0, "first", "second"), () -> redis.rpush("second", "value"));
            equal(popped, List.of("second", "value"));
            equal(waiter.blpop(0.05, "first"), null);
            equal(meanwhile(redis, () -> waiter.bzpopmin(0, "zset").getValue().getElement(), () -> redis.zadd("zset", 2, "b")), "b");
        }
    }

    private void streams(Jedis redis) throws Exception {
        redis.xgroupCreate("stream", "group", StreamEntryID.XGROUP_LAST_ENTRY, true);
        try (Jedis reader = connection()) {
            XReadGroupParams params = XReadGroupParams.xReadGroupParams().count(10).block(0);
            Map<String, StreamEntryID> wanted = Map.of("stream", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY);
            StreamEntry entry = meanwhile(redis,
                () -> reader.xreadGroup("group", "one", params, wanted).get(0).getValue().get(0),
                () -> redis.xadd("stream", StreamEntryID.NEW_ENTRY, Map.of("field", "value")));
            equal(entry.getFields(), Map.of("field", "value"));
            equal(redis.xpending("stream", "group").getTotal(), 1L);
            Map.Entry<StreamEntryID, List<StreamEntry>> claimed =
                redis.xautoclaim("stream", "group", "two", 0, new StreamEntryID("0-0"), new XAutoClaimParams());
            equal(List.of(claimed.getKey().toString(), claimed.getValue().get(0).getID()), List.of("0-0", entry.getID()));
            equal(redis.xinfoStream("stream").getLength(), 1L);
            equal(redis.xinfoConsumers2("stream", "group").size(), 2);
            equal(redis.xack("stream", "group", entry.getID()), 1L);
        }
    }

    private void scans(Jedis redis) {
        Pipeline pipeline = redis.pipelined();
        for (int index = 0; index < 1000; index++) pipeline.set("key:" + index, "x");
        pipeline.sync();
        Set<String> found = new HashSet<>();
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            ScanResult<String> part = redis.scan(cursor, new ScanParams().match("key:*").count(100));
            found.addAll(part.getResult());
            cursor = part.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        equal(found.size(), 1000);
    }

    private void pools(Jedis redis) {
        try (RedisClient client = RedisClient.builder().hostAndPort(address).clientConfig(config()).build()) {
            List<CompletableFuture<Void>> all = new java.util.ArrayList<>();
            for (int thread = 0; thread < 4; thread++) {
                all.add(CompletableFuture.runAsync(() -> {
                    for (int index = 0; index < 250; index++) client.incr("counter");
                }));
            }
            all.forEach(CompletableFuture::join);
            equal(client.get("counter"), "1000");
        }
    }

    public static void main(String[] args) {
        new JedisDriver(URI.create(args[0])).run();
    }
}
