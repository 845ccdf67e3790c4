//! The journal as users see it: acknowledged writes are there after kill -9, the journal is turned on and off while
//! the server runs, and WAITAOF waits for the disk and for nothing else.

use std::fs;

use blackbox::{Client, Scratch, Server, Signal, StartError, check, eventually};

fn start(scratch: &Scratch, more: &[&str]) -> Server {
    attempt(scratch, more).unwrap_or_else(|log| panic!("{log}"))
}

fn attempt(scratch: &Scratch, more: &[&str]) -> Result<Server, String> {
    let directory = scratch.path("");
    let own = ["--dir", &directory, "--dbfilename", "dump.rdb", "--proactor-threads", "2"];
    match Server::darter(&[&own, more].concat()) {
        Ok(server) => Ok(server),
        Err(StartError::Failed { log, .. }) => Err(log),
        Err(error) => panic!("{error}"),
    }
}

fn kill(mut server: Server) {
    server.signal(Signal::KILL);
    server.wait();
}

/// Whether there is a journal that counts.
fn has_journal(scratch: &Scratch) -> bool {
    fs::exists(scratch.path("appendonlydir/journal.manifest")).expect("it can be looked at")
}

fn eventually_rewritten(client: &mut Client) {
    eventually("the journal has its base", || {
        client.info("persistence", "aof_rewrite_in_progress") == "0"
            && client.info("persistence", "aof_rewrite_scheduled") == "0"
    });
}

#[test]
fn what_is_acknowledged_survives_the_process() {
    for policy in ["always", "everysec", "no"] {
        let scratch = Scratch::new(&format!("journal-kill-{policy}"));
        let options = ["--appendonly", "yes", "--appendfsync", policy, "--save", ""];
        for life in 0..3 {
            let server = start(&scratch, &options);
            let mut client = server.client();
            check(&mut client, "LLEN lives", &format!("(integer) {life}"));
            check(&mut client, "RPUSH lives x", &format!("(integer) {}", life + 1));
            if life == 1 {
                check(&mut client, "BGREWRITEAOF", "Background append only file rewriting started");
                eventually_rewritten(&mut client);
            }
            // WAITAOF waits for the disk, so the write even survives a crash of the machine.
            check(&mut client, "WAITAOF 1 0 0", "1) (integer) 1\n2) (integer) 0");
            kill(server);
        }
    }
}

#[test]
fn it_is_turned_on_and_off_while_the_server_runs() {
    let scratch = Scratch::new("journal-switch");
    let server = start(&scratch, &["--save", "3600 1"]);
    let mut client = server.client();
    check(&mut client, "SET before 1", "OK");
    check(&mut client, "CONFIG SET appendonly yes", "OK");
    assert_eq!(client.info("persistence", "aof_enabled"), "1");
    check(&mut client, "SET while-it-begins 1", "OK");
    check(&mut client, "WAITAOF 1 0 0", "1) (integer) 1\n2) (integer) 0");
    assert!(has_journal(&scratch), "what is durable has a base");
    check(&mut client, "SET then 1", "OK");
    check(&mut client, "WAITAOF 1 0 0", "1) (integer) 1\n2) (integer) 0");
    kill(server);

    let log = attempt(&scratch, &[]).map(|_| ()).expect_err("the journal is newer than what no would load");
    assert!(log.contains("--appendonly yes continues with the journal"), "{log}");
    let server = start(&scratch, &["--appendonly", "yes", "--save", "3600 1"]);
    let mut client = server.client();
    check(&mut client, "EXISTS before while-it-begins then", "(integer) 3");
    check(&mut client, "CONFIG SET appendonly no", "OK");
    assert_eq!(client.info("persistence", "aof_enabled"), "0");
    eventually("a snapshot has what it had", || !has_journal(&scratch));
    check(&mut client, "SET behind 1", "OK");
    check(&mut client, "CONFIG SET appendonly yes", "OK");
    check(&mut client, "WAITAOF 1 0 0", "1) (integer) 1\n2) (integer) 0");
    kill(server);
    let server = start(&scratch, &["--appendonly", "yes"]);
    check(&mut server.client(), "EXISTS before while-it-begins then behind", "(integer) 4");
}

#[test]
fn without_save_points_a_journal_that_has_ended_stays() {
    let scratch = Scratch::new("journal-stays");
    let server = start(&scratch, &["--appendonly", "yes", "--save", ""]);
    let mut client = server.client();
    check(&mut client, "SET a 1", "OK");
    check(&mut client, "CONFIG SET appendonly no", "OK");
    check(&mut client, "CONFIG SET appendonly yes", "OK");
    check(&mut client, "CONFIG SET appendonly no", "OK");
    eventually("it has ended", || server.log().contains("the journal is closed"));
    assert!(has_journal(&scratch));
    check(&mut client, "SAVE", "OK");
    eventually("a snapshot has what it had", || !has_journal(&scratch));
}

#[test]
fn waitaof_waits_for_the_disk() {
    let scratch = Scratch::new("journal-waitaof");
    let server = start(&scratch, &["--appendonly", "yes", "--appendfsync", "no"]);
    let mut client = server.client();
    let [kept, not_yet] = [1, 0].map(|count| format!("1) (integer) {count}\n2) (integer) 0"));
    check(&mut client, "WAITAOF 1 0 0", &kept);
    // In one go, so that it runs before the write before it is in the journal.
    client.send_bytes(b"SET a 1\r\nWAITAOF 1 0 0\r\nGET a\r\n");
    for reply in ["OK", &kept, "\"1\""] {
        assert_eq!(client.receive().to_string(), reply);
    }
    check(&mut client, "MULTI", "OK");
    check(&mut client, "SET a 2", "QUEUED");
    check(&mut client, "WAITAOF 1 0 0", "QUEUED");
    let [set, waited] = ["OK", &not_yet.replace('\n', "\n   ")];
    check(&mut client, "EXEC", &format!("1) {set}\n2) {waited}"));
    // It does not separate the commands before it from its transaction.
    for (line, reply) in [("MULTI", "OK"), ("SET b 1", "QUEUED"), ("WAITAOF 0 0 0", "QUEUED")] {
        check(&mut client, line, reply);
    }
    check(&mut client, "SET c 1", "QUEUED");
    check(&mut client, "EXEC", &format!("1) {set}\n2) {waited}\n3) OK"));
    check(&mut client, "WAITAOF 1 0 0", &kept);
    let folder = fs::read_dir(scratch.path("appendonlydir")).expect("it can be read");
    let files = folder.map(|entry| fs::read(entry.expect("it can be read").path()).expect("it can be read"));
    let unit = b"MULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$1\r\n1\r\n*3\r\n$3\r\nSET\r\n$1\r\nc\r\n";
    let has_unit = |bytes: Vec<u8>| bytes.windows(unit.len()).any(|window| window == unit);
    assert!({ files }.any(has_unit), "the transaction is one unit");
    for (line, error) in [
        ("WAITAOF 2 0 0", "ERR value is out of range, value must between 0 and 1"),
        ("WAITAOF 1 0 -1", "ERR timeout is negative"),
    ] {
        check(&mut client, line, &format!("(error) {error}"));
    }
    check(&mut client, "CONFIG SET appendonly no", "OK");
    let error = "(error) ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
    check(&mut client, "WAITAOF 1 0 0", error);
    eventually("it has ended", || server.log().contains("the journal is closed"));
    // A journal that ends before it has a base has kept nothing, and waiting clients get an error.
    let mut other = server.client();
    for _ in 0..5 {
        check(&mut client, "CONFIG SET appendonly yes", "OK");
        check(&mut client, "SET a 3", "OK");
        client.send("WAITAOF 1 0 0");
        check(&mut other, "CONFIG SET appendonly no", "OK");
        let answer = client.receive().to_string();
        if answer == kept {
            assert!(server.log().contains("rewriting terminated with success"));
            break;
        }
        assert_eq!(answer, error);
    }
}

#[test]
fn a_start_that_keeps_nothing_says_what_a_restart_has() {
    let scratch = Scratch::new("journal-none");
    let server = start(&scratch, &["--save", ""]);
    eventually("it says so", || server.log().contains("a restart loads nothing"));
    check(&mut server.client(), "SAVE", "OK");
    kill(server);
    let server = start(&scratch, &["--save", ""]);
    let says = || server.log().contains("/dump.rdb as of 20");
    eventually("it names the snapshot and its moment", says);
}
