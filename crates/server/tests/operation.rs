//! Starts the real binary: command line, configuration, statistics, and how it stops.

mod binary;

use std::net::TcpListener;
use std::os::unix::net::UnixStream;

use binary::{Client, Scratch, Server, eventually, exists, run};

#[track_caller]
fn check_refused(args: &[&str], expected: &str) {
    let output = run(args);
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text.trim_end(), format!("darter: {expected}"), "{args:?}");
}

#[test]
fn what_it_does_not_understand_is_said_in_a_sentence() {
    check_refused(&["--prot", "1"], "unknown setting 'prot' on the command line; did you mean 'port'?");
    check_refused(
        &["--port", "70000"],
        "bad value '70000' for 'port' on the command line: argument must be between 0 and 65535 inclusive \
         (TCP port to listen on; 0: none)",
    );
    check_refused(&["--port", "0"], "configured to listen nowhere: set port or unixsocket");
    check_refused(
        &["/nonexistent/redis.conf"],
        "cannot read /nonexistent/redis.conf: No such file or directory (os error 2)",
    );
    check_refused(
        &["--port", "0", "--dir", "/nonexistent"],
        "cannot change to the directory /nonexistent: No such file or directory (os error 2)",
    );
}

#[test]
fn a_port_in_use_is_named() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    check_refused(
        &["--loglevel", "warning", "--bind", "127.0.0.1", "--port", &port],
        &format!("cannot listen on 127.0.0.1:{port}: another process uses this port"),
    );
}

#[test]
fn version_and_help_are_printed() {
    for flag in ["--version", "-v"] {
        let text = String::from_utf8(run(&[flag]).stdout).unwrap();
        assert!(text.starts_with("Darter server v=") && text.contains(" sha="), "{text}");
        assert!(text.trim_end().contains(" redis_version=7.2."), "{text}");
    }
    let text = String::from_utf8(run(&["--help"]).stdout).unwrap();
    assert!(text.contains("--tcp-keepalive <seconds>") && text.contains("[default: 300]"), "{text}");
}

#[test]
fn settings_are_read_and_changed() {
    let server = Server::start(&["--timeout", "7", "--shard-entry", "home"]);
    let mut client = server.client();
    for (request, reply) in [
        (&["CONFIG", "GET", "timeout"] as &[_], "[timeout 7]"),
        (&["CONFIG", "GET", "SHARD_entry", "shard_entry"], "[SHARD_entry home]"),
        (&["CONFIG", "GET", "nothing"], "[]"),
        (
            &["CONFIG", "GET", "hash-max-*-entries"],
            "[hash-max-listpack-entries 512 hash-max-ziplist-entries 512]",
        ),
        (
            &["CONFIG", "GET", "appendfsync", "save", "appendonly"],
            "[appendfsync everysec save  appendonly no]",
        ),
        (&["CONFIG", "SET", "timeout", "9", "hash-max-ziplist-entries", "2", "maxmemory", "1gb"], "+OK"),
        (&["CONFIG", "GET", "timeout", "maxmemory"], "[timeout 9 maxmemory 1073741824]"),
        (&["CONFIG", "SET", "timeout", "1", "hz"], "-ERR syntax error"),
        (
            &["CONFIG", "SET", "timeout", "1", "port", "2"],
            "-ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config",
        ),
        (
            &["CONFIG", "SET", "nothing", "1"],
            "-ERR Unknown option or number of arguments for CONFIG SET - 'nothing'",
        ),
        (&["CONFIG", "GET", "timeout"], "[timeout 9]"),
        (&["CONFIG", "REWRITE"], "-ERR The server is running without a config file"),
        (&["CONFIG", "NOTHING"], "-ERR unknown subcommand 'NOTHING'. Try CONFIG HELP."),
    ] {
        assert_eq!(client.ask(request), reply, "{request:?}");
    }
    // Threads take the new limit over with the next message they read.
    eventually("the new limit for small hashes holds on every thread", || {
        let mut clients = [server.client(), server.client()];
        clients.iter_mut().all(|client| {
            client.ask(&["DEL", "h"]);
            client.ask(&["HSET", "h", "a", "1", "b", "2", "c", "3"]);
            client.ask(&["OBJECT", "ENCODING", "h"]) == "hashtable"
        })
    });
}

#[test]
fn a_failed_consequence_takes_the_change_back() {
    let server = Server::start(&["--enable-protected-configs", "yes"]);
    let mut client = server.client();
    assert_eq!(
        client.ask(&["CONFIG", "SET", "timeout", "5", "dir", "/nonexistent"]),
        "-ERR CONFIG SET failed (possibly related to argument 'dir') - No such file or directory"
    );
    assert_eq!(client.ask(&["CONFIG", "GET", "timeout"]), "[timeout 0]");
}

#[test]
fn the_configuration_file_is_read_and_rewritten() {
    let scratch = Scratch::new("rewrite");
    let path = scratch.file("redis.conf", "# mine\nmaxclients 100\nappendfsync always\nsave 60 5\n");
    let log = scratch.0.join("log");
    let server = Server::start(&[&path, "--logfile", log.to_str().unwrap()]);
    let mut client = server.client();
    assert_eq!(client.ask(&["CONFIG", "GET", "maxclients", "save"]), "[maxclients 100 save 60 5]");
    assert_eq!(client.ask(&["CONFIG", "SET", "maxclients", "50", "requirepass", "a b"]), "+OK");
    assert_eq!(client.ask(&["CONFIG", "REWRITE"]), "+OK");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("# mine\nmaxclients 50\nappendfsync always\nsave 60 5\n"), "{text}");
    assert!(text.contains("\nrequirepass \"a b\"\n"), "{text}");
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("accepted without effect: appendfsync"), "{text}");
    assert!(text.contains("ready to accept connections on 127.0.0.1:"), "{text}");
}

#[test]
fn info_has_what_exporters_read() {
    let server = Server::start(&[]);
    let mut client = server.client();
    client.ask(&["SET", "k", "v"]);
    client.ask(&["GET", "k"]);
    client.ask(&["GET", "nothing"]);
    client.ask(&["LPUSH", "k", "v"]);
    client.ask(&["NOTHING"]);
    let default = client.ask(&["INFO"]);
    let titles = |text: &str| {
        let titles: Vec<String> =
            text.lines().filter_map(|line| Some(line.strip_prefix("# ")?.to_owned())).collect();
        titles.join(" ")
    };
    assert_eq!(
        titles(&default),
        "Server Clients Memory Persistence Stats Replication CPU Modules Errorstats Cluster Keyspace"
    );
    assert_eq!(
        titles(&client.ask(&["INFO", "all"])),
        "Server Clients Memory Persistence Stats Replication CPU Modules Commandstats Errorstats Latencystats Cluster \
         Transaction Keyspace"
    );
    assert_eq!(titles(&client.ask(&["INFO", "cpu", "nothing", "KEYSPACE"])), "CPU Keyspace");
    assert_eq!(client.ask(&["INFO", "nothing"]), "");
    for (section, field, value) in [
        ("server", "redis_mode", "standalone"),
        ("server", "threads", "2"),
        ("server", "tcp_port", &server.port.to_string()),
        ("memory", "maxmemory_policy", "noeviction"),
        ("stats", "keyspace_hits", "1"),
        ("stats", "keyspace_misses", "1"),
        ("errorstats", "errorstat_WRONGTYPE", "count=1"),
        ("errorstats", "errorstat_ERR", "count=1"),
        ("keyspace", "db0", "keys=1,expires=0,avg_ttl=0"),
        ("replication", "role", "master"),
    ] {
        assert_eq!(client.info(section, field), value, "{field}");
    }
    let calls = client.info("commandstats", "cmdstat_lpush");
    assert!(
        calls.starts_with("calls=1,usec=") && calls.ends_with(",rejected_calls=0,failed_calls=1"),
        "{calls}"
    );
    assert!(client.info("latencystats", "latency_percentiles_usec_get").starts_with("p50="));
    client.ask(&["MULTI"]);
    client.ask(&["INFO", "keyspace"]);
    assert!(client.ask(&["EXEC"]).contains("db0:keys=1"));
}

#[test]
fn statistics_start_anew() {
    let server = Server::start(&[]);
    let mut client = server.client();
    client.ask(&["GET", "k"]);
    client.ask(&["LATENCY", "NOTHING"]);
    assert_eq!(client.ask(&["CONFIG", "RESETSTAT"]), "+OK");
    assert_eq!(client.info("stats", "keyspace_misses"), "0");
    assert!(!client.ask(&["INFO", "commandstats", "errorstats"]).contains("get"));
    client.ask(&["GET", "k"]);
    assert!(client.info("commandstats", "cmdstat_get").starts_with("calls=1,"));
    let histogram = client.ask(&["LATENCY", "HISTOGRAM", "get", "nothing"]);
    assert!(histogram.starts_with("[get [calls :1 histogram_usec [:"), "{histogram}");
}

#[test]
fn the_transaction_section_counts_how_commands_came_to_their_shards() {
    let server = Server::start(&["--num_shards", "8"]);
    let mut client = server.client();
    for number in 0..20 {
        client.ask(&["SET", &format!("k{number}"), "v"]);
    }
    client.ask(&["MSET", "a", "1", "b", "2", "c", "3", "d", "4", "e", "5"]);
    let count = |client: &mut Client<_>, name: &str| {
        client.info("transaction", &format!("tx_type_{name}")).parse::<u64>().unwrap()
    };
    assert!(["inline", "quick", "hop"].map(|name| count(&mut client, name)).iter().sum::<u64>() >= 20);
    assert!(count(&mut client, "wide") >= 1);
    assert!(count(&mut client, "global") >= 1);
    // A pop of several keys enters only their first shard if there is something, else also those up to what it takes.
    for (queue, wide_pops) in [("q1", 0), ("q9", 1)] {
        client.ask(&["LPUSH", queue, "job"]);
        let before = count(&mut client, "wide");
        let queues: Vec<String> = (1..10).map(|number| format!("q{number}")).collect();
        let words: Vec<&str> =
            ["BRPOP"].into_iter().chain(queues.iter().map(String::as_str)).chain(["1"]).collect();
        assert_eq!(client.ask(&words), format!("[{queue} job]"));
        assert_eq!(count(&mut client, "wide") - before, wide_pops);
    }
}

#[test]
fn slow_commands_are_kept() {
    let server = Server::start(&["--slowlog-log-slower-than", "0", "--slowlog-max-len", "2"]);
    let mut client = server.client();
    client.ask(&["SET", "k", &"v".repeat(200)]);
    let log = client.ask(&["SLOWLOG", "GET"]);
    assert!(log.contains(&format!("[SET k {}... (72 more bytes)]", "v".repeat(128))), "{log}");
    assert!(log.contains("127.0.0.1:"), "{log}");
    assert_eq!(client.ask(&["SLOWLOG", "LEN"]), ":2");
    assert_eq!(client.ask(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]), "+OK");
    assert_eq!(client.ask(&["SLOWLOG", "RESET"]), "+OK");
    assert_eq!(client.ask(&["SLOWLOG", "GET", "-1"]), "[]");
    assert_eq!(client.ask(&["SLOWLOG", "GET", "x"]), "-ERR count should be greater than or equal to -1");
}

#[test]
fn debug_populates_and_digests() {
    let server = Server::start(&[]);
    let mut client = server.client();
    assert_eq!(client.ask(&["DEBUG", "POPULATE", "1000", "p", "5"]), "+OK");
    assert_eq!(client.ask(&["DBSIZE"]), ":1000");
    assert_eq!(client.ask(&["GET", "p:999"]), "value");
    let digest = client.ask(&["DEBUG", "DIGEST"]);
    assert_eq!(client.ask(&["DEBUG", "DIGEST"]), digest);
    client.ask(&["SET", "p:0", "other"]);
    assert_ne!(client.ask(&["DEBUG", "DIGEST"]), digest);
    client.ask(&["MULTI"]);
    client.ask(&["DEBUG", "POPULATE", "10", "q"]);
    assert_eq!(client.ask(&["EXEC"]), "[+OK]");
    assert_eq!(client.ask(&["GET", "q:9"]), "value:9");
    assert_eq!(
        client.ask(&["DEBUG", "JMAP"]),
        "-ERR unknown subcommand or wrong number of arguments for 'JMAP'. Try DEBUG HELP."
    );
    drop(server);
    let server = Server::start(&["--enable-debug-command", "no"]);
    assert!(server.client().ask(&["DEBUG", "SLEEP", "0"]).starts_with("-ERR DEBUG command not allowed."));
}

#[test]
fn small_commands_answer_as_in_redis() {
    let server = Server::start(&[]);
    let mut client = server.client();
    client.ask(&["SET", "k", "v"]);
    for (request, reply) in [
        (&["ROLE"] as &[_], "[master :0 []]"),
        (&["WAIT", "0", "0"], ":0"),
        (&["WAIT", "x", "0"], "-ERR value is not an integer or out of range"),
        (&["SHUTDOWN", "ABORT"], "-ERR No shutdown in progress."),
        (&["SHUTDOWN", "SAVE", "NOSAVE"], "-ERR syntax error"),
        (&["SHUTDOWN", "SAVE"], "-ERR Errors trying to SHUTDOWN. Check logs."),
        (&["BGSAVE", "x"], "-ERR syntax error"),
        (&["MEMORY", "USAGE", "nothing"], "(nil)"),
        (&["MEMORY", "USAGE", "k", "SAMPLES", "x"], "-ERR value is not an integer or out of range"),
        (&["LATENCY", "LATEST"], "[]"),
        (&["LATENCY", "GRAPH", "x"], "-ERR No samples available for event 'x'"),
        (&["LATENCY", "RESET"], ":0"),
    ] {
        assert_eq!(client.ask(request), reply, "{request:?}");
    }
}

#[test]
fn shutdown_ends_the_process_and_its_files() {
    let scratch = Scratch::new("shutdown");
    let (socket, pid_file) = (scratch.0.join("socket"), scratch.0.join("pid"));
    let mut server = Server::start(&[
        "--unixsocket",
        socket.to_str().unwrap(),
        "--unixsocketperm",
        "700",
        "--pidfile",
        pid_file.to_str().unwrap(),
    ]);
    let mut local = Client::over(UnixStream::connect(&socket).unwrap());
    assert_eq!(local.ask(&["PING"]), "+PONG");
    assert!(exists(&pid_file));
    let (mut client, mut other) = (server.client(), server.client());
    assert_eq!(other.ask(&["PING"]), "+PONG");
    client.send(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(client.reply(), None);
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(other.reply(), None);
    assert!(!exists(&socket) && !exists(&pid_file));
}

#[test]
fn systemd_is_told_when_the_server_is_ready() {
    let scratch = Scratch::new("systemd");
    let path = scratch.0.join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let _server =
        Server::start_with(&["--supervised", "systemd"], &[("NOTIFY_SOCKET", path.to_str().unwrap())]);
    let mut message = [0; 64];
    let length = socket.recv(&mut message).unwrap();
    assert_eq!(&message[..length], b"READY=1");
}

#[test]
fn a_signal_ends_the_process() {
    for signal in ["TERM", "INT"] {
        let mut server = Server::start(&[]);
        let mut client = server.client();
        client.ask(&["PING"]);
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0));
        assert_eq!(client.reply(), None);
    }
}
