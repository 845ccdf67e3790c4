//! Similar hashes that are not in use are compressed in the background. Clients see no difference but the memory.

use blackbox::{Client, Scratch, Server, check, eventually};

const COUNT: usize = 4000;
/// Compresses what was not used in this second, where there are a few of a kind.
const EAGER: [&str; 4] = ["--hash-compress-idle", "0", "--hash-compress-bytes-min", "1024"];

fn fill(client: &mut Client) {
    for number in 0..COUNT {
        let id = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let data =
            format!(r#"{{"to":"user{number}@example.com","template":"welcome","requestId":"{id:016x}"}}"#);
        let opts = r#"{"attempts":3,"delay":0,"backoff":{"delay":1000,"type":"exponential"}}"#;
        let (key, at) = (format!("bull:mail:{number}"), format!("17000{number:08}"));
        let words =
            ["HSET", &key, "name", "sendEmail", "data", &data, "opts", opts, "timestamp", &at, "delay", "0"];
        client.send_args(&words.map(str::as_bytes));
        client.receive();
    }
}

/// Bytes of the data, without what threads that are awake have of their own.
fn used_bytes(client: &mut Client) -> usize {
    client.info("memory", "used_memory_dataset").parse().expect("a number")
}

/// The bytes that count against `maxmemory`.
fn counted_bytes(client: &mut Client) -> usize {
    let memory = blackbox::text(&client.call("INFO memory"));
    let field = |name: &str| -> usize {
        let line = memory.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.expect("it is there").parse().expect("a number")
    };
    field("used_memory") - field("mem_not_counted_for_evict")
}

/// Whether the hash at `key` is compressed.
fn is_compressed(client: &mut Client, key: &str) -> bool {
    client.show(&format!("DEBUG OBJECT {key}")).contains(" hash_compressed_bytes:")
}

fn wait_for_all(client: &mut Client) {
    wait_from(client, 0);
}

/// Waits until all from this number on are compressed, as far as samples tell.
fn wait_from(client: &mut Client, first: usize) {
    eventually("all are compressed", || {
        (first..COUNT).step_by(97).all(|number| is_compressed(client, &format!("bull:mail:{number}")))
    });
}

/// Bytes that the value at `key` takes.
fn usage(client: &mut Client, key: &str) -> usize {
    let reply = client.show(&format!("MEMORY USAGE {key}"));
    reply.trim_start_matches("(integer) ").parse().expect("a number")
}

#[test]
fn jobs_at_rest_take_a_fraction_of_the_memory() {
    for threads in [1, 2] {
        let server = Server::start(threads, "auto", &["--hash-compress-bytes-min", "0"]);
        let client = &mut server.client();
        let empty = used_bytes(client);
        fill(client);
        let plain = used_bytes(client) - empty;
        let digest = client.show("DEBUG DIGEST");
        let fields = client.show("HMGET bull:mail:17 name data opts timestamp");
        let of_one = usage(client, "bull:mail:17");
        check(client, "CONFIG SET hash-compress-idle 0 hash-compress-bytes-min 1024", "OK");
        wait_for_all(client);
        eventually("it takes less", || used_bytes(client).saturating_sub(empty) < plain / 2);
        eventually("each takes less", || usage(client, "bull:mail:17") < of_one / 2);
        assert_eq!(client.show("DEBUG DIGEST"), digest);
        assert_eq!(client.show("HMGET bull:mail:17 name data opts timestamp"), fields);
        assert!(is_compressed(client, "bull:mail:17"), "reading leaves it as it is");
        check(client, "FLUSHALL", "OK");
        eventually("all is freed", || used_bytes(client) < empty + plain / 8);
    }
}

#[test]
fn what_leaves_the_server_is_plain() {
    let scratch = Scratch::new("compressed_hashes");
    let directory = scratch.path("");
    let file = ["--dir", &directory, "--dbfilename", "dump.rdb"];
    let server = Server::start(2, "auto", &[&EAGER, &file[..]].concat());
    let client = &mut server.client();
    fill(client);
    wait_for_all(client);
    let digest = client.show("DEBUG DIGEST");
    for format in ["rdb", "darter"] {
        check(client, &format!("CONFIG SET snapshot-format {format}"), "OK");
        check(client, "DEBUG RELOAD", "OK");
        assert_eq!(client.show("DEBUG DIGEST"), digest, "{format}");
        wait_for_all(client);
        check(client, "BGSAVE", "Background saving started");
        eventually("it is saved", || client.info("persistence", "rdb_bgsave_in_progress") == "0");
        check(client, "DEBUG RELOAD NOSAVE", "OK");
        assert_eq!(client.show("DEBUG DIGEST"), digest, "{format}");
        wait_for_all(client);
    }
    let replica = Server::start(2, "auto", &EAGER);
    let other = &mut replica.client();
    let (host, port) = ("127.0.0.1", server.port());
    check(other, &format!("REPLICAOF {host} {port}"), "OK");
    eventually("the copy is there", || other.info("replication", "master_link_status") == "up");
    assert_eq!(other.show("DEBUG DIGEST"), digest);
    wait_for_all(other);
    check(client, "HSET bull:mail:17 state done", "(integer) 1");
    check(client, "HDEL bull:mail:18 name", "(integer) 1");
    check(client, "RENAME bull:mail:19 elsewhere", "OK");
    check(client, "WAIT 1 0", "(integer) 1");
    let digest = client.show("DEBUG DIGEST");
    assert_eq!(other.show("DEBUG DIGEST"), digest);
}

#[test]
fn keys_are_evicted_and_expire_as_before() {
    let server = Server::start(2, "auto", &EAGER);
    let client = &mut server.client();
    fill(client);
    wait_for_all(client);
    for number in 0..100 {
        check(client, &format!("PEXPIRE bull:mail:{number} 1"), "(integer) 1");
    }
    eventually("they are gone", || client.show("DBSIZE") == format!("(integer) {}", COUNT - 100));
    wait_from(client, 100);
    check(client, "CONFIG SET maxmemory-policy allkeys-lru", "OK");
    // Not only data counts, but only data can be evicted.
    let limit = counted_bytes(client) - used_bytes(client) / 2;
    check(client, &format!("CONFIG SET maxmemory {limit}"), "OK");
    eventually("there is room", || counted_bytes(client) <= limit + 64 * 1024);
    check(client, "CONFIG SET maxmemory 0", "OK");
    // All threads have answered, so no thread evicts any more.
    client.call("CLIENT LIST");
    let name = |number: usize| client.show(&format!("HGET bull:mail:{number} name"));
    let left = (100..COUNT).map(name).filter(|name| name == "\"sendEmail\"").count();
    check(client, "DBSIZE", &format!("(integer) {left}"));
    assert!((COUNT / 8..COUNT * 7 / 8).contains(&left), "{left} are left");
}
