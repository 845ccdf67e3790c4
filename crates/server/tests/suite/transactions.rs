//! EXEC of commands that wait for the answers of all threads.

use blackbox::{Client, Scratch, Server, check, eventually, on_each_server, oracle, text};
use resp::Value;

/// More than the machine has processors.
const THREADS: usize = 9;

/// The replies of EXEC to these commands.
fn exec(client: &mut Client, lines: &[&str]) -> Vec<Value> {
    check(client, "MULTI", "OK");
    lines.iter().for_each(|line| check(client, line, "QUEUED"));
    let Value::Array(replies) = client.call("EXEC") else { panic!("no array") };
    replies
}

fn shown(replies: &[Value]) -> Vec<String> {
    replies.iter().map(ToString::to_string).collect()
}

#[test]
fn clients_on_all_threads_are_killed_by_a_transaction() {
    let server = Server::start(THREADS, "auto", &[]);
    let client = &mut server.client();
    let mut victims: Vec<Client> = (0..3 * THREADS).map(|_| server.client()).collect();
    for (index, victim) in victims.iter_mut().enumerate() {
        match index % 3 {
            0 => check(victim, "PING", "PONG"),
            1 => drop(victim.call("SUBSCRIBE news")),
            _ => victim.send("BLPOP nothing 0"),
        }
    }
    eventually("they wait", || client.info("clients", "blocked_clients") == THREADS.to_string());
    // Sentinel sends this transaction. Here is no file to be rewritten.
    let replies =
        exec(client, &["CONFIG REWRITE", "CLIENT KILL TYPE normal", "CLIENT KILL TYPE pubsub", "PING"]);
    let normal = format!("(integer) {}", 2 * THREADS);
    let subscribers = format!("(integer) {THREADS}");
    let no_file = "(error) ERR The server is running without a config file";
    assert_eq!(shown(&replies), [no_file, &normal, &subscribers, "PONG"]);
    victims.iter_mut().for_each(Client::expect_end);
    check(client, "PING", "PONG");
}

#[test]
fn swapping_in_what_has_expired_is_no_change() {
    on_each_server(|server| {
        let (client, other) = (&mut server.client(), &mut server.client());
        check(client, "DEBUG SET-ACTIVE-EXPIRE 0", "OK");
        // The keys of both databases, and whether the transaction runs after they were swapped.
        for (here, there, runs) in
            [("", "PX 1", true), ("PX 1", "PX 1", true), ("PX 1", "", false), ("", "", false)]
        {
            check(other, "FLUSHALL", "OK");
            for (db, options) in [(0, here), (1, there)] {
                check(other, &format!("SELECT {db}"), "OK");
                if !(here.is_empty() && runs && db == 0) {
                    check(other, &format!("SET x 1 {options}"), "OK");
                }
            }
            // The clock goes on.
            check(other, "DEBUG SLEEP 0.01", "OK");
            check(client, "WATCH x", "OK");
            check(other, "SWAPDB 0 1", "OK");
            let replies = if runs { "1) PONG" } else { "(nil)" };
            check(client, "MULTI", "OK");
            check(client, "PING", "QUEUED");
            check(client, "EXEC", replies);
        }
    });
}

#[test]
fn a_scan_removes_what_has_expired() {
    on_each_server(|server| {
        let client = &mut server.client();
        check(client, "DEBUG SET-ACTIVE-EXPIRE 0", "OK");
        for line in ["SET a 1 PX 1", "SET b 1 PX 1", "SET c 1", "DEBUG SLEEP 0.01"] {
            check(client, line, "OK");
        }
        check(client, "DBSIZE", "(integer) 3");
        check(client, "SCAN 0 MATCH a COUNT 1000", "1) \"0\"\n2) (empty array)");
        check(client, "DBSIZE", "(integer) 2");
        // An expired key of another type is removed, too.
        check(client, "SCAN 0 TYPE list COUNT 1000", "1) \"0\"\n2) (empty array)");
        check(client, "DBSIZE", "(integer) 1");
        assert_eq!(client.info("stats", "expired_keys"), "2");
    });
}

#[test]
fn what_needs_shards_runs_before_what_asks_threads() {
    on_each_server(|server| {
        let client = &mut server.client();
        let id = client.id();
        let lines =
            ["SET a 1", "CLIENT LIST", "INCR a", "CLIENT KILL ID 99999", "CLIENT UNBLOCK 99999", "GET a"];
        for _ in 0..10 {
            let replies = exec(client, &[&lines[..], &["ECHO x", "CLIENT KILL 1.2.3.4:5"]].concat());
            let list = text(&replies[1]);
            let own = list.lines().find(|line| line.starts_with(&format!("id={id} ")));
            assert!(
                own.is_some_and(|line| line.contains(" flags=x ") && line.contains(" multi=8 ")),
                "{list}"
            );
            let others = shown(&[&replies[..1], &replies[2..]].concat());
            let kill = "(error) ERR No such client";
            assert_eq!(others, ["OK", "(integer) 2", "(integer) 0", "(integer) 0", "\"2\"", "\"x\"", kill]);
        }
        check(client, "WATCH a", "OK");
        check(&mut server.client(), "INCR a", "(integer) 3");
        check(client, "MULTI", "OK");
        check(client, "CLIENT LIST", "QUEUED");
        check(client, "EXEC", "(nil)");
        assert_eq!(
            shown(&exec(client, &["CLIENT PAUSE 0", "CLIENT UNPAUSE", "CLIENT KILL x y"])[..2]),
            ["OK"; 2]
        );
        check(client, "MULTI", "OK");
        check(client, "CLIENT KILL", "(error) ERR wrong number of arguments for 'client|kill' command");
        check(client, "CLIENT LIST", "QUEUED");
        check(client, "EXEC", "(error) EXECABORT Transaction discarded because of previous errors.");
    });
}

#[test]
fn a_script_that_wants_more_shards_runs_before_what_asks_threads() {
    let server = Server::start(THREADS, "epoll", &["--script-trusted-after", "0"]);
    let client = &mut server.client();
    let script =
        "EVAL \"local n = 0 for i = 1, 20 do n = n + redis.call('incr', 'key' .. i) end return n\" 0";
    for round in 1..5 {
        let replies = exec(client, &["CLIENT KILL ID 99999", script, "INCR key1", "CLIENT UNPAUSE"]);
        let sum = format!("(integer) {}", 20 * round + round - 1);
        let key = format!("(integer) {}", 2 * round);
        assert_eq!(shown(&replies), ["(integer) 0", &sum, &key, "OK"]);
    }
}

#[test]
fn who_kills_himself_gets_the_replies_first() {
    on_each_server(|server| {
        let client = &mut server.client();
        let lines = ["CLIENT KILL TYPE normal SKIPME no", "PING", "CLIENT UNPAUSE", "SET a 1"];
        assert_eq!(shown(&exec(client, &lines)), ["(integer) 1", "PONG", "OK", "OK"]);
        client.expect_end();
        check(&mut server.client(), "GET a", "\"1\"");
        check(&mut server.client(), "DEL a", "(integer) 1");
    });
}

#[test]
fn a_transaction_is_complete_though_its_client_hangs_up() {
    let server = Server::start(THREADS, "auto", &[]);
    for round in 0..20 {
        let (mut client, mut victim) = (server.client(), server.client());
        let id = victim.id();
        for line in ["MULTI", "CLIENT LIST", "CLIENT UNPAUSE", &format!("CLIENT KILL ID {id}"), "EXEC"] {
            client.send(line);
        }
        // Wait until the server has all commands: those still on the way when the connection is reset are not
        // executed.
        (0..4).for_each(|_| drop(client.receive()));
        if round % 2 == 0 {
            client.reset();
        } else {
            drop(client);
        }
        victim.expect_end();
    }
}

#[test]
fn replies_of_such_a_transaction_are_switched_off_and_wait_for_the_disk() {
    let scratch = Scratch::new("asking-transactions");
    let folder = scratch.path("");
    let args = ["--dir", &folder, "--appendonly", "yes", "--appendfsync", "always"];
    let server = Server::start(THREADS, "auto", &args);
    let client = &mut server.client();
    assert_eq!(shown(&exec(client, &["INCR a", "CLIENT UNPAUSE", "PING"])), ["(integer) 1", "OK", "PONG"]);
    for line in ["CLIENT REPLY OFF", "MULTI", "INCR a", "CLIENT UNPAUSE", "EXEC"] {
        client.send(line);
    }
    check(client, "CLIENT REPLY ON", "OK");
    check(client, "GET a", "\"2\"");
}

#[test]
fn what_a_setting_of_the_start_protects_is_refused_before_it_is_queued() {
    let protected = ["--enable-debug-command", "no"];
    let mut servers = vec![Server::start(2, "auto", &protected)];
    servers
        .extend(oracle().map(|_| Server::redis_with(&protected).unwrap_or_else(|error| panic!("{error}"))));
    for server in &servers {
        let client = &mut server.client();
        for line in ["DEBUG SLEEP 0", "MODULE LOAD /nowhere"] {
            check(client, "MULTI", "OK");
            let refused = client.show(line);
            assert!(refused.contains(" command not allowed. If the enable-"), "{}: {refused}", server.name());
            check(client, "EXEC", "(error) EXECABORT Transaction discarded because of previous errors.");
        }
    }
}
