//! Clients of memcached's protocol beside those of Redis': limits, passwords, administration, and their place in
//! INFO.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;

use blackbox::{PATIENCE, Scratch, Server, check, eventually, free_port, oracle, text};
use resp::Value;

/// A client of memcached's protocol.
struct Client<S>(S);

impl<S: Read + Write> Client<S> {
    #[track_caller]
    fn send(&mut self, requests: &str) {
        self.0.write_all(requests.as_bytes()).expect("the connection is open");
    }

    /// The answer up to `end`; less if the connection ends.
    #[track_caller]
    fn receive_to(&mut self, end: &str) -> String {
        let (mut received, mut byte) = (Vec::new(), [0]);
        while !received.ends_with(end.as_bytes()) && self.0.read(&mut byte).is_ok_and(|count| count > 0) {
            received.push(byte[0]);
        }
        String::from_utf8_lossy(&received).into_owned()
    }

    #[track_caller]
    fn check(&mut self, requests: &str, replies: &str) {
        self.send(requests);
        assert_eq!(self.receive_to(replies), replies, "{requests:?}");
    }
}

fn connect(port: u16) -> Client<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("sockets have a timeout");
    stream.set_nodelay(true).expect("TCP can do this");
    Client(stream)
}

/// Starts a server with this many threads and a port for memcached's clients.
fn start(threads: usize, io: &str, more: &[&str]) -> (Server, u16) {
    let port = free_port().expect("some port is free");
    let server = Server::start(threads, io, &[&["--memcached-port", &port.to_string()], more].concat());
    (server, port)
}

#[test]
fn a_pipeline_is_answered_in_order_however_it_comes() {
    let mut requests = String::new();
    let mut replies = String::new();
    for number in 0..300 {
        requests += &format!("set key{number} {number} 0 4\r\nabcd\r\nget key{number} key{}\r\n", number / 2);
        replies += "STORED\r\n";
        for key in [number, number / 2] {
            replies += &format!("VALUE key{key} {key} 4\r\nabcd\r\n");
        }
        replies += "END\r\n";
    }
    for (threads, io) in [(1, "epoll"), (2, "auto"), (4, "auto")] {
        let (_server, port) = start(threads, io, &[]);
        let mut client = connect(port);
        client.check(&requests, &replies);
        let mut slow = connect(port);
        for byte in "set a 1 0 3\r\nx\r\n\r\nget a\r\n".chars() {
            slow.send(&byte.to_string());
        }
        let replies = "STORED\r\nVALUE a 1 3\r\nx\r\n\r\nEND\r\n";
        assert_eq!(slow.receive_to(replies), replies);
    }
}

#[test]
fn clients_on_all_threads_count_without_losing_one() {
    let (_server, port) = start(4, "auto", &["--shard-entry=home"]);
    connect(port).check("set n 0 0 1\r\n0\r\n", "STORED\r\n");
    let count = || {
        let mut client = connect(port);
        (0..50).for_each(|_| client.send(&"incr n 1 noreply\r\n".repeat(20)));
        client.check("mn\r\n", "MN\r\n");
    };
    std::thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(count)));
    connect(port).check("get n\r\n", "VALUE n 0 4\r\n4000\r\nEND\r\n");
}

#[test]
fn both_kinds_of_clients_see_the_same_keys() {
    let (server, port) = start(2, "auto", &[]);
    let (mut redis, mut client) = (server.client(), connect(port));
    assert_eq!(redis.show("SET k v"), "OK");
    client.check("get k\r\nset m 9 0 5\r\nhello\r\n", "VALUE k 0 1\r\nv\r\nEND\r\nSTORED\r\n");
    assert_eq!(redis.show("GET m"), "\"hello\"");
    assert_eq!(redis.show("WATCH m"), "OK");
    client.check("append m 0 0 1\r\n!\r\n", "STORED\r\n");
    assert_eq!(redis.show("MULTI"), "OK");
    assert_eq!(redis.show("EXEC"), "(nil)");
    // A snapshot has the flags, too.
    assert_eq!(redis.show("DEBUG RELOAD"), "OK");
    client.check("get m k\r\n", "VALUE m 9 6\r\nhello!\r\nVALUE k 0 1\r\nv\r\nEND\r\n");
    assert_eq!(redis.show("RPUSH l x"), "(integer) 1");
    client.check("flush_all\r\nget k\r\n", "OK\r\nEND\r\n");
    assert_eq!(redis.show("DBSIZE"), "(integer) 0");
    // No name leads Redis' clients to the commands.
    let refused = redis.show("memcached|get k");
    assert!(refused.contains("unknown command"), "{refused}");
    let refused = redis.show("memcached get k");
    assert!(refused.contains("unknown command"), "{refused}");
}

#[test]
fn a_flush_may_come_later() {
    let (server, port) = start(2, "auto", &[]);
    let (mut redis, mut client) = (server.client(), connect(port));
    client.check(
        "set k 0 0 1\r\nv\r\nflush_all 1000\r\nget k\r\n",
        "STORED\r\nOK\r\nVALUE k 0 1\r\nv\r\nEND\r\n",
    );
    client.check("flush_all 1 noreply\r\nget k\r\n", "VALUE k 0 1\r\nv\r\nEND\r\n");
    eventually("the database is empty", || redis.show("DBSIZE") == "(integer) 0");
}

#[test]
fn the_server_shows_them() {
    let (server, port) = start(2, "auto", &[]);
    let (mut redis, mut monitor, mut client) = (server.client(), server.client(), connect(port));
    assert_eq!(monitor.show("MONITOR"), "OK");
    client.check("set k 3 0 1\r\nv\r\nget k\r\nwhat\r\n", "STORED\r\nVALUE k 3 1\r\nv\r\nEND\r\nERROR\r\n");
    for expected in [r#""set" "k" "3" "0" "1" "v""#, r#""get" "k""#] {
        let line = text(&monitor.receive());
        assert!(line.ends_with(expected) && line.contains("[0 127.0.0.1:"), "{line}");
    }
    let list = text(&redis.call("CLIENT LIST"));
    let line =
        list.lines().find(|line| line.contains("cmd=memcached|get")).unwrap_or_else(|| panic!("{list}"));
    assert!(line.contains("resp=0") && line.contains("db=0") && line.contains("flags=N"), "{line}");
    assert!(redis.info("commandstats", "cmdstat_memcached|set").starts_with("calls=1,"));
    assert!(redis.info("errorstats", "errorstat_ERROR").starts_with("count=1"));
    client.send("stats\r\n");
    let stats = client.receive_to("END\r\n");
    for line in ["STAT cmd_get 1\r\n", "STAT cmd_set 1\r\n", "STAT curr_items 1\r\n", "STAT threads 2\r\n"] {
        assert!(stats.contains(line), "{stats}");
    }
    let id = line.split([' ', '=']).nth(1).unwrap_or_default();
    assert_eq!(redis.show(&format!("CLIENT KILL ID {id}")), "(integer) 1");
    assert_eq!(client.receive_to("x"), "");
}

#[test]
fn a_lower_limit_takes_nothing_away() {
    let (server, port) = start(2, "auto", &["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-random"]);
    let (client, redis) = (&mut connect(port), &mut server.client());
    let value = "x".repeat(1000);
    let store = |client: &mut Client<_>, name: &str, count: usize| {
        let set = |number| format!("set {name}{number} 0 0 1000\r\n{value}\r\n");
        client.check(&(0..count).map(set).collect::<String>(), &"STORED\r\n".repeat(count));
    };
    (0..20).for_each(|part| store(client, &format!("a{part}:"), 1000));
    client.check("cache_memlimit 10\r\n", "OK\r\n");
    check(redis, "CONFIG GET maxmemory", "1) \"maxmemory\"\n2) \"10485760\"");
    for _ in 0..100 {
        check(redis, "PING", "PONG");
    }
    let evicted = |redis: &mut blackbox::Client| -> usize {
        redis.info("stats", "evicted_keys").parse().expect("a number")
    };
    // Other things than items count as well.
    assert!(evicted(redis) < 100);
    // New items take the place of others.
    (0..5).for_each(|part| store(client, &format!("b{part}:"), 1000));
    assert!((2500..7500).contains(&evicted(redis)), "{}", evicted(redis));
    // With Redis' command the limit takes effect at once.
    check(redis, "CONFIG SET maxmemory 10485761", "OK");
    eventually("there is room", || redis.show("DBSIZE").len() < "(integer) 10000".len());
}

#[test]
fn commands_wait_while_clients_are_paused() {
    let (server, port) = start(2, "auto", &[]);
    let (mut redis, mut client) = (server.client(), connect(port));
    assert_eq!(redis.show("CLIENT PAUSE 100000 WRITE"), "OK");
    client.check("get k\r\n", "END\r\n");
    client.send("set k 0 0 1\r\nv\r\nget k\r\n");
    eventually("the command waits", || {
        redis.info("clients", "blocked_clients") == "1" && redis.show("EXISTS k") == "(integer) 0"
    });
    assert_eq!(redis.show("CLIENT UNPAUSE"), "OK");
    let replies = "STORED\r\nVALUE k 0 1\r\nv\r\nEND\r\n";
    assert_eq!(client.receive_to(replies), replies);
}

#[test]
fn a_password_is_asked_for() {
    let (server, port) = start(1, "auto", &["--requirepass", "secret"]);
    drop(server.client());
    let mut client = connect(port);
    client.check("get k\r\n", "CLIENT_ERROR unauthenticated\r\n");
    client.check("set a 0 0 12\r\ndefault none\r\n", "CLIENT_ERROR authentication failure\r\n");
    client.check("set a 0 0 7\r\ndefault\r\n", "CLIENT_ERROR bad authentication token format\r\n");
    client.check("set a 0 0 14\r\ndefault secret\r\n", "STORED\r\n");
    client.check("get k a\r\n", "END\r\n");
}

#[test]
fn where_there_are_users_a_client_says_who_it_is() {
    let (server, port) = start(2, "auto", &[]);
    let (mut redis, mut early) = (server.client(), connect(port));
    early.check("get k\r\n", "END\r\n");
    assert_eq!(redis.show("ACL SETUSER tenant on >secret ~t:* +@all"), "OK");
    let mut client = connect(port);
    client.check("get k\r\n", "CLIENT_ERROR unauthenticated\r\n");
    client.check("set a 0 0 13\r\ntenant secret\r\n", "STORED\r\n");
    assert_eq!(redis.show("EXISTS a"), "(integer) 0");
    client.check("get t:k\r\nget k\r\n", "END\r\nSERVER_ERROR NOPERM No permissions to access a key\r\n");
    early.check("get k\r\n", "END\r\n");
    // The limit of clients per user applies, too.
    assert_eq!(redis.show("CONFIG SET maxclients-per-user 1"), "OK");
    let mut second = connect(port);
    let too_many = "CLIENT_ERROR ERR max number of clients of this user reached\r\n";
    second.check("set a 0 0 13\r\ntenant secret\r\n", too_many);
    assert_eq!(redis.info("stats", "rejected_connections"), "1");
}

#[test]
fn statistics_begin_anew_for_those_who_may_do_that() {
    let (server, port) = start(2, "auto", &[]);
    let (mut redis, mut client) = (server.client(), connect(port));
    client.check("stats reset\r\n", "RESET\r\n");
    assert_eq!(redis.show("ACL SETUSER default -config|resetstat"), "OK");
    let denied =
        "SERVER_ERROR NOPERM User default has no permissions to run the 'config|resetstat' command\r\n";
    client.check("stats reset\r\n", denied);
}

#[test]
fn strangers_send_short_lines_and_few_passwords() {
    let (_server, port) = start(1, "auto", &["--requirepass", "secret", "--auth-failures-max", "2"]);
    let mut stranger = connect(port);
    stranger.send(&format!("get {}", "x".repeat(4096)));
    assert_eq!(stranger.receive_to("x"), "");
    let mut client = connect(port);
    for _ in 0..2 {
        client.check("set a 0 0 12\r\ndefault none\r\n", "CLIENT_ERROR authentication failure\r\n");
    }
    let too_many =
        "CLIENT_ERROR ERR too many wrong passwords from this address; try again in ten seconds\r\n";
    client.check("set a 0 0 14\r\ndefault secret\r\n", too_many);
    assert_eq!(client.receive_to("x"), "");
}

#[test]
fn what_is_too_much_is_refused() {
    let (server, port) = start(1, "auto", &["--maxclients", "2", "--memcached-item-size-max", "2048"]);
    let mut client = connect(port);
    let large = "x".repeat(2048);
    client.check(
        &format!("set k 0 0 1\r\nv\r\nset k 0 0 2048\r\n{large}\r\nget k\r\n"),
        "STORED\r\nSERVER_ERROR object too large for cache\r\nEND\r\n",
    );
    let small = "x".repeat(1900);
    client.check(
        &format!("set k 0 0 1900\r\n{small}\r\nappend k 0 0 100\r\n{}\r\n", &small[..100]),
        "STORED\r\nNOT_STORED\r\n",
    );
    let _other = server.client();
    assert_eq!(connect(port).receive_to("\r\n"), "SERVER_ERROR ERR max number of clients reached\r\n");
    // A line without an end: nothing can be made of it.
    client.send(&"x".repeat(4096));
    assert_eq!(client.receive_to("x"), "");
}

#[test]
fn a_slow_script_keeps_them_waiting_and_no_longer() {
    let (server, port) = start(1, "auto", &["--busy-reply-threshold", "1"]);
    let (mut script, mut redis, mut client) = (server.client(), server.client(), connect(port));
    script.send("EVAL 'while true do end' 0");
    eventually("the script is slow", || redis.show("PING").contains("BUSY"));
    client.send("get k\r\n");
    assert_eq!(redis.show("SCRIPT KILL"), "OK");
    assert_eq!(client.receive_to("END\r\n"), "END\r\n");
}

#[test]
fn a_unix_socket_serves_them_too() {
    let scratch = Scratch::new("memcached-socket");
    let path = scratch.path("memcached.sock");
    let _server = Server::start(1, "auto", &["--memcached-unixsocket", &path]);
    let stream = UnixStream::connect(&path).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("sockets have a timeout");
    Client(stream).check("set k 0 0 1\r\nv\r\nget k\r\nquit\r\n", "STORED\r\nVALUE k 0 1\r\nv\r\nEND\r\n");
}

#[test]
fn the_default_user_may_do_what_its_rules_say() {
    let (server, port) = start(2, "auto", &[]);
    let (mut redis, mut client) = (server.client(), connect(port));
    client.check("set a 5 0 3\r\nabc\r\n", "STORED\r\n");
    assert_eq!(redis.show("ACL SETUSER default resetkeys -@all +@read +acl +config ~a*"), "OK");
    let no_command =
        "SERVER_ERROR NOPERM User default has no permissions to run the 'memcached|set' command\r\n";
    client.check("set a 5 0 3\r\nxyz\r\n", no_command);
    client.check("get a\r\n", "VALUE a 5 3\r\nabc\r\nEND\r\n");
    client.check("get a b\r\n", "SERVER_ERROR NOPERM No permissions to access a key\r\n");
    assert_eq!(redis.show("ACL SETUSER default resetkeys +@all -@dangerous +acl %R~*"), "OK");
    client.check("gat 5 a\r\n", "SERVER_ERROR NOPERM No permissions to access a key\r\n");
    client.check(
        "flush_all\r\n",
        "SERVER_ERROR NOPERM User default has no permissions to run the 'memcached|flush_all' command\r\n",
    );
    assert_eq!(redis.show("ACL SETUSER default +@all allkeys"), "OK");
    assert_eq!(redis.show("CONFIG SET maxmemory 1000"), "OK");
    client.check(
        "set a 5 0 3\r\nxyz\r\n",
        "SERVER_ERROR OOM command not allowed when used memory > 'maxmemory'.\r\n",
    );
    client.check("get a\r\n", "VALUE a 5 3\r\nabc\r\nEND\r\n");
}

#[test]
fn flags_and_cas_numbers_survive_a_restart() {
    for (format, save) in [("rdb", "SAVE"), ("rdb", "BGSAVE"), ("darter", "SAVE"), ("darter", "BGSAVE")] {
        let scratch = Scratch::new(&format!("marks-{format}-{save}"));
        let directory = scratch.path("");
        let options = ["--dir", &directory, "--dbfilename", "dump.rdb", "--snapshot-format", format];
        let (server, port) = start(2, "auto", &options);
        let mut client = connect(port);
        let large = "x".repeat(100_000);
        client.check("set pickled 5 0 5\r\nbytes\r\n", "STORED\r\n");
        client.check("set plain 0 0 1\r\n1\r\n", "STORED\r\n");
        client.check(&format!("set large 4294967295 1000 {}\r\n{large}\r\n", large.len()), "STORED\r\n");
        client.check("set old 7 0 1\r\n1\r\nmd old I T30\r\n", "STORED\r\nHD\r\n");
        client.send("gets pickled\r\n");
        let with_cas = client.receive_to("END\r\n");
        let cas = with_cas.split_whitespace().nth(4).expect("it has a cas number").to_owned();
        let mut redis = server.client();
        redis.call(save);
        eventually("it is saved", || redis.info("persistence", "rdb_saves") == "1");
        if format == "rdb" {
            check_on_redis(&directory);
        }
        drop(server);
        let (_server, port) = start(3, "auto", &options);
        let mut client = connect(port);
        client.check("gets pickled\r\n", &with_cas);
        client.check("get plain\r\n", "VALUE plain 0 1\r\n1\r\nEND\r\n");
        client.check("mg large f s\r\n", "HD f4294967295 s100000\r\n");
        client.check("mg old f v\r\n", "VA 1 f7 X W\r\n1\r\n");
        client.check(&format!("cas pickled 6 0 1 {cas}\r\n2\r\n"), "STORED\r\n");
        client.check(&format!("cas pickled 6 0 1 {cas}\r\n3\r\n"), "EXISTS\r\n");
    }
}

/// Real Redis, where there is one, loads the file.
fn check_on_redis(directory: &str) {
    if oracle().is_none() {
        return;
    }
    let checked = Command::new("redis-check-rdb")
        .arg(format!("{directory}/dump.rdb"))
        .output()
        .expect("redis-check-rdb runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    let redis = Server::redis_with(&["--dir", directory, "--dbfilename", "dump.rdb"]);
    let redis = redis.unwrap_or_else(|error| panic!("{error}"));
    let mut client = redis.client();
    check(&mut client, "MGET pickled plain old", "1) \"bytes\"\n2) \"1\"\n3) \"1\"");
    check(&mut client, "STRLEN large", "(integer) 100000");
    assert!(matches!(client.call("TTL large"), Value::Int(1..)));
}
