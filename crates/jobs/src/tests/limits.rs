//! Tests limits: neither the takes within a window nor the active jobs ever exceed them.

use ds::random::Random;
use ds::zset::ZSet;
use engine::{Client, JobsNews, TxMessage};
use resp::Proto;

use super::World;

impl World {
    /// The replies with which waiters were served since the last call.
    pub(super) fn served(&mut self) -> Vec<String> {
        let outbox = std::mem::take(&mut self.0.outbox).into_iter();
        let replies = outbox.filter_map(|message| match message {
            TxMessage::Served { handoff, .. } => Some(handoff.reply.to_vec()),
            _ => None,
        });
        replies.map(|reply| String::from_utf8_lossy(&reply).trim_end().replace("\r\n", " ")).collect()
    }

    /// The times at which the thread was told to look at a queue.
    fn told(&self) -> Vec<i64> {
        let due = self.0.outbox.iter().filter_map(|message| match message {
            TxMessage::Jobs(JobsNews::Due(due)) => Some(due.time_ms),
            _ => None,
        });
        due.collect()
    }
}

#[test]
fn active_jobs_are_no_more_than_the_limit() {
    let mut world = World::new();
    world.check("limit q ACTIVE 2", "+OK");
    world.say("RPUSH q c b a");
    let taken = world.say("JOB.TAKE w LEASE 100 COUNT 9 FROM q");
    assert!(taken.starts_with("*2 "), "{taken}");
    world.check("JOB.TAKE w LEASE 100 COUNT 9 FROM q", "*-1");
    world.check("JOB.TAKE w LEASE 100 WAIT 0 FROM q", "waits");
    // A take without a lease adds no active job.
    world.check("BRPOP q 0", "*2 $1 q $1 c");
    world.check("RPUSH q c", ":1");
    assert_eq!(world.served(), Vec::<String>::new());
    let id = world.say("ZRANGE {q}:jobs:active 0 0").split(' ').nth(2).expect("an id").to_owned();
    world.check(&format!("JOB.DONE q {id}"), ":1");
    assert_eq!(world.served().len(), 1);
    world.say("RPUSH q d");
    world.check("JOB.TAKE w LEASE 100 WAIT 0 FROM q", "waits");
    // It also waits when leases end …
    world.0.now += 100;
    world.fire();
    assert_eq!(world.served().len(), 1);
    assert_eq!(world.say("ZCARD {q}:jobs:active"), ":1", "both leases ended");
    world.say("JOB.TAKE w LEASE 900 FROM q");
    // … and gets more when the limit is changed or removed.
    world.check("JOB.TAKE w LEASE 900 WAIT 0 FROM q", "waits");
    world.check("JOB.TAKE w LEASE 900 WAIT 0 FROM q", "waits");
    world.say("RPUSH q e f g");
    world.check("limit q ACTIVE 3", "+OK");
    assert_eq!(world.served().len(), 1);
    world.check("limit q OFF", "+OK");
    assert_eq!(world.served().len(), 1);
    world.check("EXISTS {q}:jobs:limit {q}:jobs:rate", ":0");
}

#[test]
fn a_move_of_several_takes_what_the_rate_allows() {
    let mut world = World::new();
    world.check("limit q RATE 3 PER 1000", "+OK");
    world.say("RPUSH q a b c d e");
    world.check("LMOVEM q r LEFT RIGHT EXACTLY 4 BULK", "*-1");
    world.check("LMOVEM q r LEFT RIGHT COUNT 2 BULK", "*2 $1 a $1 b");
    world.check("BLMOVEM q r LEFT RIGHT 0 EXACTLY 2 BULK", "waits");
    world.check("RPUSH q f", ":4");
    assert_eq!(world.served(), Vec::<String>::new());
    world.check("LMOVEM q r LEFT RIGHT COUNT 9 BULK", "*1 $1 c");
    world.check("LMOVEM q r LEFT RIGHT", "*-1");
    world.0.now += 1000;
    world.fire();
    assert_eq!(world.served(), ["*2 $1 d $1 e"]);
    world.check("LLEN r", ":5");
}

#[test]
fn the_rate_holds_for_whoever_takes() {
    let mut world = World::new();
    world.check("limit q RATE 3 PER 1000", "+OK");
    world.say("RPUSH q g f e d c b a");
    world.check("LPOP other 3", "*-1");
    world.check("RPOP q 2", "*2 $1 a $1 b");
    world.0.now += 10;
    let taken = world.say("JOB.TAKE w LEASE 100000 COUNT 9 FROM q");
    assert!(taken.starts_with("*1 *4 "), "{taken}");
    world.check("ZRANGE {q}:jobs:rate 0 -1 WITHSCORES", "*4 $3 1-2 $4 2000 $3 3-3 $4 2010");
    assert_eq!(world.told().last(), Some(&2000), "it is to be looked at when it opens");
    for line in ["RPOP q", "RPOP q 1"] {
        assert!(["$-1", "*-1"].contains(&&*world.say(line)), "{line}");
    }
    world.check("LMOVE q r LEFT LEFT", "$-1");
    world.check("LMPOP 1 q LEFT COUNT 3", "*-1");
    world.check("BRPOP q 0", "waits");
    world.check("BLMPOP 0 1 q RIGHT COUNT 2", "waits");
    world.check("JOB.TAKE w LEASE 100 WAIT 0 FROM q", "waits");
    world.check("RPUSH q h", ":5");
    assert_eq!(world.served(), Vec::<String>::new());
    world.0.now = 1999;
    assert_eq!(world.fire(), 2000);
    assert_eq!(world.served(), Vec::<String>::new());
    world.0.now = 2000;
    world.fire();
    assert_eq!(world.told().last(), Some(&2010));
    assert_eq!(world.served(), ["*2 $1 q $1 h", "*2 $1 q *1 $1 d"], "there is room for one of its two");
    world.0.now = 2010;
    world.fire();
    assert_eq!(world.served().len(), 1);
    world.check("LLEN q", ":2");
    // Takes are not counted without a rate limit.
    world.check("limit q ACTIVE 9", "+OK");
    world.check("EXISTS {q}:jobs:rate", ":0");
    world.check("RPOP q 9", "*2 $1 f $1 g");
}

#[test]
fn takes_count_for_the_window_of_the_limit_that_there_is() {
    let mut world = World::new();
    world.say("RPUSH q a b c d e f");
    world.say("limit q RATE 2 PER 60000");
    world.say("RPOP q 2");
    world.check("BRPOP q 0", "waits");
    world.check("BRPOP q 0", "waits");
    world.0.now += 500;
    world.check("limit q RATE 3 PER 60000", "+OK");
    assert_eq!(world.served().len(), 1);
    // Part of the window has passed; a part is one thousandth of it.
    world.check("limit q RATE 3 PER 400", "+OK");
    assert_eq!(world.served().len(), 1);
    world.check("RPOP q", "$1 b");
    world.check("RPOP q", "$-1");
    // Setting the clock back does not close the queue for longer.
    world.0.now -= 1_000_000;
    world.check("RPOP q", "$-1");
    world.fire();
    world.0.now += 399;
    world.check("RPOP q", "$-1");
    world.0.now += 1;
    world.check("RPOP q", "$1 a");
}

#[test]
fn a_shorter_window_counts_what_was_taken_in_it() {
    let mut world = World::new();
    world.say("RPUSH q a b c d e f");
    world.0.now = 3_599_990;
    world.say("limit q RATE 4 PER 3600000");
    // Two parts of the long window.
    world.say("RPOP q");
    world.0.now = 3_599_999;
    world.say("RPOP q");
    world.0.now = 3_600_000;
    world.say("RPOP q");
    world.check("limit q RATE 3 PER 100", "+OK");
    world.check("RPOP q", "$-1");
    world.0.now += 89;
    world.check("RPOP q", "$-1");
    world.0.now += 11;
    world.check("RPOP q 9", "*3 $1 c $1 b $1 a");
    world.check("RPOP q", "$-1");
}

#[test]
fn many_takes_are_few_members() {
    let mut world = World::new();
    world.say("limit q RATE 1000000 PER 3600000");
    for round in 0..4_000 {
        world.say("RPUSH q a");
        world.check("RPOP q", "$1 a");
        world.0.now += 1 + round % 2000;
    }
    let members: usize = world.say("ZCARD {q}:jobs:rate")[1..].parse().expect("a number");
    assert!((900..=1001).contains(&members), "{members}");
}

#[test]
fn what_limits_must_be_what_it_is() {
    let mut world = World::new();
    let number = "-ERR numbers of a limit are greater than 0 and not greater than 281474976710656";
    for (line, expected) in [
        ("limit q", "-ERR syntax error"),
        ("limit q RATE 5", "-ERR syntax error"),
        ("limit q ACTIVE 1 ACTIVE 2", "-ERR syntax error"),
        ("limit q RATE 0 PER 5", number),
        ("limit q RATE 5 PER 0", number),
        ("limit q RATE -5 PER 10", number),
        ("limit q RATE 5 PER 281474976710657", number),
        ("limit q ACTIVE 99999999999999999999", number),
        ("limit q ACTIVE x", number),
    ] {
        world.check(line, expected);
    }
    world.check("limit q RATE 281474976710656 PER 281474976710656 ACTIVE 281474976710656", "+OK");
    world.say("RPUSH q a b c");
    world.check("RPOP q", "$1 c");
    world.say("SET s 1");
    world.check("limit s ACTIVE 1", "-WRONGTYPE Operation against a key holding the wrong kind of value");
    // Keys that hold something else, or were changed by hand.
    world.say("SET {q}:jobs:limit 1");
    let error = "-WRONGTYPE {q}:jobs:limit, which belongs to the queue's limit, holds something else";
    world.check("JOB.TAKE w LEASE 10 FROM q", error);
    world.check("limit q ACTIVE 1", error);
    world.say("DEL {q}:jobs:limit {q}:jobs:rate");
    world.say("HSET {q}:jobs:limit rate 5 per_ms x");
    let error = "-ERR {q}:jobs:limit, which belongs to the queue's limit, was changed by hand: DEL it";
    world.check("JOB.TAKE w LEASE 10 FROM q", error);
    world.check("BRPOP q 0", error);
    world.check("limit q RATE 5 PER 100", "+OK");
    world.say("SET {q}:jobs:rate 1");
    let error = "-WRONGTYPE {q}:jobs:rate, which belongs to the queue's limit, holds something else";
    world.check("JOB.TAKE w LEASE 10 FROM q", error);
    world.check("RPOP q", error);
    world.check("LLEN q", ":2");
    world.say("DEL {q}:jobs:rate");
    world.check("RPOP q", "$1 b");
    // A limit can be deleted by hand.
    world.check("DEL {q}:jobs:limit", ":1");
    world.check("RPOP q 9", "*1 $1 a");
    world.check(
        "limit a}b ACTIVE 1",
        "-ERR no name of a key lies beside this queue: give it a name without braces, or with a hash tag",
    );
}

#[test]
fn a_limit_is_the_names_not_the_lists() {
    let mut world = World::new();
    world.say("limit q RATE 1 PER 1000 ACTIVE 1");
    world.say("RPUSH q a b c");
    let taken = world.say("JOB.TAKE w LEASE 100 FROM q");
    assert!(taken.starts_with("*1 *4 "), "{taken}");
    world.check("RENAME q r", "+OK");
    world.check("RPOP r", "$1 b");
    world.check("RENAME r q", "+OK");
    world.check("RPOP q", "$-1");
    world.check("DEL q", ":1");
    world.say("RPUSH q d");
    world.check("RPOP q", "$-1");
    world.0.now += 100;
    world.fire();
    world.check("LLEN q", ":2");
    world.say("FLUSHALL");
    world.say("RPUSH q d e");
    world.check("RPOP q 2", "*2 $1 e $1 d");
}

/// Runs random commands: no window has more takes than the rate, there are never more active jobs than
/// allowed, no job is lost, and a store that runs the effects ends up the same.
#[test]
fn no_window_has_more_and_no_more_are_active() {
    for seed in 0..100 {
        let (mut world, mut copy, mut random) = (World::new(), World::new(), Random::new(seed));
        let mut pick = |count: u64| random.next_u64() % count;
        let (rate, active) = (1 + pick(6), 1 + pick(4));
        let per_ms = [1 + pick(30), 1 + pick(30_000)][pick(2) as usize];
        world.say(&format!("limit q RATE {rate} PER {per_ms} ACTIVE {active}"));
        let (mut taken_ms, mut waiting): (Vec<i64>, u64) = (Vec::new(), 0);
        let (mut pushed, mut gone) = (0, 0);
        for _ in 0..200 {
            world.0.now += pick(per_ms / 3 + 2) as i64 * pick(2) as i64;
            let ids = world.say("ZRANGE {q}:jobs:active 0 -1");
            let id = ids.split(' ').nth(2).unwrap_or("none").to_owned();
            let line = match pick(12) {
                0..=2 => "RPUSH q a b".to_owned(),
                3 | 4 => format!("JOB.TAKE w LEASE {} COUNT {} FROM q", 1 + pick(per_ms), 1 + pick(3)),
                5 => format!("JOB.TAKE w LEASE {} WAIT 0 COUNT 2 FROM p q", 1 + pick(per_ms)),
                6 => "BRPOP q 0".to_owned(),
                7 => format!("LPOP q {}", 1 + pick(3)),
                8 => format!("JOB.DONE q {id}"),
                9 => format!("JOB.FAIL q {id}"),
                10 => format!("JOB.RELEASE q {id}"),
                _ => format!("JOB.KEEP q {} ID {id}", 1 + pick(per_ms)),
            };
            let reply = world.say(&line);
            let mut replies = world.served();
            waiting -= replies.len() as u64;
            match (line.split(' ').next(), &*reply) {
                (_, "waits") => waiting += 1,
                (Some("RPUSH"), _) => pushed += 2,
                (Some("JOB.DONE"), ":1") => gone += 1,
                (Some("JOB.TAKE" | "BRPOP" | "LPOP"), _) => replies.push(reply),
                _ => {}
            }
            world.fire();
            let later = world.served();
            waiting -= later.len() as u64;
            for reply in replies.iter().chain(&later) {
                assert!(!reply.starts_with('-'), "{reply}");
                let count = match reply.split(' ').next() {
                    Some("*2") if reply.starts_with("*2 $1 q $") => 1,
                    Some(word) => word.strip_prefix('*').and_then(|count| count.parse().ok()).unwrap_or(0),
                    None => 0,
                };
                gone += if reply.contains("*4") { 0 } else { count as u64 };
                taken_ms.extend(std::iter::repeat_n(world.0.now, count));
            }
            let now_ms = world.0.now;
            let in_window = taken_ms.iter().filter(|ms| **ms > now_ms - per_ms.cast_signed()).count() as u64;
            assert!(in_window <= rate, "seed {seed}: {line}: {in_window} of {rate} in {per_ms} ms");
            let client = Client::internal(0, Proto::Resp2);
            let (active_count, depth) = world.0.with_store(client, |store| {
                let active = store.peek_as::<ZSet>(b"{q}:jobs:active").expect("its own");
                let list = store.peek_as::<keyspace::List>(b"q").expect("a list");
                (active.map_or(0, |set| set.len() as u64), list.map_or(0, |list| list.len() as u64))
            });
            assert!(active_count <= active, "seed {seed}: {line}: {active_count} of {active} are active");
            assert_eq!(depth + active_count, pushed - gone, "seed {seed}: {line}");
            // No waiting worker could be served.
            if waiting > 0 && depth > 0 {
                assert!(in_window == rate || active_count == active || per_ms > 1000, "seed {seed}: {line}");
            }
            let effects = world.effects();
            copy.0.now = now_ms;
            copy.0.keeps_due = true;
            copy.0.replay(&effects).expect("effects are commands");
            assert_eq!(copy.dump("q"), world.dump("q"), "seed {seed}: {line}");
        }
    }
}

/// Threads read the clock at the start of their turns, so one thread's clock may be a little behind
/// another's.
#[test]
fn a_thread_whose_clock_is_a_little_behind_opens_nothing_early() {
    let mut world = World::new();
    world.check("limit q RATE 1 PER 20", "+OK");
    world.say("RPUSH q a b");
    world.0.now = 2000;
    world.check("RPOP q", "$1 b");
    world.0.now = 1900;
    world.check("RPOP q", "$-1");
    world.fire();
    world.0.now = 2000;
    world.check("RPOP q", "$-1");
    world.0.now = 2020;
    world.check("RPOP q", "$1 a");
}

#[test]
fn takes_of_threads_whose_clocks_differ_are_all_counted() {
    let mut world = World::new();
    world.check("limit q RATE 4 PER 2000", "+OK");
    world.say("RPUSH q a b c d e f");
    for (now, expected) in [(5000, "f"), (4990, "e"), (5000, "d"), (4000, "c")] {
        world.0.now = now;
        world.check("RPOP q", &format!("$1 {expected}"));
    }
    for now in [4990, 5000, 6999] {
        world.0.now = now;
        world.fire();
        world.check("RPOP q", "$-1");
    }
    world.0.now = 7001;
    world.check("RPOP q", "$1 b");
}
