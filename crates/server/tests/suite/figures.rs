//! INFO, CLIENT LIST and the slow log show clients and the server's work, and a request for them delays no other
//! client.

use blackbox::{Client, Server, check, eventually, on_each_server};

/// A figure of `INFO section`.
fn figure(client: &mut Client, section: &str, field: &str) -> u64 {
    client.info(section, field).parse().expect("it is a number")
}

#[test]
fn the_asking_client_sees_its_own_request() {
    on_each_server(|server| {
        let client = &mut server.client();
        for (request, bytes) in [("CLIENT LIST", 26), ("CLIENT INFO", 26), ("CLIENT LIST TYPE normal", 48)] {
            let line = client.show(request);
            let line = line.lines().find(|line| line.contains("cmd=client|")).unwrap();
            assert!(line.contains(&format!(" qbuf={bytes} qbuf-free=")), "{line}");
            assert!(line.contains(" obl=0 oll=0 omem=0 ") && line.contains(" events=r "), "{line}");
        }
    });
}

#[test]
fn a_blocking_command_is_slow_when_it_is_over() {
    on_each_server(|server| {
        let (waiter, client) = (&mut server.client(), &mut server.client());
        check(client, "CONFIG SET slowlog-log-slower-than 0", "OK");
        let id = waiter.id();
        for (request, end) in [
            ("BLPOP l 0", "LPUSH l x"),
            ("XREAD BLOCK 0 STREAMS s $", "XADD s * f v"),
            ("BRPOP l 0", "CLIENT UNBLOCK {id} ERROR"),
            ("BLMOVE l m LEFT RIGHT 0.01", ""),
        ] {
            let words = || request.split(' ').map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" ");
            check(client, "SLOWLOG RESET", "OK");
            waiter.send(request);
            let is_blocked = |client: &mut Client| figure(client, "clients", "blocked_clients") == 1;
            if !end.is_empty() {
                eventually("it waits", || is_blocked(client));
                assert!(!logged(client).contains(&words()), "{request}");
                client.show(&end.replace("{id}", &id.to_string()));
            }
            waiter.receive();
            eventually("it is logged", || logged(client).contains(&words()));
            assert_eq!(logged(client).iter().filter(|entry| **entry == words()).count(), 1, "{request}");
        }
    });
}

/// The requests in the slow log.
fn logged(client: &mut Client) -> Vec<String> {
    let resp::Value::Array(entries) = client.call("SLOWLOG GET -1") else { panic!("no array") };
    let request = |entry: &resp::Value| {
        let resp::Value::Array(fields) = entry else { panic!("no array") };
        let resp::Value::Array(words) = &fields[3] else { panic!("no array") };
        words.iter().map(|word| format!("\"{}\"", blackbox::text(word))).collect::<Vec<_>>().join(" ")
    };
    entries.iter().map(request).collect()
}

#[test]
fn clients_that_wait_are_counted() {
    on_each_server(|server| {
        let (client, writer, waiter) = (&mut server.client(), &mut server.client(), &mut server.client());
        writer.send("BLPOP nothing 1000");
        waiter.send("BLPOP nothing 0");
        eventually("both wait", || figure(client, "clients", "blocked_clients") == 2);
        assert_eq!(figure(client, "clients", "clients_in_timeout_table"), 1);
        check(client, "RPUSH nothing a b", "(integer) 2");
        writer.receive();
        waiter.receive();
        assert_eq!(figure(client, "clients", "clients_in_timeout_table"), 0);
        check(client, "CLIENT PAUSE 100000 WRITE", "OK");
        writer.send("SET k v");
        waiter.send("SET k v");
        eventually("both are paused", || figure(client, "clients", "blocked_clients") == 2);
        assert_eq!(figure(client, "clients", "clients_in_timeout_table"), 0);
        waiter.stream().shutdown(std::net::Shutdown::Both).unwrap();
        eventually("one is gone", || figure(client, "clients", "blocked_clients") == 1);
        check(client, "CLIENT UNPAUSE", "OK");
        writer.receive();
        assert_eq!(figure(client, "clients", "blocked_clients"), 0);
    });
}

#[test]
fn work_is_measured() {
    on_each_server(|server| {
        let client = &mut server.client();
        let writes = figure(client, "stats", "total_writes_processed");
        (0..10).for_each(|_| check(client, "PING", "PONG"));
        assert!(figure(client, "stats", "total_writes_processed") >= writes + 10);
        // Every request is another turn, and takes a part of it.
        assert!(figure(client, "stats", "eventloop_cycles") >= 10);
        assert!(figure(client, "stats", "eventloop_duration_sum") > 0);
        let commands = figure(client, "stats", "eventloop_duration_cmd_sum");
        client.show("EVAL \"for i = 1, 100000 do local a = i end\" 0");
        assert!(figure(client, "stats", "eventloop_duration_cmd_sum") > commands);
        eventually("turns are sampled", || {
            figure(client, "stats", "instantaneous_eventloop_cycles_per_sec") > 0
        });
        check(client, "DEBUG POPULATE 1000 k", "OK");
        client.show("EVAL \"for i = 1, 500 do redis.call('rpush', KEYS[1], i) end\" 1 l");
        let freed = figure(client, "memory", "lazyfreed_objects");
        check(client, "UNLINK l", "(integer) 1");
        eventually("the list is freed", || figure(client, "memory", "lazyfreed_objects") == freed + 1);
        check(client, "FLUSHALL", "OK");
        eventually("the keys are freed", || figure(client, "memory", "lazyfreed_objects") == freed + 1001);
        check(client, "CONFIG RESETSTAT", "OK");
        // A request that is not complete stays in its buffer.
        let half = &mut server.client();
        half.send_bytes(&[b"*2\r\n$4\r\nECHO\r\n$6000\r\n".as_slice(), &[b'x'; 5000]].concat());
        let largest = |client: &mut Client| figure(client, "clients", "client_recent_max_input_buffer");
        eventually("its buffer is seen", || largest(client) >= 5000);
        check(client, "DEBUG SET-ACTIVE-EXPIRE 0", "OK");
        client.show("EVAL \"for i = 1, 200 do redis.call('set', '{t}' .. i, i, 'px', 1) end\" 1 {t}");
        check(client, "SET {t}kept 1 EX 1000", "OK");
        eventually("they have expired", || client.show("EXISTS {t}200") == "(integer) 0");
        check(client, "DEBUG SET-ACTIVE-EXPIRE 1", "OK");
        eventually("stale keys were met", || client.info("stats", "expired_stale_perc") != "0.00");
    });
}

#[test]
fn keys_are_made_only_as_far_as_there_is_room_and_somebody_waits_for_them() {
    for threads in [1, 3] {
        let server = Server::start(threads, "auto", &[]);
        let (client, other) = (&mut server.client(), &mut server.client());
        let no_room = "(error) OOM command not allowed when used memory > 'maxmemory'.";
        check(client, "DEBUG POPULATE 99999999999", no_room);
        check(client, "DEBUG POPULATE 1000000000 k 100000", no_room);
        check(client, "MULTI", "OK");
        check(client, "DEBUG POPULATE 99999999999", "QUEUED");
        check(client, "EXEC", &format!("1) {no_room}"));
        check(client, "DBSIZE", "(integer) 0");
        let used = figure(client, "memory", "used_memory");
        check(client, &format!("CONFIG SET maxmemory {}", used + (8 << 20)), "OK");
        check(client, "DEBUG POPULATE 400000", no_room);
        assert!(figure(client, "memory", "used_memory") < used + (12 << 20));
        check(client, "CONFIG SET maxmemory 0", "OK");
        check(client, "FLUSHALL", "OK");
        // Enough for many seconds. Others are served meanwhile, and it ends with its client.
        client.send("DEBUG POPULATE 40000000 key 20");
        eventually("keys are made", || other.show("DBSIZE") != "(integer) 0");
        check(other, "SET mine 1", "OK");
        check(other, "GET mine", "\"1\"");
        client.stream().shutdown(std::net::Shutdown::Both).unwrap();
        let mut size = other.show("DBSIZE");
        eventually("it has ended", || {
            let before = std::mem::replace(&mut size, other.show("DBSIZE"));
            before == size
        });
        assert_ne!(size, "(integer) 40000001");
    }
}

#[test]
fn a_held_shard_holds_up_nobody_who_only_counts() {
    let server = Server::start(3, "auto", &["--lua-time-limit", "20"]);
    let caller = &mut server.client();
    check(caller, "DEBUG POPULATE 1000", "OK");
    caller.send("EVAL \"while true do end\" 1 {k}a");
    let mut others: Vec<Client> = (0..6).map(|_| server.client()).collect();
    eventually("the script is slow", || {
        others.iter_mut().any(|other| other.show("GET {k}b").contains("BUSY"))
    });
    // A third of the clients are on the script's thread.
    let free = |others: &mut [Client], request: &str| {
        let replies: Vec<String> = others.iter_mut().map(|other| other.show(request)).collect();
        replies.into_iter().filter(|reply| !reply.contains("BUSY")).collect::<Vec<_>>()
    };
    assert_eq!(free(&mut others, "DBSIZE"), ["(integer) 1000"; 4]);
    assert_eq!(free(&mut others, "INFO keyspace").len(), 4);
    assert_eq!(free(&mut others, "MEMORY STATS").len(), 4);
    assert_eq!(free(&mut others, "CONFIG RESETSTAT").len(), 4);
    for _ in 0..20 {
        let keys = free(&mut others, "RANDOMKEY");
        assert!(keys.len() == 4 && keys.iter().all(|key| key.starts_with("\"key:")), "{keys:?}");
    }
    check(&mut others[0], "SCRIPT KILL", "OK");
}

#[test]
fn keys_are_counted_where_they_are() {
    on_each_server(|server| {
        let client = &mut server.client();
        for (request, expected) in [
            ("MSET a 1 b 2 c 3", "OK"),
            ("DBSIZE", "(integer) 3"),
            ("EVAL \"redis.call('del', 'a') return redis.call('dbsize')\" 0", "(integer) 2"),
            ("MULTI", "OK"),
            ("SET d 1 EX 1000", "QUEUED"),
            ("DBSIZE", "QUEUED"),
            ("FLUSHDB", "QUEUED"),
            ("DBSIZE", "QUEUED"),
            ("SET e 1", "QUEUED"),
            ("EXEC", "1) OK\n2) (integer) 3\n3) OK\n4) (integer) 0\n5) OK"),
            ("SWAPDB 0 1", "OK"),
            ("DBSIZE", "(integer) 0"),
            ("RANDOMKEY", "(nil)"),
            ("SELECT 1", "OK"),
            ("DBSIZE", "(integer) 1"),
            ("RANDOMKEY", "\"e\""),
            ("EXPIRE e 1000", "(integer) 1"),
        ] {
            check(client, request, expected);
        }
        eventually("its time to live is seen", || {
            let figures = client.info("keyspace", "db1");
            let ttl_ms =
                figures.strip_prefix("keys=1,expires=1,avg_ttl=").expect("there is one key, with an expiry");
            (900_000..=1_000_000).contains(&ttl_ms.parse::<u32>().expect("a number"))
        });
        check(client, "PERSIST e", "(integer) 1");
        check(client, "DEBUG RELOAD", "OK");
        assert_eq!(client.info("keyspace", "db1"), "keys=1,expires=0,avg_ttl=0");
        check(client, "XGROUP CREATE s g $ MKSTREAM", "OK");
        let (reader, popper) = (&mut server.client(), &mut server.client());
        check(reader, "SELECT 1", "OK");
        reader.send("XREADGROUP GROUP g me BLOCK 0 STREAMS s >");
        popper.send("BLPOP x y 0");
        eventually("both wait", || figure(client, "clients", "blocked_clients") == 2);
        assert_eq!(figure(client, "clients", "total_blocking_keys"), 3);
        assert_eq!(figure(client, "clients", "total_blocking_keys_on_nokey"), 1);
        check(client, "DEL s", "(integer) 1");
        reader.receive();
        assert_eq!(figure(client, "clients", "total_blocking_keys"), 2);
        assert_eq!(figure(client, "clients", "total_blocking_keys_on_nokey"), 0);
    });
}

/// The size and the first word of each command in a log, oldest first.
fn sizes(client: &mut Client, kind: &str) -> Vec<(i64, String)> {
    let resp::Value::Array(entries) = client.call(&format!("COMMANDLOG GET -1 {kind}")) else {
        panic!("no array")
    };
    let size = |entry: &resp::Value| {
        let resp::Value::Array(fields) = entry else { panic!("no array") };
        let (resp::Value::Int(size), resp::Value::Array(words)) = (&fields[2], &fields[3]) else {
            panic!("{fields:?}")
        };
        (*size, blackbox::text(&words[0]))
    };
    entries.iter().rev().map(size).collect()
}

#[test]
fn large_requests_and_replies_are_logged_with_their_sizes() {
    let options = ["--commandlog-request-larger-than", "1000", "--commandlog-reply-larger-than", "1000"];
    for mode in ["roam", "home"] {
        let server = Server::start(2, "auto", &[&options[..], &["--shard-entry", mode]].concat());
        let client = &mut server.client();
        // `*3␍␊$3␍␊SET␍␊$1␍␊k␍␊$<length>␍␊…␍␊`
        let (small, large) = ("v".repeat(971), "v".repeat(972));
        check(client, &format!("SET k {small}"), "OK");
        assert_eq!(sizes(client, "large-request"), [], "{mode}");
        check(client, &format!("SET k {large}"), "OK");
        assert_eq!(sizes(client, "large-request"), [(1000, "SET".to_owned())], "{mode}");
        // `$<length>␍␊…␍␊`
        client.show("GET k");
        check(client, "SET j 0123456789", "OK");
        assert_eq!(sizes(client, "large-reply"), [], "{mode}");
        check(client, "APPEND k 0123456789012345678901234567890123456789", "(integer) 1012");
        client.show("GET k");
        assert_eq!(sizes(client, "large-reply"), [(1012 + 9, "GET".to_owned())], "{mode}");
        // Each command of a transaction counts by itself, and what a script calls has no request.
        for line in ["COMMANDLOG RESET large-reply", "COMMANDLOG RESET large-request", "MULTI"] {
            client.show(line);
        }
        for line in [&format!("SET m {large}"), "GET m", "GET k"] {
            check(client, line, "QUEUED");
        }
        client.show("EXEC");
        client.show(&format!(
            "EVAL \"redis.call('SET','n',ARGV[1]..ARGV[1]) return redis.call('GET','n')\" 0 {small}"
        ));
        let words = |client: &mut Client, kind: &str| -> Vec<String> {
            sizes(client, kind).into_iter().map(|(_, word)| word).collect()
        };
        // A queued command is logged when it runs, and when it is queued if its turn brought much.
        let mut requests = words(client, "large-request");
        requests.dedup();
        assert_eq!(requests, ["SET", "EVAL"], "{mode}");
        // A transaction that runs on another thread is not logged itself.
        let mut replies = words(client, "large-reply");
        replies.retain(|word| word != "EXEC");
        assert_eq!(replies, ["GET", "GET", "EVAL"], "{mode}");
        // Nothing is logged if it is turned off, and limits of length hold.
        check(client, "CONFIG SET commandlog-large-reply-max-len 2 commandlog-request-larger-than -1", "OK");
        check(client, "COMMANDLOG RESET large-request", "OK");
        client.show(&format!("SET k {large}{large}"));
        client.show("GET k");
        assert_eq!(sizes(client, "large-request"), [], "{mode}");
        assert_eq!(words(client, "large-reply"), ["EVAL", "GET"], "{mode}");
        check(client, "COMMANDLOG LEN large-reply", "(integer) 2");
    }
}

#[test]
fn hot_keys_are_those_that_cost_most() {
    on_each_server(|server| {
        let client = &mut server.client();
        check(client, "SET cold v", "OK");
        check(client, &format!("SET hot {}", "v".repeat(2000)), "OK");
        check(client, "HOTKEYS START METRICS 2 NET CPU COUNT 2", "OK");
        for key in ["hot", "cold", "hot", "missing"] {
            client.show(&format!("GET {key}"));
        }
        // A transaction counts by its commands, a script by its keys; what has no keys does not count.
        for line in ["MULTI", "GET hot", "EXEC", "PING", "EVAL \"return redis.call('GET',KEYS[1])\" 1 hot"] {
            client.show(line);
        }
        check(client, "HOTKEYS STOP", "OK");
        client.show("GET cold");
        let resp::Value::Array(nodes) = client.call("HOTKEYS GET") else { panic!("no array") };
        let resp::Value::Array(fields) = &nodes[0] else { panic!("no pairs") };
        let field = |name: &str| -> &resp::Value {
            let at = fields.chunks(2).find(|pair| blackbox::text(&pair[0]) == name).expect(name);
            &at[1]
        };
        let names: Vec<String> = fields.chunks(2).map(|pair| blackbox::text(&pair[0])).collect();
        assert_eq!(
            names,
            [
                "tracking-active",
                "sample-ratio",
                "selected-slots",
                "all-commands-all-slots-us",
                "net-bytes-all-commands-all-slots",
                "collection-start-time-unix-ms",
                "collection-duration-ms",
                "total-cpu-time-user-ms",
                "total-cpu-time-sys-ms",
                "total-net-bytes",
                "by-cpu-time-us",
                "by-net-bytes"
            ]
        );
        assert_eq!(field("tracking-active").to_string(), "(integer) 0");
        assert_eq!(field("selected-slots").to_string(), "1) 1) (integer) 0\n   2) (integer) 16383");
        // `*2␍␊$3␍␊GET␍␊$3␍␊hot␍␊` and `$2000␍␊…␍␊`, three times; and the script.
        let get = 22 + 2009;
        let eval = "*4\r\n$4\r\nEVAL\r\n$32\r\nreturn redis.call('GET',KEYS[1])\r\n$1\r\n1\r\n$3\r\nhot\r\n"
            .len()
            + 2009;
        let resp::Value::Array(by_bytes) = field("by-net-bytes") else { panic!("no array") };
        assert_eq!(blackbox::text(&by_bytes[0]), "hot");
        assert_eq!(by_bytes[1], resp::Value::Int(3 * get + eval as i64));
        let of_missing = 26 + 5;
        assert_eq!(
            (blackbox::text(&by_bytes[2]), &by_bytes[3]),
            ("missing".to_owned(), &resp::Value::Int(of_missing))
        );
        assert_eq!(by_bytes.len(), 4, "COUNT 2");
        assert_eq!(field("total-net-bytes"), field("net-bytes-all-commands-all-slots"));
    });
}
