//! Servers that are killed or stopped and started again: they continue the same stream where they were, and never another one.

use blackbox::replication::{expect_same, follow, is_up, redis, while_writing};
use blackbox::{Client, Scratch, Server, Signal, check, eventually};

/// Options of a server with a journal, whose files are in `folder`.
fn journaled(folder: &str) -> Vec<&str> {
    let mut options = without_journal(folder);
    options.extend(["--appendonly", "yes"]);
    options
}

/// The options without a journal.
fn without_journal(folder: &str) -> Vec<&str> {
    vec![
        "--dir",
        folder,
        "--dbfilename",
        "dump.rdb",
        "--repl-diskless-sync-delay",
        "0",
        "--repl-backlog-size",
        "64mb",
    ]
}

fn start(options: &[&str]) -> Server {
    let server = Server::start(2, "auto", options);
    eventually("it has loaded", || server.client().info("persistence", "loading") == "0");
    server
}

/// Starts a server that is a replica from the beginning.
fn start_replica(options: &[&str], primary: &Server) -> Server {
    let port = primary.port().to_string();
    start(&[options, &["--replicaof", "127.0.0.1", &port]].concat())
}

/// Waits until everything is in its files, if it has a journal, and then kills it by `SIGKILL`.
fn kill(mut server: Server) {
    let mut client = server.client();
    eventually("what comes has a base, and all of it is written", || {
        client.info("persistence", "aof_enabled") == "0"
            || client.info("persistence", "aof_rewrite_in_progress") == "0"
                && client.info("persistence", "aof_buffer_length") == "0"
    });
    server.signal(Signal::KILL);
    server.wait();
}

fn stop(mut server: Server) {
    server.client().send("SHUTDOWN SAVE");
    assert!(server.wait().success());
}

/// Number of snapshots that it has sent.
fn copies(primary: &Server) -> String {
    primary.client().info("stats", "sync_full")
}

/// A client that writes to database 3 of a primary. The stream selects no other database.
fn in_database_3(primary: &Server) -> Client {
    let mut client = primary.client();
    check(&mut client, "SELECT 3", "OK");
    check(&mut client, "SET before yes", "OK");
    client
}

/// Passes the only replica of `primary` to `again`, which replaces it by another server, while the stream continues.
fn goes_on(primary: &Server, replica: Server, again: impl FnOnce(Server) -> Server) {
    follow(&replica, primary);
    while_writing(primary, 107, || eventually("it follows", || is_up(&replica)));
    let mut client = in_database_3(primary);
    expect_same(&replica, primary);
    // Rarely more than one: redis-server may end the process that writes the first one, and start again.
    let copies_until_now = copies(primary);
    check(&mut client, "SET due soon PX 50", "OK");
    check(&mut client, "PERSIST due", "(integer) 1");
    let replica = again(replica);
    check(&mut client, "SET after yes", "OK");
    expect_same(&replica, primary);
    let mut reader = replica.client();
    check(&mut reader, "SELECT 3", "OK");
    check(&mut reader, "MGET before due after", "1) \"yes\"\n2) \"soon\"\n3) \"yes\"");
    while_writing(primary, 117, || {});
    expect_same(&replica, primary);
    assert_eq!(copies(primary), copies_until_now);
}

#[test]
fn a_replica_that_was_killed_goes_on() {
    let scratch = Scratch::new("restarts-replica");
    let (folder, other) = (scratch.path("replica"), scratch.path("primary"));
    let again = |primary: &Server, options: &[&str]| {
        goes_on(primary, start(options), |replica| {
            kill(replica);
            start_replica(options, primary)
        });
    };
    if let Some(primary) = redis(&["--repl-backlog-size", "64mb", "--repl-diskless-sync-delay", "0"]) {
        std::fs::create_dir(&folder).expect("it can be made");
        again(&primary, &journaled(&folder));
        std::fs::remove_dir_all(&folder).expect("it is there");
    }
    for folder in [&folder, &other] {
        std::fs::create_dir(folder).expect("it can be made");
    }
    again(&start(&journaled(&other)), &journaled(&folder));
}

#[test]
fn a_replica_without_a_journal_goes_on_after_a_clean_stop() {
    let Some(primary) = redis(&["--repl-backlog-size", "64mb", "--repl-diskless-sync-delay", "0"]) else {
        return;
    };
    let scratch = Scratch::new("restarts-clean");
    let folder = scratch.path("");
    let options = without_journal(&folder);
    goes_on(&primary, start(&options), |replica| {
        stop(replica);
        start_replica(&options, &primary)
    });
}

/// The snapshot of the Redis replica contains its place in the stream.
#[test]
fn a_server_goes_on_where_a_replica_of_redis_was() {
    let Some(primary) = redis(&["--repl-backlog-size", "64mb", "--repl-diskless-sync-delay", "0"]) else {
        return;
    };
    let scratch = Scratch::new("restarts-redis");
    let folder = scratch.path("");
    let replica = Server::redis_with(&["--dir", &folder, "--dbfilename", "dump.rdb"]).expect("there was one");
    goes_on(&primary, replica, |replica| {
        stop(replica);
        start_replica(&without_journal(&folder), &primary)
    });
}

/// The primary is killed and the replica takes over. The old primary starts as a replica or, as with Sentinel, becomes one later.
#[test]
fn a_primary_that_was_killed_comes_back_without_a_copy() {
    for at_once in [true, false] {
        let scratch = Scratch::new("restarts-primary");
        let folders = [scratch.path("first"), scratch.path("second")];
        folders.iter().for_each(|folder| std::fs::create_dir(folder).expect("it can be made"));
        let [options, others] = [journaled(&folders[0]), journaled(&folders[1])];
        let (first, second) = (start(&options), start(&others));
        follow(&second, &first);
        while_writing(&first, 127, || eventually("it follows", || is_up(&second)));
        expect_same(&second, &first);
        kill(first);
        check(&mut second.client(), "REPLICAOF NO ONE", "OK");
        let mut client = in_database_3(&second);
        let first = if at_once { start_replica(&options, &second) } else { start(&options) };
        if !at_once {
            follow(&first, &second);
        }
        check(&mut client, "SET after yes", "OK");
        expect_same(&first, &second);
        assert_eq!(copies(&second), "0");
        // And in the other direction.
        kill(second);
        check(&mut first.client(), "REPLICAOF NO ONE", "OK");
        while_writing(&first, 137, || {});
        let second = start_replica(&others, &first);
        expect_same(&second, &first);
        assert_eq!(copies(&first), "0");
    }
}

/// The replica has the data that its primary lost, and continues in the middle of the former primary's stream.
#[test]
fn a_primary_that_lost_its_tail_gets_it_back() {
    for at_once in [true, false] {
        let scratch = Scratch::new("restarts-tail");
        let folders = [scratch.path("first"), scratch.path("second"), scratch.path("tail lost")];
        folders[..2].iter().for_each(|folder| std::fs::create_dir(folder).expect("it can be made"));
        let (first, second) = (start(&journaled(&folders[0])), start(&journaled(&folders[1])));
        follow(&second, &first);
        eventually("it follows", || is_up(&second));
        let mut client = in_database_3(&first);
        let mut info = first.client();
        eventually("it is written", || info.info("persistence", "aof_buffer_length") == "0");
        first.signal(Signal::STOP);
        let copied = std::process::Command::new("cp").args(["-r", &folders[0], &folders[2]]).status();
        assert!(copied.expect("cp is there").success());
        first.signal(Signal::CONT);
        check(&mut client, "SET tail yes", "OK");
        expect_same(&second, &first);
        kill(first);
        check(&mut second.client(), "REPLICAOF NO ONE", "OK");
        check(&mut second.client(), "SET after yes", "OK");
        let options = journaled(&folders[2]);
        let first = if at_once { start_replica(&options, &second) } else { start(&options) };
        if !at_once {
            follow(&first, &second);
        }
        expect_same(&first, &second);
        assert_eq!(copies(&second), "0");
        assert_eq!(first.client().info("replication", "slave_priority"), "100", "it has all by now");
        let mut reader = first.client();
        check(&mut reader, "GET after", "\"yes\"");
        check(&mut reader, "SELECT 3", "OK");
        check(&mut reader, "MGET before tail", "1) \"yes\"\n2) \"yes\"");
    }
}

/// Both have continued from the same place with the same number of bytes.
#[test]
fn who_went_another_way_gets_a_copy() {
    for kills_at in [0, 1, 100] {
        let scratch = Scratch::new("restarts-other-way");
        let folders = [scratch.path("first"), scratch.path("second")];
        folders.iter().for_each(|folder| std::fs::create_dir(folder).expect("it can be made"));
        let mut options = journaled(&folders[1]);
        options.extend(["--appendfsync", "always"]);
        let (first, second) = (start(&journaled(&folders[0])), start(&options));
        follow(&second, &first);
        while_writing(&first, 147, || eventually("it follows", || is_up(&second)));
        expect_same(&second, &first);
        eventually("what comes has a base", || {
            second.client().info("persistence", "aof_rewrite_in_progress") == "0"
        });
        check(&mut second.client(), "REPLICAOF NO ONE", "OK");
        for (server, name) in [(&first, "one"), (&second, "two")] {
            let mut client = server.client();
            (0..kills_at).for_each(|number| check(&mut client, &format!("SET key:{number} {name}"), "OK"));
        }
        kill(second);
        let second = start(&options);
        follow(&first, &second);
        expect_same(&first, &second);
        if kills_at > 0 {
            check(&mut first.client(), "GET key:0", "\"two\"");
            assert_eq!(copies(&second), "1");
        }
    }
}
