//! Starts the real binary: command line, configuration, statistics, and the end of the process.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use blackbox::{Client, Scratch, Server, Signal, eventually, run};
use resp::Value;

/// The reply in short: what RESP2 sends without lengths, an array's elements in brackets.
#[track_caller]
fn ask<S: Read + Write>(client: &mut Client<S>, args: &[&str]) -> String {
    let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
    client.send_args(&args);
    short(&client.receive())
}

fn short(value: &Value) -> String {
    match value {
        Value::Simple(text) => format!("+{}", String::from_utf8_lossy(text)),
        Value::Error(text) => format!("-{}", String::from_utf8_lossy(text)),
        Value::Int(number) => format!(":{number}"),
        Value::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        Value::Array(items) => format!("[{}]", items.iter().map(short).collect::<Vec<_>>().join(" ")),
        other => other.to_string(),
    }
}

#[track_caller]
fn check_refused(args: &[&str], expected: &str) {
    check_refused_through(&[], args, expected);
}

#[track_caller]
fn check_refused_through(launcher: &[&str], args: &[&str], expected: &str) {
    let output = run(launcher, &[args, &["--loglevel", "warning"]].concat());
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
    check_refused(
        &["--colocate", "bull:{*}:", "{*}"],
        "bad value 'bull:{*}: {*}' for 'colocate' on the command line: '{*}': it would fit every key; write how the keys begin in front of {*} \
         (Keys to keep on one shard because scripts use them together, as rules separated by spaces)",
    );
    check_refused(&["--port", "0"], "configured to listen nowhere: set port, tls-port or unixsocket");
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
        &["--bind", "127.0.0.1", "--port", &port],
        &format!("cannot listen on 127.0.0.1:{port}: another process uses this port"),
    );
}

#[test]
fn a_server_can_follow_one_that_was_just_killed() {
    for _ in 0..20 {
        let mut server = Server::start(2, "auto", &[]);
        let port = server.port().to_string();
        server.signal(Signal::KILL);
        server.wait();
        // The server must get past the port, which it opens before the socket.
        check_refused(
            &["--bind", "127.0.0.1", "--port", &port, "--unixsocket", "/nonexistent/socket"],
            "cannot listen on /nonexistent/socket: No such file or directory (os error 2)",
        );
    }
}

#[test]
fn a_line_of_the_configuration_file_is_named() {
    let scratch = Scratch::new("lines");
    for (line, expected) in [
        ("maxclient 5", "unknown setting 'maxclient' in PATH, line 2; did you mean 'maxclients'?"),
        ("zzzzqqq 5", "unknown setting 'zzzzqqq' in PATH, line 2"),
        ("dir \"/tmp", "unbalanced quotes in PATH, line 2"),
    ] {
        let path = scratch.file("redis.conf", &format!("port 0\n{line}\n"));
        check_refused(&[&path], &expected.replace("PATH", &path));
    }
}

#[test]
fn a_place_for_the_socket_that_does_not_do_is_named() {
    let scratch = Scratch::new("places");
    let file = scratch.file("file", "precious");
    let check = |launcher: &[&str], path: &str, why: &str| {
        let expected = format!("cannot listen on {path}: {why}");
        check_refused_through(launcher, &["--port", "0", "--unixsocket", path], &expected);
    };
    check(&[], &scratch.path("none/socket"), "No such file or directory (os error 2)");
    check(&[], &file, "a file that is not a socket is in the way");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    let live = scratch.path("live");
    let server = Server::start(1, "auto", &["--unixsocket", &live]);
    check(&[], &live, "another process uses this socket");
    assert_eq!(ask(&mut server.client(), &["PING"]), "+PONG");
    // The owner of a directory may lack the permission to write to it, unless the process has that capability.
    let (folder, path) = (scratch.path("folder"), scratch.path("folder/socket"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o555)).unwrap();
    let launcher: &[&str] = if rustix::process::geteuid().is_root() {
        &["setpriv", "--bounding-set", "-dac_override"]
    } else {
        &[]
    };
    check(launcher, &path, "no permission");
}

#[test]
fn version_and_help_are_printed() {
    for flag in ["--version", "-v"] {
        let text = String::from_utf8(run(&[], &[flag]).stdout).unwrap();
        assert!(text.starts_with("Darter server v=") && text.contains(" sha="), "{text}");
        assert!(text.trim_end().contains(" redis_version=8.6.0"), "{text}");
    }
    let text = String::from_utf8(run(&[], &["--help"]).stdout).unwrap();
    assert!(text.contains("--tcp-keepalive <seconds>") && text.contains("[default: 300]"), "{text}");
}

#[test]
fn clients_and_scripts_are_told_the_version_of_redis_that_is_set() {
    for (options, version, number) in [
        (&[][..], "8.6.0", 0x0008_0600),
        (&["--redis-version", "7.2"], "7.2.7", 0x0007_0207),
        (&["--redis-version", "8.10"], "8.10.0", 0x0008_0a00),
    ] {
        let server = Server::start(1, "auto", options);
        let mut client = server.client();
        assert_eq!(client.info("server", "redis_version"), version);
        assert!(client.show("HELLO 2").contains(&format!("\"{version}\"")), "{version}");
        assert!(client.show("LOLWUT").contains(&format!("Redis ver. {version}")), "{version}");
        let script = "return {redis.REDIS_VERSION,redis.REDIS_VERSION_NUM}";
        assert_eq!(
            client.show(&format!("EVAL \"{script}\" 0")),
            format!("1) \"{version}\"\n2) (integer) {number}")
        );
        let library =
            "#!lua name=l\nlocal v=redis.REDIS_VERSION redis.register_function('f',function() return v end)";
        client.send_args(&[b"FUNCTION", b"LOAD", library.as_bytes()]);
        assert_eq!(client.receive(), Value::Bulk(b"l".to_vec()));
        assert_eq!(client.show("FCALL f 0"), format!("\"{version}\""));
    }
    for version in ["9.0", "8", "7.2.7", "", "-1", "99999999999999999999"] {
        let output = run(&[], &["--test-config", "--redis-version", version]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(
            errors.contains("argument(s) must be one of the following: 7.2, 7.4, 8.0, "),
            "{version}: {errors}"
        );
    }
}

#[test]
fn settings_are_read_and_changed() {
    let server = Server::start(2, "auto", &["--timeout", "7", "--shard_entry", "home"]);
    let mut client = server.client();
    for (request, reply) in [
        (&["CONFIG", "GET", "timeout"] as &[_], "[timeout 7]"),
        (&["CONFIG", "GET", "SHARD_entry", "shard_entry"], "[SHARD_entry home]"),
        (&["CONFIG", "GET", "shard?entry"], "[shard-entry home]"),
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
            &["CONFIG", "SET", "timeout", "1", "databases", "2"],
            "-ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config",
        ),
        (
            &["CONFIG", "SET", "nothing", "1"],
            "-ERR Unknown option or number of arguments for CONFIG SET - 'nothing'",
        ),
        (&["CONFIG", "GET", "timeout"], "[timeout 9]"),
        (&["CONFIG", "REWRITE"], "-ERR The server is running without a config file"),
        (&["CONFIG", "NOTHING"], "-ERR unknown subcommand 'NOTHING'. Try CONFIG HELP."),
    ] {
        assert_eq!(ask(&mut client, request), reply, "{request:?}");
    }
    // Threads take the new limit over with the next message they read.
    eventually("the new limit for small hashes holds on every thread", || {
        let mut clients = [server.client(), server.client()];
        clients.iter_mut().all(|client| {
            ask(client, &["DEL", "h"]);
            ask(client, &["HSET", "h", "a", "1", "b", "2", "c", "3"]);
            ask(client, &["OBJECT", "ENCODING", "h"]) == "hashtable"
        })
    });
}

#[test]
fn a_failed_consequence_takes_the_change_back() {
    let server = Server::start(2, "auto", &["--enable-protected-configs", "yes"]);
    let mut client = server.client();
    assert_eq!(
        ask(&mut client, &["CONFIG", "SET", "timeout", "5", "dir", "/nonexistent"]),
        "-ERR CONFIG SET failed (possibly related to argument 'dir') - No such file or directory"
    );
    assert_eq!(ask(&mut client, &["CONFIG", "GET", "timeout"]), "[timeout 0]");
}

#[test]
fn the_configuration_file_is_read_and_rewritten() {
    let scratch = Scratch::new("rewrite");
    let path = scratch.file("redis.conf", "# mine\nmaxclients 100\nactive-expire-effort 2\nsave 60 5\n");
    let log = scratch.path("log");
    let server = Server::start(2, "auto", &[&path, "--logfile", &log]);
    let mut client = server.client();
    assert_eq!(ask(&mut client, &["CONFIG", "GET", "maxclients", "save"]), "[maxclients 100 save 60 5]");
    assert_eq!(ask(&mut client, &["CONFIG", "SET", "maxclients", "50", "requirepass", "a b"]), "+OK");
    assert_eq!(ask(&mut client, &["CONFIG", "REWRITE"]), "+OK");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("# mine\nmaxclients 50\nactive-expire-effort 2\nsave 60 5\n"), "{text}");
    assert!(text.contains("\nrequirepass \"a b\"\n"), "{text}");
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("accepted but ignored: active-expire-effort"), "{text}");
    assert!(text.contains("listening on 127.0.0.1:"), "{text}");
}

#[test]
fn info_has_what_exporters_read() {
    let server = Server::start(2, "auto", &[]);
    let mut client = server.client();
    ask(&mut client, &["SET", "k", "v"]);
    ask(&mut client, &["GET", "k"]);
    ask(&mut client, &["GET", "nothing"]);
    ask(&mut client, &["LPUSH", "k", "v"]);
    ask(&mut client, &["NOTHING"]);
    let default = ask(&mut client, &["INFO"]);
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
        titles(&ask(&mut client, &["INFO", "all"])),
        "Server Clients Memory Persistence Stats Replication CPU Modules Commandstats Errorstats Latencystats Cluster \
         Transaction Queues Keyspace"
    );
    assert_eq!(titles(&ask(&mut client, &["INFO", "cpu", "nothing", "KEYSPACE"])), "CPU Keyspace");
    assert_eq!(ask(&mut client, &["INFO", "nothing"]), "");
    for (section, field, value) in [
        ("server", "redis_mode", "standalone"),
        ("server", "threads", "2"),
        ("server", "tcp_port", &server.port().to_string()),
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
    ask(&mut client, &["MULTI"]);
    ask(&mut client, &["INFO", "keyspace"]);
    assert!(ask(&mut client, &["EXEC"]).contains("db0:keys=1"));
}

#[test]
fn statistics_start_anew() {
    let server = Server::start(2, "auto", &[]);
    let mut client = server.client();
    ask(&mut client, &["GET", "k"]);
    ask(&mut client, &["LATENCY", "NOTHING"]);
    assert_eq!(ask(&mut client, &["CONFIG", "RESETSTAT"]), "+OK");
    assert_eq!(client.info("stats", "keyspace_misses"), "0");
    assert!(!ask(&mut client, &["INFO", "commandstats", "errorstats"]).contains("get"));
    ask(&mut client, &["GET", "k"]);
    assert!(client.info("commandstats", "cmdstat_get").starts_with("calls=1,"));
    let histogram = ask(&mut client, &["LATENCY", "HISTOGRAM", "get", "nothing"]);
    assert!(histogram.starts_with("[get [calls :1 histogram_usec [:"), "{histogram}");
}

#[test]
fn the_transaction_section_counts_how_commands_came_to_their_shards() {
    let server = Server::start(2, "auto", &["--num-shards", "8"]);
    let mut client = server.client();
    for number in 0..20 {
        ask(&mut client, &["SET", &format!("k{number}"), "v"]);
    }
    ask(&mut client, &["MSET", "a", "1", "b", "2", "c", "3", "d", "4", "e", "5"]);
    ask(&mut client, &["FLUSHALL"]);
    let count = |client: &mut Client, name: &str| {
        client.info("transaction", &format!("tx_type_{name}")).parse::<u64>().unwrap()
    };
    assert!(["inline", "quick", "hop"].map(|name| count(&mut client, name)).iter().sum::<u64>() >= 20);
    assert!(count(&mut client, "wide") >= 1);
    assert!(count(&mut client, "global") >= 1);
    // A pop of several keys enters only their first shard if there is something, else also those up to what it takes.
    for (queue, wide_pops) in [("q1", 0), ("q9", 1)] {
        ask(&mut client, &["LPUSH", queue, "job"]);
        let before = count(&mut client, "wide");
        let queues: Vec<String> = (1..10).map(|number| format!("q{number}")).collect();
        let words: Vec<&str> =
            ["BRPOP"].into_iter().chain(queues.iter().map(String::as_str)).chain(["1"]).collect();
        assert_eq!(ask(&mut client, &words), format!("[{queue} job]"));
        assert_eq!(count(&mut client, "wide") - before, wide_pops);
    }
}

#[test]
fn slow_commands_are_kept() {
    let server = Server::start(2, "auto", &["--slowlog-log-slower-than", "0", "--slowlog-max-len", "2"]);
    let mut client = server.client();
    ask(&mut client, &["SET", "k", &"v".repeat(200)]);
    let log = ask(&mut client, &["SLOWLOG", "GET"]);
    assert!(log.contains(&format!("[SET k {}... (72 more bytes)]", "v".repeat(128))), "{log}");
    assert!(log.contains("127.0.0.1:"), "{log}");
    assert_eq!(ask(&mut client, &["SLOWLOG", "LEN"]), ":2");
    assert_eq!(ask(&mut client, &["CONFIG", "SET", "slowlog-log-slower-than", "-1"]), "+OK");
    assert_eq!(ask(&mut client, &["SLOWLOG", "RESET"]), "+OK");
    assert_eq!(ask(&mut client, &["SLOWLOG", "GET", "-1"]), "[]");
    assert_eq!(
        ask(&mut client, &["SLOWLOG", "GET", "x"]),
        "-ERR count should be greater than or equal to -1"
    );
}

#[test]
fn slow_events_are_noted() {
    let server = Server::start(2, "auto", &["--latency-monitor-threshold", "5"]);
    let mut client = server.client();
    assert_eq!(ask(&mut client, &["LATENCY", "LATEST"]), "[]");
    let content = ask(&mut client, &["LATENCY", "DOCTOR"]);
    assert!(content.starts_with("Nothing took longer"), "{content}");
    ask(&mut client, &["DEBUG", "SLEEP", "0.01"]);
    let latest = ask(&mut client, &["LATENCY", "LATEST"]);
    let fields: Vec<&str> = latest.trim_matches(['[', ']']).split(' ').collect();
    let [event, seconds, duration_ms, longest_ms] = fields[..] else { panic!("{latest}") };
    assert_eq!((event, duration_ms), ("command", longest_ms));
    assert!(duration_ms.trim_start_matches(':').parse::<u64>().is_ok_and(|ms| ms >= 10), "{latest}");
    let history = format!("[[{seconds} {duration_ms}]]");
    assert_eq!(ask(&mut client, &["LATENCY", "HISTORY", "command"]), history);
    assert_eq!(ask(&mut client, &["LATENCY", "HISTORY", "fast-command"]), "[]");
    let graph = ask(&mut client, &["LATENCY", "GRAPH", "command"]);
    assert!(graph.starts_with("command - high "), "{graph}");
    let report = ask(&mut client, &["LATENCY", "DOCTOR"]);
    assert!(report.contains("1. command: 1 latency spikes") && report.contains("SLOWLOG"), "{report}");
    assert_eq!(ask(&mut client, &["LATENCY", "RESET", "fast-command", "command"]), ":1");
    assert_eq!(ask(&mut client, &["LATENCY", "LATEST"]), "[]");
    ask(&mut client, &["CONFIG", "SET", "latency-monitor-threshold", "0"]);
    ask(&mut client, &["DEBUG", "SLEEP", "0.01"]);
    assert_eq!(ask(&mut client, &["LATENCY", "LATEST"]), "[]");
}

#[test]
fn debug_populates_and_digests() {
    let server = Server::start(2, "auto", &[]);
    let mut client = server.client();
    assert_eq!(ask(&mut client, &["DEBUG", "POPULATE", "1000", "p", "5"]), "+OK");
    assert_eq!(ask(&mut client, &["DBSIZE"]), ":1000");
    assert_eq!(ask(&mut client, &["GET", "p:999"]), "value");
    let digest = ask(&mut client, &["DEBUG", "DIGEST"]);
    assert_eq!(ask(&mut client, &["DEBUG", "DIGEST"]), digest);
    ask(&mut client, &["SET", "p:0", "other"]);
    assert_ne!(ask(&mut client, &["DEBUG", "DIGEST"]), digest);
    ask(&mut client, &["MULTI"]);
    ask(&mut client, &["DEBUG", "POPULATE", "10", "q"]);
    assert_eq!(ask(&mut client, &["EXEC"]), "[+OK]");
    assert_eq!(ask(&mut client, &["GET", "q:9"]), "value:9");
    assert_eq!(
        ask(&mut client, &["DEBUG", "JMAP"]),
        "-ERR unknown subcommand or wrong number of arguments for 'JMAP'. Try DEBUG HELP."
    );
    drop(server);
    let server = Server::start(2, "auto", &["--enable-debug-command", "no"]);
    assert!(
        ask(&mut server.client(), &["DEBUG", "SLEEP", "0"]).starts_with("-ERR DEBUG command not allowed.")
    );
}

#[test]
fn small_commands_answer_as_in_redis() {
    let server = Server::start(2, "auto", &[]);
    let mut client = server.client();
    ask(&mut client, &["SET", "k", "v"]);
    for (request, reply) in [
        (&["ROLE"] as &[_], "[master :0 []]"),
        (&["WAIT", "0", "0"], ":0"),
        (&["WAIT", "x", "0"], "-ERR value is not an integer or out of range"),
        (&["SHUTDOWN", "ABORT"], "-ERR No shutdown in progress."),
        (&["SHUTDOWN", "SAVE", "NOSAVE"], "-ERR syntax error"),
        (&["BGSAVE", "x"], "-ERR syntax error"),
        (&["MEMORY", "USAGE", "nothing"], "(nil)"),
        (&["MEMORY", "USAGE", "k", "SAMPLES", "x"], "-ERR value is not an integer or out of range"),
        (&["LATENCY", "LATEST"], "[]"),
        (&["LATENCY", "GRAPH", "x"], "-ERR No samples available for event 'x'"),
        (&["LATENCY", "RESET"], ":0"),
    ] {
        assert_eq!(ask(&mut client, request), reply, "{request:?}");
    }
}

#[test]
fn shutdown_ends_the_process_and_its_files() {
    let scratch = Scratch::new("shutdown");
    let (socket, pid_file) = (scratch.path("socket"), scratch.path("pid"));
    let mut server = Server::start(
        2,
        "auto",
        &["--unixsocket", &socket, "--unixsocketperm", "700", "--pidfile", &pid_file],
    );
    let mut local = Client::over(UnixStream::connect(&socket).unwrap());
    assert_eq!(ask(&mut local, &["PING"]), "+PONG");
    assert!(Path::new(&pid_file).exists());
    let (mut client, mut other) = (server.client(), server.client());
    assert_eq!(ask(&mut other, &["PING"]), "+PONG");
    client.send("SHUTDOWN NOSAVE");
    client.expect_end();
    assert_eq!(server.wait().code(), Some(0));
    other.expect_end();
    assert!(!Path::new(&socket).exists() && !Path::new(&pid_file).exists());
}

#[test]
fn systemd_is_told_when_the_server_is_ready() {
    let scratch = Scratch::new("systemd");
    let path = scratch.path("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(blackbox::PATIENCE)).unwrap();
    let variable = format!("NOTIFY_SOCKET={path}");
    let _server = Server::launch(&["env", &variable], &["--supervised", "systemd"]).unwrap();
    let mut message = [0; 128];
    let length = socket.recv(&mut message).unwrap();
    assert_eq!(&message[..length], b"STATUS=Ready to accept connections\nREADY=1");
}

#[test]
fn it_crashes_when_it_is_told_to() {
    use std::os::unix::process::ExitStatusExt;
    let mut server = Server::start(2, "auto", &[]);
    let mut client = server.client();
    client.send("DEBUG SEGFAULT");
    client.expect_end();
    assert_eq!(server.wait().signal(), Some(Signal::SEGV.as_raw()));
}

#[test]
fn a_signal_ends_the_process() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Server::start(2, "auto", &[]);
        let mut client = server.client();
        ask(&mut client, &["PING"]);
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0));
        client.expect_end();
    }
}

#[test]
fn the_log_has_the_lines_of_redis_that_others_wait_for() {
    let scratch = Scratch::new("redis-lines");
    let (log, socket) = (scratch.path("log"), scratch.path("socket"));
    let server = Server::start(1, "auto", &["--logfile", &log, "--unixsocket", &socket, "--save", ""]);
    let text = || std::fs::read_to_string(&log).unwrap();
    eventually("it is ready", || text().contains("Ready to accept connections unix"));
    let mut client = server.client();
    client.send("SHUTDOWN NOSAVE");
    client.expect_end();
    eventually("it has ended", || text().contains("bye bye"));
    let text = text();
    let found: Vec<&str> =
        text.lines().filter_map(|line| line.split_once(" INFO ")).map(|(_, line)| line).collect();
    let signed: Vec<&str> = found.into_iter().filter(|line| line.starts_with(['*', '#'])).collect();
    let expected = [
        "* Server initialized",
        "* Ready to accept connections tcp",
        "* Ready to accept connections unix",
        "* User requested shutdown...",
        "# Redis is now ready to exit, bye bye...",
    ];
    assert_eq!(signed, expected, "{text}");
}

#[test]
fn called_redis_server_it_reports_the_version_of_redis_first() {
    let scratch = Scratch::new("called-redis");
    let path = scratch.path("redis-server");
    std::os::unix::fs::symlink(blackbox::binary().unwrap(), &path).unwrap();
    let line = |program: &Path| {
        let output = std::process::Command::new(program).arg("--version").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let (redis, own) = (line(path.as_ref()), line(&blackbox::binary().unwrap()));
    assert!(redis.starts_with("Redis server v=8.6.0 ") && redis.contains(" darter_version="), "{redis}");
    assert!(own.starts_with("Darter server v=") && own.contains(" redis_version=8.6.0"), "{own}");
}

#[test]
fn command_lines_are_those_of_redis_server() {
    for (options, setting, expected) in [
        (&["--maxmemory 700mb"][..], "maxmemory", "734003200"),
        (&["--maxmemory", ""], "maxmemory", "0"),
        (
            &["--proc-title-template", "--my--title", "--maxclients", "50"],
            "proc-title-template",
            "--my--title",
        ),
        (&["--masterauth", "--maxclients", "--maxclients", "50"], "maxclients", "50"),
    ] {
        let server = Server::start(1, "auto", options);
        let reply = server.client().show(&format!("CONFIG GET {setting}"));
        assert_eq!(reply, format!("1) \"{setting}\"\n2) \"{expected}\""), "{options:?}");
    }
}
