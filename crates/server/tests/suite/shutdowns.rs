//! The end of a server, and its failures: signals, `SHUTDOWN`, saves that fail or take long, running scripts, and the
//! reports to the log and the service manager.

use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;

use blackbox::{Client, Scratch, Server, Signal, eventually};

/// A server with a folder of its own, which saves when it ends.
fn start(scratch: &Scratch, more: &[&str]) -> Server {
    let folder = scratch.path("");
    let options = [&["--dir", &folder, "--dbfilename", "dump.rdb", "--save", "3600 1"], more].concat();
    Server::start(2, "auto", &options)
}

/// Puts something where the snapshot is written first: a folder, so that saving fails.
fn spoil_saving(scratch: &Scratch, server: &Server) -> String {
    let path = scratch.path(&format!("temp-{}.rdb", server.process_id()));
    fs::create_dir(&path).expect("it is not there yet");
    path
}

/// Puts a pipe in the place of the snapshot: saving waits until the pipe is read, and fails then.
fn stall_saving(scratch: &Scratch, server: &Server) -> String {
    let path = scratch.path(&format!("temp-{}.rdb", server.process_id()));
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo runs");
    assert!(made.success());
    path
}

/// Lets a stalled save go on. It may have been given up before it opened the pipe, which is gone then: hence a reader that
/// waits for no writer.
fn drain_until(pipe: &str, done: impl Fn() -> bool) {
    let opened = fs::File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(pipe);
    eventually("the save has gone on", || {
        if let Ok(mut pipe) = opened.as_ref() {
            while pipe.read(&mut [0; 65_536]).is_ok() {}
        }
        done()
    });
}

#[track_caller]
fn wait_for_line(server: &Server, line: &str) {
    eventually(line, || server.log().contains(line));
}

#[test]
fn a_second_sigterm_changes_nothing_and_a_second_sigint_ends_at_once() {
    let scratch = Scratch::new("second-signal");
    let mut server = start(&scratch, &["--enable-debug-command", "yes"]);
    let mut client = server.client();
    assert_eq!(client.show("DEBUG POPULATE 20000 key 200"), "OK");
    let pipe = stall_saving(&scratch, &server);
    server.signal(Signal::TERM);
    wait_for_line(&server, "Saving the final RDB snapshot before exiting.");
    // The save is announced a moment before it begins, which the answer to an early signal does not know yet.
    for answers in 1.. {
        server.signal(Signal::TERM);
        eventually("an answer", || server.log().matches("Received SIGTERM again").count() == answers);
        if server.log().contains("Received SIGTERM again: saving the final snapshot") {
            break;
        }
    }
    // The reader lets the save go on, which fails at last: what is no file cannot be made durable.
    let mut read = Vec::new();
    let reader = std::thread::spawn(move || fs::File::open(&pipe).unwrap().read_to_end(&mut read));
    wait_for_line(&server, "Error trying to save the DB, can't exit.");
    assert!(reader.join().unwrap().unwrap() > 65_536);
    assert_eq!(client.show("DBSIZE"), "(integer) 20000");
    let _ = fs::remove_file(scratch.path(&format!("temp-{}.rdb", server.process_id())));
    stall_saving(&scratch, &server);
    server.signal(Signal::INT);
    eventually("it saves again", || server.log().matches("Saving the final RDB snapshot").count() == 2);
    server.signal(Signal::INT);
    assert_eq!(server.wait().code(), Some(1));
    assert!(server.log().contains("You insist... exiting now."), "{}", server.log());
    assert!(fs::read_dir(scratch.path("")).unwrap().next().is_none(), "nothing is left behind");
}

#[test]
fn a_background_save_makes_room_for_the_last_one() {
    let scratch = Scratch::new("overtaken");
    let mut server = start(&scratch, &["--enable-debug-command", "yes"]);
    let mut client = server.client();
    assert_eq!(client.show("DEBUG POPULATE 300000 key 100"), "OK");
    let pipe = stall_saving(&scratch, &server);
    let files = || fs::read_dir(scratch.path("")).unwrap().count();
    client.show("BGSAVE");
    eventually("it writes", || files() == 2);
    server.signal(Signal::TERM);
    wait_for_line(&server, "Saving the final RDB snapshot before exiting.");
    assert!(!server.log().contains("Background saving terminated with success"), "it took too little time");
    eventually("only the pipe is left", || files() == 1);
    // A shutdown that saves can still be aborted, once.
    assert_eq!(client.show("SHUTDOWN ABORT"), "OK");
    assert_eq!(client.show("SHUTDOWN ABORT"), "(error) ERR No shutdown in progress.");
    drain_until(&pipe, || server.log().contains("the shutdown that needed it was aborted"));
    assert_eq!(client.show("DBSIZE"), "(integer) 300000");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    assert_eq!(start(&scratch, &[]).client().show("DBSIZE"), "(integer) 300000");
}

#[test]
fn impatient_signals_lose_nothing() {
    let scratch = Scratch::new("impatient");
    let mut server = start(&scratch, &["--enable-debug-command", "yes"]);
    server.client().show("DEBUG POPULATE 50000 key 100");
    for _ in 0..3 {
        server.signal(Signal::TERM);
    }
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    assert!(!server.log().contains("WARN"), "{}", server.log());
    assert_eq!(start(&scratch, &[]).client().show("DBSIZE"), "(integer) 50000");
}

#[test]
fn a_server_that_cannot_save_goes_on_serving() {
    let scratch = Scratch::new("cannot-save");
    let mut server = start(&scratch, &[]);
    let mut client = server.client();
    assert_eq!(client.show("SET k v"), "OK");
    let folder = spoil_saving(&scratch, &server);
    server.signal(Signal::TERM);
    wait_for_line(&server, "Error trying to save the DB, can't exit.");
    assert_eq!(client.show("GET k"), "\"v\"");
    assert_eq!(client.show("SHUTDOWN"), "(error) ERR Errors trying to SHUTDOWN. Check logs.");
    assert_eq!(client.show("SET k w"), "OK");
    // FORCE loses the data that was not saved. Repairing the folder loses nothing.
    let others = Scratch::new("forced");
    let mut forced = start(&others, &[]);
    spoil_saving(&others, &forced);
    forced.client().send("SHUTDOWN SAVE FORCE");
    assert_eq!(forced.wait().code(), Some(0));
    assert!(forced.log().contains("Error trying to save the DB. Exit anyway."));
    fs::remove_dir(folder).unwrap();
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    assert_eq!(start(&scratch, &[]).client().show("GET k"), "\"w\"");
}

/// Sends what will not be answered, and waits until the script runs.
fn begin_script(server: &Server, script: &str) -> Client {
    let mut client = server.client();
    client.send_args(&[b"EVAL", script.as_bytes(), b"1", b"k"]);
    let mut other = server.client();
    eventually("the script runs", || other.try_show("GET k").is_some_and(|reply| reply.contains("BUSY")));
    client
}

const QUICKLY_BUSY: &[&str] = &["--busy-reply-threshold", "20", "--shutdown-timeout", "1"];

#[test]
fn a_script_that_wrote_nothing_is_ended_and_the_data_are_saved() {
    let scratch = Scratch::new("endless");
    let mut server = start(&scratch, QUICKLY_BUSY);
    assert_eq!(server.client().show("SET other v"), "OK");
    let _script = begin_script(&server, "redis.call('GET', KEYS[1]) while true do end");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    assert_eq!(start(&scratch, &[]).client().show("GET other"), "\"v\"");
}

#[test]
fn a_script_that_wrote_is_waited_for_unless_nothing_is_to_be_saved() {
    let scratch = Scratch::new("wrote");
    // A thread that does not run for this long counts as stuck.
    let mut server = start(&scratch, &["--busy-reply-threshold", "20", "--shutdown-timeout", "3"]);
    let _script = begin_script(&server, "redis.call('SET', KEYS[1], 'half') while true do end");
    let mut client = server.client();
    assert!(client.show("SHUTDOWN").contains("BUSY"));
    assert_eq!(client.show("SHUTDOWN ABORT"), "(error) ERR No shutdown in progress.");
    server.signal(Signal::TERM);
    wait_for_line(&server, "those that have written nothing are killed");
    assert_eq!(client.show("SHUTDOWN ABORT"), "OK");
    wait_for_line(&server, "Errors trying to shut down the server.");
    server.signal(Signal::TERM);
    eventually("it tries again", || server.log().matches("User requested shutdown").count() == 2);
    client.send("SHUTDOWN NOSAVE");
    client.expect_end();
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    assert!(!fs::exists(scratch.path("dump.rdb")).unwrap(), "half a script was saved");
}

#[test]
fn a_call_of_a_library_that_does_not_end_is_given_up() {
    let scratch = Scratch::new("stuck");
    let mut server = start(&scratch, QUICKLY_BUSY);
    let mut client = server.client();
    // Lua goes over all `break`s of a loop for each of them.
    let script = "redis.call('SET', KEYS[1], 'half')
        local loop = 'function f() while true do ' .. string.rep('if x then break end ', 40000) .. 'end end '
        local text = string.rep(loop, 100)
        redis.log(redis.LOG_WARNING, 'it begins')
        return loadstring(text)";
    client.send_args(&[b"EVAL", script.as_bytes(), b"1", b"k"]);
    eventually("its thread stands still", || server.log().contains("it begins"));
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(1));
    let log = server.log();
    assert!(log.contains("no consistent snapshot can be saved; the server exits without one"), "{log}");
    assert!(!fs::exists(scratch.path("dump.rdb")).unwrap());
}

#[test]
fn what_signals_do_is_a_setting() {
    let scratch = Scratch::new("on-signal");
    let mut server = start(&scratch, &["--shutdown-on-sigterm", "nosave", "now"]);
    let mut client = server.client();
    let failed = "(error) ERR CONFIG SET failed (possibly related to argument 'shutdown-on-sigint') - ";
    let words = "argument(s) must be one of the following: default, save, nosave, now, force, safe, failover";
    for (request, reply) in [
        (
            "CONFIG SET shutdown-on-sigint 'save nosave'",
            format!("{failed}shutdown options SAVE and NOSAVE can't be used simultaneously"),
        ),
        ("CONFIG SET shutdown-on-sigint 'save x'", format!("{failed}{words}")),
        ("CONFIG SET shutdown-on-sigint ''", format!("{failed}{words}")),
        ("CONFIG SET shutdown-on-sigint 'force now save'", "OK".to_owned()),
        ("SHUTDOWN NOW x", "(error) ERR syntax error".to_owned()),
        ("SHUTDOWN ABORT NOW", "(error) ERR syntax error".to_owned()),
    ] {
        assert_eq!(client.show(request), reply, "{request}");
    }
    assert!(client.show("CONFIG GET shutdown-on-sigint").contains("\"save now force\""));
    assert!(client.show("CONFIG GET shutdown-on-sigterm").contains("\"nosave now\""));
    client.show("SET k v");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    assert!(!fs::exists(scratch.path("dump.rdb")).unwrap());
}

#[test]
fn the_log_follows_its_path() {
    let scratch = Scratch::new("rotation");
    let (path, old) = (scratch.path("log"), scratch.path("log.1"));
    let server = start(&scratch, &["--logfile", &path, "--enable-debug-command", "yes"]);
    let mut client = server.client();
    let has = |path: &str, line: &str| fs::read_to_string(path).is_ok_and(|text| text.contains(line));
    // Debian's logrotate does not tell the server.
    fs::rename(&path, &old).unwrap();
    eventually("a new file is there", || fs::exists(&path).unwrap());
    client.show("DEBUG LOG after-rename");
    assert!(
        has(&path, "after-rename") && !has(&old, "after-rename") && has(&old, "Ready to accept connections")
    );
    // Other tools send a signal.
    fs::rename(&path, &old).unwrap();
    server.signal(Signal::HUP);
    eventually("a new file is there", || fs::exists(&path).unwrap());
    client.show("DEBUG LOG after-signal");
    assert!(has(&path, "after-signal") && has(&old, "after-rename"));
}

#[test]
fn systemd_hears_how_far_the_server_is() {
    let scratch = Scratch::new("systemd-states");
    let path = scratch.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(blackbox::PATIENCE)).unwrap();
    let folder = scratch.path("");
    let variable = format!("NOTIFY_SOCKET={path}");
    let options = ["--supervised", "auto", "--dir", &folder, "--dbfilename", "dump.rdb", "--save", "3600 1"];
    let hear = |expected: &str| {
        let mut heard = String::new();
        while !heard.contains(expected) {
            let mut message = [0; 512];
            let length =
                socket.recv(&mut message).unwrap_or_else(|error| panic!("{expected}: {error}: {heard}"));
            heard += &String::from_utf8_lossy(&message[..length]);
            heard.push('\n');
        }
        heard
    };
    for round in 0..2 {
        let mut server = Server::launch(&["env", &variable], &options).unwrap();
        let heard = hear("READY=1\n");
        // The first time there is nothing to load.
        assert_eq!(heard.contains("STATUS=Loading, "), round == 1, "{heard}");
        assert_eq!(heard.contains("EXTEND_TIMEOUT_USEC="), round == 1, "{heard}");
        let mut client = server.client();
        assert_eq!(client.info("server", "process_supervised"), "systemd");
        client.show("SET k v");
        let folder = spoil_saving(&scratch, &server);
        server.signal(Signal::TERM);
        hear("STATUS=Error trying to save the DB, can't exit.\n");
        wait_for_line(&server, "Errors trying to shut down the server.");
        fs::remove_dir(folder).unwrap();
        server.signal(Signal::TERM);
        let heard = hear("STATUS=Saving the final RDB snapshot\n");
        assert!(heard.contains("STOPPING=1\n") && heard.contains("EXTEND_TIMEOUT_USEC="), "{heard}");
        assert_eq!(server.wait().code(), Some(0));
        socket.set_nonblocking(true).unwrap();
        while socket.recv(&mut [0; 512]).is_ok() {}
        socket.set_nonblocking(false).unwrap();
    }
}
