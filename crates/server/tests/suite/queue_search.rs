//! Searching and changing a deep queue while other clients push and pop: the replies, and their order.

use blackbox::{Client, Server, eventually, text};
use resp::Value;

const JOBS: usize = 60_000;
const BATCH: usize = 200;

/// Jobs of three classes, numbered, in a list.
fn fill(client: &mut Client) {
    for first in (0..JOBS).step_by(BATCH) {
        let jobs = (first..first + BATCH).map(job).collect::<Vec<_>>().join(" ");
        assert_eq!(client.call(&format!("LPUSH q {jobs}")), Value::Int((first + BATCH) as i64));
    }
}

fn job(number: usize) -> String {
    let class = ["mail", "image", "index"][number % 3];
    format!("{class}:{number}:{}", "of-some-length-".repeat(10))
}

#[test]
fn replies_keep_their_order_and_no_job_is_lost() {
    for options in [&["--num-shards=4"][..], &["--num-shards=4", "--shard-entry=home"]] {
        let server = Server::start(2, "auto", options);
        let (mut client, mut other) = (server.client(), server.client());
        fill(&mut client);
        client.send_bytes(
            b"PING before\r\nQUEUE REMOVE q TEXT mail:\r\nPING between\r\nQUEUE MOVE q p TEXT image:\r\n\
              QUEUE FIND q TEXT mail:\r\nCLIENT REPLY SKIP\r\nQUEUE FIND q TEXT index: COUNT 100000\r\nPING after\r\n",
        );
        // Meanwhile a worker takes jobs, the oldest first.
        let mut taken = Vec::new();
        for _ in 0..2000 {
            taken.push(text(&other.call("RPOP q")));
        }
        assert_eq!(text(&client.receive()), "before");
        let Value::Int(removed) = client.receive() else { panic!("no number") };
        assert_eq!(text(&client.receive()), "between");
        let Value::Int(moved) = client.receive() else { panic!("no number") };
        let found = client.receive();
        let Value::Array(parts) = &found else { panic!("{found}") };
        assert_eq!(parts[1], Value::Array(Vec::new()), "all of them are gone");
        assert_eq!(text(&client.receive()), "after");
        let taken_of = |class: &str| taken.iter().filter(|job| job.starts_with(class)).count();
        assert_eq!(removed as usize, JOBS / 3 - taken_of("mail"));
        assert_eq!(moved as usize, JOBS / 3 - taken_of("image"));
        assert_eq!(client.call("LLEN q"), Value::Int((JOBS / 3 - taken_of("index")) as i64));
        let Value::Array(there) = client.call("LRANGE p 0 -1") else { panic!("no list") };
        let number =
            |job: &Value| text(job).split(':').nth(1).and_then(|number| number.parse::<usize>().ok());
        assert!(there.iter().rev().is_sorted_by_key(number), "they keep their order");
        assert_eq!(there.len(), moved as usize);
    }
}

#[test]
fn others_are_served_while_a_queue_is_searched() {
    let server = Server::start(1, "auto", &["--num-shards=1"]);
    let (mut client, mut other) = (server.client(), server.client());
    fill(&mut client);
    client.send("QUEUE REMOVE q TEXT mail:");
    // Other clients see the removals so far, and more follow.
    let mut lengths = Vec::new();
    loop {
        let Value::Int(len) = other.call("LLEN q") else { panic!("no number") };
        lengths.push(len as usize);
        if len as usize == JOBS - JOBS / 3 {
            break;
        }
    }
    lengths.dedup();
    assert!(lengths.len() > 1, "{lengths:?}");
    assert_eq!(client.receive(), Value::Int((JOBS / 3) as i64));
}

#[test]
fn a_search_ends_with_its_client() {
    let server = Server::start(1, "auto", &["--num-shards=1"]);
    let mut other = server.client();
    eventually("the search is still under way when its client is killed", || {
        let mut client = server.client();
        fill(&mut client);
        let id = client.id();
        client.send("QUEUE REMOVE q TEXT :");
        while other.call("LLEN q") == Value::Int(JOBS as i64) {}
        assert_eq!(other.call(&format!("CLIENT KILL ID {id}")), Value::Int(1));
        let left = other.call("LLEN q");
        // A few turns of the thread later.
        (0..20).for_each(|_| _ = other.call("PING x"));
        assert_eq!(other.call("LLEN q"), left, "nobody removes any more");
        other.call("DEL q");
        left != Value::Int(0)
    });
}
