//! Clients that cache keys are told of changes by clients on all threads.

use blackbox::{Client, check, eventually, on_each_server, text};
use resp::Value;

/// The next message to a client: the words of a push or of a message, keys in brackets.
#[track_caller]
fn told(client: &mut Client) -> String {
    let value = client.receive();
    let (Value::Array(items) | Value::Push(items)) = &value else { panic!("{value}") };
    let shown = items.iter().map(|item| match item {
        Value::Int(number) => number.to_string(),
        Value::Null => "nil".to_owned(),
        Value::Array(keys) => format!("[{}]", keys.iter().map(text).collect::<Vec<_>>().join(" ")),
        other => text(other),
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// Nothing else was told before the reply to a PING.
#[track_caller]
fn silent(client: &mut Client) {
    check(client, "ECHO silent", "\"silent\"");
}

fn resp3(server: &blackbox::Server) -> Client {
    let mut client = server.client();
    client.call("HELLO 3");
    client
}

#[test]
fn readers_are_told_of_the_first_change() {
    on_each_server(|server| {
        let (reader, writer) = (&mut resp3(server), &mut server.client());
        check(reader, "CLIENT TRACKING ON", "OK");
        assert_eq!(writer.info("clients", "tracking_clients"), "1");
        for index in 0..20 {
            let key = format!("k{index}");
            check(reader, &format!("MGET {key} x{index}"), "1) (nil)\n2) (nil)");
            check(writer, &format!("SET {key} 1"), "OK");
            assert_eq!(told(reader), format!("invalidate [{key}]"));
            check(writer, &format!("SET {key} 2"), "OK");
            silent(reader);
        }
        assert_eq!(writer.info("stats", "tracking_total_keys"), "20");
        // Own changes come after the reply.
        check(reader, "GET k0", "\"2\"");
        check(reader, "INCR k0", "(integer) 3");
        assert_eq!(told(reader), "invalidate [k0]");
        check(reader, "GET k0", "\"3\"");
        check(writer, "DEL k0", "(integer) 1");
        assert_eq!(told(reader), "invalidate [k0]");
        // A write is not a read, but a script's read is one.
        check(reader, "SET written 1", "OK");
        check(writer, "SET written 2", "OK");
        silent(reader);
        check(reader, "EVAL \"return redis.call('GET', KEYS[1])\" 1 written", "\"2\"");
        check(
            reader,
            "HGET written f",
            "(error) WRONGTYPE Operation against a key holding the wrong kind of value",
        );
        check(writer, "RENAME written other", "OK");
        assert_eq!(told(reader), "invalidate [written]");
        reader.call("CLIENT TRACKING OFF");
        check(writer, "SET k1 1", "OK");
        silent(reader);
    });
}

#[test]
fn a_flush_is_told_as_such() {
    on_each_server(|server| {
        let (reader, other, writer) = (&mut resp3(server), &mut resp3(server), &mut server.client());
        check(reader, "CLIENT TRACKING ON", "OK");
        check(other, "CLIENT TRACKING ON BCAST", "OK");
        check(reader, "GET a", "(nil)");
        check(writer, "FLUSHALL", "OK");
        assert_eq!(told(reader), "invalidate nil");
        assert_eq!(told(other), "invalidate nil");
        check(writer, "SET a 1", "OK");
        assert_eq!(told(other), "invalidate [a]");
        silent(reader);
        check(reader, "FLUSHDB", "OK");
        assert_eq!(told(reader), "invalidate nil");
        assert_eq!(told(other), "invalidate nil");
    });
}

#[test]
fn caching_is_opted_in_and_out() {
    on_each_server(|server| {
        let (reader, writer) = (&mut resp3(server), &mut server.client());
        check(reader, "CLIENT TRACKING ON OPTIN", "OK");
        check(reader, "GET a", "(nil)");
        check(reader, "CLIENT CACHING YES", "OK");
        check(reader, "GET b", "(nil)");
        check(reader, "GET c", "(nil)");
        check(reader, "CLIENT CACHING YES", "OK");
        check(reader, "MULTI", "OK");
        check(reader, "GET d", "QUEUED");
        check(reader, "GET e", "QUEUED");
        check(reader, "EXEC", "1) (nil)\n2) (nil)");
        check(reader, "GET f", "(nil)");
        check(writer, "MSET a 1 b 1 c 1 d 1 e 1 f 1", "OK");
        for key in ["b", "d", "e"] {
            assert_eq!(told(reader), format!("invalidate [{key}]"));
        }
        silent(reader);
        check(reader, "CLIENT TRACKING OFF", "OK");
        check(reader, "CLIENT TRACKING ON OPTOUT NOLOOP", "OK");
        check(reader, "CLIENT CACHING NO", "OK");
        check(reader, "GET a", "\"1\"");
        check(reader, "MGET b c", "1) \"1\"\n2) \"1\"");
        check(reader, "SET b 2", "OK");
        check(writer, "MSET a 2 b 3 c 2", "OK");
        assert_eq!(told(reader), "invalidate [c]");
        silent(reader);
    });
}

#[test]
fn broadcasts_follow_prefixes() {
    on_each_server(|server| {
        let (reader, writer) = (&mut resp3(server), &mut server.client());
        check(reader, "CLIENT TRACKING ON BCAST PREFIX user: PREFIX job: NOLOOP", "OK");
        // Write one key after the other: for a command on several threads, messages are sent as each thread's turn
        // ends, which may be after the reply.
        writer.call("SET user:1 a");
        assert_eq!(told(reader), "invalidate [user:1]");
        writer.call("SET other a");
        writer.call("LPUSH job:1 a");
        assert_eq!(told(reader), "invalidate [job:1]");
        writer.call("SET user:1 b");
        assert_eq!(told(reader), "invalidate [user:1]");
        check(reader, "SET user:2 a", "OK");
        silent(reader);
        assert_eq!(writer.info("stats", "tracking_total_prefixes"), "2");
        check(reader, "RESET", "RESET");
        check(writer, "SET user:1 c", "OK");
        silent(reader);
        let mut gone = resp3(server);
        check(&mut gone, "CLIENT TRACKING ON BCAST", "OK");
        drop(gone);
        eventually("its prefix is forgotten", || writer.info("stats", "tracking_total_prefixes") == "0");
        assert_eq!(writer.info("clients", "tracking_clients"), "0");
    });
}

#[test]
fn what_changes_together_is_told_together() {
    on_each_server(|server| {
        let (reader, writer) = (&mut resp3(server), &mut server.client());
        let (target, redirecting) = (&mut resp3(server), &mut server.client());
        check(reader, "CLIENT TRACKING ON BCAST PREFIX a PREFIX b", "OK");
        check(redirecting, &format!("CLIENT TRACKING ON BCAST REDIRECT {}", target.id()), "OK");
        check(writer, "MSET b2 1 a1 1 b1 1", "OK");
        assert_eq!(told(reader), "invalidate [a1]");
        assert_eq!(told(reader), "invalidate [b1 b2]");
        assert_eq!(told(target), "invalidate [a1 b1 b2]");
        for line in ["MULTI", "SET a2 1", "SET a1 1", "DEL a1", "EXEC"] {
            writer.call(line);
        }
        assert_eq!(told(reader), "invalidate [a1 a2]");
        assert_eq!(told(target), "invalidate [a1 a2]");
        check(writer, "EVAL \"for i = 1, 3 do redis.call('set', 'a' .. i, i) end\" 0", "(nil)");
        assert_eq!(told(reader), "invalidate [a1 a2 a3]");
        assert_eq!(told(target), "invalidate [a1 a2 a3]");
        // A pipeline on idle shards runs in one turn.
        writer.send_bytes(b"SET a1 1\r\nSET b1 1\r\nSET a2 1\r\nSET a1 2\r\n");
        (0..4).for_each(|_| drop(writer.receive()));
        silent(writer);
    });
}

#[test]
fn news_is_redirected() {
    on_each_server(|server| {
        let (reader, target, writer) = (&mut server.client(), &mut server.client(), &mut server.client());
        let id = target.show("CLIENT ID").replace("(integer) ", "");
        check(reader, &format!("CLIENT TRACKING ON REDIRECT {id}"), "OK");
        check(reader, "CLIENT GETREDIR", &format!("(integer) {id}"));
        target.send("SUBSCRIBE __redis__:invalidate");
        assert_eq!(told(target), "subscribe __redis__:invalidate 1");
        check(reader, "GET a", "(nil)");
        check(writer, "SET a 2", "OK");
        assert_eq!(told(target), "message __redis__:invalidate [a]");
        check(writer, "FLUSHALL", "OK");
        assert_eq!(told(target), "message __redis__:invalidate nil");
        target.send("UNSUBSCRIBE");
        assert_eq!(told(target), "unsubscribe __redis__:invalidate 0");
        check(reader, "GET a", "(nil)");
        check(writer, "SET a 1", "OK");
        silent(target);
        silent(reader);
        let mut second = resp3(server);
        let second_id = second.show("CLIENT ID").replace("(integer) ", "");
        reader.call("HELLO 3");
        check(reader, &format!("CLIENT TRACKING ON REDIRECT {second_id}"), "OK");
        check(reader, "GET b", "(nil)");
        check(writer, "SET b 1", "OK");
        assert_eq!(told(&mut second), "invalidate [b]");
        drop(second);
        eventually("the client is gone", || reader.show("CLIENT TRACKINGINFO").contains("broken_redirect"));
        check(reader, "GET b", "\"1\"");
        check(writer, "SET b 2", "OK");
        assert_eq!(told(reader), format!("tracking-redir-broken {second_id}"));
        assert!(reader.show("CLIENT INFO").contains("flags=tR "));
    });
}

#[test]
fn the_table_has_a_limit() {
    on_each_server(|server| {
        let reader = &mut resp3(server);
        check(reader, "CONFIG SET tracking-table-max-keys 1", "OK");
        check(reader, "CLIENT TRACKING ON", "OK");
        check(reader, "GET {t}a", "(nil)");
        check(reader, "GET {t}b", "(nil)");
        let forgotten = told(reader);
        assert!(["invalidate [{t}a]", "invalidate [{t}b]"].contains(&&*forgotten), "{forgotten}");
        assert_eq!(reader.info("stats", "tracking_total_keys"), "1");
    });
}
