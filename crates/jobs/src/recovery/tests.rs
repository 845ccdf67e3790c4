//! Processes that die, stop and live, and what becomes of the jobs that they had.

use command::{Client, Local, Post};
use resp::{Output, Proto};
use shard::ShardId;

use super::watch::{Around, Watch, trim};
use super::*;
use crate::tests::{Taken, World};

struct Stage {
    taken: Taken,
    recovery: Recovery,
    watch: Watch,
    shards: Vec<ShardId>,
}

const START_MS: i64 = 1_700_000_000_000;

fn job(jid: &str) -> String {
    format!(r#"{{"class":"A","args":[],"jid":"{jid}","queue":"q"}}"#)
}

impl Stage {
    fn new() -> Stage {
        let mut local = Local::new(commands::FAMILIES);
        (local.now, local.config.recovers) = (START_MS, true);
        let client = Client::internal(0, Proto::Resp2);
        let shards = local.with_store(client, |store| store.tx.hold.shards().ids().collect());
        let taken = Taken { world: World(local), is_taken: false };
        Stage { taken, recovery: Recovery::default(), watch: Watch::default(), shards }
    }

    fn say_as(&mut self, id: u64, line: &str) -> String {
        let client = Client { id, ..Client::internal(0, Proto::Resp2) };
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut out = Output::new();
        let local = &mut self.taken.world.0;
        local.run(client, &args, &mut (), &mut out);
        for post in std::mem::take(&mut local.posts) {
            if let Post::Beat { db, set, identity, client } = post {
                self.recovery.beat(Process { db, set, identity }, client, local.now as u64);
            }
        }
        String::from_utf8_lossy(&out.to_vec()).trim_end().replace("\r\n", " ")
    }

    #[track_caller]
    fn check(&mut self, line: &str, expected: &str) {
        assert_eq!(self.say_as(99, line), expected, "{line}");
    }

    /// As Sidekiq's process `identity` beats, while it runs these jobs.
    fn beat(&mut self, client: u64, identity: &str, running: &[&str]) {
        self.say_as(client, &format!("UNLINK {identity}:work"));
        for jid in running {
            let payload = job(jid).replace('"', "\\\"");
            let entry = format!(r#"{{"queue":"q","payload":"{payload}","run_at":1}}"#);
            self.say_as(client, &format!("HSET {identity}:work {jid} {entry}"));
        }
        self.say_as(client, &format!("EXPIRE {identity}:work 60"));
        self.say_as(client, &format!("SADD processes {identity}"));
        self.say_as(client, &format!("HSET {identity} info x"));
        self.say_as(client, &format!("EXPIRE {identity} 60"));
    }

    fn pop(&mut self, client: u64, jid: &str) {
        self.say_as(99, &format!("RPUSH queue:q {}", job(jid)));
        assert!(self.say_as(client, "RPOP queue:q").contains(&format!("\"{jid}\"")));
    }

    /// Seconds go by, with a look in each.
    fn pass(&mut self, seconds: u32) {
        for _ in 0..seconds {
            self.taken.world.0.now += 1000;
            self.look();
        }
    }

    fn look(&mut self) {
        let now_ms = self.taken.world.0.now as u64;
        let client = Client::internal(0, Proto::Resp2);
        let keys: Vec<Vec<u8>> = ["processes", "h:1:a", "h:2:b", "queue:q"]
            .iter()
            .flat_map(|key| ["", ":work", ":workers"].map(|end| format!("{key}{end}").into_bytes()))
            .collect();
        let places: Vec<(Vec<u8>, ShardId)> = self.taken.world.0.with_store(client, |store| {
            keys.into_iter().map(|key| (key.clone(), store.locate(&key).0)).collect()
        });
        let locate = |key: &[u8]| places.iter().find(|(other, _)| other == key).expect("it is one of them").1;
        let around =
            Around { now_ms, db_count: 1, shards: &self.shards, locate: &locate, recovery: &self.recovery };
        self.watch.look(&around, &mut self.taken);
        let gone = self.recovery.gone();
        trim(now_ms, Some(&gone), self.shards.iter().copied(), &mut self.taken);
    }

    /// The ids of the jobs in the queue, the next one first.
    fn waiting(&mut self) -> Vec<String> {
        let reply = self.say_as(99, "LRANGE queue:q 0 -1");
        let mut ids: Vec<String> = reply
            .split("\"jid\":\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap_or_default().to_owned())
            .collect();
        ids.reverse();
        ids
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
    for client in [5, 6] {
        stage.recovery.depart(client, "10.0.0.1:77", stage.taken.world.0.now as u64);
    }
    stage.pass(60);
    assert!(stage.waiting().is_empty(), "its key is there");
    stage.pass(1);
    assert_eq!(stage.waiting(), ["long", "short"]);
    stage.check("EXISTS processes h:1:a h:1:a:work", ":0");
    stage.pass(30);
    assert_eq!(stage.waiting(), ["long", "short"], "once");
}

#[test]
fn one_that_stops_or_lives_gets_nothing_back() {
    let mut stage = Stage::new();
    stage.beat(5, "h:1:a", &[]);
    stage.pop(5, "returned-by-itself");
    stage.say_as(5, "SREM processes h:1:a");
    stage.say_as(5, "UNLINK h:1:a:work");
    stage.recovery.depart(5, "10.0.0.1:77", stage.taken.world.0.now as u64);
    for second in 0..70 {
        if second % 10 == 0 {
            stage.beat(6, "h:2:b", &["running"]);
        }
        stage.pass(1);
    }
    assert!(stage.waiting().is_empty());
    stage.check("EXISTS h:1:a h:2:b h:2:b:work", ":2");
}

#[test]
fn what_another_one_runs_or_has_popped_since_is_left_alone() {
    let mut stage = Stage::new();
    stage.beat(5, "h:1:a", &["a", "b", "c"]);
    stage.recovery.depart(5, "10.0.0.1:77", stage.taken.world.0.now as u64);
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
    stage.check("SADD processes h:1:a h:2:b", ":2");
    stage.check(&format!("HSET h:1:a:work t {entry}"), ":1");
    stage.check(&format!("HSET h:2:b:workers t {}", entry.replace("\\\"a\\\"", "\\\"b\\\"")), ":1");
    stage.pass(20);
    assert!(stage.waiting().is_empty());
    stage.beat(5, "h:2:b", &[]);
    stage.pass(20);
    assert_eq!(stage.waiting(), ["a"]);
    stage.check("SMEMBERS processes", "*1 $5 h:2:b");
}

#[test]
fn connections_that_closed_elsewhere_or_at_another_time_are_not_its_own() {
    let mut stage = Stage::new();
    stage.beat(5, "h:1:a", &[]);
    for (client, jid) in [(6, "same"), (7, "later"), (8, "elsewhere")] {
        stage.pop(client, jid);
    }
    let now_ms = stage.taken.world.0.now as u64;
    for (client, peer, after_ms) in [(5, "h:1", 0), (6, "h:2", 900), (7, "h:3", 1600), (8, "i:1", 0)] {
        stage.recovery.depart(client, peer, now_ms + after_ms);
    }
    stage.pass(62);
    assert_eq!(stage.waiting(), ["same"]);
}
