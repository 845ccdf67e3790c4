//! Libraries of functions on a running server: all threads see a change, a slow function is ended, and libraries are
//! saved.

use blackbox::{Client, Scratch, Server, check, eventually};
use ds::random::Random;
use resp::Value;

const BUSY: &str =
    "(error) BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";
const BUSY_SCRIPT: &str =
    "(error) BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
const SLOW: &str = "#!lua name=slow
redis.register_function('loop', function() while true do pcall(function() while true do end end) end end)
redis.register_function('writing_loop', function(keys) redis.call('set', keys[1], 'x') while true do end end)
redis.register_function('quick', function() return 'quick' end)";

fn call(client: &mut Client, args: &[&[u8]]) -> Value {
    client.send_args(args);
    client.receive()
}

#[track_caller]
fn load(client: &mut Client, code: &str) {
    let reply = call(client, &[b"FUNCTION", b"LOAD", b"REPLACE", code.as_bytes()]);
    assert!(matches!(reply, Value::Bulk(_)), "{reply}");
}

/// A library whose function says which one it is.
fn version(number: usize) -> String {
    format!("#!lua name=version\nredis.register_function('version', function() return {number} end)")
}

/// Servers whose thread of the function has other clients, and servers whose thread has no other clients.
fn on_each_server(test: impl Fn(&mut Server)) {
    for (threads, io) in [(1, "epoll"), (1, "auto"), (3, "auto")] {
        test(&mut Server::start(threads, io, &["--busy-reply-threshold", "20"]));
    }
}

#[test]
fn a_function_that_loops_is_killed() {
    on_each_server(|server| {
        let (mut caller, mut witness) = (server.client(), server.client());
        load(&mut witness, SLOW);
        let nothing_runs = witness.show("FUNCTION STATS");
        caller.send("FCALL LOOP 1 {k}a argument");
        eventually("busy", || witness.show("GET {k}b") == BUSY);
        for line in [
            "FCALL quick 1 {k}b",
            "FCALL_RO quick 1 {k}b",
            "FUNCTION FLUSH",
            "FUNCTION LOAD x",
            "SCRIPT KILL",
        ] {
            check(&mut witness, line, BUSY);
        }
        let stats = witness.show("FUNCTION STATS");
        for part in [
            "2) \"loop\"",
            "4) 1) \"FCALL\"",
            "2) \"LOOP\"",
            "4) \"{k}a\"",
            "5) \"argument\"",
            "5) \"duration_ms\"",
        ] {
            assert!(stats.contains(part), "{part} is missing in {stats}");
        }
        check(&mut witness, "FUNCTION KILL", "OK");
        let error =
            "(error) ERR Script killed by user with FUNCTION KILL... script: loop, on @user_function:2.";
        assert_eq!(caller.receive().to_string(), error);
        check(&mut caller, "FUNCTION KILL", "(error) NOTBUSY No scripts in execution right now.");
        check(&mut witness, "FCALL quick 1 {k}b", "\"quick\"");
        check(&mut witness, "FUNCTION STATS", &nothing_runs);
    });
}

#[test]
fn scripts_and_functions_are_killed_each_by_its_own_command() {
    on_each_server(|server| {
        let (mut caller, mut witness) = (server.client(), server.client());
        caller.send("EVAL \"while true do end\" 1 {k}a");
        eventually("busy", || witness.show("GET {k}b") == BUSY_SCRIPT);
        check(&mut witness, "FUNCTION KILL", BUSY_SCRIPT);
        check(&mut witness, "FUNCTION STATS", BUSY_SCRIPT);
        check(&mut witness, "SCRIPT KILL", "OK");
        assert!(caller.receive().to_string().contains("Script killed by user with SCRIPT KILL"));
    });
}

#[test]
fn a_function_that_wrote_ends_only_with_the_server() {
    on_each_server(|server| {
        let (mut caller, mut witness) = (server.client(), server.client());
        load(&mut witness, SLOW);
        caller.send("FCALL writing_loop 1 {k}a");
        eventually("busy", || witness.show("GET {k}b") == BUSY);
        let unkillable = "(error) UNKILLABLE Sorry the script already executed write commands against the dataset. \
            You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE \
            command.";
        eventually("it wrote", || witness.show("FUNCTION KILL") == unkillable);
        check(&mut witness, "SCRIPT KILL", unkillable);
        witness.send("SHUTDOWN NOSAVE");
        witness.expect_end();
        assert_eq!(server.wait().code(), Some(0));
    });
}

#[test]
fn a_library_that_does_not_come_to_an_end_is_refused() {
    let server = Server::start(2, "auto", &[]);
    let mut client = server.client();
    let code = b"#!lua name=a\nredis.register_function('f', function() end) while true do end";
    let error = "(error) ERR Error registering functions: ERR FUNCTION LOAD timeout";
    assert_eq!(call(&mut client, &[b"FUNCTION", b"LOAD", code]).to_string(), error);
    // A library in a payload is refused with the same error.
    let mut payload = rdb::Encoder::new(Vec::new(), false);
    payload.function(code).unwrap();
    let mut payload = payload.finish().unwrap();
    rdb::seal_payload(&mut payload);
    assert_eq!(call(&mut client, &[b"FUNCTION", b"RESTORE", &payload]).to_string(), error);
    check(&mut client, "FUNCTION LIST", "(empty array)");
}

#[test]
fn all_threads_see_a_library_at_once() {
    let server = Server::start(4, "auto", &[]);
    let mut clients: Vec<Client> = (0..8).map(|_| server.client()).collect();
    for number in 0..50 {
        load(&mut clients[number % 8], &version(number));
        for (place, client) in clients.iter_mut().enumerate() {
            check(client, &format!("FCALL version 1 k{place}"), &format!("(integer) {number}"));
        }
    }
    check(&mut clients[3], "FUNCTION DELETE version", "OK");
    for client in &mut clients {
        check(client, "FCALL version 0", "(error) ERR Function not found");
    }
}

#[test]
fn nobody_sees_two_versions_in_one_transaction() {
    let server = Server::start(4, "auto", &[]);
    let mut loader = server.client();
    load(&mut loader, &version(0));
    std::thread::scope(|scope| {
        for number in 0..4 {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client();
                let keys = if number % 2 == 0 { "0" } else { "1 k" };
                let line = |client: &mut Client| client.show(&format!("FCALL version {keys}"));
                let mut last = 0;
                for _ in 0..400 {
                    check(&mut client, "MULTI", "OK");
                    (0..3).for_each(|_| assert_eq!(line(&mut client), "QUEUED"));
                    let Value::Array(seen) = client.call("EXEC") else { panic!("no array") };
                    let [Value::Int(first), ..] = seen[..] else { panic!("{seen:?}") };
                    assert!(seen.iter().all(|one| *one == Value::Int(first)), "{seen:?}");
                    assert!(first >= last, "{first} after {last}");
                    last = first;
                }
            });
        }
        (1..200).for_each(|number| load(&mut loader, &version(number)));
    });
}

#[test]
fn libraries_are_saved_and_loaded() {
    let scratch = Scratch::new("functions");
    let directory = scratch.path("");
    let start = |threads, more: &[&str]| {
        Server::start(threads, "auto", &[&["--dir", &directory, "--dbfilename", "dump.rdb"], more].concat())
    };
    let mut server = start(2, &[]);
    let mut client = server.client();
    load(&mut client, SLOW);
    load(&mut client, &version(7));
    check(&mut client, "SET kept here", "OK");
    let listed = client.show("FUNCTION LIST WITHCODE");
    for line in ["FLUSHALL", "DEBUG RELOAD"] {
        check(&mut client, line, "OK");
        check(&mut client, "FUNCTION LIST WITHCODE", &listed);
        check(&mut client, "FCALL version 0", "(integer) 7");
    }
    // The libraries of the snapshot replace the present ones.
    check(&mut client, "FUNCTION DELETE version", "OK");
    load(&mut client, &version(8).replace("name=version", "name=later"));
    check(&mut client, "DEBUG RELOAD NOSAVE", "OK");
    check(&mut client, "FUNCTION LIST WITHCODE", &listed);
    check(&mut client, "FCALL version 0", "(integer) 7");
    assert_eq!(client.info("persistence", "rdb_changes_since_last_save"), "0");
    load(&mut client, &version(9));
    assert_eq!(client.info("persistence", "rdb_changes_since_last_save"), "1");
    client.send("SHUTDOWN SAVE");
    client.expect_end();
    assert_eq!(server.wait().code(), Some(0));
    let server = start(3, &[]);
    let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for client in &mut clients {
        check(client, "FCALL version 0", "(integer) 9");
        check(client, "FCALL quick 0", "\"quick\"");
    }
}

#[test]
fn info_counts_libraries() {
    let server = Server::start(2, "auto", &[]);
    let mut client = server.client();
    let mut figure = |name: &str| client.info("memory", name).parse::<u64>().unwrap();
    let names =
        ["number_of_libraries", "number_of_functions", "used_memory_functions", "used_memory_vm_functions"];
    assert_eq!(names.map(&mut figure), [0; 4]);
    let mut other = server.client();
    load(&mut other, SLOW);
    load(&mut other, &version(1));
    assert_eq!([figure("number_of_libraries"), figure("number_of_functions")], [2, 4]);
    let [_, _, bytes, state_bytes] = names.map(&mut figure);
    assert!(bytes > SLOW.len() as u64 && state_bytes > 10_000, "{bytes} {state_bytes}");
    assert_eq!(figure("used_memory_scripts"), bytes);
    assert!(figure("used_memory_vm_total") >= state_bytes);
    check(&mut other, "FUNCTION FLUSH", "OK");
    assert_eq!(names[..3].iter().map(|name| figure(name)).sum::<u64>(), 0);
    assert!(figure("used_memory_vm_functions") < state_bytes);
}

#[test]
fn libraries_get_only_so_much_memory() {
    let server = Server::start(2, "auto", &["--script-memory-bytes-max", "8mb"]);
    let mut client = server.client();
    load(&mut client, &version(1));
    let filler = "-".repeat(1 << 20);
    let mut refused = 0;
    for number in 0..40 {
        let code = format!(
            "#!lua name=l{number}\n--{filler}\nredis.register_function('f{number}', function() return {number} end)"
        );
        match call(&mut client, &[b"FUNCTION", b"LOAD", code.as_bytes()]) {
            Value::Bulk(_) => {}
            Value::Error(error) => {
                assert_eq!(error, b"OOM the libraries of functions take more than script-memory-bytes-max");
                refused += 1;
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(refused, 33);
    assert_eq!(client.info("memory", "number_of_functions"), "8");
    check(&mut client, "FCALL f6 0", "(integer) 6");
    check(&mut client, "FUNCTION DELETE l6", "OK");
    check(&mut client, "FCALL version 0", "(integer) 1");
    let hoard = "#!lua name=hoard\nlocal t = {} redis.register_function('hoard', function() while true do t[#t + 1] = {} end end)";
    load(&mut client, hoard);
    for _ in 0..3 {
        let error = client.show("FCALL hoard 0");
        assert!(error.contains("not enough memory"), "{error}");
    }
    check(&mut client, "FUNCTION DELETE hoard", "OK");
    check(&mut client, "FCALL version 0", "(integer) 1");
    assert!(server.resident_bytes() < 100 << 20, "{}", server.resident_bytes());
}

/// Payloads with a right checksum and wrong contents: an error and nothing else.
#[test]
fn hostile_payloads_change_nothing() {
    let server = Server::start(2, "auto", &[]);
    let mut client = server.client();
    load(&mut client, &version(1));
    let listed = client.show("FUNCTION LIST WITHCODE");
    let mut encoder = rdb::Encoder::new(Vec::new(), true);
    encoder.function(version(2).as_bytes()).unwrap();
    encoder.function(SLOW.as_bytes()).unwrap();
    let good = encoder.finish().unwrap();
    let seed = 20_240_607;
    let mut random = Random::new(seed);
    let mut refused = 0;
    for step in 0..2000 {
        let mut payload = good.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(payload.len() as u64) as usize;
            match random.below(4) {
                0 => payload[at] = random.below(256) as u8,
                1 => payload.truncate(at.max(1)),
                2 => payload.insert(at, random.below(256) as u8),
                _ => payload[at] ^= 1 << random.below(8),
            }
        }
        rdb::seal_payload(&mut payload);
        let reply = call(&mut client, &[b"FUNCTION", b"RESTORE", &payload, b"FLUSH"]);
        match reply {
            Value::Error(_) => {
                refused += 1;
                check(&mut client, "FUNCTION LIST WITHCODE", &listed);
            }
            // The changed payload is still a valid library.
            Value::Simple(_) => {
                check(&mut client, "FUNCTION FLUSH", "OK");
                load(&mut client, &version(1));
            }
            other => panic!("seed {seed}, step {step}: {other}"),
        }
    }
    assert!(refused > 500, "{refused}");
    assert!(server.resident_bytes() < 200 << 20, "{}", server.resident_bytes());
}
