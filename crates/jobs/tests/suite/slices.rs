//! Tests searching, removing and moving in slices, while other clients push and pop. The recorded effects run
//! on another store, which must end up the same.

use std::collections::BTreeSet;

use ds::random::Random;
use engine::Local;
use resp::{Proto, Value};

use crate::server::{Server, decoded, text};

/// A job with a number of its own, of one of three classes.
fn job(number: u64) -> String {
    let class = ["mail", "image", "index"][(number % 3) as usize];
    format!(
        "{{\"class\":\"{class}\",\"jid\":\"job-{number}\",\"pad\":\"{}\"}}",
        "x".repeat((number * 7 % 200) as usize)
    )
}

/// Other clients of a queue, which push new jobs, take old ones, and put some back where they were.
struct Others {
    random: Random,
    next: u64,
    taken: BTreeSet<String>,
    /// How many more times they come.
    times_left: u32,
}

impl Others {
    fn come(&mut self, local: &mut Local) {
        if self.times_left == 0 {
            return;
        }
        self.times_left -= 1;
        for _ in 0..self.random.below(40) {
            if self.random.below(5) < 2 {
                local.reply(Proto::Resp3, &[b"LPUSH", b"q", job(self.next).as_bytes()]);
                self.next += 1;
            } else if let Value::Bulk(gone) = decoded(&local.reply(Proto::Resp3, &[b"RPOP", b"q"])) {
                self.taken.insert(String::from_utf8(gone).expect("the test writes letters"));
            }
        }
    }
}

/// A queue with some jobs, its clients, and its initial content, the oldest first.
fn busy_queue(seed: u64) -> (Server, Others, Vec<String>) {
    let mut server = Server::new();
    let mut random = Random::new(seed);
    let count = random.below(3000);
    server.thread.tick_ns = 1 + random.below(30_000);
    for number in 0..count {
        server.call(&[b"LPUSH", b"q", job(number).as_bytes()], |_| ());
    }
    let before = (0..count).map(job).collect();
    (server, Others { random, next: count, taken: BTreeSet::new(), times_left: 100 }, before)
}

const SEEDS: u64 = 60;

#[test]
fn what_is_there_all_the_time_is_found() {
    let mut slices = 0;
    for seed in 0..SEEDS {
        let (mut server, mut others, before) = busy_queue(seed);
        let count = (1 + others.random.below(50)).to_string();
        let mut cursor = "0".to_owned();
        let mut found = BTreeSet::new();
        loop {
            let args = ["QUEUE", "FIND", "q", "TEXT", "\"mail\"", "CURSOR", &cursor, "COUNT", &count];
            let reply = server.call(&args.map(str::as_bytes), |local| others.come(local));
            let Value::Array(parts) = reply else { panic!("{reply}") };
            let [next, Value::Array(hits)] = &parts[..] else { panic!("{parts:?}") };
            for hit in hits {
                let Value::Array(hit) = hit else { panic!("{hit}") };
                assert!(text(&hit[1]).contains("\"mail\""));
                found.insert(text(&hit[1]));
            }
            cursor = text(next);
            if cursor == "0" {
                break;
            }
            others.come(&mut server.local);
        }
        for stayed in before.iter().filter(|job| job.contains("\"mail\"") && !others.taken.contains(*job)) {
            assert!(found.contains(stayed), "seed {seed}: {stayed}");
        }
        slices += server.thread.slices;
    }
    assert!(slices > 2000, "searches have gone in slices");
}

#[test]
fn what_is_there_all_the_time_is_removed_and_nothing_else() {
    for seed in 0..SEEDS {
        let (mut server, mut others, before) = busy_queue(seed);
        let args = ["QUEUE", "REMOVE", "q", "TEXT", "\"mail\""].map(str::as_bytes);
        let removed = server.call(&args, |local| others.come(local));
        let left = server.list("q");
        let mut all = left.clone();
        all.extend(others.taken.iter().cloned());
        let pushed: Vec<String> = (0..others.next).map(job).collect();
        assert_eq!(removed, Value::Int((pushed.len() - all.len()) as i64), "seed {seed}");
        let is_missing = |job: &&String| !all.contains(job);
        assert!(pushed.iter().filter(is_missing).all(|job| job.contains("\"mail\"")), "seed {seed}");
        let is_left = |job: &&String| job.contains("\"mail\"") && left.contains(job);
        assert_eq!(before.iter().find(is_left), None, "seed {seed}");
        assert!(left.iter().rev().is_sorted_by_key(|job| number_of(job)), "seed {seed}: the order is kept");
    }
}

#[test]
fn what_is_moved_keeps_its_order() {
    for seed in 0..SEEDS {
        for text in [false, true] {
            let (mut server, mut others, before) = busy_queue(seed);
            server.line("LPUSH to first second");
            let mut args = vec!["QUEUE", "MOVE", "q", "to"];
            let count = others.random.below(1000).to_string();
            if others.random.below(2) == 0 && count != "0" {
                args.extend(["COUNT", &count]);
            }
            if text {
                args.extend(["TEXT", "\"image\""]);
            }
            let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
            let Value::Int(done) = server.call(&args, |local| others.come(local)) else { panic!("an error") };
            let (left, mut moved) = (server.list("q"), server.list("to"));
            moved.reverse();
            assert_eq!(moved[..2], ["first", "second"], "they go behind what is there");
            assert_eq!(moved.len(), 2 + done as usize, "seed {seed}");
            assert!(moved[2..].is_sorted_by_key(|job| number_of(job)), "seed {seed}");
            assert!(left.iter().rev().is_sorted_by_key(|job| number_of(job)), "seed {seed}");
            assert!(!text || moved[2..].iter().all(|job| job.contains("\"image\"")));
            let mut all: BTreeSet<String> =
                left.iter().chain(&moved[2..]).chain(&others.taken).cloned().collect();
            assert_eq!(
                all.len(),
                left.len() + moved.len() - 2 + others.taken.len(),
                "nothing is in two places"
            );
            (0..others.next).for_each(|number| assert!(all.remove(&job(number)), "seed {seed}: {number}"));
            if args.len() == 4 || args.len() == 6 && text {
                let is_left = |job: &&String| (!text || job.contains("\"image\"")) && left.contains(job);
                assert_eq!(before.iter().find(is_left), None, "seed {seed}");
            }
        }
    }
}

fn number_of(job: &str) -> u64 {
    let digits = job.split_once("job-").and_then(|(_, rest)| rest.split_once('"'));
    digits.and_then(|(digits, _)| digits.parse().ok()).expect("it is a job")
}

/// Equal elements: the search removes those it found, not others that look like them.
#[test]
fn of_equal_elements_the_oldest_go() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut server = Server::new();
        server.thread.tick_ns = 1 + random.below(30_000);
        let mut model: Vec<String> = Vec::new();
        for _ in 0..random.below(800) {
            let job = job(random.below(6));
            server.call(&[b"LPUSH", b"q", job.as_bytes()], |_| ());
            model.push(job);
        }
        for _ in 0..4 {
            let (id, count) = (format!("job-{}", random.below(6)), 1 + random.below(60) as usize);
            let removed = server.line(&format!("QUEUE REMOVE q ID {id} COUNT {count}"));
            let (len, mut left) = (model.len(), count);
            model.retain(|job| {
                let goes = left > 0 && job.contains(&format!("\"{id}\""));
                left -= usize::from(goes);
                !goes
            });
            assert_eq!(removed, Value::Int((len - model.len()) as i64));
            let mut list = server.list("q");
            list.reverse();
            assert_eq!(list, model, "seed {seed}");
        }
    }
}

/// Members of a sorted set, many of them with equal scores, while other clients add and remove some.
#[test]
fn members_are_found_removed_and_moved() {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let mut server = Server::new();
        server.thread.tick_ns = 1 + random.below(30_000);
        let count = random.below(600);
        for number in 0..count {
            let score = (number % 7).to_string();
            server.call(&[b"ZADD", b"z", score.as_bytes(), job(number).as_bytes()], |_| ());
        }
        let mut gone = BTreeSet::new();
        let mut others = |local: &mut Local| {
            let (number, score) = (random.below(600), random.below(7).to_string());
            if random.below(2) == 0 {
                local.reply(Proto::Resp3, &[b"ZREM", b"z", job(number).as_bytes()]);
                gone.insert(number);
            } else {
                local.reply(Proto::Resp3, &[b"ZADD", b"z", score.as_bytes(), job(1000 + number).as_bytes()]);
            }
        };
        let (mut cursor, mut found) = ("0".to_owned(), BTreeSet::new());
        loop {
            let args = ["QUEUE", "FIND", "z", "TEXT", "\"mail\"", "COUNT", "7", "CURSOR", &cursor];
            let Value::Array(parts) = server.call(&args.map(str::as_bytes), |_| ()) else {
                panic!("an error")
            };
            let [next, Value::Array(hits)] = &parts[..] else { panic!("{parts:?}") };
            for hit in hits {
                let Value::Array(hit) = hit else { panic!("{hit}") };
                assert!(found.insert(text(&hit[1])), "seed {seed}: nothing else changes it");
            }
            cursor = text(next);
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(found.len() as u64, (0..count).filter(|number| number % 3 == 0).count() as u64);
        server.call(&["QUEUE", "REMOVE", "z", "TEXT", "\"mail\""].map(str::as_bytes), &mut others);
        server.call(&["QUEUE", "MOVE", "z", "w", "TEXT", "\"image\""].map(str::as_bytes), &mut others);
        let effects = server.local.take_effects();
        server.replica.replay(&effects).expect("effects run again");
        let member = |local: &mut Local, key: &[u8], number: u64| {
            decoded(&local.reply(Proto::Resp3, &[b"ZSCORE", key, job(number).as_bytes()])) != Value::Null
        };
        for number in (0..count).filter(|number| !gone.contains(number)) {
            for local in [&mut server.local, &mut server.replica] {
                let places = [member(local, b"z", number), member(local, b"w", number)];
                let expected = [[false, false], [false, true], [true, false]][(number % 3) as usize];
                assert_eq!(places, expected, "seed {seed}: {number}");
            }
        }
    }
}
