//! Queues under load: many push, many pop from several queues, on all threads.

use std::collections::BTreeSet;

use blackbox::{Client, Server, check, text};
use resp::Value;

/// Requests of one client.
const COUNT: usize = 2000;

#[test]
fn every_job_is_popped_once() {
    for options in [&["--num-shards=8"][..], &["--num-shards=8", "--shard-entry=home"]] {
        let server = Server::start(4, "auto", options);
        let mut producers: Vec<Client> = (0..4).map(|_| server.client()).collect();
        let mut consumers: Vec<Client> = (0..4).map(|_| server.client()).collect();
        for (number, consumer) in consumers.iter_mut().enumerate() {
            // Each meets the queues in another order.
            let order: Vec<String> = (0..8).map(|index| format!("q{}", (number + 3 * index) % 8)).collect();
            let line = format!("BRPOP {} 0\r\n", order.join(" "));
            consumer.send_bytes(line.repeat(COUNT).as_bytes());
        }
        for (number, producer) in producers.iter_mut().enumerate() {
            let line = |job: usize| format!("LPUSH q{} {number}:{job}\r\n", (job * job + number) % 8);
            producer.send_bytes((0..COUNT).map(line).collect::<String>().as_bytes());
        }
        let mut jobs = BTreeSet::new();
        for consumer in &mut consumers {
            for _ in 0..COUNT {
                let Value::Array(popped) = consumer.receive() else { panic!("no job") };
                assert!(jobs.insert(text(&popped[1])), "{} comes twice", popped[1]);
            }
        }
        assert_eq!(jobs.len(), producers.len() * COUNT);
    }
}

#[test]
fn a_replica_shows_the_limit_of_a_queue() {
    let server = Server::start(1, "auto", &[]);
    let client = &mut server.client();
    check(client, "QUEUE LIMIT q ACTIVE 3", "OK");
    check(client, "REPLICAOF 127.0.0.1 1", "OK");
    let shown = "1) \"active\"\n2) (integer) 3";
    check(client, "QUEUE LIMIT q", shown);
    check(client, "EVAL \"return redis.call('QUEUE', 'LIMIT', KEYS[1])\" 1 q", shown);
    let read_only = "(error) READONLY You can't write against a read only replica.";
    check(client, "QUEUE LIMIT q ACTIVE 4", read_only);
    check(client, "QUEUE LIMIT q OFF", read_only);
}

#[test]
fn what_is_kept_of_a_job_is_only_moved_for_a_user_who_may_change_it() {
    let server = Server::start(2, "auto", &["--num-shards=8"]);
    let admin = &mut server.client();
    for number in 0..20 {
        check(admin, &format!("HSET rq:job:j{number} data x"), "(integer) 1");
        check(admin, &format!("RPUSH rq:queue:a j{number}"), &format!("(integer) {}", number + 1));
    }
    check(admin, "ACL SETUSER x on nopass ~rq:queue:* ~rq:queues +@all", "OK");
    let client = &mut server.client();
    check(client, "AUTH x x", "OK");
    let denied = "(error) NOPERM No permissions to access a key that has a part of the job";
    check(client, "QUEUE MOVE rq:queue:a rq:queue:b", denied);
    check(client, "QUEUE REMOVE rq:queue:a ID j3", denied);
    check(client, "LLEN rq:queue:a", "(integer) 20");
    check(admin, "ACL SETUSER x ~rq:job:j1*", "OK");
    check(client, "QUEUE MOVE rq:queue:a rq:queue:b", "(integer) 11");
    check(admin, "HGET rq:job:j12 origin", "\"b\"");
}
