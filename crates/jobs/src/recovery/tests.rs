//! Processes that die, stop and live, and what becomes of their jobs.

use engine::{Client, JobsNews, Local, TxMessage};
use keyspace::queue::RecoveryFigures;
use resp::{Output, Proto};
use shard::{Placement, ShardId};

use super::watch::{Around, Watch, trim};
use super::*;
use crate::tests::{Taken, World};

struct Stage {
    taken: Taken,
    recovery: Recovery,
    watch: Watch,
    shards: Vec<ShardId>,
    figures: RecoveryFigures,
}

const START_MS: i64 = 1_700_000_000_000;

fn job(jid: &str) -> String {
    format!(r#"{{"class":"A","args":[],"jid":"{jid}","queue":"q"}}"#)
}

/// The ids of the jobs in a reply, the next one to be popped first.
fn ids(reply: &str) -> Vec<String> {
    let ids = reply.split("\"jid\":\"").skip(1);
    let mut ids: Vec<String> =
        ids.map(|rest| rest.split('"').next().unwrap_or_default().to_owned()).collect();
    ids.reverse();
    ids
}

impl Stage {
    fn new() -> Stage {
        let mut local = Local::new(&[commands::FAMILIES, &[crate::ENTRIES]].concat());
        (local.now, local.config.recovers) = (START_MS, true);
        let client = Client::internal(0, Proto::Resp2);
        let shards = local.with_store(client, |store| store.tx.hold.shards().ids().collect());
        let taken = Taken { world: World(local), is_taken: false };
        let (recovery, watch, figures) = Default::default();
        let mut stage = Stage { taken, recovery, watch, shards, figures };
        stage.look();
        stage
    }

    fn now_ms(&self) -> u64 {
        self.taken.world.0.now.cast_unsigned()
    }

    fn say_as(&mut self, id: u64, line: &str) -> String {
        let client = Client { id, ..Client::internal(0, Proto::Resp2) };
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut out = Output::new();
        let local = &mut self.taken.world.0;
        local.run(client, &args, &mut (), &mut out);
        for message in std::mem::take(&mut local.outbox) {
            if let TxMessage::Jobs(JobsNews::Beat { db, set, identity, client }) = message {
                self.recovery.beat(Process { db, set, identity }, client, local.now.cast_unsigned());
            }
        }
        String::from_utf8_lossy(&out.to_vec()).trim_end().replace("\r\n", " ")
    }

    #[track_caller]
    fn check(&mut self, line: &str, expected: &str) {
        assert_eq!(self.say_as(99, line), expected, "{line}");
    }

    fn report(&mut self, client: u64, identity: &str, running: &[&str]) {
        self.say_as(client, &format!("UNLINK {identity}:work"));
        for jid in running {
            let payload = job(jid).replace('"', "\\\"");
            let entry = format!(r#"{{"queue":"q","payload":"{payload}","run_at":1}}"#);
            self.say_as(client, &format!("HSET {identity}:work {jid} {entry}"));
        }
        self.say_as(client, &format!("EXPIRE {identity}:work 60"));
    }

    /// Beats as Sidekiq's process `identity` does while it runs these jobs.
    fn beat(&mut self, client: u64, identity: &str, running: &[&str]) {
        self.report(client, identity, running);
        self.say_as(client, &format!("SADD processes {identity}"));
        self.say_as(client, &format!("HSET {identity} info x"));
        self.say_as(client, &format!("EXPIRE {identity} 60"));
    }

    fn pop(&mut self, client: u64, jid: &str) {
        self.say_as(99, &format!("LPUSH queue:q {}", job(jid)));
        assert!(self.say_as(client, "RPOP queue:q").contains(&format!("\"{jid}\"")));
    }

    /// Closes connections of one address.
    fn depart(&mut self, clients: &[u64]) {
        clients.iter().for_each(|client| self.recovery.depart(*client, "10.0.0.1:77", self.now_ms()));
    }

    fn advance(&mut self, ms: i64) {
        self.taken.world.0.now += ms;
    }

    /// Lets seconds pass, with a look in each.
    fn pass(&mut self, seconds: u32) {
        for _ in 0..seconds {
            self.advance(1000);
            self.look();
        }
    }

    fn look(&mut self) {
        let placement = Placement::new(ds::hashing::Seed::new(1), 8, None);
        let around = Around {
            now_ms: self.now_ms(),
            wall_ms: self.now_ms(),
            db_count: 1,
            shards: &self.shards,
            locate: &|key| placement.locate(key).0,
            recovery: &self.recovery,
            figures: &self.figures,
        };
        self.watch.look(&around, &mut self.taken);
        for _ in 0..10 {
            self.watch.go_on(&around, &mut self.taken);
        }
        trim(Some(self.recovery.kept_since_ms()), self.shards.iter().copied(), &mut self.taken);
    }

    fn waiting(&mut self) -> Vec<String> {
        ids(&self.say_as(99, "LRANGE queue:q 0 -1"))
    }

    fn counted(&self) -> [u64; 3] {
        let RecoveryFigures { dead_processes, returned_jobs, left_jobs, .. } = &self.figures;
        [dead_processes, returned_jobs, left_jobs].map(|figure| figure.load(Ordering::Relaxed))
    }
}

#[test]
fn what_a_dead_process_had_goes_back_when_its_key_has_expired() {
    let mut stage = Stage::new();
    stage.beat(5, "h:1:a", &[]);
    stage.pop(6, "done");
    stage.pass(5);
    stage.pop(6, "long");
    stage.beat(5, "h:1:a", &["long"]);
    stage.pass(5);
    stage.beat(5, "h:1:a", &["long"]);
    stage.pop(7, "others");
    stage.pop(6, "short");
    stage.depart(&[5, 6]);
    stage.pass(60);
    assert!(stage.waiting().is_empty(), "its key is there");
    stage.pass(1);
    assert_eq!(stage.waiting(), ["long", "short"]);
    stage.check("EXISTS processes h:1:a h:1:a:work", ":0");
    stage.pass(30);
    assert_eq!(stage.waiting(), ["long", "short"], "once");
    assert_eq!(stage.counted(), [1, 2, 0]);
}

#[test]
fn processes_that_die_one_after_the_other_have_their_jobs_returned_once() {
    let mut stage = Stage::new();
    stage.beat(5, "h:1:a", &[]);
    stage.beat(7, "h:2:b", &[]);
    stage.pop(6, "of-a");
    stage.pop(8, "of-b");
    stage.depart(&[5, 6]);
    stage.check("PEXPIRE h:1:a 1", ":1");
    stage.pass(1);
    assert_eq!(stage.waiting(), ["of-a"]);
    stage.depart(&[7, 8]);
    stage.check("PEXPIRE h:2:b 1", ":1");
    stage.pass(2);
    assert_eq!(stage.waiting(), ["of-b", "of-a"], "each once");
    stage.pass(100);
    assert_eq!(stage.waiting(), ["of-b", "of-a"], "each once");
    assert_eq!(stage.counted(), [2, 2, 0]);
}

#[test]
fn processes_that_die_together_are_searched_together() {
    let mut stage = Stage::new();
    // b beats later, so pops from before that count for longer.
    for _ in 0..2 {
        stage.beat(5, "h:1:a", &["of-a"]);
        stage.pass(4);
        stage.beat(7, "h:2:b", &[]);
        stage.pop(8, "of-b");
        stage.pass(6);
    }
    stage.beat(5, "h:1:a", &["of-a"]);
    stage.beat(9, "i:1:c", &[]);
    stage.depart(&[5, 6]);
    stage.advance(1400);
    stage.depart(&[7, 8]);
    stage.advance(100);
    stage.depart(&[9]);
    stage.pass(53);
    assert!(stage.waiting().is_empty(), "a's key is there");
    stage.pass(10);
    assert_eq!(stage.waiting(), ["of-b", "of-a"]);
    stage.check("EXISTS processes h:1:a h:2:b h:1:a:work", ":0");
    assert_eq!(stage.counted(), [3, 2, 0]);
}

#[test]
fn what_was_popped_long_ago_is_not_returned_with_one_that_has_beaten_once() {
    let mut stage = Stage::new();
    // All pops are remembered, because it is open what becomes of c.
    stage.beat(9, "h:3:c", &[]);
    stage.depart(&[9]);
    stage.beat(5, "h:1:a", &[]);
    stage.pop(6, "done");
    for _ in 0..3 {
        stage.pass(10);
        stage.beat(5, "h:1:a", &[]);
    }
    stage.pop(6, "of-a");
    stage.beat(7, "h:2:b", &[]);
    stage.pop(8, "of-b");
    stage.depart(&[5, 6, 7, 8]);
    stage.check("PEXPIRE h:1:a 1", ":1");
    stage.check("PEXPIRE h:2:b 1", ":1");
    stage.pass(2);
    let mut waiting = stage.waiting();
    waiting.sort();
    assert_eq!(waiting, ["of-a", "of-b"]);
}

#[test]
fn one_that_died_with_others_does_not_wait_for_those_that_live() {
    let mut stage = Stage::new();
    stage.beat(5, "h:1:a", &["x"]);
    stage.beat(7, "h:2:b", &["y"]);
    stage.pop(6, "z");
    // All connections are cut, but only a is dead.
    stage.depart(&[5, 6, 7]);
    for second in 0..61 {
        if second % 10 == 3 {
            stage.beat(17, "h:2:b", &["y", "z"]);
        }
        stage.pass(1);
    }
    assert_eq!(stage.waiting(), ["x"], "b shows that z is its own");
    stage.pass(30);
    assert_eq!(stage.waiting(), ["x"]);
}

#[test]
fn one_that_stops_or_lives_gets_nothing_back() {
    let mut stage = Stage::new();
    stage.beat(5, "h:1:a", &[]);
    stage.pop(5, "returned-by-itself");
    stage.say_as(5, "SREM processes h:1:a");
    stage.say_as(5, "UNLINK h:1:a:work");
    stage.depart(&[5]);
    for second in 0..70 {
        if second % 10 == 0 {
            stage.beat(6, "h:2:b", &["running"]);
        }
        stage.pass(1);
    }
    assert!(stage.waiting().is_empty());
    stage.check("EXISTS h:1:a h:2:b h:2:b:work", ":2");
    assert_eq!(stage.counted(), [0, 0, 0]);
}

#[test]
fn what_it_pushed_back_before_it_was_killed_is_not_returned_again() {
    let mut stage = Stage::new();
    stage.beat(5, "h:1:a", &["back", "running"]);
    // The same process pops it again, in the same millisecond.
    stage.pop(6, "twice");
    stage.say_as(5, &format!("RPUSH queue:q {}", job("twice")));
    assert!(stage.say_as(6, "RPOP queue:q").contains("twice"));
    stage.pop(6, "back");
    stage.pop(6, "running");
    stage.say_as(5, &format!("RPUSH queue:q {}", job("back")));
    stage.depart(&[5, 6]);
    stage.advance(2000);
    stage.pass(60);
    assert_eq!(stage.waiting(), ["running", "twice", "back"]);
}

#[test]
fn what_another_one_runs_or_has_popped_since_is_left_alone() {
    let mut stage = Stage::new();
    stage.beat(5, "h:1:a", &["a", "b", "c"]);
    stage.depart(&[5]);
    for second in 0..61 {
        if second % 10 == 0 {
            stage.beat(6, "h:2:b", &["b"]);
        }
        stage.pass(1);
        if second == 50 {
            stage.pop(6, "c");
        }
    }
    assert_eq!(stage.waiting(), ["a"]);
}

#[test]
fn after_a_start_processes_have_time_to_beat() {
    let mut stage = Stage::new();
    let entry = format!(r#"{{"queue":"q","payload":"{}"}}"#, job("a").replace('"', "\\\""));
    stage.check("SADD processes h:1:a h:2:b h:3:c", ":3");
    stage.check(&format!("HSET h:1:a:work t {entry}"), ":1");
    stage.check(&format!("HSET h:2:b:workers t {}", entry.replace("\\\"a\\\"", "\\\"b\\\"")), ":1");
    stage.check(&format!("HSET h:3:c:work t {}", entry.replace("\\\"a\\\"", "\\\"c\\\"")), ":1");
    stage.pass(20);
    assert!(stage.waiting().is_empty());
    stage.beat(5, "h:2:b", &[]);
    // Sidekiq's page does this with dead processes.
    stage.check("SREM processes h:3:c", ":1");
    stage.pass(20);
    assert_eq!(stage.waiting(), ["c", "a"]);
    stage.check("SMEMBERS processes", "*1 $5 h:2:b");
    stage.pass(10);
    assert_eq!(stage.counted(), [2, 2, 0]);
}

#[test]
fn where_writes_were_refused_processes_have_time_to_beat() {
    let mut stage = Stage::new();
    stage.beat(5, "h:1:a", &["of-a"]);
    stage.beat(7, "h:2:b", &["of-b"]);
    stage.pop(8, "unseen");
    stage.pass(10);
    // b dies at once; there are no looks while writes are refused.
    stage.depart(&[7, 8]);
    stage.advance(600_000);
    stage.depart(&[9]);
    stage.pass(9);
    assert!(stage.waiting().is_empty());
    for _ in 0..2 {
        stage.beat(5, "h:1:a", &["of-a"]);
        stage.pass(11);
    }
    assert_eq!(stage.waiting(), ["of-b", "unseen"]);
    assert_eq!(stage.counted(), [1, 2, 0]);
}

#[test]
fn connections_that_closed_elsewhere_or_at_another_time_are_not_its_own() {
    let mut stage = Stage::new();
    stage.beat(5, "h:1:a", &[]);
    for (client, jid) in [(6, "same"), (7, "later"), (8, "elsewhere")] {
        stage.pop(client, jid);
    }
    let now_ms = stage.now_ms();
    for (client, peer, after_ms) in [(5, "h:1", 0), (6, "h:2", 900), (7, "h:3", 1600), (8, "i:1", 0)] {
        stage.recovery.depart(client, peer, now_ms + after_ms);
    }
    stage.pass(62);
    assert_eq!(stage.waiting(), ["same"]);
}

#[test]
fn one_that_is_stopped_and_goes_on_is_watched_again() {
    let mut stage = Stage::new();
    stage.beat(5, "h:1:a", &["running"]);
    stage.pop(6, "unseen");
    stage.pass(61);
    assert_eq!(stage.waiting(), ["running"], "its connections are open");
    stage.say_as(99, "DEL queue:q");
    stage.beat(5, "h:1:a", &["running"]);
    stage.pop(6, "next");
    stage.depart(&[5, 6]);
    stage.pass(61);
    assert_eq!(stage.waiting(), ["next", "running"]);
}

#[test]
fn two_of_one_name_are_one_process() {
    let mut stage = Stage::new();
    for second in 0..100 {
        if second % 10 == 0 && second < 40 {
            stage.beat(5, "h:1:a", &["a"]);
        }
        if second % 10 == 5 {
            stage.beat(7, "h:1:a", &["b"]);
        }
        if second == 40 {
            stage.depart(&[5]);
        }
        stage.pass(1);
    }
    assert!(stage.waiting().is_empty(), "the other one keeps the name");
    stage.depart(&[7]);
    stage.pass(61);
    assert_eq!(stage.waiting(), ["b"]);
}

#[test]
fn a_million_bytes_of_pops_are_searched_part_by_part() {
    let mut stage = Stage::new();
    stage.beat(5, "h:1:a", &[]);
    stage.pop(6, "first");
    for number in 0..5000 {
        stage.pop(7, &format!("others-{number}"));
    }
    for number in 0..100 {
        stage.pop(6, &format!("own-{number}"));
    }
    stage.say_as(7, &format!("RPUSH queue:q {}", job("own-50")));
    stage.depart(&[5, 6]);
    stage.check("PEXPIRE h:1:a 1", ":1");
    stage.pass(1);
    let waiting = stage.waiting();
    assert_eq!(waiting.len(), 101);
    assert_eq!(
        (&*waiting[0], &*waiting[1], &*waiting[99], &*waiting[100]),
        ("first", "own-0", "own-99", "own-50")
    );
}

#[test]
fn queues_that_are_none_are_counted_and_shards_that_are_taken_are_waited_for() {
    let mut stage = Stage::new();
    stage.beat(5, "h:1:a", &["a"]);
    stage.say_as(99, "SET queue:q x");
    stage.pass(62);
    assert_eq!(stage.counted(), [1, 0, 1]);
    stage.check("EXISTS h:1:a:work processes", ":0");
    stage.beat(5, "h:1:a", &["a"]);
    stage.say_as(99, "DEL queue:q");
    stage.pass(55);
    stage.taken.is_taken = true;
    stage.pass(10);
    stage.check("EXISTS h:1:a:work processes", ":2");
    stage.taken.is_taken = false;
    stage.pass(2);
    assert_eq!(stage.waiting(), ["a"]);
}

#[test]
fn what_was_taken_with_a_lease_comes_back_by_its_lease_only() {
    let mut stage = Stage::new();
    let take = "JOB.TAKE w LEASE 20000 FROM queue:q";
    for jid in ["popped", "done", "failed", "waits", "active"] {
        stage.say_as(99, &format!("LPUSH queue:q {}", job(jid)));
    }
    assert!(stage.say_as(6, "RPOP queue:q").contains("popped"));
    (0..4).for_each(|_| assert!(stage.say_as(6, take).contains("jid")));
    let all = ["popped", "done", "failed", "waits", "active"];
    stage.pass(1);
    stage.beat(5, "h:1:a", &all);
    stage.depart(&[5, 6]);
    stage.pass(10);
    // The leases end one after the other.
    stage.check("JOB.RELEASE queue:q active", ":1");
    assert!(stage.say_as(7, &take.replace("20000", "900000")).contains("active"));
    stage.check("JOB.FAIL queue:q failed IN 900000", "+delayed");
    stage.check("JOB.FAIL queue:q waits", "+waiting");
    stage.check("JOB.DONE queue:q done", ":1");
    stage.pass(60);
    assert_eq!(stage.waiting(), ["popped", "waits"]);
    assert_eq!(stage.counted(), [1, 1, 0]);
}

#[test]
fn a_job_that_was_leased_once_and_popped_later_is_returned() {
    let mut stage = Stage::new();
    stage.say_as(99, &format!("LPUSH queue:q {}", job("a")));
    stage.say_as(7, "JOB.TAKE w LEASE 20000 FROM queue:q");
    stage.check("JOB.FAIL queue:q a", "+waiting");
    assert!(stage.say_as(6, "RPOP queue:q").contains("\"a\""));
    // Long enough for the pop to be forgotten.
    for _ in 0..10 {
        stage.beat(5, "h:1:a", &["a"]);
        stage.pass(10);
    }
    stage.depart(&[5, 6]);
    stage.pass(70);
    assert_eq!(stage.waiting(), ["a"]);
}
