//! Input that is not a request, or is too large, or never finished: the client gets Redis' error, the connection ends
//! where Redis ends it, and other clients are not disturbed.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use blackbox::{Client, PATIENCE, Scratch, Server, Witness, check, eventually, oracle, scale};
use ds::random::Random;

/// Seeds of the random input; times `DARTER_SCALE`.
const SEEDS: u64 = 1000;
/// Bytes of one random input at most.
const GARBAGE_BYTES_MAX: u64 = 3000;

/// Sends `bytes` and checks the replies; behind them the connection ends, or goes on.
#[track_caller]
fn check_bytes(server: &Server, bytes: &[u8], replies: &[&str], ends: bool) {
    let mut client = server.client();
    // The server may hang up before it has read all.
    let _ = client.stream().write_all(bytes);
    let beginning = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
    for reply in replies {
        assert_eq!(client.receive().to_string(), *reply, "{beginning:?} to {}", server.name());
    }
    if ends {
        client.expect_end();
    } else {
        check(&mut client, "ECHO on", "\"on\"");
    }
}

/// Runs `test` on Darter with each driver, and on redis-server where it is installed.
fn on_both(test: impl Fn(&Server)) {
    for io in ["epoll", "auto"] {
        test(&Server::start(2, io, &[]));
    }
    if let Some(redis) = oracle() {
        test(&redis);
    }
}

#[test]
fn lengths_that_are_none() {
    const COUNT: &str = "(error) ERR Protocol error: invalid multibulk length";
    const LENGTH: &str = "(error) ERR Protocol error: invalid bulk length";
    on_both(|server| {
        let mut witness = Witness::new(server);
        for count in ["x", "", " 1", "01", "1 ", "9223372036854775808", "1000000000000000000", "2147483648"] {
            check_bytes(server, format!("*{count}\r\n").as_bytes(), &[COUNT], true);
            check_bytes(server, format!("PING\r\n*{count}\r\nPING\r\n").as_bytes(), &["PONG", COUNT], true);
        }
        for count in ["-5", "-1", "0", "-9223372036854775808"] {
            check_bytes(server, format!("*{count}\r\nPING\r\n").as_bytes(), &["PONG"], false);
        }
        for length in
            ["x", "", "-5", "-1", "+4", "04", "9223372036854775808", "1000000000000000000", "536870913"]
        {
            check_bytes(server, format!("*2\r\n$3\r\nGET\r\n${length}\r\n").as_bytes(), &[LENGTH], true);
        }
        witness.look();
    });
}

#[test]
fn lines_that_are_none() {
    on_both(|server| {
        let mut witness = Witness::new(server);
        for (bytes, expected) in [
            ("*1\r\n:4\r\n", "expected '$', got ':'"),
            ("*1\r\n\r\n", "expected '$', got ' '"),
            ("*1\r\nPING\r\n", "expected '$', got 'P'"),
            ("GET \"a\r\n", "unbalanced quotes in request"),
            ("GET 'a'b\r\n", "unbalanced quotes in request"),
        ] {
            check_bytes(
                server,
                bytes.as_bytes(),
                &[&format!("(error) ERR Protocol error: {expected}")],
                true,
            );
        }
        for (beginning, expected) in [
            ("*1", "too big mbulk count string"),
            ("*1\r\n$1", "too big bulk count string"),
            ("x", "too big inline request"),
        ] {
            let bytes = beginning.to_owned() + &"1".repeat(70_000);
            check_bytes(
                server,
                bytes.as_bytes(),
                &[&format!("(error) ERR Protocol error: {expected}")],
                true,
            );
        }
        // Any bytes in the place of a line end are skipped unchecked.
        check_bytes(server, b"*1\r\n$4\r\nPINGxx*1\rx$4\rxPINGxx\n\nPING\nPING\r\n", &["PONG"; 4], false);
        witness.look();
    });
}

#[test]
fn a_million_arguments() {
    on_both(|server| {
        let mut witness = Witness::new(server);
        let mut client = server.client();
        let elements = vec![b"e"; 1_000_000];
        let args: Vec<&[u8]> =
            [&b"RPUSH"[..], b"large"].into_iter().chain(elements.iter().map(|e| &e[..])).collect();
        client.send_args(&args);
        assert_eq!(client.receive().to_string(), "(integer) 1000000");
        // More than 1024 * 1024: the limit is that of a 32-bit number.
        let keys = vec![&b"large"[..]; 1_048_577];
        client.send_args(&[&[&b"DEL"[..]], &keys[..]].concat());
        assert_eq!(client.receive().to_string(), "(integer) 1");
        witness.look();
    });
}

#[test]
fn strangers_may_send_little() {
    on_both(|server| {
        let mut client = server.client();
        check(&mut client, "CONFIG SET requirepass p", "OK");
        let no_auth = "(error) NOAUTH Authentication required.";
        let key = "k".repeat(16 * 1024);
        let request = |args: usize, last: &str| {
            let args: Vec<&str> = ["DEL"].into_iter().chain(vec!["k"; args - 2]).chain([last]).collect();
            let mut bytes = Vec::new();
            resp::encode_request(&args, &mut bytes);
            bytes
        };
        for (bytes, reply, ends) in [
            (request(10, &key), no_auth, false),
            (request(11, "k"), "(error) ERR Protocol error: unauthenticated multibulk length", true),
            (
                request(2, &(key.clone() + "k")),
                "(error) ERR Protocol error: unauthenticated bulk length",
                true,
            ),
        ] {
            let mut stranger = server.client();
            let _ = stranger.stream().write_all(&bytes);
            assert_eq!(stranger.receive().to_string(), reply, "{}", server.name());
            if ends {
                stranger.expect_end();
            } else {
                check(&mut stranger, "AUTH p", "OK");
                check(&mut stranger, "ECHO on", "\"on\"");
            }
        }
        check(&mut client, "ECHO on", "\"on\"");
    });
}

#[test]
fn half_a_request_costs_what_was_sent_of_it() {
    for io in ["epoll", "auto"] {
        let server = Server::start(2, io, &[]);
        let mut witness = Witness::new(&server);
        let before_bytes = server.resident_bytes();
        let beginnings = [
            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\nabc",
            "*2147483647\r\n$3\r\nDEL\r\n",
            "GET \"",
            "*",
        ];
        let mut silent: Vec<Client> = (0..200).map(|_| server.client()).collect();
        for (number, client) in silent.iter_mut().enumerate() {
            client.send_bytes(beginnings[number % beginnings.len()].as_bytes());
        }
        let all = (silent.len() + 1).to_string();
        eventually("all are there", || witness.client().info("clients", "connected_clients") == all);
        witness.look();
        let grown_bytes = server.resident_bytes().saturating_sub(before_bytes);
        assert!(grown_bytes < 40 << 20, "{grown_bytes} bytes for 200 beginnings of requests");
        // Silence is idleness.
        check(witness.client(), "CONFIG SET timeout 1", "OK");
        for client in &mut silent {
            client.expect_end();
        }
        check(&mut server.client(), "GET witness:1", "\"1\"");
    }
}

/// Commands that may be run in any order, damaged or not, and leave the witness alone.
const WORDS: [&[&str]; 12] = [
    &["SET", "g:a", "value"],
    &["GET", "g:a"],
    &["LPUSH", "g:list", "1", "2", "3"],
    &["LRANGE", "g:list", "0", "-1"],
    &["MULTI"],
    &["EXEC"],
    &["EVAL", "return redis.call('incr', KEYS[1])", "1", "g:n"],
    &["SUBSCRIBE", "g:channel"],
    &["HELLO", "3"],
    &["BLPOP", "g:nothing", "0.01"],
    &["ZADD", "g:zset", "1.5", "a", "nan", "b"],
    &["MGET", "g:a", "g:b", "g:c"],
];

/// Random bytes, or a pipeline of commands with some of its bytes changed, dropped, or put in.
fn garbage(random: &mut Random) -> Vec<u8> {
    let length = random.next_u64() % GARBAGE_BYTES_MAX;
    if random.next_u64().is_multiple_of(4) {
        return (0..length).map(|_| random.next_u64() as u8).collect();
    }
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < length {
        resp::encode_request(WORDS[random.next_u64() as usize % WORDS.len()], &mut bytes);
    }
    for _ in 0..random.next_u64() % 8 {
        if bytes.is_empty() {
            break;
        }
        let place = random.next_u64() as usize % bytes.len();
        let byte = b"\r\n*$:-019\"' \0\xff"[random.next_u64() as usize % 14];
        match random.next_u64() % 4 {
            0 => bytes[place] = byte,
            1 => bytes.insert(place, byte),
            2 => drop(bytes.remove(place)),
            _ => bytes.truncate(place),
        }
    }
    bytes
}

/// Sends garbage; what comes back is RESP, and the connection ends when it is told to.
fn talk<S: Read + Write>(stream: S, random: &mut Random, end: impl FnOnce(&mut S)) {
    let mut client = Client::over(stream);
    for piece in garbage(random).chunks(1 + random.next_u64() as usize % 2000) {
        if client.stream().write_all(piece).is_err() {
            break;
        }
    }
    if !random.next_u64().is_multiple_of(3) {
        end(client.stream());
        while client.try_receive().is_some() {}
    }
}

#[test]
fn garbage_disturbs_nobody() {
    let scratch = Scratch::new("garbage");
    for (threads, io) in [(1, "epoll"), (3, "auto")] {
        let socket = scratch.path("socket");
        let server = Server::start(threads, io, &["--unixsocket", &socket]);
        let mut witness = Witness::new(&server);
        for seed in 0..SEEDS * scale() as u64 {
            println!("seed {seed}");
            let random = &mut Random::new(seed);
            if seed.is_multiple_of(2) {
                let end = |stream: &mut std::net::TcpStream| _ = stream.shutdown(std::net::Shutdown::Write);
                let stream = std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                talk(stream, random, end);
            } else {
                let stream = UnixStream::connect(&socket).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                talk(stream, random, |stream| _ = stream.shutdown(std::net::Shutdown::Write));
            }
            if seed.is_multiple_of(10) {
                witness.look();
            }
        }
        eventually("they are gone", || witness.client().info("clients", "connected_clients") == "1");
        witness.look();
    }
}

#[test]
fn the_end_of_a_timeout_is_a_time() {
    // redis-server 7.0 computes with such timeouts, and then waits for some other time.
    for io in ["epoll", "auto"] {
        let server = Server::start(2, io, &[]);
        let mut client = server.client();
        let (ms, seconds) = (i64::MAX, "9223372036854775");
        for line in [
            format!("XREAD BLOCK {ms} STREAMS stream $"),
            format!("BLPOP list {seconds}"),
            format!("BLMOVE list other LEFT RIGHT {seconds}"),
            format!("BLMPOP {seconds} 1 list LEFT"),
            format!("BZPOPMIN zset {seconds}"),
            format!("WAIT 1 {ms}"),
            format!("WAITAOF 0 1 {ms}"),
            format!("CLIENT PAUSE {ms}"),
        ] {
            check(&mut client, &line, "(error) ERR timeout is out of range");
        }
        check(&mut client, "SET k v", "OK");
    }
}
