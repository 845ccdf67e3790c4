//! Publishing across all threads.

use std::io::Write;

use blackbox::{Client, Server, check, eventually, on_each_server, text};
use resp::Value;

#[track_caller]
fn expect(client: &mut Client, expected: &[&str]) {
    let value = client.receive();
    let (Value::Array(items) | Value::Push(items)) = &value else { panic!("{value}") };
    let shown: Vec<String> = items
        .iter()
        .map(|item| match item {
            Value::Int(number) => number.to_string(),
            Value::Null => "nil".to_owned(),
            other => text(other),
        })
        .collect();
    assert_eq!(shown, expected);
}

#[test]
fn subscriptions_are_confirmed_and_ended() {
    on_each_server(|server| {
        let (client, publisher) = (&mut server.client(), &mut server.client());
        client.send("SUBSCRIBE a b a");
        expect(client, &["subscribe", "a", "1"]);
        expect(client, &["subscribe", "b", "2"]);
        expect(client, &["subscribe", "a", "2"]);
        client.send("PSUBSCRIBE x* y*");
        expect(client, &["psubscribe", "x*", "3"]);
        expect(client, &["psubscribe", "y*", "4"]);
        check(publisher, "PUBSUB NUMPAT", "(integer) 2");
        check(
            publisher,
            "PUBSUB NUMSUB a b c",
            "1) \"a\"\n2) (integer) 1\n3) \"b\"\n4) (integer) 1\n5) \"c\"\n6) (integer) 0",
        );
        check(publisher, "PUBSUB CHANNELS [b-z]", "1) \"b\"");
        check(
            publisher,
            "PUBSUB CHANNELS a b",
            "(error) ERR unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP.",
        );
        client.send("UNSUBSCRIBE b c");
        expect(client, &["unsubscribe", "b", "3"]);
        expect(client, &["unsubscribe", "c", "3"]);
        client.send("UNSUBSCRIBE");
        expect(client, &["unsubscribe", "a", "2"]);
        client.send("UNSUBSCRIBE");
        expect(client, &["unsubscribe", "nil", "2"]);
        client.send("PUNSUBSCRIBE");
        expect(client, &["punsubscribe", "x*", "1"]);
        expect(client, &["punsubscribe", "y*", "0"]);
        check(client, "GET nothing", "(nil)");
        check(publisher, "PUBSUB CHANNELS", "(empty array)");
        check(publisher, "PUBLISH a x", "(integer) 0");
        check(publisher, "PUBLISH x x", "(integer) 0");
    });
}

#[test]
fn only_some_commands_are_for_resp2_subscribers() {
    on_each_server(|server| {
        let client = &mut server.client();
        client.send("SUBSCRIBE a");
        expect(client, &["subscribe", "a", "1"]);
        check(
            client,
            "GET a",
            "(error) ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        );
        check(
            client,
            "CLIENT ID",
            "(error) ERR Can't execute 'client|id': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        );
        client.send("PING");
        expect(client, &["pong", ""]);
        client.send("PING hello");
        expect(client, &["pong", "hello"]);
        check(client, "RESET", "RESET");
        check(client, "GET a", "(nil)");
        check(client, "PUBLISH a x", "(integer) 0");
    });
}

#[test]
fn shard_channels_are_a_world_of_their_own() {
    on_each_server(|server| {
        let (client, publisher) = (&mut server.client(), &mut server.client());
        client.send("SSUBSCRIBE a b a");
        expect(client, &["ssubscribe", "a", "1"]);
        expect(client, &["ssubscribe", "b", "2"]);
        expect(client, &["ssubscribe", "a", "2"]);
        client.send("SUBSCRIBE a");
        expect(client, &["subscribe", "a", "1"]);
        client.send("PSUBSCRIBE *");
        expect(client, &["psubscribe", "*", "2"]);
        check(publisher, "SPUBLISH a one", "(integer) 1");
        expect(client, &["smessage", "a", "one"]);
        check(publisher, "PUBLISH a two", "(integer) 2");
        expect(client, &["message", "a", "two"]);
        expect(client, &["pmessage", "*", "a", "two"]);
        check(publisher, "SPUBLISH c three", "(integer) 0");
        check(publisher, "PUBSUB CHANNELS", "1) \"a\"");
        check(publisher, "PUBSUB SHARDCHANNELS [b-z]", "1) \"b\"");
        check(publisher, "PUBSUB SHARDNUMSUB b c", "1) \"b\"\n2) (integer) 1\n3) \"c\"\n4) (integer) 0");
        check(publisher, "PUBSUB SHARDNUMSUB", "(empty array)");
        check(
            publisher,
            "PUBSUB SHARDCHANNELS a b",
            "(error) ERR unknown subcommand or wrong number of arguments for 'SHARDCHANNELS'. Try PUBSUB HELP.",
        );
        assert_eq!(publisher.info("stats", "pubsubshard_channels"), "2");
        assert!(publisher.show("CLIENT LIST TYPE PUBSUB").contains("sub=1 psub=1 ssub=2 "));
        client.send("SUNSUBSCRIBE b c");
        expect(client, &["sunsubscribe", "b", "1"]);
        expect(client, &["sunsubscribe", "c", "1"]);
        client.send("UNSUBSCRIBE");
        expect(client, &["unsubscribe", "a", "1"]);
        client.send("PUNSUBSCRIBE");
        expect(client, &["punsubscribe", "*", "0"]);
        client.send("PING");
        expect(client, &["pong", ""]);
        client.send("SUNSUBSCRIBE");
        expect(client, &["sunsubscribe", "a", "0"]);
        client.send("SUNSUBSCRIBE");
        expect(client, &["sunsubscribe", "nil", "0"]);
        check(client, "PING", "PONG");
        client.send("SSUBSCRIBE a");
        expect(client, &["ssubscribe", "a", "1"]);
        check(client, "RESET", "RESET");
        check(publisher, "SPUBLISH a x", "(integer) 0");
        let mut gone = server.client();
        gone.send("SSUBSCRIBE a");
        expect(&mut gone, &["ssubscribe", "a", "1"]);
        drop(gone);
        eventually("its subscription is forgotten", || publisher.show("SPUBLISH a x") == "(integer) 0");
        check(publisher, "EVAL \"return redis.call('SPUBLISH', 'a', 'x')\" 0", "(integer) 0");
        let refused = publisher.show("EVAL \"return redis.call('SSUBSCRIBE', 'a')\" 0");
        assert!(
            refused.starts_with("(error) ERR This Redis command is not allowed from script"),
            "{refused}"
        );
    });
}

#[test]
fn messages_reach_channels_and_patterns_on_all_threads() {
    on_each_server(|server| {
        let mut subscribers: Vec<Client> = (0..8).map(|_| server.client()).collect();
        for (index, client) in subscribers.iter_mut().enumerate() {
            if index % 2 == 0 {
                client.send("HELLO 3");
                client.receive();
            }
            client.send("SUBSCRIBE news");
            expect(client, &["subscribe", "news", "1"]);
            client.send("PSUBSCRIBE n*s");
            expect(client, &["psubscribe", "n*s", "2"]);
        }
        let publisher = &mut server.client();
        let large = "x".repeat(100_000);
        for message in ["one", "", large.as_str()] {
            check(publisher, &format!("PUBLISH news \"{message}\""), "(integer) 16");
            for (index, client) in subscribers.iter_mut().enumerate() {
                let value = client.receive();
                assert_eq!(matches!(value, Value::Push(_)), index % 2 == 0);
                let (Value::Array(items) | Value::Push(items)) = value else { panic!() };
                assert_eq!(items[2], Value::Bulk(message.into()));
                expect(client, &["pmessage", "n*s", "news", message]);
            }
        }
        // Subscribers that are gone do not count.
        subscribers.truncate(3);
        eventually("gone", || publisher.call("PUBLISH news x") == Value::Int(6));
        eventually("gone", || publisher.call("PUBSUB NUMPAT") == Value::Int(1));
    });
}

#[test]
fn messages_of_one_publisher_keep_their_order() {
    on_each_server(|server| {
        let mut subscribers: Vec<Client> = (0..4).map(|_| server.client()).collect();
        for client in &mut subscribers {
            client.send("SUBSCRIBE c0 c1 c2 c3 c4 c5 c6 c7");
            (0..8).for_each(|_| _ = client.receive());
        }
        let count = 500;
        let mut publishers: Vec<Client> = (0..4).map(|_| server.client()).collect();
        for (name, publisher) in publishers.iter_mut().enumerate() {
            let mut bytes = Vec::new();
            for number in 0..count {
                let (channel, message) = (format!("c{}", number % 8), format!("{name} {number}"));
                resp::encode_request(&[b"PUBLISH", channel.as_bytes(), message.as_bytes()], &mut bytes);
            }
            publisher.stream().write_all(&bytes).unwrap();
        }
        for publisher in &mut publishers {
            for _ in 0..count {
                assert_eq!(publisher.receive(), Value::Int(4));
            }
        }
        for client in &mut subscribers {
            let mut next = [0; 4];
            for _ in 0..4 * count {
                let Value::Array(items) = client.receive() else { panic!() };
                let message = text(&items[2]);
                let (name, number) = message.split_once(' ').unwrap();
                let next = &mut next[name.parse::<usize>().unwrap()];
                assert_eq!(number.parse::<usize>().unwrap(), *next);
                *next += 1;
            }
        }
    });
}

/// The channel and the message of the next `pmessage`.
#[track_caller]
fn event(client: &mut Client) -> (String, String) {
    let Value::Array(items) = client.receive() else { panic!() };
    (text(&items[2]), text(&items[3]))
}

#[test]
fn events_are_published() {
    on_each_server(|server| {
        let (client, subscriber, exact) = (&mut server.client(), &mut server.client(), &mut server.client());
        check(client, "CONFIG SET notify-keyspace-events KEA", "OK");
        subscriber.call("PSUBSCRIBE __key*__:*");
        exact.call("SUBSCRIBE __keyevent@0__:del");
        for number in 0..100 {
            check(client, &format!("SET k{number} v"), "OK");
            check(client, &format!("DEL k{number}"), "(integer) 1");
            for name in ["set", "del"] {
                assert_eq!(event(subscriber), (format!("__keyspace@0__:k{number}"), name.to_owned()));
                assert_eq!(event(subscriber), (format!("__keyevent@0__:{name}"), format!("k{number}")));
            }
            expect(exact, &["message", "__keyevent@0__:del", &format!("k{number}")]);
        }
    });
}

#[test]
fn events_come_in_the_order_of_the_changes() {
    on_each_server(|server| {
        let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
        check(&mut clients[0], "CONFIG SET notify-keyspace-events KEA", "OK");
        let mut subscribers = [server.client(), server.client()];
        subscribers[0].call("PSUBSCRIBE __keyspace@0__:k");
        subscribers[1].call("PSUBSCRIBE __keyevent@0__:*");
        // Each client makes the key if it does not exist and deletes it if it does, on whichever thread.
        let count = 500;
        for client in &mut clients {
            let bytes = "SET k v NX\r\nDEL k\r\n".repeat(count);
            client.stream().write_all(bytes.as_bytes()).unwrap();
        }
        let mut changes = 0;
        for client in &mut clients {
            for _ in 0..2 * count {
                changes += u32::from(matches!(client.receive(), Value::Simple(_) | Value::Int(1)));
            }
        }
        for change in 0..changes {
            let name = if change % 2 == 0 { "set" } else { "del" };
            assert_eq!(event(&mut subscribers[0]).1, name);
            assert_eq!(event(&mut subscribers[1]).0, format!("__keyevent@0__:{name}"));
        }
    });
}

#[test]
fn events_come_while_any_shard_is_held() {
    let server = Server::start(3, "auto", &["--lua-time-limit", "20", "--notify-keyspace-events", "KEA"]);
    let mut clients: Vec<Client> = (0..6).map(|_| server.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.call("HELLO 3");
        client.call(&format!("SUBSCRIBE __keyspace@0__:own{number}"));
    }
    // Hold the shard of `{__key}`, where all channels of events would be if one key placed them.
    server.client().send("EVAL \"while true do end\" 1 {__key}a");
    eventually("the script is slow", || {
        clients.iter_mut().any(|client| client.show("GET {__key}b").contains("BUSY"))
    });
    let mut heard = 0;
    for (number, client) in clients.iter_mut().enumerate() {
        if client.show(&format!("SET own{number} 1")) == "OK" {
            expect(client, &["message", &format!("__keyspace@0__:own{number}"), "set"]);
            heard += 1;
        }
    }
    assert!(heard > 0, "some are on other threads than the script");
    check(&mut clients[0], "SCRIPT KILL", "OK");
}

#[test]
fn transactions_and_scripts_publish_when_they_are_complete() {
    on_each_server(|server| {
        let (subscriber, client) = (&mut server.client(), &mut server.client());
        subscriber.send("SUBSCRIBE a b");
        expect(subscriber, &["subscribe", "a", "1"]);
        expect(subscriber, &["subscribe", "b", "2"]);
        check(client, "MULTI", "OK");
        check(client, "PUBLISH a 1", "QUEUED");
        check(client, "SET k v", "QUEUED");
        check(client, "PUBLISH b 2", "QUEUED");
        check(client, "EXEC", "1) (integer) 1\n2) OK\n3) (integer) 1");
        expect(subscriber, &["message", "a", "1"]);
        expect(subscriber, &["message", "b", "2"]);
        check(
            client,
            "EVAL \"redis.call('publish', 'a', '3') return redis.call('publish', 'b', '4')\" 0",
            "(integer) 1",
        );
        expect(subscriber, &["message", "a", "3"]);
        expect(subscriber, &["message", "b", "4"]);
        // A client that subscribes in a transaction.
        check(client, "MULTI", "OK");
        check(client, "SUBSCRIBE c", "QUEUED");
        check(client, "UNSUBSCRIBE", "QUEUED");
        assert!(matches!(client.call("EXEC"), Value::Array(items) if items.len() == 2));
        check(client, "PUBLISH c x", "(integer) 0");
    });
}

#[test]
fn resp3_subscribers_run_commands_between_messages() {
    on_each_server(|server| {
        let (client, publisher) = (&mut server.client(), &mut server.client());
        client.send("HELLO 3");
        client.receive();
        client.send("SUBSCRIBE news");
        client.receive();
        let rounds = 2000;
        let mut bytes = Vec::new();
        let mut published = Vec::new();
        for number in 0..rounds {
            let key = format!("k{}", number % 50);
            resp::encode_request(&[b"INCR", key.as_bytes()], &mut bytes);
            resp::encode_request(&[&b"PUBLISH"[..], b"news", number.to_string().as_bytes()], &mut published);
        }
        publisher.stream().write_all(&published).unwrap();
        client.stream().write_all(&bytes).unwrap();
        let (mut replies, mut messages) = (0, 0);
        while replies < rounds || messages < rounds {
            match client.receive() {
                Value::Int(number) => {
                    assert_eq!(number, replies / 50 + 1);
                    replies += 1;
                }
                Value::Push(items) => {
                    assert_eq!(text(&items[2]), messages.to_string());
                    messages += 1;
                }
                other => panic!("{other}"),
            }
        }
        // Its own messages come after the reply.
        check(client, "PUBLISH news own", "(integer) 1");
        expect(client, &["message", "news", "own"]);
        // The client blocks, gets a message meanwhile, and is served.
        client.send("BLPOP list 0");
        check(publisher, "PUBLISH news x", "(integer) 1");
        expect(client, &["message", "news", "x"]);
        check(publisher, "RPUSH list v", "(integer) 1");
        assert_eq!(client.receive().to_string(), "1) \"list\"\n2) \"v\"");
    });
}

#[test]
fn monitors_see_every_command() {
    on_each_server(|server| {
        let (monitor, client) = (&mut server.client(), &mut server.client());
        let address = client.stream().local_addr().unwrap().to_string();
        check(client, "PING", "PONG");
        check(monitor, "MONITOR", "OK");
        let mut seen = |client: &mut Client, line: &str, expected: &[&str]| {
            client.call(line);
            for expected in expected {
                let shown = text(&monitor.receive());
                let (time, rest) = shown.split_once(' ').unwrap();
                assert_eq!(time.len(), 17, "{time}");
                assert_eq!(rest, expected.replace("ADDRESS", &address));
            }
        };
        seen(client, r#"SET a "b\x01\n\"c""#, &[r#"[0 ADDRESS] "SET" "a" "b\x01\n\"c""#]);
        seen(client, "SELECT 5", &[r#"[5 ADDRESS] "SELECT" "5""#]);
        seen(client, "AUTH default x", &[r#"[5 ADDRESS] "AUTH" "(redacted)" "(redacted)""#]);
        seen(
            client,
            "HELLO 2 AUTH default x",
            &[r#"[5 ADDRESS] "HELLO" "2" "AUTH" "(redacted)" "(redacted)""#],
        );
        // Refused and administrative ones are not shown.
        for line in ["CLIENT LIST", "nonsense", "GET"] {
            client.call(line);
        }
        seen(client, "MULTI", &[r#"[5 ADDRESS] "MULTI""#]);
        client.call("GET a");
        seen(client, "EXEC", &[r#"[5 ADDRESS] "GET" "a""#, r#"[5 ADDRESS] "EXEC""#]);
        let script = "EVAL \"return redis.call('get', KEYS[1])\" 1 a";
        let shown = r#"[5 ADDRESS] "EVAL" "return redis.call('get', KEYS[1])" "1" "a""#;
        seen(client, script, &[shown, r#"[5 lua] "get" "a""#]);
        for number in 0..200 {
            let (key, expected) = (format!("INCR k{number}"), format!(r#"[5 ADDRESS] "INCR" "k{number}""#));
            seen(client, &key, &[&expected]);
        }
        check(client, "MULTI", "OK");
        monitor.receive();
        check(client, "MONITOR", "QUEUED");
        check(client, "EXEC", "1) (error) ERR MONITOR isn't allowed for DENY BLOCKING client");
        monitor.receive();
        check(monitor, "RESET", "RESET");
        check(client, "PING", "PONG");
        check(monitor, "PING", "PONG");
    });
}
