//! Queues under load: many push, many pop from several queues, on all threads.

use std::collections::BTreeSet;

use blackbox::{Client, Server, text};
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
