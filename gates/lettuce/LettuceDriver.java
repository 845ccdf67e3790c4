// Each check runs over RESP3 and over RESP2, on a connection of its own.

import io.lettuce.core.*;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.models.stream.*;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import io.lettuce.core.support.caching.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;

class LettuceDriver extends Checks {
    interface Body {
        void run(RedisCommands<String, String> redis) throws Throwable;
    }

    private final String url;
    private RedisClient client;

    LettuceDriver(String url) {
        this.url = url;
        for (ProtocolVersion each : List.of(ProtocolVersion.RESP3, ProtocolVersion.RESP2)) {
            add(each, "connects", this::connects);
            add(each, "reads values", this::readsValues);
            add(each, "pipelines", this::pipelines);
            add(each, "transactions", this::transactions);
            add(each, "scripts", this::scripts);
            add(each, "publishes and subscribes", this::publishesAndSubscribes);
            add(each, "blocks", this::blocks);
            add(each, "streams", this::streams);
            add(each, "scans", this::scans);
            add(each, "connects again", this::connectsAgain);
        }
        add(ProtocolVersion.RESP3, "caches at the client", this::caches);
    }

    private void add(ProtocolVersion protocol, String name, Body body) {
        add(protocol.toString().toLowerCase() + " " + name, () -> {
            client = RedisClient.create(url + "?clientName=gate");
            client.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
            try {
                RedisCommands<String, String> redis = client.connect().sync();
                redis.flushall();
                body.run(redis);
            } finally {
                client.shutdown(Duration.ZERO, Duration.ofSeconds(5));
            }
        });
    }

    private void connects(RedisCommands<String, String> redis) {
        equal(redis.ping(), "PONG");
        equal(redis.clientGetname(), "gate");
        equal(redis.clientInfo().contains(client.getOptions().getProtocolVersion() == ProtocolVersion.RESP3 ? "resp=3" : "resp=2"), true);
    }

    private void readsValues(RedisCommands<String, String> redis) {
        redis.set("text", "größer\r\n", SetArgs.Builder.ex(100));
        equal(redis.get("text"), "größer\r\n");
        equal(redis.get("nothing"), null);
        redis.hset("hash", Map.of("a", "1", "b", "two"));
        equal(redis.hgetall("hash"), Map.of("a", "1", "b", "two"));
        redis.zadd("zset", ScoredValue.just(1.5, "a"), ScoredValue.just(Double.POSITIVE_INFINITY, "b"));
        equal(redis.zrangeWithScores("zset", 0, -1), List.of(ScoredValue.just(1.5, "a"), ScoredValue.just(Double.POSITIVE_INFINITY, "b")));
        redis.sadd("set", "x", "y");
        equal(redis.smembers("set"), Set.of("x", "y"));
        fails("ERR value is not an integer", () -> redis.incr("text"));
        fails("WRONGTYPE", () -> redis.lpush("set", "1"));
    }

    private void pipelines(RedisCommands<String, String> redis) throws Exception {
        StatefulRedisConnection<String, String> connection = redis.getStatefulConnection();
        RedisAsyncCommands<String, String> async = connection.async();
        connection.setAutoFlushCommands(false);
        List<RedisFuture<Long>> counts = new ArrayList<>();
        for (int index = 0; index < 1000; index++) counts.add(async.incr("counter"));
        RedisFuture<Long> wrong = async.lpush("counter", "1");
        RedisFuture<String> last = async.get("counter");
        connection.flushCommands();
        for (int index = 0; index < 1000; index++) equal(counts.get(index).get(30, TimeUnit.SECONDS), index + 1L);
        fails("WRONGTYPE", wrong::get);
        equal(last.get(30, TimeUnit.SECONDS), "1000");
    }

    private void transactions(RedisCommands<String, String> redis) {
        redis.multi();
        redis.set("a", "1");
        redis.incr("a");
        redis.get("a");
        equal(redis.exec().stream().toList(), List.of("OK", 2L, "2"));
        redis.watch("a");
        client.connect().sync().set("a", "10");
        redis.multi();
        redis.incr("a");
        equal(redis.exec().wasDiscarded(), true);
        equal(redis.get("a"), "10");
    }

    private void scripts(RedisCommands<String, String> redis) {
        String sha = redis.scriptLoad("return redis.call('INCRBY', KEYS[1], ARGV[1]) * 2");
        equal(redis.evalsha(sha, ScriptOutputType.INTEGER, new String[] {"number"}, "4"), 8L);
        redis.scriptFlush();
        fails("NOSCRIPT", () -> redis.evalsha(sha, ScriptOutputType.INTEGER, new String[] {"number"}, "1"));
        List<Object> nested = redis.eval("return {1, 'two', {3}, cjson.encode({KEYS[1]})}", ScriptOutputType.MULTI, "k");
        equal(nested, List.of(1L, "two", List.of(3L), "[\"k\"]"));
        fails("MINE of mine", () -> redis.eval("return redis.error_reply('MINE of mine')", ScriptOutputType.STATUS));
    }

    private void publishesAndSubscribes(RedisCommands<String, String> redis) throws Exception {
        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        StatefulRedisPubSubConnection<String, String> subscriber = client.connectPubSub();
        subscriber.addListener(new RedisPubSubAdapter<>() {
            @Override
            public void message(String channel, String message) {
                got.add(channel + " " + message);
            }

            @Override
            public void message(String pattern, String channel, String message) {
                got.add(pattern + " " + channel + " " + message);
            }

            @Override
            public void smessage(String channel, String message) {
                got.add("shard " + channel + " " + message);
            }
        });
        subscriber.sync().subscribe("one", "two");
        subscriber.sync().psubscribe("o*");
        subscriber.sync().ssubscribe("shard");
        equal(redis.publish("one", "1"), 2L);
        equal(Set.of(got.poll(30, TimeUnit.SECONDS), got.poll(30, TimeUnit.SECONDS)), Set.of("one 1", "o* one 1"));
        equal(redis.spublish("shard", "2"), 1L);
        equal(got.poll(30, TimeUnit.SECONDS), "shard shard 2");
        subscriber.sync().unsubscribe("one", "two");
        subscriber.sync().punsubscribe("o*");
        until(() -> redis.publish("one", "1") == 0);
    }

    /** Does `push` while `wait` waits. */
    private <T> T meanwhile(RedisCommands<String, String> redis, RedisFuture<T> wait, Runnable push) throws Exception {
        until(() -> redis.info("clients").contains("blocked_clients:1"));
        push.run();
        return wait.get(30, TimeUnit.SECONDS);
    }

    private void blocks(RedisCommands<String, String> redis) throws Exception {
        RedisAsyncCommands<String, String> waiter = client.connect().async();
        KeyValue<String, String> popped = meanwhile(redis, waiter.blpop(0, "first", "second"), () -> redis.rpush("second", "value"));
        equal(popped, KeyValue.just("second", "value"));
        equal(waiter.blpop(0.05, "first").get(30, TimeUnit.SECONDS), null);
        equal(meanwhile(redis, waiter.bzpopmin(0, "zset"), () -> redis.zadd("zset", 2, "b")).getValue(), ScoredValue.just(2, "b"));
    }

    private void streams(RedisCommands<String, String> redis) throws Exception {
        redis.xgroupCreate(XReadArgs.StreamOffset.latest("stream"), "group", XGroupCreateArgs.Builder.mkstream());
        RedisAsyncCommands<String, String> reader = client.connect().async();
        StreamMessage<String, String> entry = meanwhile(redis,
            reader.xreadgroup(Consumer.from("group", "one"), XReadArgs.Builder.block(0).count(10), XReadArgs.StreamOffset.lastConsumed("stream")),
            () -> redis.xadd("stream", Map.of("field", "value"))).get(0);
        equal(entry.getBody(), Map.of("field", "value"));
        equal(redis.xpending("stream", "group").getCount(), 1L);
        ClaimedMessages<String, String> claimed =
            redis.xautoclaim("stream", XAutoClaimArgs.Builder.xautoclaim(Consumer.from("group", "two"), 0L, "0-0"));
        equal(List.of(claimed.getId(), claimed.getMessages().get(0).getId()), List.of("0-0", entry.getId()));
        equal(redis.xinfoConsumers("stream", "group").size(), 2);
        equal(redis.xack("stream", "group", entry.getId()), 1L);
    }

    private void scans(RedisCommands<String, String> redis) {
        for (int index = 0; index < 1000; index++) redis.set("key:" + index, "x");
        Set<String> found = new HashSet<>();
        ScanIterator.scan(redis, ScanArgs.Builder.limit(100).match("key:*")).forEachRemaining(found::add);
        equal(found.size(), 1000);
    }

    private void connectsAgain(RedisCommands<String, String> redis) throws Exception {
        long id = redis.clientId();
        client.connect().sync().clientKill(KillArgs.Builder.id(id));
        equal(redis.ping(), "PONG");
        equal(redis.clientId() == id, false);
        equal(redis.clientGetname(), "gate");
    }

    private void caches(RedisCommands<String, String> redis) throws Exception {
        redis.set("cached", "1");
        Map<String, String> near = new ConcurrentHashMap<>();
        CacheFrontend<String, String> frontend =
            ClientSideCaching.enable(CacheAccessor.forMap(near), client.connect(), TrackingArgs.Builder.enabled());
        equal(frontend.get("cached"), "1");
        equal(near, Map.of("cached", "1"));
        redis.set("cached", "2");
        until(near::isEmpty);
        equal(frontend.get("cached"), "2");
    }

    public static void main(String[] args) {
        new LettuceDriver(args[0]).run();
    }
}
