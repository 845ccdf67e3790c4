//! Darter as a replica of real redis-servers, of itself, and of servers that lie.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use blackbox::replication::{expect_same, follow, is_up, redis, while_writing};
use blackbox::{Scratch, Server, Signal, check, eventually};
use resp::Value;

/// A replica that does not follow a primary yet.
fn replica(threads: usize, io: &str, more: &[&str]) -> Server {
    Server::start(threads, io, &[&["--repl-diskless-sync-delay", "0"], more].concat())
}

const LIBRARY: &str =
    "FUNCTION LOAD \"#!lua name=l\\nredis.register_function('f', function() return 1 end)\"";

/// The offset that a server reports, in its own stream or its primary's.
fn offset(server: &Server) -> String {
    server.client().info("replication", "master_repl_offset")
}

#[test]
fn a_replica_of_redis_has_the_same_data() {
    for (round, (threads, io)) in [(1, "epoll"), (2, "auto"), (4, "epoll")].into_iter().enumerate() {
        for diskless in ["yes", "no"] {
            let options = ["--repl-diskless-sync", diskless, "--repl-diskless-sync-delay", "0"];
            let Some(primary) = redis(&options) else { return };
            let replica = replica(threads, io, &[]);
            check(&mut primary.client(), LIBRARY, "\"l\"");
            while_writing(&primary, 3000 + 10 * round as u64, || {
                follow(&replica, &primary);
                eventually("it follows", || is_up(&replica));
            });
            expect_same(&replica, &primary);
            assert!(replica.client().show("ROLE").contains("connected"));
        }
    }
}

#[test]
fn a_link_that_was_cut_goes_on_where_it_was() {
    let Some(primary) = redis(&["--repl-backlog-size", "64mb", "--repl-diskless-sync-delay", "0"]) else {
        return;
    };
    let replica = replica(2, "auto", &[]);
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    while_writing(&primary, 17, || {
        let mut client = primary.client();
        for cut in 1..4 {
            if cut == 2 {
                assert_eq!(replica.client().call("CLIENT KILL TYPE master"), Value::Int(1));
            } else {
                assert_eq!(client.call("CLIENT KILL TYPE replica"), Value::Int(1));
            }
            eventually("it is back", || client.info("stats", "sync_partial_ok") == cut.to_string());
        }
    });
    expect_same(&replica, &primary);
    assert_eq!(primary.client().info("stats", "sync_full"), "1");
    assert!(replica.client().show("CLIENT LIST TYPE master").contains("flags=M"));
}

#[test]
fn a_chain_has_the_same_data_at_the_same_offsets() {
    let Some(primary) = redis(&["--repl-diskless-sync-delay", "0"]) else { return };
    let (middle, last) = (replica(2, "auto", &[]), redis(&[]).expect("there was one"));
    let other = replica(1, "epoll", &[]);
    follow(&middle, &primary);
    eventually("it follows", || is_up(&middle));
    while_writing(&primary, 27, || {
        follow(&last, &middle);
        follow(&other, &middle);
        eventually("the chain stands", || is_up(&last) && is_up(&other));
        assert_eq!(middle.client().call("CLIENT KILL TYPE replica"), Value::Int(2));
        eventually("they are back", || middle.client().info("stats", "sync_partial_ok") == "2");
    });
    for server in [&middle, &*last, &other] {
        expect_same(server, &primary);
    }
    let id = primary.client().info("replication", "master_replid");
    for server in [&middle, &*last, &other] {
        assert_eq!(server.client().info("replication", "master_replid"), id);
    }
    assert_eq!(middle.client().info("stats", "sync_full"), "2");
}

/// Data from a snapshot is as compact in memory as data written by clients.
#[test]
fn a_replica_takes_no_more_memory_than_its_primary() {
    let (primary, replica) =
        (replica(2, "auto", &["--enable-debug-command", "yes"]), replica(2, "auto", &[]));
    check(&mut primary.client(), "DEBUG POPULATE 100000 key 550", "OK");
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    let [of_primary, of_replica]: [u64; 2] = [&primary, &replica]
        .map(|server| server.client().info("memory", "used_memory").parse().expect("a number"));
    assert!(of_replica < of_primary + of_primary / 20, "{of_replica} bytes, and its primary {of_primary}");
}

#[test]
fn a_promoted_replica_goes_on_with_the_stream() {
    let Some(primary) = redis(&["--repl-diskless-sync-delay", "0"]) else { return };
    let (middle, last) = (replica(2, "auto", &[]), redis(&[]).expect("there was one"));
    follow(&middle, &primary);
    eventually("it follows", || is_up(&middle));
    follow(&last, &middle);
    while_writing(&primary, 37, || eventually("the chain stands", || is_up(&last)));
    expect_same(&middle, &primary);
    expect_same(&last, &primary);
    let (mut client, former) = (middle.client(), primary.client().info("replication", "master_replid"));
    check(&mut client, "REPLICAOF NO ONE", "OK");
    let at: u64 = client.info("replication", "second_repl_offset").parse().expect("a number");
    assert_eq!(client.info("replication", "master_replid2"), former);
    assert_ne!(client.info("replication", "master_replid"), former);
    assert_eq!(client.info("replication", "role"), "master");
    // Since then the former primary has sent only PINGs.
    check(&mut client, "SET promoted yes", "OK");
    expect_same(&last, &middle);
    assert_eq!(client.info("stats", "sync_full"), "1", "its replica went on where it was");
    assert!(at > 1 && offset(&middle).parse::<u64>().expect("a number") > at);
    while_writing(&middle, 47, || {});
    expect_same(&last, &middle);
}

#[test]
fn two_servers_change_places() {
    let options = ["--repl-backlog-size", "64mb"];
    let (first, second) = (replica(2, "auto", &options), replica(2, "epoll", &options));
    follow(&second, &first);
    while_writing(&first, 57, || eventually("it follows", || is_up(&second)));
    expect_same(&second, &first);
    check(&mut second.client(), "REPLICAOF NO ONE", "OK");
    follow(&first, &second);
    while_writing(&second, 67, || eventually("it follows", || is_up(&first)));
    expect_same(&first, &second);
    assert_eq!(second.client().info("stats", "sync_full"), "0", "nothing was to be sent again");
    assert_eq!(second.client().info("stats", "sync_partial_ok"), "1");
}

/// While the replica was stopped, much data arrived, which all its threads then apply. No client sees half of a
/// transaction.
#[test]
fn a_replica_that_was_stopped_catches_up() {
    const PAIRS: usize = 40;
    let options = ["--repl-backlog-size", "64mb"];
    let (primary, replica) = (replica(2, "auto", &options), replica(4, "auto", &options));
    follow(&replica, &primary);
    eventually("it follows", || is_up(&replica));
    for round in 0..3 {
        replica.signal(Signal::STOP);
        let mut writer = primary.client();
        let mut requests = Vec::new();
        for number in 0..10_000 {
            let pair = number % PAIRS;
            for words in [
                "MULTI".to_owned(),
                format!("SET a:{pair} {round}:{number}"),
                format!("SET b:{pair} {round}:{number}"),
                "EXEC".to_owned(),
                format!("RPUSH l:{pair} {number}"),
                format!("INCR n:{}", number % 7),
            ] {
                let words: Vec<&str> = words.split(' ').collect();
                resp::encode_request(&words, &mut requests);
            }
        }
        std::thread::scope(|scope| {
            let mut stream = writer.stream().try_clone().expect("it can be cloned");
            scope.spawn(move || stream.write_all(&requests).expect("it is read"));
            (0..60_000).for_each(|_| _ = writer.receive());
        });
        replica.signal(Signal::CONT);
        let mut reader = replica.client();
        eventually("it has all", || {
            for pair in 0..PAIRS {
                let Value::Array(values) = reader.call(&format!("MGET a:{pair} b:{pair}")) else {
                    panic!("an array")
                };
                assert_eq!(values[0], values[1]);
            }
            offset(&replica) == offset(&primary)
        });
        expect_same(&replica, &primary);
    }
    assert_eq!(primary.client().info("stats", "sync_full"), "1");
}

#[test]
fn the_journal_of_a_replica_is_a_copy_of_the_stream() {
    let Some(primary) = redis(&["--repl-diskless-sync-delay", "0"]) else { return };
    let scratch = Scratch::new("follow-journal");
    let folder = scratch.path("");
    let options = ["--dir", &folder, "--appendonly", "yes"];
    let mut own = replica(2, "auto", &options);
    check(&mut own.client(), "SET lost yes", "OK");
    follow(&own, &primary);
    while_writing(&primary, 77, || eventually("it follows", || is_up(&own)));
    expect_same(&own, &primary);
    eventually("what comes has a base", || {
        own.client().info("persistence", "aof_rewrite_in_progress") == "0"
            && own.client().info("persistence", "aof_enabled") == "1"
    });
    while_writing(&primary, 87, || {});
    expect_same(&own, &primary);
    let digest = own.client().show("DEBUG DIGEST");
    eventually("all of it is written", || own.client().info("persistence", "aof_buffer_length") == "0");
    own.signal(Signal::KILL);
    own.wait();
    let again = replica(1, "epoll", &options);
    eventually("it has loaded", || again.client().info("persistence", "loading") == "0");
    assert_eq!(again.client().show("DEBUG DIGEST"), digest);
    assert_eq!(again.client().show("EXISTS lost"), "(integer) 0");
}

#[test]
fn a_replica_says_what_is_on_its_disk() {
    let (primary, without) = (replica(2, "auto", &[]), replica(1, "epoll", &[]));
    let scratch = Scratch::new("follow-fack");
    let folder = scratch.path("");
    let with = replica(2, "auto", &["--dir", &folder, "--appendonly", "yes"]);
    follow(&without, &primary);
    eventually("it follows", || is_up(&without));
    let mut client = primary.client();
    check(&mut client, "SET a 1", "OK");
    check(&mut client, "WAIT 1 0", "(integer) 1");
    check(&mut client, "WAITAOF 0 1 100", "1) (integer) 0\n2) (integer) 0");
    follow(&with, &primary);
    eventually("it follows, too", || is_up(&with));
    check(&mut client, "SET a 2", "OK");
    check(&mut client, "WAIT 2 0", "(integer) 2");
    check(&mut client, "WAITAOF 0 1 0", "1) (integer) 0\n2) (integer) 1");
    check(&mut client, "WAITAOF 0 2 100", "1) (integer) 0\n2) (integer) 1");
}

#[test]
fn servers_that_follow_themselves_or_each_other_keep_their_data() {
    let (one, other) = (replica(2, "auto", &[]), replica(1, "epoll", &[]));
    check(&mut one.client(), "SET a one", "OK");
    check(&mut other.client(), "SET a other", "OK");
    let is_refused = |server: &Server| {
        !is_up(server) && server.client().show("INFO errorstats").contains("errorstat_NOMASTERLINK")
    };
    follow(&one, &one);
    eventually("it has asked itself, and refused", || is_refused(&one));
    check(&mut one.client(), "GET a", "\"one\"");
    follow(&one, &other);
    follow(&other, &one);
    // If one asked before the other became a replica, it waits for a snapshot that the other cannot take.
    let waits = |server: &Server| server.client().show("INFO replication").contains("state=wait_bgsave");
    eventually("they have asked each other", || {
        is_refused(&one) && !is_up(&other) && (is_refused(&other) || waits(&other))
    });
    check(&mut one.client(), "GET a", "\"one\"");
    check(&mut other.client(), "GET a", "\"other\"");
    assert_eq!(one.client().info("replication", "slave_priority"), "0", "it was never in sync");
    check(&mut one.client(), "REPLICAOF NO ONE", "OK");
    eventually("the other one follows", || is_up(&other));
    expect_same(&other, &one);
}

#[test]
fn who_waits_for_others_on_a_new_replica_is_told() {
    let (first, second) = (replica(2, "auto", &[]), replica(1, "auto", &[]));
    let mut waiting = second.client();
    waiting.send("BLPOP queue 0");
    eventually("it waits", || second.client().info("clients", "blocked_clients") == "1");
    follow(&second, &first);
    let expected =
        "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
    assert_eq!(waiting.receive(), Value::Error(expected.into()));
    waiting.expect_end();
}

#[test]
fn commands_say_what_those_of_redis_say() {
    let (first, second) = (replica(1, "auto", &[]), replica(1, "auto", &[]));
    let mut client = second.client();
    check(&mut client, "REPLICAOF 127.0.0.1 x", "(error) ERR Invalid master port");
    check(&mut client, "REPLICAOF 127.0.0.1 65536", "(error) ERR Invalid master port");
    check(&mut client, "CONFIG GET replicaof", "1) \"replicaof\"\n2) \"\"");
    follow(&second, &first);
    let again = format!("REPLICAOF 127.0.0.1 {}", first.port());
    check(&mut client, &again, "OK Already connected to specified master");
    check(&mut client, "CONFIG GET slaveof", &format!("1) \"slaveof\"\n2) \"127.0.0.1 {}\"", first.port()));
    eventually("it follows", || is_up(&second));
    // A server that follows itself reports that it cannot.
    let own = second.port();
    check(&mut client, &format!("REPLICAOF 127.0.0.1 {own}"), "OK");
    eventually("the log tells", || second.log().contains("NOMASTERLINK"));
    assert_eq!(client.info("replication", "master_link_status"), "down");
    assert_eq!(client.info("replication", "master_port"), own.to_string());
    check(&mut client, "SLAVEOF NO ONE", "OK");
    check(&mut client, "SET k v", "OK");
}

/// Sends each replica that connects these bytes, once the replica has asked for the stream.
fn liar(answers: &'static [&'static [u8]]) -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let port = listener.local_addr().expect("it has an address").port();
    let accepting = listener.try_clone().expect("it can be cloned");
    std::thread::spawn(move || {
        for stream in accepting.incoming().flatten() {
            // If its connection is cut, it connects again.
            let _ = lie(stream, answers);
        }
    });
    (listener, port)
}

fn lie(mut stream: TcpStream, answers: &[&[u8]]) -> std::io::Result<()> {
    let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
    let has = |heard: &[u8], word: &str| String::from_utf8_lossy(heard).contains(word);
    let mut hear = |stream: &mut TcpStream, heard: &mut Vec<u8>, words: [&str; 2]| {
        while !words.iter().any(|word| has(heard, word)) {
            match stream.read(&mut piece)? {
                0 => return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)),
                count => heard.extend_from_slice(&piece[..count]),
            }
        }
        Ok(())
    };
    hear(&mut stream, &mut heard, ["PING"; 2])?;
    stream.write_all(b"+PONG\r\n")?;
    hear(&mut stream, &mut heard, ["capa"; 2])?;
    stream.write_all(b"+OK\r\n+OK\r\n")?;
    hear(&mut stream, &mut heard, ["PSYNC", "mark"])?;
    if has(&heard, "mark") {
        stream.write_all(b"+OK\r\n")?;
        hear(&mut stream, &mut heard, ["PSYNC"; 2])?;
    }
    for answer in answers {
        stream.write_all(answer)?;
    }
    // Until the replica closes the connection.
    std::io::copy(&mut stream, &mut std::io::sink()).map(drop)
}

const FULL: &[u8] = b"+FULLRESYNC 0123456789012345678901234567890123456789 7\r\n";

#[test]
fn a_primary_that_lies_leaves_the_data_as_they_were() {
    let endless: &'static [u8] = Box::leak(vec![b'x'; 1 << 16].into_boxed_slice());
    let cases: Vec<(&'static [&'static [u8]], &str)> = vec![
        (Box::leak(Box::new([FULL, b"$-7\r\n"])), "no snapshot has this length"),
        (Box::leak(Box::new([FULL, b"$20\r\nREDIS0011 and so on "])), "synchronization DB"),
        (Box::leak(Box::new([FULL, b"-ERR no\r\n"])), "MASTER aborted replication with an error"),
        (
            Box::leak(Box::new([
                FULL,
                b"$EOF:ABABABABABABABABABABABABABABABABABABABAC\r\nREDIS0011ABABABABABABABABABABABABABABABABABABABAC",
            ])),
            "synchronization DB",
        ),
        (Box::leak(Box::new([endless])), "a line of more than"),
        (Box::leak(Box::new([&b"+CONTINUE 0123456789012345678901234567890123456789\r\n"[..]])), "wrong syntax"),
        (Box::leak(Box::new([&b"-LOADING\r\n"[..]])), "currently unable to PSYNC"),
    ];
    let replica = replica(2, "auto", &[]);
    let mut client = replica.client();
    check(&mut client, "SET k v", "OK");
    for (answers, told) in cases {
        let (_listener, port) = liar(answers);
        check(&mut client, &format!("REPLICAOF 127.0.0.1 {port}"), "OK");
        eventually(told, || replica.log().contains(told));
        assert_eq!(client.info("replication", "master_link_status"), "down", "{told}");
        check(&mut client, "GET k", "\"v\"");
        check(&mut client, "REPLICAOF NO ONE", "OK");
    }
}

/// An empty snapshot without a checksum.
const EMPTY: &[u8] = b"$18\r\nREDIS0011\xff\0\0\0\0\0\0\0\0";

/// Commands that do not belong in a stream, and invalid ones.
const NONSENSE: &str = "SHUTDOWN NOSAVE|DEBUG SEGFAULT|CONFIG SET requirepass x|REPLICAOF NO ONE|FAILOVER|PSYNC ? -1|SYNC|REPLCONF ACK 9223372036854775807|\
    REPLCONF GETACK|REPLCONF capa darter-1|SELECT -1|SELECT x|EXEC|DISCARD|WATCH k|BLPOP none 0|BRPOPLPUSH none other 0|XREAD BLOCK 0 STREAMS s $|\
    WAIT 9 0|WAITAOF 1 9 0|SUBSCRIBE c|PSUBSCRIBE *|UNSUBSCRIBE|MONITOR|CLIENT KILL TYPE master|CLIENT PAUSE 100000|CLIENT REPLY OFF|QUIT|RESET|HELLO 3|\
    AUTH x|ACL SETUSER default off|EVAL \"while true do end\" 0|SCRIPT KILL|FUNCTION LOAD x|BGREWRITEAOF|SAVE|MIGRATE 127.0.0.1 1 k 0 1|\
    DARTER.MARK|DARTER.MARK k|DARTER.MARK k x|DARTER.MARK k \"1 99999999999999999999\"|DARTER.NONE k|HSETEX|HSETEX h|HSETEX h FIELDS 1 f|HSETEX h FIELDS 9 f v|\
    HSETEX k KEEPTTL FIELDS 1 f v|HPEXPIREAT|HPEXPIREAT h -1 FIELDS 1 f|HPEXPIREAT h 9223372036854775807 FIELDS 1 f|HPEXPIREAT k 1 FIELDS 1 f|HPERSIST|HPERSIST k FIELDS 1 f";

#[test]
fn nonsense_in_the_stream_does_no_harm() {
    let Some(last) = redis(&[]) else { return };
    let mut stream = Vec::new();
    let mut push = |line: &str| {
        let words = resp::split_args(line.as_bytes()).expect("quotes are balanced");
        resp::encode_request(&words, &mut stream);
    };
    ["SELECT 3", "SET k before", "HSET h f 1"].into_iter().for_each(&mut push);
    NONSENSE.split('|').map(str::trim).for_each(&mut push);
    // A transaction of them, with another one inside, and one EXEC too many.
    push("MULTI");
    NONSENSE.split('|').map(str::trim).filter(|line| *line != "EXEC").for_each(&mut push);
    ["MULTI", "SET k amid", "EXEC", "EXEC", "SET k behind"].into_iter().for_each(&mut push);
    stream.extend_from_slice(b"*0\r\n*-1\r\n\n\n");
    resp::encode_request(&["SET", "last", "1"], &mut stream);
    let answers: Box<[&'static [u8]]> = Box::new([FULL, EMPTY, Box::leak(stream.into_boxed_slice())]);
    let scratch = Scratch::new("follow-nonsense");
    let folder = scratch.path("");
    let options = ["--dir", &folder, "--appendonly", "yes"];
    let mut middle = replica(2, "auto", &options);
    let (_listener, port) = liar(Box::leak(answers));
    let mut client = middle.client();
    check(&mut client, &format!("REPLICAOF 127.0.0.1 {port}"), "OK");
    follow(&last, &middle);
    check(&mut client, "SELECT 3", "OK");
    eventually("all has come", || client.show("GET last") == "\"1\"");
    check(&mut client, "GET k", "\"behind\"");
    assert_ne!(client.info("stats", "unexpected_error_replies"), "0");
    // The replica differs from its primary, and logs that.
    assert_eq!(
        client.info("replication", "master_link_divergence"),
        client.info("stats", "unexpected_error_replies")
    );
    let (id, offset) = (client.info("replication", "master_replid"), offset(&middle));
    let refused = middle.client().show(&format!("PSYNC {id} {offset} FAILOVER"));
    assert!(refused.contains("commands of the primary failed here"), "{refused}");
    check(&mut client, "HPEXPIRETIME h FIELDS 1 f", "1) (integer) -1");
    // The data are seen a moment before the state of the link.
    eventually("the link is up", || is_up(&middle));
    expect_same(&last, &middle);
    check(&mut client, "REPLICAOF NO ONE", "OK");
    check(&mut client, "SET k own", "OK");
    expect_same(&last, &middle);
    // Everything in the journal was executed.
    eventually("it has a base", || {
        client.info("persistence", "aof_rewrite_in_progress") == "0"
            && client.info("persistence", "aof_enabled") == "1"
    });
    eventually("all of it is written", || client.info("persistence", "aof_buffer_length") == "0");
    let digest = client.show("DEBUG DIGEST");
    middle.signal(Signal::KILL);
    middle.wait();
    let again = replica(1, "epoll", &options);
    eventually("it has loaded", || again.client().info("persistence", "loading") == "0");
    assert_eq!(again.client().show("DEBUG DIGEST"), digest);
}

/// Nothing after such a line can be trusted: the replica does not continue behind it, but resynchronizes.
#[test]
fn a_line_in_the_stream_is_no_command() {
    for line in [&b"SET k v\r\n"[..], b"-NOPERM no\r\n", b"+OK\r\n"] {
        let answers: Box<[&'static [u8]]> = Box::new([FULL, EMPTY, line]);
        let (_listener, port) = liar(Box::leak(answers));
        let replica = replica(2, "auto", &[]);
        let mut client = replica.client();
        check(&mut client, &format!("REPLICAOF 127.0.0.1 {port}"), "OK");
        eventually("it has begun anew", || {
            let log = replica.log();
            log.contains("Receiving inline protocol from master") && log.matches("Full resync").count() > 1
        });
        check(&mut client, "GET k", "(nil)");
    }
}

#[test]
fn offsets_at_the_end_of_all_numbers_do_no_harm() {
    for offset in [i64::MAX - 30, i64::MAX] {
        let full = format!("+FULLRESYNC 0123456789012345678901234567890123456789 {offset}\r\n").into_bytes();
        let stream = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\nnew\r\n";
        let answers: Box<[&'static [u8]]> = Box::new([Box::leak(full.into_boxed_slice()), EMPTY, stream]);
        let scratch = Scratch::new("follow-offsets");
        let folder = scratch.path("");
        let replica = replica(2, "auto", &["--dir", &folder, "--appendonly", "yes"]);
        let (_listener, port) = liar(Box::leak(answers));
        let mut client = replica.client();
        check(&mut client, "SET k old", "OK");
        check(&mut client, &format!("REPLICAOF 127.0.0.1 {port}"), "OK");
        eventually("it is refused", || replica.log().contains("Master replied to PSYNC with wrong syntax"));
        check(&mut client, "GET k", "\"old\"");
        client.show("ROLE");
        check(&mut client, "REPLICAOF NO ONE", "OK");
        client.show("INFO");
        check(&mut client, "SET k own", "OK");
    }
}

#[test]
fn a_password_that_is_wrong_is_told() {
    let primary = replica(1, "auto", &["--requirepass", "right"]);
    let replica = replica(1, "auto", &["--masterauth", "wrong"]);
    let mut client = replica.client();
    check(&mut client, "SET k v", "OK");
    follow(&replica, &primary);
    eventually("the log tells", || replica.log().contains("Unable to AUTH to MASTER"));
    check(&mut client, "GET k", "\"v\"");
    check(&mut client, "CONFIG SET masterauth right", "OK");
    eventually("it follows", || is_up(&replica));
    check(&mut client, "GET k", "(nil)");
}

#[test]
fn a_snapshot_that_does_not_fit_leaves_the_data_as_they_were() {
    let primary = replica(2, "auto", &[]);
    check(&mut primary.client(), "DEBUG POPULATE 100000 key 4000", "OK");
    // `prlimit` is in util-linux.
    let options = ["--repl-diskless-sync-delay", "0", "--proactor-threads=1", "--io=epoll"];
    let small = Server::launch(&["/usr/bin/prlimit", "--data=300000000"], &options);
    let small = small.unwrap_or_else(|error| panic!("{error}"));
    let mut client = small.client();
    check(&mut client, "SET k old", "OK");
    follow(&small, &primary);
    eventually("the log tells", || small.log().contains("it does not fit into memory"));
    check(&mut client, "GET k", "\"old\"");
    assert_eq!(client.info("replication", "master_link_status"), "down");
    check(&mut primary.client(), "FLUSHALL", "OK");
    check(&mut primary.client(), "SET k new", "OK");
    eventually("what fits is taken", || is_up(&small));
    expect_same(&small, &primary);
}
