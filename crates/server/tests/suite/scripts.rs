//! Scripts of many clients on more threads than there are cores, while other processes compete for the cores. No
//! script ends half applied, and one client's use of the script cache, the log and the statistics does not disturb
//! others.

use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use blackbox::{Client, Scratch, Server, check, text};
use resp::Value;

const CLIENTS: usize = 12;
/// Rounds of each client, unless `DARTER_SECONDS` says for how long they go on.
const ROUNDS: usize = 60;
/// Requests that each client has under way.
const PIPELINE: usize = 6;
const TOKENS: usize = 24;
const SPOTS: usize = 12;
const ACCOUNTS: usize = 10;

/// A process that does nothing but want a core.
struct Busy(Child);

impl Busy {
    fn start() -> Busy {
        Busy(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("there is a shell"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Moves a token on in the ring. It declares where it takes it from; where it goes it finds out.
const RING: &str = "local token = redis.call('RPOP', KEYS[1]) if not token then return 0 end \
    local at = tonumber(string.match(KEYS[1], '%d+')) \
    redis.call('LPUSH', 'ring:' .. ((at + tonumber(ARGV[1])) % 12), token) return 1";
/// Moves money, and declares nothing.
const BANK: &str = "redis.call('DECRBY', 'bank:' .. ARGV[1], ARGV[3]) redis.call('INCRBY', 'bank:' .. ARGV[2], ARGV[3]) return 1";

/// The requests that a client sends in one go. The numbers make all clients differ.
fn requests(client: usize, round: usize) -> Vec<Vec<String>> {
    let words = |line: &[&str]| line.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    (0..PIPELINE)
        .map(|place| {
            let number = client * 7 + round * 13 + place * 5;
            let variant = number % 3;
            match (client + place) % 6 {
                0 | 1 => {
                    let from = format!("ring:{}", number % SPOTS);
                    words(&[
                        "EVAL",
                        &format!("{RING} -- {variant}"),
                        "1",
                        &from,
                        &(1 + number % 5).to_string(),
                    ])
                }
                2 | 3 => {
                    let (from, to) = ((number % ACCOUNTS).to_string(), (number / 2 % ACCOUNTS).to_string());
                    let script = format!("{BANK} -- {variant}");
                    words(&["EVAL", &script, "0", &from, &to, &(number % 9).to_string()])
                }
                4 => {
                    let mut line = vec!["MSET".to_owned()];
                    line.extend((0..60).flat_map(|key| [format!("wide:{key}"), number.to_string()]));
                    line
                }
                _ => words(&["LLEN", &format!("ring:{}", number % SPOTS)]),
            }
        })
        .collect()
}

fn run_client(server: &Server, number: usize, until: Option<Instant>) {
    let mut client = server.client();
    for round in 0.. {
        match until {
            Some(until) if Instant::now() >= until => break,
            None if round >= ROUNDS => break,
            _ => {}
        }
        let requests = requests(number, round);
        for request in &requests {
            let args: Vec<&[u8]> = request.iter().map(String::as_bytes).collect();
            client.send_args(&args);
        }
        for request in &requests {
            let reply = client.receive();
            assert!(!matches!(reply, Value::Error(_)), "{request:?}: {reply}");
        }
    }
}

#[test]
fn none_ends_half_applied_where_cores_are_scarce() {
    let seconds = std::env::var("DARTER_SECONDS").ok().map(|text| text.parse().expect("a number"));
    let _busy = [Busy::start(), Busy::start()];
    for (entry, trusted_after) in [("roam", "0"), ("roam", "1000"), ("home", "1000")] {
        let entry = format!("--shard-entry={entry}");
        let trust = format!("--script-trusted-after={trusted_after}");
        let server = Server::start(8, "auto", &["--num-shards=64", &entry, &trust]);
        let mut first = server.client();
        for token in 0..TOKENS {
            first.call(&format!("LPUSH ring:{} {token}", token % SPOTS));
        }
        let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        std::thread::scope(|scope| {
            for number in 0..CLIENTS {
                let server = &server;
                scope.spawn(move || run_client(server, number, until));
            }
        });
        let mut tokens: Vec<usize> = (0..SPOTS)
            .flat_map(|spot| match first.call(&format!("LRANGE ring:{spot} 0 -1")) {
                Value::Array(items) => items,
                other => panic!("{other}"),
            })
            .map(|item| text(&item).parse().expect("a token is a number"))
            .collect();
        tokens.sort_unstable();
        assert_eq!(tokens, (0..TOKENS).collect::<Vec<_>>(), "{entry} {trust}");
        let money: i64 = (0..ACCOUNTS)
            .map(|account| match first.call(&format!("GET bank:{account}")) {
                Value::Null => 0,
                balance => text(&balance).parse().expect("a balance is a number"),
            })
            .sum();
        assert_eq!(money, 0, "{entry} {trust}");
    }
}

#[test]
fn a_pipeline_with_scripts_runs_in_its_order() {
    const APPEND: &str = "redis.call('APPEND', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1])";
    for threads in [1, 2] {
        let server = Server::start(threads, "auto", &["--script-trusted-after=1"]);
        let mut client = server.client();
        let name = text(&client.call(&format!("SCRIPT LOAD \"{APPEND}\"")));
        let (mut pipeline, mut expected, mut values) = (Vec::new(), Vec::new(), vec![String::new(); 9]);
        for step in 0..180 {
            let (number, letter) = (step * step % 9, format!("{}.", step % 7));
            let key = format!("key:{number}");
            let value = &mut values[number];
            match step % 5 {
                0 => {
                    *value = letter;
                    resp::encode_request(&["SET", &key, value], &mut pipeline);
                    expected.push("OK".to_owned());
                }
                1 => {
                    resp::encode_request(&["GETRANGE", &key, "0", "-1"], &mut pipeline);
                    expected.push(value.clone());
                }
                2 => {
                    resp::encode_request(&["EVAL", "return ARGV[1]", "0", &letter], &mut pipeline);
                    expected.push(letter);
                }
                _ => {
                    value.push_str(&letter);
                    resp::encode_request(&["EVALSHA", &name, "1", &key, &letter], &mut pipeline);
                    expected.push(value.clone());
                }
            }
        }
        client.send_bytes(&pipeline);
        let replies: Vec<String> = expected.iter().map(|_| text(&client.receive())).collect();
        assert_eq!(replies, expected, "{threads} threads");
    }
}

#[test]
fn eval_knows_its_script_whoever_flushes_the_cache() {
    let server = Server::start(4, "auto", &[]);
    let (is_over, flushes) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = server.client();
            while !is_over.load(Ordering::Relaxed) {
                check(&mut client, "SCRIPT FLUSH", "OK");
                flushes.fetch_add(1, Ordering::Relaxed);
            }
        });
        let callers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = server.client();
                    while flushes.load(Ordering::Relaxed) < 300 {
                        check(&mut client, "EVAL \"return 7\" 0", "(integer) 7");
                    }
                })
            })
            .collect();
        for caller in callers {
            let ended = caller.join();
            is_over.store(true, Ordering::Relaxed);
            ended.expect("EVAL is answered");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_flushed_script_is_gone_on_all_threads() {
    let server = Server::start(4, "auto", &[]);
    let mut clients: Vec<Client> = (0..8).map(|_| server.client()).collect();
    for round in 0..150 {
        let source = format!("return {round}");
        let sha = text(&clients[0].call(&format!("EVAL \"return redis.sha1hex('{source}')\" 0")));
        // All threads meet it for the first time at once.
        for client in &mut clients {
            client.send_args(&[b"EVAL", source.as_bytes(), b"0"]);
        }
        for client in &mut clients {
            assert_eq!(client.receive(), Value::Int(round));
        }
        check(&mut clients[0], "SCRIPT FLUSH", "OK");
        for client in &mut clients {
            let shown = client.show(&format!("EVALSHA {sha} 0"));
            assert!(shown.starts_with("(error) NOSCRIPT"), "round {round}: {shown}");
        }
    }
}

#[test]
fn what_roamed_is_remembered() {
    let scratch = Scratch::new("roamed");
    let folder = scratch.path("");
    let start = || {
        let options = [
            "--script-trusted-after",
            "0",
            "--dir",
            &folder,
            "--dbfilename",
            "dump.rdb",
            "--num-shards",
            "8",
        ];
        Server::start(2, "epoll", &options)
    };
    let script = "if ARGV[1] == 'far' then for i = 1, 20 do redis.call('INCR', 'far:' .. i) end end return 1";
    let library = "#!lua name=l\nredis.register_function('f', function(keys, args) for i = 1, 20 do redis.call('INCR', args[1] .. i) end return 1 end)";
    let near = |client: &mut Client, far: &str| {
        let before = client.info("transaction", "tx_type_wide");
        client.send_args(&[b"EVAL", script.as_bytes(), b"1", b"key", far.as_bytes()]);
        assert_eq!(client.receive(), Value::Int(1));
        client.send_args(&[b"FCALL", b"f", b"1", b"{key}", if far == "far" { b"far:" } else { b"{key}" }]);
        assert_eq!(client.receive(), Value::Int(1));
        let after = client.info("transaction", "tx_type_wide");
        after.parse::<u64>().expect("a number") - before.parse::<u64>().expect("a number")
    };
    let server = start();
    let mut client = server.client();
    client.send_args(&[b"FUNCTION", b"LOAD", library.as_bytes()]);
    assert!(!matches!(client.receive(), Value::Error(_)));
    assert_eq!(near(&mut client, ""), 0, "they are trusted, and enter one shard");
    near(&mut client, "far");
    check(&mut client, "SCRIPT FLUSH", "OK");
    client.send_args(&[b"FUNCTION", b"LOAD", b"REPLACE", library.as_bytes()]);
    assert!(!matches!(client.receive(), Value::Error(_)));
    assert_eq!(near(&mut client, ""), 2, "they enter the roaming shard, too");
    check(&mut client, "SAVE", "OK");
    drop(server);
    let server = start();
    assert_eq!(near(&mut server.client(), ""), 2, "after a restart, too");
}

#[test]
fn scripts_that_build_names_of_one_queue_need_one_shard() {
    let script = "for i = 1, 20 do redis.call('INCR', ARGV[1] .. i) end return 1";
    let wide = |server: &Server, key: &str, prefix: &str| {
        let mut client = server.client();
        let mut run = || {
            client.send_args(&[b"EVAL", script.as_bytes(), b"1", key.as_bytes(), prefix.as_bytes()]);
            assert_eq!(client.receive(), Value::Int(1));
            client.info("transaction", "tx_type_wide").parse::<u64>().expect("a number")
        };
        let first = run();
        (1..10).map(|_| run()).last().expect("it ran") - first
    };
    let by_default = Server::start(2, "epoll", &["--num-shards", "8"]);
    for (key, prefix) in [("bull:a:wait", "bull:a:"), ("bq:a:jobs", "bq:a:")] {
        assert_eq!(wide(&by_default, key, prefix), 0, "{key}");
        check(&mut by_default.client(), "SCRIPT FLUSH", "OK");
    }
    let trusting = Server::start(2, "epoll", &["--num-shards", "8", "--script-trusted-after", "1"]);
    assert_eq!(wide(&trusting, "dramatiq", "dramatiq:a."), 0, "the key that is declared is only a name");
    assert_eq!(wide(&by_default, "mine:a:wait", "mine:a:"), 9, "no rule fits");
    let own = Server::start(2, "epoll", &["--num-shards", "8", "--colocate", "mine:{*}:"]);
    assert_eq!(wide(&own, "mine:a:wait", "mine:a:"), 0);
    check(&mut own.client(), "SCRIPT FLUSH", "OK");
    assert_eq!(wide(&own, "bull:a:wait", "bull:a:"), 9, "its rule was replaced");
}

#[test]
fn what_scripts_log_stays_on_its_line() {
    let scratch = Scratch::new("script-log");
    let log = scratch.path("log");
    let server = Server::start(1, "epoll", &["--logfile", &log]);
    let mut client = server.client();
    check(
        &mut client,
        "EVAL \"redis.log(redis.LOG_WARNING, ARGV[1])\" 0 \"one\\nforged: two\\r\\n\"",
        "(nil)",
    );
    check(&mut client, "DEBUG LOG \"three\\nforged: four\"", "OK");
    let text = std::fs::read_to_string(&log).expect("there is a log");
    assert!(text.contains("one\\nforged: two\\r\\n") && text.contains("three\\nforged: four"), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("forged")), "{text}");
}

#[test]
fn errors_of_scripts_are_counted_as_redis_does() {
    let mut servers = vec![Server::start(2, "auto", &[])];
    servers.extend(Server::redis().ok());
    for server in &servers {
        let mut client = server.client();
        for (line, errors, failed) in [
            ("EVAL \"return redis.error_reply('MINE x')\" 0", "errorstat_MINE:count=1", 1),
            (
                "EVAL \"return {redis.error_reply('A x'), {err='B y'}, redis.error_reply('A z')}\" 0",
                "errorstat_A:count=2,errorstat_B:count=1",
                1,
            ),
            ("EVAL \"error({err='TABLE x'})\" 0", "errorstat_TABLE:count=1", 1),
            ("EVAL \"error('text')\" 0", "errorstat_ERR:count=1", 1),
            ("EVAL \"redis.pcall('nosuch') redis.pcall('get') return 1\" 0", "errorstat_ERR:count=2", 0),
            ("EVAL \"return redis.pcall('lpush', KEYS[1])\" 1 k", "errorstat_ERR:count=1", 1),
            ("EVAL \"return redis.pcall('hget', KEYS[1], 'f')\" 1 string", "errorstat_WRONGTYPE:count=1", 1),
            ("EVAL \"redis.call('hget', KEYS[1], 'f')\" 1 string", "errorstat_WRONGTYPE:count=1", 1),
        ] {
            check(&mut client, "SET string x", "OK");
            check(&mut client, "CONFIG RESETSTAT", "OK");
            client.call(line);
            let info = text(&client.call("INFO errorstats"));
            let seen: Vec<&str> = info.lines().filter(|line| line.starts_with("errorstat_")).collect();
            assert_eq!(seen.join(","), errors, "{line}");
            let eval = client.info("commandstats", "cmdstat_eval");
            assert!(eval.ends_with(&format!("failed_calls={failed}")), "{line}: {eval}");
        }
    }
}

#[test]
fn errors_that_end_a_wait_are_counted() {
    let server = Server::start(2, "auto", &[]);
    let (mut waiter, mut other) = (server.client(), server.client());
    check(&mut other, "XGROUP CREATE s g $ MKSTREAM", "OK");
    let id = waiter.id();
    waiter.send("XREADGROUP GROUP g c BLOCK 0 STREAMS s >");
    blackbox::eventually("it waits", || other.info("clients", "blocked_clients") == "1");
    check(&mut other, "DEL s", "(integer) 1");
    assert!(matches!(waiter.receive(), Value::Error(_)));
    assert!(other.info("commandstats", "cmdstat_xreadgroup").ends_with("failed_calls=1"));
    assert_eq!(other.info("errorstats", "errorstat_NOGROUP"), "count=1");
    waiter.send("BLPOP list 0");
    blackbox::eventually("it waits", || other.info("clients", "blocked_clients") == "1");
    check(&mut other, &format!("CLIENT UNBLOCK {id} ERROR"), "(integer) 1");
    assert!(matches!(waiter.receive(), Value::Error(_)));
    assert_eq!(other.info("errorstats", "errorstat_UNBLOCKED"), "count=1");
    assert!(other.info("commandstats", "cmdstat_blpop").ends_with("failed_calls=1"));
}
