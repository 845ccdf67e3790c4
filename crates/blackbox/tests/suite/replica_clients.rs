//! Compares the answers of a replica to its clients with those of a redis-server that is also a replica: of no
//! server, so that the link is down, and of a redis-server that does not delete expired keys.

use blackbox::{Scratch, Server, StartError, check, eventually};

/// Calls that are refused or allowed while the link is down.
const CALLS: &[&str] = &[
    "SET k v",
    "GET k",
    "INCR k",
    "BLPOP l 0.1",
    "XREAD BLOCK 1 STREAMS s $",
    "XREADGROUP GROUP g c STREAMS s >",
    "PFCOUNT h",
    "PFADD h a",
    "SORT l",
    "SORT_RO l",
    "GETEX k",
    "BITFIELD k GET u8 0",
    "BITFIELD_RO k GET u8 0",
    "FLUSHALL",
    "SWAPDB 0 1",
    "PUBLISH c m",
    "SPUBLISH c m",
    "SCRIPT EXISTS x",
    "FUNCTION LOAD x",
    "FUNCTION FLUSH",
    "FUNCTION LIST",
    "EVAL \"return{redis.pcall('SET',KEYS[1],'v')}\" 1 k",
    "EVAL \"return{redis.pcall('GET',KEYS[1])}\" 1 k",
    "EVAL \"return{redis.pcall('PFCOUNT','h')}\" 0",
    "EVAL_RO \"return{redis.pcall('SET',KEYS[1],'v')}\" 1 k",
    "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0",
    "FCALL f 0",
    "MULTI",
    "SET k v",
    "EXEC",
    "MULTI",
    "GET k",
    "PING",
    "EXEC",
    "MULTI",
    "EVAL \"return{redis.pcall('SET',KEYS[1],'v')}\" 1 k",
    "EXEC",
    "MULTI",
    "PUBLISH c m",
    "DISCARD",
    "WATCH k",
    "UNWATCH",
    "SELECT 0",
    "PING",
    "ECHO x",
    "DBSIZE",
    "KEYS *",
    "EXPIRE k 100",
    "RESTORE k 0 x",
    "OBJECT ENCODING k",
    "TYPE k",
    "ACL WHOAMI",
    "DEL k",
    "SUBSCRIBE c",
    "SET k v",
    "GET k",
    "UNSUBSCRIBE c",
];

/// Reads of an expired key.
const READS: &[&str] = &[
    "GET g",
    "STRLEN g",
    "EXISTS g s",
    "TOUCH g s",
    "TYPE g",
    "TTL g",
    "PTTL g",
    "EXPIRETIME g",
    "OBJECT ENCODING g",
    "DUMP g",
    "MGET g s",
    "KEYS *",
    "SCAN 0 COUNT 1000",
    "SORT_RO gl",
    "LRANGE gl 0 -1",
    "SUNION gs ss",
    "SCARD gs",
    "ZRANGE gz 0 -1",
    "HGETALL gh",
    "XLEN gx",
    "XRANGE gx - +",
    "XREAD STREAMS gx 0",
    "PFCOUNT gp",
    "EVAL \"return{redis.call('GET',KEYS[1])}\" 1 g",
    "BITCOUNT g",
    "GETRANGE g 0 1",
    "LLEN gl",
    "SMEMBERS gs",
    "ZCARD gz",
    "HLEN gh",
];

/// A redis-server with a folder of its own; `None` if it is not installed.
fn redis(more: &[&str]) -> Option<(Server, Scratch)> {
    let scratch = Scratch::new("replica-clients");
    let folder = scratch.path("");
    match Server::redis_with(&[&["--dir", &folder], more].concat()) {
        Ok(server) => Some((server, scratch)),
        Err(StartError::Missing(name)) if std::env::var("CI").as_deref() != Ok("true") => {
            println!("SKIPPED: {name} is not installed");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_replica_refuses_what_a_redis_server_refuses() {
    let Some((theirs, _scratch)) = redis(&[]) else { return };
    let ours = Server::start(2, "auto", &[]);
    let (theirs, ours) = (&mut theirs.client(), &mut ours.client());
    // This port is not in use.
    let settings = [
        "REPLICAOF 127.0.0.1 1",
        "CONFIG SET replica-serve-stale-data no",
        "CONFIG SET slave-read-only no",
        "CONFIG SET slave-serve-stale-data yes",
    ];
    for setting in settings {
        check(theirs, setting, "OK");
        check(ours, setting, "OK");
        assert_eq!(
            ours.info("replication", "slave_read_only"),
            theirs.info("replication", "slave_read_only")
        );
        for call in CALLS {
            assert_eq!(ours.show(call), theirs.show(call), "{call} after {setting}");
        }
    }
}

/// The shown items, sorted because their order is random.
fn items(shown: &str) -> Vec<&str> {
    let mut items: Vec<&str> =
        shown.lines().map(|line| line.rsplit_once(") ").map_or(line, |(_, item)| item)).collect();
    items.sort_unstable();
    items
}

#[test]
fn a_replica_hides_what_a_redis_server_hides() {
    let Some((primary, _scratch)) = redis(&["--repl-diskless-sync-delay", "0"]) else { return };
    let Some((theirs, _scratch)) = redis(&[]) else { return };
    let ours = Server::start(2, "auto", &[]);
    let (primary_port, primary) = (primary.port(), &mut primary.client());
    let (theirs, ours) = (&mut theirs.client(), &mut ours.client());
    for replica in [&mut *theirs, &mut *ours] {
        check(replica, &format!("REPLICAOF 127.0.0.1 {primary_port}"), "OK");
        eventually("the link is up", || replica.info("replication", "master_link_status") == "up");
    }
    check(primary, "DEBUG SET-ACTIVE-EXPIRE 0", "OK");
    let keys = ["g", "gl", "gs", "gz", "gh", "gx", "gp"];
    let data = [
        "SET g 12",
        "SET s 12",
        "RPUSH gl b a",
        "SADD gs 1 2",
        "SADD ss 2 3",
        "ZADD gz 1 a",
        "HSET gh f v",
        "XADD gx 1-1 f v",
        "PFADD gp a",
    ];
    data.iter().for_each(|line| _ = primary.call(line));
    // Not 1: Redis 7.0 reads its clock twice, and deletes a key at once if its time comes in between.
    keys.iter().for_each(|key| check(primary, &format!("PEXPIRE {key} 50"), "(integer) 1"));
    // If they were read on the primary, they would be deleted.
    let all_are_past = |client: &mut blackbox::Client| {
        keys.iter().all(|key| client.show(&format!("EXISTS {key}")) == "(integer) 0")
    };
    for replica in [&mut *theirs, &mut *ours] {
        eventually("they are hidden", || replica.show("DBSIZE") == "(integer) 9" && all_are_past(replica));
        check(replica, "WATCH g", "OK");
    }
    let compare = |theirs: &mut blackbox::Client, ours: &mut blackbox::Client| {
        READS
            .iter()
            .for_each(|line| assert_eq!(items(&ours.show(line)), items(&theirs.show(line)), "{line}"));
        assert_eq!(ours.show("DBSIZE"), theirs.show("DBSIZE"));
    };
    compare(theirs, ours);
    check(ours, "DBSIZE", "(integer) 9");
    assert_eq!(ours.info("stats", "expired_keys"), "0");
    assert!(all_are_past(primary));
    for replica in [&mut *theirs, &mut *ours] {
        eventually("the DELs have come", || replica.show("DBSIZE") == "(integer) 2");
    }
    compare(theirs, ours);
    for replica in [theirs, ours] {
        check(replica, "MULTI", "OK");
        check(replica, "PING", "QUEUED");
        // The deletion is not a change, because the key had expired before.
        check(replica, "EXEC", "1) PONG");
    }
}
