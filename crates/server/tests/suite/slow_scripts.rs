//! Scripts that do not end by themselves, or want too much memory: the replies to other clients, and the end of the
//! script.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;

use blackbox::{Client, Scratch, Server, check, eventually, text};

const BUSY: &str =
    "(error) BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
const LOOP: &str = "EVAL \"while true do pcall(function() while true do end end) end\" 1 {k}a";
const WRITING_LOOP: &str = "EVAL \"redis.call('set', KEYS[1], 'x') while true do end\" 1 {k}a";

/// Servers whose thread of the script has other clients, and servers whose thread has no other clients.
fn on_each_server(test: impl Fn(&mut Server)) {
    for (threads, io) in [(1, "epoll"), (1, "auto"), (3, "auto")] {
        test(&mut Server::start(threads, io, &["--lua-time-limit", "20", "--requirepass", "p"]));
    }
}

fn client(server: &Server) -> Client {
    let mut client = server.client();
    check(&mut client, "AUTH p", "OK");
    client
}

/// Starts the script and waits until it is known to be slow.
fn start_slow(server: &Server, script: &str) -> (Client, Client) {
    let (mut caller, mut witness) = (client(server), client(server));
    caller.send(script);
    eventually("busy", || witness.show("GET {k}b") == BUSY);
    (caller, witness)
}

#[test]
fn a_script_that_loops_is_killed() {
    on_each_server(|server| {
        let mut early = client(server);
        check(&mut early, "SET kept here", "OK");
        let (mut caller, mut witness) = start_slow(server, LOOP);
        // The caller's next request waits.
        caller.send("GET kept");
        // Clients that connect now are served, after their password.
        let mut late = server.client();
        check(&mut late, "SCRIPT KILL", "(error) NOAUTH Authentication required.");
        check(&mut late, "SHUTDOWN NOSAVE", "(error) NOAUTH Authentication required.");
        assert!(late.show("HELLO 3 AUTH default p").contains("\"server\""));
        check(&mut late, "MULTI", "OK");
        check(&mut late, "DISCARD", "OK");
        // Commands that need the script's shards, or its thread, are refused.
        for line in ["MSET {k}b 1 z 2", "EVAL \"return 1\" 1 {k}b", "WATCH {k}b", "FLUSHALL", "CLIENT LIST"] {
            check(&mut late, line, BUSY);
        }
        check(&mut late, "SHUTDOWN SAVE", BUSY);
        check(&mut late, "SHUTDOWN", BUSY);
        check(&mut late, "SHUTDOWN ABORT", "(error) ERR No shutdown in progress.");
        check(&mut late, "SHUTDOWN NOSAVE SAVE", "(error) ERR syntax error");
        check(&mut late, "nonsense", "(error) ERR unknown command 'nonsense', with args beginning with: ");
        // Clients that leave, and one that talks nonsense, do not disturb.
        client(server).reset();
        let mut leaver = client(server);
        check(&mut leaver, "QUIT", "OK");
        let mut babbler = client(server);
        babbler.send_bytes(b"*x\r\n");
        assert_eq!(babbler.receive().to_string(), "(error) ERR Protocol error: invalid multibulk length");
        check(&mut late, "SCRIPT KILL", "OK");
        let error = caller.receive().to_string();
        assert!(error.contains("Script killed by user with SCRIPT KILL"), "{error}");
        assert_eq!(caller.receive().to_string(), "\"here\"");
        check(&mut caller, "GET kept", "\"here\"");
        leaver.expect_end();
        babbler.expect_end();
        check(&mut late, "SCRIPT KILL", "(error) NOTBUSY No scripts in execution right now.");
        check(&mut late, "GET kept", "\"here\"");
        check(&mut witness, "GET {k}b", "(nil)");
        check(&mut early, "GET kept", "\"here\"");
        eventually("the others are gone", || early.info("clients", "connected_clients") == "4");
    });
}

/// One call of a Lua string function that would take practically forever.
const BACKTRACKING: &str =
    "EVAL \"return string.find(string.rep('a', 100000), string.rep('a-', 50) .. 'b')\" 1 {k}a";

#[test]
fn a_pattern_that_backtracks_is_killed() {
    on_each_server(|server| {
        let (mut caller, mut witness) = start_slow(server, BACKTRACKING);
        check(&mut witness, "MSET {k}b 1 z 2", BUSY);
        check(&mut witness, "SCRIPT KILL", "OK");
        let error = caller.receive().to_string();
        assert!(error.contains("Script killed by user with SCRIPT KILL"), "{error}");
        check(&mut witness, "GET {k}b", "(nil)");
        check(&mut caller, "GET {k}b", "(nil)");
    });
}

#[test]
fn a_pattern_that_backtracks_ends_by_itself_where_there_is_a_limit() {
    for io in ["epoll", "auto"] {
        let server = Server::start(1, io, &["--script-time-max", "50"]);
        let (mut caller, mut witness) = (server.client(), server.client());
        for call in ["find(s, p)", "match(s, p)", "gsub(s, p, '')", "gmatch(s, p)()"] {
            let script = "local s, p = string.rep('a', 100000), string.rep('a-', 50) .. 'b'";
            caller.send(&format!(
                "EVAL \"{script} return pcall(function() return string.{call} end)\" 1 {{k}}a"
            ));
            let error = caller.receive().to_string();
            assert!(error.contains("Script killed by script-time-max"), "{call}: {error}");
            check(&mut witness, "SET {k}b served", "OK");
        }
    }
}

#[test]
fn transactions_are_given_up_while_a_script_loops() {
    on_each_server(|server| {
        let mut clients: Vec<Client> = (0..6).map(|_| client(server)).collect();
        for client in &mut clients {
            check(client, "WATCH {k}b", "OK");
            check(client, "MULTI", "OK");
            check(client, "SET {k}b changed", "QUEUED");
        }
        let (_caller, mut witness) = start_slow(server, LOOP);
        for client in &mut clients {
            let aborted = BUSY.replace("(error) ", "(error) EXECABORT Transaction discarded because of: ");
            check(client, "EXEC", &aborted);
            check(client, "DISCARD", "(error) ERR DISCARD without MULTI");
        }
        check(&mut witness, "SCRIPT KILL", "OK");
        eventually("it has ended", || witness.show("GET {k}b") == "(nil)");
    });
}

#[test]
fn those_who_came_before_a_script_was_slow_are_answered_too() {
    on_each_server(|server| {
        // The witnesses' commands are on their way to the script's shard before its time is up.
        let mut clients: Vec<Client> = (0..8).map(|_| client(server)).collect();
        check(&mut clients[0], "CONFIG SET lua-time-limit 300", "OK");
        let [caller, probe, witnesses @ ..] = &mut clients[..] else { unreachable!() };
        caller.send("EVAL \"redis.call('exists', KEYS[1]) while true do end\" 1 {k}a");
        eventually("it runs", || {
            let seen = text(&probe.call("INFO commandstats"));
            seen.contains("cmdstat_exists") || seen.starts_with("BUSY")
        });
        for (number, witness) in witnesses.iter_mut().enumerate() {
            witness.send(
                ["GET {k}b", "MSET {k}b 1 z 2", "EVAL \"return 1\" 1 {k}b", "BLPOP {k}b 0"][number % 4],
            );
        }
        for witness in witnesses.iter_mut() {
            assert_eq!(witness.receive().to_string(), BUSY);
        }
        check(&mut witnesses[0], "SCRIPT KILL", "OK");
        assert!(caller.receive().to_string().contains("Script killed"));
        check(&mut witnesses[0], "EXISTS {k}b", "(integer) 0");
        eventually("nobody waits", || witnesses[0].info("clients", "blocked_clients") == "0");
    });
}

#[test]
fn a_script_can_be_killed_before_it_is_slow() {
    on_each_server(|server| {
        let (mut caller, mut probe, mut killer) = (client(server), client(server), client(server));
        check(&mut probe, "CONFIG SET lua-time-limit 300", "OK");
        for (key, command, reply) in [("a", "exists", "OK"), ("b", "incr", "(error) UNKILLABLE")] {
            caller.send(&format!("EVAL \"redis.call('{command}', KEYS[1]) while true do end\" 1 {key}"));
            eventually("it runs", || {
                let seen = text(&probe.call("INFO commandstats"));
                seen.contains(&format!("cmdstat_{command}")) || seen.starts_with("BUSY")
            });
            let said = killer.show("SCRIPT KILL");
            assert!(said.starts_with(reply), "{command}: {said}");
            if reply == "OK" {
                assert!(caller.receive().to_string().contains("Script killed"));
            }
        }
    });
}

#[test]
fn connections_that_come_while_a_script_loops_are_counted_and_refused() {
    on_each_server(|server| {
        let mut early = client(server);
        check(&mut early, "CONFIG SET maxclients 4", "OK");
        let (mut caller, mut witness) = start_slow(server, LOOP);
        let _last = client(server);
        for _ in 0..6 {
            let mut refused = server.client();
            assert_eq!(refused.receive().to_string(), "(error) ERR max number of clients reached");
            refused.expect_end();
        }
        check(&mut witness, "SCRIPT KILL", "OK");
        assert!(caller.receive().to_string().contains("Script killed"));
        drop(caller);
        eventually("the refused do not count", || early.info("clients", "connected_clients") == "3");
        assert_eq!(early.info("stats", "rejected_connections"), "6");
    });
}

#[test]
fn without_a_time_limit_no_script_is_slow() {
    let server = Server::start(1, "auto", &["--lua-time-limit", "0"]);
    let (mut caller, mut witness) = (server.client(), server.client());
    check(&mut witness, "SET {k}b here", "OK");
    for _ in 0..20 {
        caller.send("EVAL \"for i = 1, 200000 do end return 1\" 1 {k}a");
        check(&mut witness, "GET {k}b", "\"here\"");
        check(&mut witness, "SCRIPT KILL", "(error) NOTBUSY No scripts in execution right now.");
        assert_eq!(caller.receive().to_string(), "(integer) 1");
    }
}

#[test]
fn floods_wait_while_a_script_loops() {
    for io in ["epoll", "auto"] {
        let options = [
            "--lua-time-limit",
            "20",
            "--client-unread-bytes-max",
            "2mb",
            "--client-query-buffer-limit",
            "1mb",
        ];
        let server = Server::start(1, io, &options);
        let (mut caller, mut flooder, mut witness) = (server.client(), server.client(), server.client());
        caller.send(LOOP);
        eventually("busy", || witness.show("GET {k}b") == BUSY);
        let before_bytes = server.resident_bytes();
        // The caller, a client that does not read its replies, and one whose request is too long.
        for client in [&mut caller, &mut flooder] {
            client.stream().set_nonblocking(true).unwrap();
            let (chunk, mut sent_bytes) = (b"PING\r\n".repeat(10_000), 0);
            while sent_bytes < 64 << 20 {
                let Ok(bytes) = client.stream().write(&chunk) else { break };
                check(&mut witness, "PING", BUSY);
                sent_bytes += bytes;
            }
            assert!(sent_bytes < 64 << 20, "all of it was taken");
            client.stream().set_nonblocking(false).unwrap();
        }
        let mut long = server.client();
        let _ = long.stream().write_all(b"*2\r\n$3\r\nGET\r\n$4000000\r\n");
        let _ = long.stream().write_all(&vec![b'x'; 3 << 20]);
        check(&mut witness, "PING", BUSY);
        let grown_bytes = server.resident_bytes().saturating_sub(before_bytes);
        assert!(grown_bytes < 32 << 20, "{grown_bytes}");
        check(&mut witness, "SCRIPT KILL", "OK");
        long.expect_end();
        assert!(caller.receive().to_string().contains("Script killed"));
        assert_eq!(caller.receive().to_string(), "PONG");
        assert_eq!(flooder.receive().to_string(), BUSY);
        check(&mut witness, "GET {k}b", "(nil)");
    }
}

#[test]
fn a_script_that_wrote_ends_only_with_the_server() {
    let scratch = Scratch::new("slow-script");
    for threads in [1, 3] {
        let (socket, pid_file) = (scratch.path("socket"), scratch.path("pid"));
        let files = ["--lua-time-limit", "20", "--unixsocket", &socket, "--pidfile", &pid_file];
        let mut server = Server::start(threads, "auto", &files);
        let (mut caller, mut local) = (server.client(), Client::over(UnixStream::connect(&socket).unwrap()));
        caller.send(WRITING_LOOP);
        eventually("busy", || local.show("GET {k}b") == BUSY);
        let unkillable = "(error) UNKILLABLE Sorry the script already executed write commands against the dataset. \
            You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE \
            command.";
        check(&mut local, "SCRIPT KILL", unkillable);
        check(&mut local, "GET {k}a", BUSY);
        local.send("SHUTDOWN NOSAVE");
        local.expect_end();
        assert_eq!(server.wait().code(), Some(0));
        assert!(!Path::new(&socket).exists() && !Path::new(&pid_file).exists());
    }
}

#[test]
fn a_signal_ends_a_server_with_a_slow_script() {
    for (threads, script) in [(1, LOOP), (3, WRITING_LOOP)] {
        let mut server = Server::start(threads, "auto", &["--lua-time-limit", "20"]);
        let (mut caller, mut witness) = (server.client(), server.client());
        caller.send(script);
        eventually("busy", || witness.show("GET {k}b") == BUSY);
        server.signal(blackbox::Signal::TERM);
        assert_eq!(server.wait().code(), Some(0));
    }
}

#[test]
fn a_script_gets_only_so_much_memory() {
    let server = Server::start(2, "auto", &["--script-memory-bytes-max", "8mb"]);
    let (client, other) = (&mut server.client(), &mut server.client());
    check(other, "SET kept here", "OK");
    for script in [
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "string.rep('x', 2000000000)",
        "local t = {} for i = 1, 1e9 do t[i] = tostring(i) end",
        "redis.call('set', KEYS[1], '1') local t = {} while true do t[#t + 1] = redis.call('get', 'kept') .. #t end",
    ] {
        let error = client.show(&format!("EVAL \"{script}\" 1 k"));
        assert!(error.starts_with("(error) ERR") && error.contains("not enough memory"), "{script}: {error}");
        check(other, "GET kept", "\"here\"");
        check(client, "EVAL \"return 1 + 1\" 0", "(integer) 2");
    }
    check(client, "CONFIG GET script-memory-bytes-max", "1) \"script-memory-bytes-max\"\n2) \"8388608\"");
    assert!(server.resident_bytes() < 100 << 20, "{}", server.resident_bytes());
}

#[test]
fn a_script_ends_by_itself_where_there_is_a_limit() {
    let settings = ["--script-time-max", "20", "--busy-reply-threshold", "100000"];
    for (threads, io) in [(1, "epoll"), (3, "auto")] {
        let server = Server::start(threads, io, &settings);
        let (client, other) = (&mut server.client(), &mut server.client());
        check(client, "SET a here", "OK");
        let library = "#!lua name=l\nredis.register_function('f', function() while true do redis.call('get', 'a') end end)";
        client.send_args(&[b"FUNCTION", b"LOAD", library.as_bytes()]);
        assert_eq!(client.receive().to_string(), "\"l\"");
        for line in [LOOP, "EVAL_RO \"while true do redis.call('get', 'a') end\" 0", "FCALL f 0"] {
            let error = client.show(line);
            let over = "(error) ERR Script killed by script-time-max...";
            assert!(error.starts_with(over), "{line}: {error}");
            check(other, "GET a", "\"here\"");
        }
        // In a transaction that has written it goes on to its end.
        check(
            client,
            "EVAL \"redis.call('set', KEYS[1], 'x') for i = 1, 30000000 do end return 1\" 1 a",
            "(integer) 1",
        );
        check(other, "GET a", "\"x\"");
    }
}
