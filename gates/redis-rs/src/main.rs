//! Each check runs over RESP3 and over RESP2, on a connection of its own.

use std::collections::{BTreeSet, HashMap};
use std::panic::catch_unwind;
use std::thread;

use redis::streams::{StreamAutoClaimOptions, StreamAutoClaimReply, StreamPendingReply, StreamReadOptions, StreamReadReply};
use redis::{Client, Commands, Connection, ErrorKind, RedisError, RedisResult, Script, ServerErrorKind, Value, cmd, pipe};

type Check = fn(&Client, &mut Connection) -> RedisResult<()>;

const CHECKS: &[(&str, Check)] = &[
    ("connects", connects),
    ("reads values", reads_values),
    ("pipelines", pipelines),
    ("transactions", transactions),
    ("scripts", scripts),
    ("publishes and subscribes", publishes_and_subscribes),
    ("blocks", blocks),
    ("streams", streams),
    ("scans", scans),
];

fn connects(_: &Client, redis: &mut Connection) -> RedisResult<()> {
    assert_eq!(cmd("PING").query::<String>(redis)?, "PONG");
    assert_eq!(cmd("CLIENT").arg("SETNAME").arg("gate").query::<String>(redis)?, "OK");
    assert_eq!(cmd("CLIENT").arg("GETNAME").query::<String>(redis)?, "gate");
    Ok(())
}

fn reads_values(_: &Client, redis: &mut Connection) -> RedisResult<()> {
    let () = redis.set("text", "größer\r\n")?;
    assert_eq!(redis.get::<_, String>("text")?, "größer\r\n");
    assert_eq!(redis.get::<_, Option<String>>("nothing")?, None);
    let () = redis.hset_multiple("hash", &[("a", 1), ("b", 2)])?;
    assert_eq!(redis.hgetall::<_, HashMap<String, i64>>("hash")?, HashMap::from([("a".into(), 1), ("b".into(), 2)]));
    let () = redis.zadd_multiple("zset", &[(1.5, "a"), (f64::INFINITY, "b")])?;
    let scores: Vec<(String, f64)> = redis.zrange_withscores("zset", 0, -1)?;
    assert_eq!(scores, [("a".into(), 1.5), ("b".into(), f64::INFINITY)]);
    let () = redis.sadd("set", &["x", "y"])?;
    assert_eq!(redis.smembers::<_, BTreeSet<String>>("set")?, BTreeSet::from(["x".into(), "y".into()]));
    let error = redis.incr::<_, _, i64>("text", 1).unwrap_err();
    assert_eq!(error.detail(), Some("value is not an integer or out of range"));
    let error: RedisError = redis.lpush::<_, _, i64>("set", 1).unwrap_err();
    assert_eq!(error.code(), Some("WRONGTYPE"));
    Ok(())
}

fn pipelines(_: &Client, redis: &mut Connection) -> RedisResult<()> {
    let mut pipeline = pipe();
    for _ in 0..1000 {
        pipeline.incr("counter", 1);
    }
    assert_eq!(pipeline.query::<Vec<i64>>(redis)?, (1..=1000).collect::<Vec<_>>());
    Ok(())
}

fn transactions(client: &Client, redis: &mut Connection) -> RedisResult<()> {
    let replies: (String, i64, i64) = pipe().atomic().set("a", 1).incr("a", 1).get("a").query(redis)?;
    assert_eq!(replies, ("OK".into(), 2, 2));
    let mut other = client.get_connection()?;
    let mut attempts = 0;
    let (value,): (i64,) = redis::transaction(redis, &["a"], |redis, pipeline| {
        attempts += 1;
        let value: i64 = redis.get("a")?;
        if attempts == 1 {
            let () = other.set("a", 10)?;
        }
        pipeline.set("a", value * 2).ignore().get("a").query(redis)
    })?;
    assert_eq!((attempts, value), (2, 20));
    let error = pipe().atomic().cmd("SET").arg("a").query::<()>(redis).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Server(ServerErrorKind::ExecAbort));
    Ok(())
}

fn scripts(_: &Client, redis: &mut Connection) -> RedisResult<()> {
    let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1]) * 2");
    assert_eq!(script.key("number").arg(4).invoke::<i64>(redis)?, 8);
    assert_eq!(cmd("SCRIPT").arg("FLUSH").query::<String>(redis)?, "OK");
    assert_eq!(script.key("number").arg(1).invoke::<i64>(redis)?, 10);
    let text: String = Script::new("return cjson.encode({KEYS[1], cjson.decode(ARGV[1]).x})").key("k").arg(r#"{"x":[1]}"#).invoke(redis)?;
    assert_eq!(text, r#"["k",[1]]"#);
    let error = Script::new("return redis.error_reply('MINE of mine')").invoke::<()>(redis).unwrap_err();
    assert_eq!((error.code(), error.detail()), (Some("MINE"), Some("of mine")));
    Ok(())
}

fn publishes_and_subscribes(client: &Client, redis: &mut Connection) -> RedisResult<()> {
    let mut subscribed = client.get_connection()?;
    let mut subscriber = subscribed.as_pubsub();
    subscriber.subscribe(&["one", "two"])?;
    subscriber.psubscribe("o*")?;
    assert_eq!(redis.publish::<_, _, i64>("one", "1")?, 2);
    let messages = [subscriber.get_message()?, subscriber.get_message()?];
    let patterns: BTreeSet<Option<String>> = messages.iter().map(|message| message.get_pattern()).collect::<RedisResult<_>>()?;
    assert_eq!(patterns, BTreeSet::from([None, Some("o*".into())]));
    assert!(messages.iter().all(|message| message.get_channel_name() == "one" && message.get_payload_bytes() == b"1"));
    subscriber.unsubscribe("one")?;
    subscriber.punsubscribe("o*")?;
    assert_eq!(redis.publish::<_, _, i64>("one", "1")?, 0);
    drop(subscriber);
    assert_eq!(cmd("PING").query::<String>(&mut subscribed)?, "PONG");
    Ok(())
}

/// Does `push` on another connection while `wait` waits.
fn meanwhile<T>(
    client: &Client,
    redis: &mut Connection,
    wait: impl FnOnce(&mut Connection) -> RedisResult<T>,
    push: impl FnOnce(&mut Connection) -> RedisResult<()> + Send,
) -> RedisResult<T> {
    let mut other = client.get_connection()?;
    thread::scope(|scope| {
        let pusher = scope.spawn(move || {
            while !cmd("INFO").arg("clients").query::<String>(&mut other)?.contains("blocked_clients:1") {}
            push(&mut other)
        });
        let got = wait(redis)?;
        pusher.join().expect("it ends")?;
        Ok(got)
    })
}

fn blocks(client: &Client, redis: &mut Connection) -> RedisResult<()> {
    let popped: (String, String) =
        meanwhile(client, redis, |redis| redis.blpop(&["first", "second"], 0.0), |other| other.rpush("second", "value"))?;
    assert_eq!(popped, ("second".into(), "value".into()));
    assert_eq!(redis.blpop::<_, Option<(String, String)>>("first", 0.05)?, None);
    let least: (String, String, f64) =
        meanwhile(client, redis, |redis| redis.bzpopmin("zset", 0.0), |other| other.zadd("zset", "b", 2))?;
    assert_eq!(least, ("zset".into(), "b".into(), 2.0));
    Ok(())
}

fn streams(client: &Client, redis: &mut Connection) -> RedisResult<()> {
    let () = redis.xgroup_create_mkstream("stream", "group", "$")?;
    let options = StreamReadOptions::default().group("group", "one").count(10).block(0);
    let read: StreamReadReply = meanwhile(
        client,
        redis,
        |redis| redis.xread_options(&["stream"], &[">"], &options),
        |other| other.xadd::<_, _, _, _, String>("stream", "*", &[("field", "value")]).map(drop),
    )?;
    let entry = &read.keys[0].ids[0];
    assert_eq!(entry.map["field"], Value::BulkString(b"value".to_vec()));
    let pending: StreamPendingReply = redis.xpending("stream", "group")?;
    assert_eq!(pending.count(), 1);
    let claimed: StreamAutoClaimReply =
        redis.xautoclaim_options("stream", "group", "two", 0, "0", StreamAutoClaimOptions::default())?;
    assert_eq!((claimed.next_stream_id.as_str(), claimed.claimed[0].id.as_str()), ("0-0", entry.id.as_str()));
    assert_eq!(redis.xack::<_, _, _, i64>("stream", "group", &[&entry.id])?, 1);
    Ok(())
}

fn scans(_: &Client, redis: &mut Connection) -> RedisResult<()> {
    for index in 0..1000 {
        let () = redis.set(format!("key:{index}"), index)?;
    }
    let keys: BTreeSet<String> = redis.scan_match("key:*")?.collect::<RedisResult<_>>()?;
    assert_eq!(keys.len(), 1000);
    Ok(())
}

fn main() {
    let url = std::env::args().nth(1).expect("a URL");
    let mut wrong = false;
    for protocol in ["resp3", "resp2"] {
        let client = Client::open(format!("{url}/?protocol={protocol}")).expect("a URL");
        for (name, check) in CHECKS {
            let outcome = catch_unwind(|| {
                let mut redis = client.get_connection()?;
                let () = cmd("FLUSHALL").query(&mut redis)?;
                check(&client, &mut redis)
            });
            let right = matches!(outcome, Ok(Ok(())));
            println!("{} {protocol} {name}", if right { "ok" } else { "FAIL" });
            if let Ok(Err(error)) = outcome {
                println!("{error}");
            }
            wrong |= !right;
        }
    }
    std::process::exit(wrong.into());
}
