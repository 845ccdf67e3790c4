//! Starts the real binary with configurations that were written for other servers, and with bad ones.
//!
//! `shipped/` has the facts of the files that servers are shipped with: the lines that are not commented out, and behind
//! `- ` the names of those that are.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;

use blackbox::{Client, Scratch, Server, check, eventually, free_port, run};
use resp::Value;

/// The files of `shipped/`.
const SHIPPED: &[(&str, &str)] = &[
    ("redis-7.0", include_str!("shipped/redis-7.0.txt")),
    ("redis-7.2", include_str!("shipped/redis-7.2.txt")),
    ("redis-7.4", include_str!("shipped/redis-7.4.txt")),
    ("redis-8", include_str!("shipped/redis-8.txt")),
    ("valkey-8", include_str!("shipped/valkey-8.txt")),
    ("valkey-9", include_str!("shipped/valkey-9.txt")),
];

/// The server's verdict on a configuration without starting: status, standard output, standard error.
fn judged(args: &[&str]) -> (Option<i32>, String, String) {
    let output = run(&[], &[&["--test-config"], args].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The one line with which the server refuses to start.
#[track_caller]
fn check_refused(args: &[&str], expected: &str) {
    let output = run(&[], args);
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), format!("darter: {expected}\n"), "{args:?}");
    assert!(output.stdout.is_empty(), "nothing is said before: {args:?}");
}

#[test]
fn shipped_files_start_unchanged_and_without_a_warning() {
    for (name, facts) in SHIPPED {
        let scratch = Scratch::new(&format!("shipped-{name}"));
        let lines: Vec<&str> = facts.lines().filter(|line| !line.starts_with("- ")).collect();
        let path = scratch.file("server.conf", &lines.join("\n"));
        let (status, output, errors) = judged(&[&path]);
        assert_eq!((status, &*output, &*errors), (Some(0), "the configuration is valid\n", ""), "{name}");
        let (folder, log) = (scratch.path(""), scratch.path("log"));
        let pid_file = scratch.path("pid");
        let places = ["--dir", &folder, "--logfile", &log, "--pidfile", &pid_file, "--io", "epoll"];
        let server = Server::darter(&[&[&path as &str], &places[..]].concat()).expect(name);
        assert_eq!(server.client().show("PING"), "PONG", "{name}");
        assert!(!std::fs::read_to_string(&log).unwrap().contains("ignored: "), "{name}");
    }
}

#[test]
fn every_name_of_the_shipped_files_is_known() {
    let scratch = Scratch::new("names");
    for (name, facts) in SHIPPED {
        let names: Vec<&str> = facts.lines().filter_map(|line| line.strip_prefix("- ")).collect();
        assert!(names.len() > 100, "{name}");
        let text: String =
            names.iter().filter(|name| **name != "include").map(|name| format!("{name} x\n")).collect();
        let (_, _, errors) = judged(&[&scratch.file("names.conf", &text)]);
        assert!(!errors.contains("unknown setting"), "{name}: {errors}");
    }
}

#[test]
fn the_file_of_debian_starts_with_the_command_line_of_debian() {
    let path = "/etc/redis/redis.conf";
    assert!(Path::new(path).exists(), "Debian's redis-server is installed");
    let scratch = Scratch::new("debian");
    let (folder, log, pid_file) = (scratch.path(""), scratch.path("log"), scratch.path("none/pid"));
    // The options that keep it apart from the installed server stand behind Debian's.
    let options = [path, "--supervised", "systemd", "--daemonize", "no", "--dir", &folder, "--logfile", &log];
    let server = Server::darter(&[&options[..], &["--pidfile", &pid_file]].concat()).unwrap();
    assert_eq!(server.client().show("PING"), "PONG");
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(!text.contains("ignored: "), "{text}");
    assert!(
        text.contains(&format!("cannot write the pid file {pid_file}: No such file or directory")),
        "{text}"
    );
}

#[test]
fn the_environment_goes_before_the_file_and_after_flags() {
    let scratch = Scratch::new("environment");
    let path = scratch.file("redis.conf", "maxmemory 1mb\nmaxclients 11\ntimeout 5\n");
    let launcher =
        ["env", "DARTER_SET_MAXMEMORY=2mb", "DARTER_SET_MAXCLIENTS=12", "DARTER_PORT=tcp://10.0.0.1:6379"];
    let server = Server::launch(&launcher, &[&path, "--maxclients", "13", "--save", ""]).unwrap();
    for (name, value) in [("maxmemory", "2097152"), ("maxclients", "13"), ("timeout", "5")] {
        let expected = format!("1) \"{name}\"\n2) \"{value}\"");
        assert_eq!(server.client().show(&format!("CONFIG GET {name}")), expected);
    }
    let output = run(&["env", "DARTER_SET_PROT=7000"], &["--test-config"]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("unknown setting 'prot' in the environment, DARTER_SET_PROT"), "{errors}");
}

#[test]
fn a_line_whose_one_word_has_spaces_keeps_its_quotes_when_it_is_rewritten() {
    let scratch = Scratch::new("rewritten");
    let line = "proc-title-template \"{title} {listen-addr} {server-mode}\"";
    let path = scratch.file("redis.conf", &format!("{line}\nport 1\n"));
    let server = Server::darter(&[&path, "--save", ""]).unwrap();
    assert_eq!(server.client().show("CONFIG REWRITE"), "OK");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.lines().any(|there| there == line), "{text}");
}

#[test]
fn promises_are_refused_with_their_line_and_a_way_out() {
    let scratch = Scratch::new("promises");
    let path = scratch.file("redis.conf", "port 0\nrdma-port 6380\nimport-mode yes\nhz 50\n");
    let why = "there is no RDMA; set it to 0";
    check_refused(
        &[&path],
        &format!("'rdma-port' in {path}, line 2 is refused: {why}; --test-config names this and 1 more"),
    );
    let (status, output, errors) = judged(&[&path]);
    assert_eq!((status, output), (Some(1), format!("ignored: 'hz 50' in {path}, line 4\n")));
    assert_eq!(
        errors,
        format!(
            "darter: 'rdma-port' in {path}, line 2 is refused: {why}\n\
             darter: 'import-mode' in {path}, line 3 is refused: keys always expire and are evicted; set it to no\n\
             darter: the configuration is refused\n"
        )
    );
    // A promise that a later line takes back does not count.
    let (status, ..) = judged(&[&path, "--rdma-port", "0", "--import-mode", "no"]);
    assert_eq!(status, Some(0));
    let (status, _, errors) =
        judged(&["--rename-command", "NOTHING", "x", "--user", "bob", "on", "+nothing"]);
    assert_eq!(status, Some(1));
    assert!(
        errors.contains("cannot rename 'NOTHING' on the command line: No such command in rename-command"),
        "{errors}"
    );
}

#[test]
fn what_is_no_configuration_is_named_in_one_line() {
    let scratch = Scratch::new("bad");
    let folder = scratch.path("");
    check_refused(&[&folder], &format!("cannot read {folder}: Is a directory (os error 21)"));
    let own = std::env::current_exe().unwrap().display().to_string();
    let errors = String::from_utf8_lossy(&run(&[], &[&own]).stderr).into_owned();
    assert!(errors.starts_with("darter: ") && errors.lines().count() == 1 && errors.len() < 500, "{errors}");
    let circle = scratch.path("circle.conf");
    scratch.file("circle.conf", &format!("port 0\ninclude {circle}\n"));
    check_refused(&[&circle], &format!("{circle} includes itself in {circle}, line 2"));
    let long: String =
        (0..10_000).map(|number| format!("user u{number} on nopass ~k{number}:* +get\n")).collect();
    let bad = scratch.file("long.conf", &(long.clone() + "prot 1\n"));
    check_refused(&[&bad], &format!("unknown setting 'prot' in {bad}, line 10001; did you mean 'port'?"));
    let good = scratch.file("long.conf", &long);
    let server = Server::darter(&[&good, "--save", ""]).unwrap();
    assert_eq!(server.client().call("ACL USERS"), server.client().call("ACL USERS"));
    assert_eq!(server.client().show("AUTH u9999 x"), "OK");
}

#[test]
fn included_files_are_read_in_order_and_rewriting_leaves_them_alone() {
    let scratch = Scratch::new("include");
    std::fs::create_dir(scratch.path("conf.d")).unwrap();
    scratch.file("conf.d/20.conf", "timeout 20\nmaxclients 77\n");
    scratch.file("conf.d/10.conf", "timeout 10\nrename-command FLUSHDB drop-it\n");
    let pattern = scratch.path("conf.d/*.conf");
    let nothing = scratch.path("none.d/*.conf");
    let text =
        format!("include {pattern}\ninclude {nothing}\nsave \"\"\nrename-command FLUSHALL \"\"\nhz 10\n");
    let path = scratch.file("redis.conf", &text);
    let server = Server::darter(&[&path, "--dir", &scratch.path("")]).unwrap();
    let mut client = server.client();
    let get = |client: &mut Client<_>, name: &str| match client.call(&format!("CONFIG GET {name}")) {
        Value::Array(items) => blackbox::text(&items[1]),
        other => panic!("{other}"),
    };
    assert_eq!((get(&mut client, "timeout"), get(&mut client, "maxclients")), ("20".into(), "77".into()));
    assert_eq!(client.show("drop-it"), "OK");
    assert_eq!(client.show("CONFIG SET timeout 5"), "OK");
    assert_eq!(client.show("CONFIG REWRITE"), "OK");
    let rewritten = std::fs::read_to_string(&path).unwrap();
    assert!(rewritten.starts_with(&text) && rewritten.contains("\ntimeout 5\n"), "{rewritten}");
    drop(server);
    let server = Server::darter(&[&path, "--dir", &scratch.path("")]).unwrap();
    let mut client = server.client();
    assert_eq!(get(&mut client, "timeout"), "5");
    assert_eq!(client.show("FLUSHALL"), "(error) ERR unknown command 'FLUSHALL', with args beginning with: ");
}

/// Sent to a server with renamed commands, and what it answers, which is what Redis answers.
const RENAMED: &[(&str, &str)] = &[
    ("FLUSHALL", "(error) ERR unknown command 'FLUSHALL', with args beginning with: "),
    ("CONFIG GET hz", "(error) ERR unknown command 'CONFIG', with args beginning with: 'GET' 'hz' "),
    ("B840fc02d524045429941cc15f59e41cb7be6c52 RESETSTAT", "OK"),
    ("ACL WHOAMI", "(error) ERR unknown command 'ACL', with args beginning with: 'WHOAMI' "),
    ("people WHOAMI", "\"default\""),
    (
        "people SETUSER bob on nopass ~* +get +exec +begin",
        "(error) ERR Error in ACL SETUSER modifier '+begin': Unknown command or category name in ACL",
    ),
    ("people SETUSER bob on nopass ~* +get +multi +exec", "OK"),
    ("SET a 12345", "OK"),
    ("fetch a", "\"12345\""),
    ("get a", "(integer) 5"),
    ("MULTI", "(error) ERR unknown command 'MULTI', with args beginning with: "),
    ("begin", "OK"),
    ("fetch a", "QUEUED"),
    ("get a", "QUEUED"),
    ("FLUSHALL", "(error) ERR unknown command 'FLUSHALL', with args beginning with: "),
    ("EXEC", "(error) EXECABORT Transaction discarded because of previous errors."),
    ("EVAL 'return 1' 0", "(error) ERR unknown command 'EVAL', with args beginning with: 'return 1' '0' "),
    ("evaluate 'return redis.call(\"fetch\", KEYS[1])' 1 a", "\"12345\""),
    ("evaluate 'return redis.call(\"get\", KEYS[1])' 1 a", "(integer) 5"),
    (
        "evaluate 'return redis.pcall(\"flushall\").err:sub(1, 44)' 0",
        "\"ERR Unknown Redis command called from script\"",
    ),
    ("COMMAND LIST FILTERBY PATTERN flush*", "1) \"flushdb\""),
    ("COMMAND INFO flushall", "1) (nil)"),
    ("COMMAND GETKEYS fetch a", "1) \"a\""),
    ("AUTH bob x", "OK"),
    ("begin", "OK"),
    ("fetch a", "QUEUED"),
    ("EXEC", "1) \"12345\""),
    ("get a", "(error) NOPERM"),
];

#[test]
fn renamed_commands_have_their_new_name_everywhere_and_no_other() {
    let scratch = Scratch::new("renamed");
    let path = scratch.file(
        "redis.conf",
        "rename-command FLUSHALL \"\"\nrename-command CONFIG b840fc02d524045429941cc15f59e41cb7be6c52\n\
         rename-command acl people\nrename-command MULTI begin\nrename-command EVAL evaluate\n\
         rename-command GET fetch\nrename-command STRLEN get\nsave \"\"\n",
    );
    let mut servers = vec![Server::darter(&[&path]).unwrap()];
    servers.extend(Server::redis_with(&[&path]));
    for server in &servers {
        let mut client = server.client();
        for (request, expected) in RENAMED {
            let reply = client.show(request);
            // Redis 7.0 says less about what is not allowed than 7.2 does.
            let is_right =
                reply == *expected || (*expected == "(error) NOPERM" && reply.starts_with(expected));
            assert!(is_right, "{}: {request}: {reply}", server.name());
        }
    }
    let taken = scratch.file("taken.conf", "rename-command GET set\n");
    check_refused(
        &[&taken],
        &format!("cannot rename 'GET' in {taken}, line 1: Target command name already exists"),
    );
}

#[test]
fn passwords_of_renamed_commands_are_shown_to_nobody() {
    let server =
        Server::start(1, "auto", &["--rename-command", "AUTH", "letmein", "--slowlog-log-slower-than", "0"]);
    let (mut client, mut monitor) = (server.client(), server.client());
    assert_eq!(monitor.show("MONITOR"), "OK");
    client.show("letmein someone very-secret");
    client.show("PING");
    let lines = (monitor.receive().to_string(), monitor.receive().to_string());
    assert!(lines.0.contains("letmein") && !lines.0.contains("very-secret"), "{lines:?}");
    assert!(!client.show("SLOWLOG GET 10").contains("very-secret"));
}

#[test]
fn debug_is_allowed_as_redis_allows_it() {
    let refused = |name: &str, setting: &str| {
        format!(
            "(error) ERR {name} command not allowed. If the {setting} option is set to \"local\", you can run it from a local \
             connection, otherwise you need to set this option in the configuration file, and then restart the server."
        )
    };
    for (value, is_allowed) in [("no", false), ("local", true), ("yes", true)] {
        let options = ["--enable-debug-command", value, "--enable-module-command", value];
        let mut servers = vec![Server::start(1, "auto", &options)];
        servers.extend(Server::redis_with(&options));
        for server in &servers {
            let mut client = server.client();
            let debug = client.show("DEBUG SLEEP 0");
            assert_eq!(
                debug,
                if is_allowed { "OK".to_owned() } else { refused("DEBUG", "enable-debug-command") }
            );
            let module = client.show("MODULE LOAD /nonexistent.so");
            let error = "(error) ERR Error loading the extension. Please check the server logs.";
            assert_eq!(
                module,
                if is_allowed { error.to_owned() } else { refused("MODULE", "enable-module-command") }
            );
            assert_eq!(
                client.show("CONFIG SET enable-debug-command yes"),
                "(error) ERR CONFIG SET failed (possibly related to argument 'enable-debug-command') - can't set immutable config"
            );
        }
    }
    let output = run(&[], &["--help"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.contains("--enable-debug-command")).unwrap();
    assert!(line.ends_with("[default: no]"), "{line}");
}

/// Ends the server that listens at `socket`. It has no parent that waits for it.
fn shut_down(socket: &str, pid_file: &str) {
    let mut client = Client::over(UnixStream::connect(socket).expect("the server listens there"));
    client.send("SHUTDOWN NOSAVE");
    client.expect_end();
    eventually("the pid file is removed", || !Path::new(pid_file).exists());
}

#[test]
fn in_the_background_the_command_ends_when_the_server_listens() {
    let scratch = Scratch::new("background");
    let (socket, pid_file, log) = (scratch.path("socket"), scratch.path("pid"), scratch.path("log"));
    let text = format!(
        "port 0\nunixsocket {socket}\ndaemonize yes\npidfile {pid_file}\nlogfile {log}\nsave \"\"\nproactor_threads 2\ndir {}\n",
        scratch.path("")
    );
    let path = scratch.file("redis.conf", &text);
    let output = run(&[], &[&path]);
    assert_eq!((output.status.code(), &*output.stdout, &*output.stderr), (Some(0), &b""[..], &b""[..]));
    let process_id: u32 = std::fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    let mut client = Client::over(UnixStream::connect(&socket).unwrap());
    assert_eq!(client.show("PING"), "PONG");
    assert_eq!(client.info("server", "process_id"), process_id.to_string());
    // It leads a session of its own, and holds no terminal.
    let status = std::fs::read_to_string(format!("/proc/{process_id}/stat")).unwrap();
    let fields: Vec<&str> = status.rsplit(") ").next().unwrap().split(' ').collect();
    assert_eq!(fields[3], process_id.to_string(), "{status}");
    for number in 0..3 {
        let link = std::fs::read_link(format!("/proc/{process_id}/fd/{number}")).unwrap();
        assert_eq!(link, Path::new("/dev/null"));
    }
    // A second one says why it cannot serve, and so does its status.
    let output = run(&[], &[&path]);
    let error = format!("darter: cannot listen on {socket}: another process uses this socket\n");
    assert_eq!(
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()),
        (Some(1), error)
    );
    shut_down(&socket, &pid_file);
    // Under systemd it stays where it is.
    let notified = scratch.path("notify");
    let _notified = UnixDatagram::bind(&notified).unwrap();
    let variable = format!("NOTIFY_SOCKET={notified}");
    let server =
        Server::launch(&["env", &variable], &["--daemonize", "yes", "--supervised", "auto"]).unwrap();
    assert_eq!(server.client().info("server", "process_id"), server.process_id().to_string());
}

#[test]
fn the_log_goes_to_the_system_as_well() {
    // The C library knows one place for it. If a program listens there already, only the start is tested.
    let place = Path::new("/dev/log");
    let socket = (!place.exists()).then(|| UnixDatagram::bind(place).expect("tests run as root"));
    let options = ["--syslog-enabled", "yes", "--syslog-ident", "my-queue", "--syslog-facility", "local3"];
    let server = Server::start(1, "auto", &options);
    assert_eq!(server.client().show("CONFIG GET syslog-facility"), "1) \"syslog-facility\"\n2) \"local3\"");
    eventually("it says so", || server.log().contains("* Ready to accept connections tcp"));
    let Some(socket) = socket else { return };
    std::fs::remove_file(place).unwrap();
    socket.set_read_timeout(Some(blackbox::PATIENCE)).unwrap();
    let mut message = [0; 1024];
    loop {
        let length = socket.recv(&mut message).unwrap();
        let line = String::from_utf8_lossy(&message[..length]).into_owned();
        // local3 is 19, a notice is 5.
        assert!(
            line.starts_with("<157>") && line.contains(&format!(" my-queue[{}]: ", server.process_id())),
            "{line}"
        );
        if line.contains("* Ready to accept connections tcp") {
            break;
        }
    }
}

#[test]
fn port_and_addresses_change_while_the_server_runs() {
    for io in ["uring", "epoll"] {
        for threads in [1, 3] {
            check_listening(io, threads);
        }
    }
}

#[test]
fn a_change_that_fails_leaves_the_folder_as_it_was() {
    let server = Server::start(1, "auto", &["--enable-protected-configs", "yes"]);
    let folder = || std::fs::read_link(format!("/proc/{}/cwd", server.process_id())).expect("it runs");
    let (before, other) = (folder(), Scratch::new("another-folder"));
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = taken.local_addr().expect("it listens").port();
    let refused = server.client().show(&format!("CONFIG SET dir {} port {port}", other.path(".")));
    assert!(refused.contains("Unable to listen on this port."), "{refused}");
    assert_eq!(folder(), before);
}

fn check_listening(io: &str, threads: usize) {
    let Ok(server) = Server::darter(&["--io", io, "--proactor-threads", &threads.to_string()]) else {
        assert_eq!(io, "uring", "epoll is everywhere");
        return;
    };
    let first = server.port();
    let mut client = server.client();
    let answers = |address: &str, port: u16| match TcpStream::connect((address, port)) {
        Ok(stream) => Client::over(stream).show("PING") == "PONG",
        Err(_) => false,
    };
    let second = free_port().expect("a port is free");
    assert_eq!(client.show(&format!("CONFIG SET port {second}")), "OK");
    assert!(answers("127.0.0.1", second) && !answers("127.0.0.1", first));
    // Old and new address are in each other's way.
    assert_eq!(client.show("CONFIG SET bind *"), "OK");
    assert!(answers("127.0.0.1", second) && answers("127.0.0.2", second));
    assert_eq!(client.show("CONFIG SET bind '127.0.0.2 -192.0.2.1'"), "OK");
    assert!(answers("127.0.0.2", second) && !answers("127.0.0.1", second));
    // A change that fails leaves everything as it was.
    let taken = TcpListener::bind("127.0.0.2:0").expect("a port is free");
    let taken_port = taken.local_addr().expect("it listens").port();
    let failed = |name: &str, why: &str| {
        format!("(error) ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
    };
    assert_eq!(
        client.show(&format!("CONFIG SET port {taken_port} timeout 7")),
        failed("port", "Unable to listen on this port. Check server logs.")
    );
    assert_eq!(
        client.show("CONFIG SET bind 192.0.2.1"),
        failed("bind", "Failed to bind to specified addresses.")
    );
    let many = vec!["127.0.0.1"; 17].join(" ");
    assert_eq!(
        client.show(&format!("CONFIG SET bind '{many}'")),
        failed("bind", "Too many bind addresses specified.")
    );
    assert_eq!(client.show("CONFIG GET port"), format!("1) \"port\"\n2) \"{second}\""));
    assert_eq!(client.show("CONFIG GET timeout"), "1) \"timeout\"\n2) \"0\"");
    assert_eq!(client.show("CONFIG GET bind"), "1) \"bind\"\n2) \"127.0.0.2 -192.0.2.1\"");
    assert!((0..20).all(|_| answers("127.0.0.2", second)), "every thread gets connections");
    assert_eq!(client.show("CONFIG SET port 0"), "OK");
    assert!(!answers("127.0.0.2", second));
    assert_eq!(client.show(&format!("CONFIG SET port {first} bind '127.0.0.1 -::1'")), "OK");
    assert!((0..20).all(|_| answers("127.0.0.1", first)));
    assert_eq!(client.show("PING"), "PONG", "who was connected stays so");
}

#[test]
fn nobody_on_the_machine_reads_a_password_on_the_command_line() {
    let server = Server::start(
        1,
        "auto",
        &[
            "--user",
            "bob",
            "on",
            ">hunter2",
            "~*",
            "--primaryauth",
            "hunter2",
            "--requirepass",
            "hunter2",
            "--maxclients",
            "77",
        ],
    );
    let shown = std::fs::read(format!("/proc/{}/cmdline", server.process_id())).expect("it runs");
    let shown = String::from_utf8_lossy(&shown);
    assert!(!shown.contains("hunter2") && shown.contains("bob") && shown.contains("77"), "{shown}");
    check(&mut server.client(), "AUTH bob hunter2", "OK");
}

#[test]
fn no_password_is_told_where_the_configuration_is_wrong() {
    for words in [
        &["--requirepass", "hunter2", "more"][..],
        &["--user", "bob on >hunter2"],
        &["--user", "bob", "on", ">hunter2", "~x", "nonsense"],
        &["--tls-key-file-pass", "hunter2", "more"],
    ] {
        let output = run(&[], &[&["--port", "0"], words].concat());
        let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!output.status.success() && !told.contains("hunter2"), "{words:?}: {told}");
    }
}
