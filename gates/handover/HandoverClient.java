// Lettuce while its server hands over, as `handover` starts it: HandoverClient HOST PORT on|off

import io.lettuce.core.*;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import java.util.*;
import java.util.concurrent.TimeUnit;

class HandoverClient {
    interface Work {
        String run(RedisAsyncCommands<String, String> redis, int number) throws Exception;
    }

    private static volatile boolean isOver;

    private static synchronized void say(String line) {
        System.out.println(line.replace('\n', ' '));
        System.out.flush();
    }

    private static <T> T get(RedisFuture<T> reply) throws Exception {
        return reply.get(60, TimeUnit.SECONDS);
    }

    private static Work count(String key) {
        return (redis, number) -> key + " " + get(redis.incr(key));
    }

    private static String push(RedisAsyncCommands<String, String> redis, int number) throws Exception {
        List<RedisFuture<Long>> replies = new ArrayList<>();
        for (int each = 0; each < 20; each++) replies.add(redis.rpush("pushed", String.valueOf(number * 20 + each)));
        for (RedisFuture<Long> reply : replies) get(reply);
        return "pushed " + replies.size();
    }

    private static String produce(RedisAsyncCommands<String, String> redis, int number) throws Exception {
        get(redis.lpush("jobs", String.valueOf(number)));
        return "made " + number;
    }

    private static String consume(RedisAsyncCommands<String, String> redis, int number) throws Exception {
        KeyValue<String, String> job = get(redis.brpop(1, "jobs"));
        return job == null || !job.hasValue() ? "waited" : "took " + job.getValue();
    }

    private static void repeat(String name, Work work, RedisAsyncCommands<String, String> redis) {
        for (int number = 1; !isOver; number++) {
            try {
                say("did " + name + " " + work.run(redis, number));
            } catch (Exception error) {
                say("error " + name + " " + error);
                try {
                    Thread.sleep(10);
                } catch (InterruptedException interrupted) {
                    return;
                }
            }
        }
    }

    public static void main(String[] args) throws Exception {
        RedisClient client = RedisClient.create("redis://" + args[0] + ":" + args[1]);
        MaintNotificationsConfig notices = args[2].equals("on") ? MaintNotificationsConfig.enabled() : MaintNotificationsConfig.disabled();
        client.setOptions(ClientOptions.builder().maintNotificationsConfig(notices).build());
        Map<String, Work> works = new LinkedHashMap<>();
        works.put("count-0", count("counter:0"));
        works.put("count-1", count("counter:1"));
        works.put("push", HandoverClient::push);
        works.put("produce", HandoverClient::produce);
        works.put("consume-0", HandoverClient::consume);
        works.put("consume-1", HandoverClient::consume);
        // A connection for all but those that block.
        StatefulRedisConnection<String, String> shared = client.connect();
        List<Thread> running = new ArrayList<>();
        for (Map.Entry<String, Work> each : works.entrySet()) {
            boolean blocks = each.getKey().startsWith("consume");
            RedisAsyncCommands<String, String> redis = (blocks ? client.connect() : shared).async();
            Thread thread = new Thread(() -> repeat(each.getKey(), each.getValue(), redis));
            thread.start();
            running.add(thread);
        }
        while (System.in.read() >= 0) {}
        isOver = true;
        for (Thread thread : running) thread.join();
        System.exit(0);
    }
}
