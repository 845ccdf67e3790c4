//! Tests jobs in process: what each command does and replies, and that its effects do the same to another
//! store.

mod clock;
mod compared;
mod groups;
mod limits;
mod model;
mod payload;
mod schedule;
mod shared;
mod takers;

use std::time::Duration;

use background::Visits;
use ds::random::Random;
use ds::zset::ZSet;
use engine::{
    Client, CommandResult, Ctx, Entry, KeySpec, Local, Outcome, OwnedEffect, Run, Tx, TxMessage, keyword_is,
};
use keyspace::JobSettings;
use resp::{Output, Proto};
use shard::ShardId;

use crate::limits::{Limit, RATES};
use crate::{ENTRIES, JobTimers, Whose};

/// `fire queue`: does what is due, and replies when something is due next, or -1.
const FIRE: Entry =
    Entry { name: "fire", keys: &[KeySpec::one(1, &[])], run: Run::Function(fire), ..Entry::DEFAULT };

fn fire(ctx: &mut Ctx) -> CommandResult {
    let next_ms = crate::due::fire(&mut ctx.store, ctx.args[1])?;
    ctx.reply.int(next_ms.unwrap_or(-1));
    Ok(())
}

/// `limit queue …`: does what QUEUE LIMIT does with the same words.
const LIMIT: Entry =
    Entry { name: "limit", keys: &[KeySpec::one(1, &[])], run: Run::Function(limit), ..Entry::DEFAULT };

fn limit(ctx: &mut Ctx) -> CommandResult {
    let words = &ctx.args[2..];
    let is_off = words.first().is_some_and(|word| keyword_is(word, "off"));
    let limit = if is_off { None } else { Some(Limit::parse(words)?) };
    Limit::set(&mut ctx.store, ctx.args[1], limit)?;
    ctx.reply.ok();
    Ok(())
}

/// A store with the data commands and those on jobs. It records effects.
pub(crate) struct World(pub(crate) Local);

impl World {
    fn new() -> World {
        let mut local =
            Local::new(&[commands::FAMILIES, &[ENTRIES, &[FIRE, LIMIT]]].concat()).with_rates(RATES);
        local.record_effects();
        local.now = 1000;
        World(local)
    }

    pub(crate) fn run(&mut self, args: &[&[u8]]) -> Option<String> {
        self.run_in(0, args)
    }

    /// Runs a command in another database.
    fn run_in(&mut self, db: u32, args: &[&[u8]]) -> Option<String> {
        let client = Client { deny_blocking: false, ..Client::internal(db, Proto::Resp2) };
        let mut out = Output::new();
        match self.0.run(client, args, &mut (), &mut out) {
            Outcome::Blocked(_) => None,
            Outcome::Done | Outcome::Failed => {
                let text = out.to_vec();
                Some(String::from_utf8_lossy(&text).trim_end().replace("\r\n", " "))
            }
            Outcome::Again(_) => unreachable!("there is only one thread"),
        }
    }

    pub(crate) fn say(&mut self, line: &str) -> String {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.run(&args).unwrap_or_else(|| "waits".to_owned())
    }

    #[track_caller]
    pub(crate) fn check(&mut self, line: &str, expected: &str) {
        assert_eq!(self.say(line), expected, "{line}");
    }

    fn fire(&mut self) -> i64 {
        let reply = self.say("fire q");
        reply
            .strip_prefix(':')
            .and_then(|number| number.parse().ok())
            .expect("what lies beside it is its own")
    }

    pub(crate) fn effects(&mut self) -> Vec<OwnedEffect> {
        self.0.take_effects()
    }

    /// All keys of this queue, with their contents.
    fn dump(&mut self, queue: &str) -> Vec<String> {
        let lines = [
            format!("LRANGE {queue} 0 -1"),
            format!("ZRANGE {{{queue}}}:jobs:active 0 -1 WITHSCORES"),
            format!("ZRANGE {{{queue}}}:jobs:delayed 0 -1 WITHSCORES"),
            format!("ZRANGE {{{queue}}}:jobs:dead 0 -1 WITHSCORES"),
            format!("ZRANGE {{{queue}}}:jobs:workers 0 -1 WITHSCORES"),
            format!("ZRANGE {{{queue}}}:jobs:rate 0 -1 WITHSCORES"),
            format!("HGETALL {{{queue}}}:jobs:limit"),
            format!("SORT {{{queue}}}:jobs:unique BY nosort"),
        ];
        let mut dump: Vec<String> = lines.iter().map(|line| self.say(line)).collect();
        for key in ["groups", "groups:full"] {
            dump.push(self.say(&format!("ZRANGE {{{queue}}}:jobs:{key} 0 -1 WITHSCORES")));
        }
        for key in ["groups:active", "turn"] {
            let fields = self.say(&format!("HGETALL {{{queue}}}:jobs:{key}"));
            let mut fields: Vec<&str> = fields.split(" $").collect();
            fields.sort_unstable();
            dump.push(fields.join("|"));
        }
        for group in 0..5 {
            dump.push(self.say(&format!("LRANGE {{{queue}}}:jobs:group:g{group} 0 -1")));
        }
        let jobs = self.say(&format!("HGETALL {{{queue}}}:jobs"));
        let mut jobs: Vec<&str> = jobs.split(" $").collect();
        jobs.sort_unstable();
        dump.push(jobs.join("|"));
        dump
    }
}

#[test]
fn a_job_is_taken_and_done() {
    let mut world = World::new();
    world.check(r#"LPUSH q {"jid":"a1","args":[1]}"#, ":1");
    let taken = r#"*1 *4 $1 q $2 a1 :1 $23 {"jid":"a1","args":[1]}"#;
    world.check("JOB.TAKE w1 LEASE 5000 FROM p q", taken);
    world.check("EXISTS q", ":0");
    world.check("ZRANGE {q}:jobs:active 0 -1 WITHSCORES", "*2 $2 a1 $4 6000");
    world.check("JOB.DONE q a1 a2", ":1");
    world.check("JOB.DONE q a1", ":0");
    world.check("EXISTS {q}:jobs:active {q}:jobs", ":0");
    let effects: Vec<String> = world
        .effects()
        .iter()
        .map(|effect| String::from_utf8_lossy(&effect.args.join(&b' ')).into_owned())
        .collect();
    assert_eq!(
        effects,
        [
            r#"LPUSH q {"jid":"a1","args":[1]}"#,
            "RPOP q",
            "ZADD {q}:jobs:active 6000 a1",
            "HSET {q}:jobs a1 s=a n=1 w=w1\n{\"jid\":\"a1\",\"args\":[1]}",
            "ZREM {q}:jobs:active a1",
            "HDEL {q}:jobs a1",
        ]
    );
}

#[test]
fn an_attempt_that_fails_is_counted_until_the_last() {
    let mut world = World::new();
    world.check(r#"JOB.PUT q {"id":7} TRIES 3"#, "$1 7");
    world.check("JOB.TAKE w LEASE 10 FROM q", r#"*1 *4 $1 q $1 7 :1 $8 {"id":7}"#);
    world.check("JOB.FAIL q 7", "+waiting");
    world.check("LRANGE q 0 -1", r#"*1 $8 {"id":7}"#);
    world.check("JOB.TAKE w LEASE 10 FROM q", r#"*1 *4 $1 q $1 7 :2 $8 {"id":7}"#);
    world.check("JOB.RELEASE q 7", ":1");
    world.check("JOB.TAKE w LEASE 10 FROM q", r#"*1 *4 $1 q $1 7 :2 $8 {"id":7}"#);
    world.check("JOB.FAIL q 7 IN 500", "+delayed");
    assert_eq!(world.fire(), 1500);
    world.0.now = 1500;
    assert_eq!(world.fire(), -1);
    world.check("JOB.TAKE w LEASE 10 FROM q", r#"*1 *4 $1 q $1 7 :3 $8 {"id":7}"#);
    world.check("JOB.FAIL q 7 WHY boom", "+dead");
    world.check("JOB.LIST q DEAD", r#"*2 $1 0 *1 *6 $1 7 :1500 :3 $1 w $8 {"id":7} $4 boom"#);
    world.check("JOB.RETRY q ALL", ":1");
    world.check("JOB.TAKE w LEASE 10 FROM q", r#"*1 *4 $1 q $1 7 :1 $8 {"id":7}"#);
    world.check("JOB.DROP q 7", ":1");
    world.check("JOB.DONE q 7", ":0");
    world.check("EXISTS q {q}:jobs:active {q}:jobs:delayed {q}:jobs:dead {q}:jobs", ":0");
}

#[test]
fn settings_say_how_often_a_job_is_tried_and_which_dead_ones_are_kept() {
    let mut world = World::new();
    world.0.config.jobs = JobSettings { tries: 1, dead_max: 2, dead_timeout_ms: Some(5000) };
    for id in 1..=3 {
        world.say(&format!("JOB.PUT q p ID {id}"));
        world.say("JOB.TAKE w LEASE 1000 FROM q");
        world.check(&format!("JOB.FAIL q {id}"), "+dead");
        world.0.now += 1000;
    }
    world.check("ZRANGE {q}:jobs:dead 0 -1", "*2 $1 2 $1 3");
    assert_eq!(world.fire(), 7000, "the second one died at 2000");
    world.0.now = 7000;
    assert_eq!(world.fire(), 8000);
    world.check("ZRANGE {q}:jobs:dead 0 -1", "*1 $1 3");
    world.0.config.jobs = JobSettings { tries: 2, dead_max: 0, dead_timeout_ms: None };
    world.say("JOB.RETRY q 3");
    for state in ["waiting", "dead"] {
        world.say("JOB.TAKE w LEASE 1000 FROM q");
        world.check("JOB.FAIL q 3", &format!("+{state}"));
    }
    world.check("DBSIZE", ":0");
}

#[test]
fn leases_end_unless_the_worker_says_that_it_lives() {
    let mut world = World::new();
    world.say(r#"RPUSH q {"id":"b"} {"id":"a"}"#);
    world.say("JOB.TAKE w LEASE 100 COUNT 2 FROM q");
    world.check("JOB.KEEP q 1000 ID a x", ":1");
    assert_eq!(world.fire(), 1100);
    world.0.now = 1100;
    assert_eq!(world.fire(), 2000);
    world.check("LRANGE q 0 -1", r#"*1 $10 {"id":"b"}"#);
    world.check("JOB.DONE q b", ":0");
    world.check("JOB.KEEP q 5000 WORKER w", "+OK");
    world.0.now = 2000;
    assert_eq!(world.fire(), 6100, "its worker lives");
    world.0.now = 6100;
    assert_eq!(world.fire(), -1);
    world.check("LRANGE q 0 -1", r#"*2 $10 {"id":"b"} $10 {"id":"a"}"#);
    world.check("EXISTS {q}:jobs:workers", ":0");
    world.check("HGET {q}:jobs a", "$44 s=w n=1 e=the%20lease%20ended h=2893124221 p");
}

/// A queue whose first worker was too slow for its lease; the second one has the job.
fn lost_lease() -> World {
    let mut world = World::new();
    world.say("JOB.PUT q p ID a");
    world.check("JOB.TAKE w1 LEASE 10 FROM q", "*1 *4 $1 q $1 a :1 $1 p");
    world.0.now += 10;
    world.fire();
    world.check("JOB.TAKE w2 LEASE 500 FROM q", "*1 *4 $1 q $1 a :2 $1 p");
    world
}

#[test]
fn a_fenced_command_leaves_the_attempt_of_another_worker_alone() {
    let mut world = lost_lease();
    let before = world.dump("q");
    world.effects();
    for (line, reply) in [
        ("JOB.DONE q ATTEMPT a 1", ":0"),
        ("JOB.RELEASE q ATTEMPT a 1 b 2", ":0"),
        ("JOB.FAIL q a IN 5 ATTEMPT 1 WHY it", "$-1"),
        ("JOB.KEEP q 5 ATTEMPT a 1", ":0"),
    ] {
        world.check(line, reply);
        assert_eq!(world.dump("q"), before, "{line}");
    }
    assert!(world.effects().is_empty());
    world.check("JOB.KEEP q 800 ATTEMPT a 2", ":1");
    world.check("ZSCORE {q}:jobs:active a", "$4 1810");
    world.check("JOB.FAIL q a ATTEMPT 2", "+waiting");
    world.check("JOB.TAKE w3 LEASE 500 FROM q", "*1 *4 $1 q $1 a :3 $1 p");
    world.check("JOB.DONE q ATTEMPT a 2 a 3", ":1");
    world.check("DBSIZE", ":0");
    // Without a fence, the server goes by the id.
    lost_lease().check("JOB.DONE q a", ":1");
}

#[test]
fn what_follows_a_released_or_retried_attempt_may_have_its_number() {
    let mut world = lost_lease();
    world.check("JOB.RELEASE q ATTEMPT a 2", ":1");
    world.check("JOB.TAKE w3 LEASE 500 FROM q", "*1 *4 $1 q $1 a :2 $1 p");
    world.check("JOB.DONE q ATTEMPT a 1", ":0");
    world.check("JOB.FAIL q a ATTEMPT 2 IN 50", "+delayed");
    world.check("JOB.DONE q ATTEMPT a 2", ":0");
    world.check("JOB.RETRY q a", ":1");
    world.check("JOB.TAKE w4 LEASE 500 FROM q", "*1 *4 $1 q $1 a :1 $1 p");
    world.check("JOB.DONE q ATTEMPT a 1", ":1");
}

#[test]
fn the_word_attempt_in_the_first_place_is_no_id() {
    let mut world = World::new();
    world.say("JOB.PUT q p ID attempt");
    world.say("JOB.TAKE w LEASE 500 FROM q");
    for line in ["JOB.DONE q attempt", "JOB.RELEASE q ATTEMPT attempt", "JOB.KEEP q 5 ATTEMPT attempt 1 b"] {
        assert!(world.say(line).starts_with("-ERR syntax error near "), "{line}");
    }
    for line in
        ["JOB.DONE q ATTEMPT attempt 1 b 0", "JOB.FAIL q attempt ATTEMPT x", "JOB.KEEP q 5 ATTEMPT a -1"]
    {
        world.check(line, "-ERR attempt should be greater than 0");
    }
    world.check("JOB.KEEP q 800 ID attempt", ":1");
    world.check("JOB.RELEASE q b attempt", ":1");
    world.say("JOB.TAKE w LEASE 500 FROM q");
    world.check("JOB.DONE q ATTEMPT attempt 1", ":1");
}

#[test]
fn texts_of_any_kind_are_jobs() {
    let mut world = World::new();
    world.check("JOB.PUT q text ID x\"y IN 0", "$3 x\"y");
    world.check("LRANGE q 0 -1", r#"*1 $13 {"id":"x\"y"}"#);
    world.check("JOB.PUT q other ID x\"y", "-JOBEXISTS this queue has a job of this id, which is waiting");
    world.check("JOB.TAKE w LEASE 1 FROM q", "*1 *4 $1 q $3 x\"y :1 $4 text");
    world.check("JOB.PUT q other ID x\"y", "-JOBEXISTS this queue has a job of this id, which is active");
    world.say("LPUSH q plain");
    let taken = world.say("JOB.TAKE w LEASE 1 FROM q");
    assert!(taken.starts_with("*1 *4 $1 q $13 1000-") && taken.ends_with(":1 $5 plain"), "{taken}");
    // Two jobs with the same id of their own.
    world.say(r#"LPUSH q {"id":"z"} {"id":"z"}"#);
    world.check("JOB.TAKE w LEASE 1 FROM q", r#"*1 *4 $1 q $1 z :1 $10 {"id":"z"}"#);
    world.check("JOB.TAKE w LEASE 1 FROM q", r#"*1 *4 $1 q $3 z#2 :1 $10 {"id":"z"}"#);
    world.check("JOB.FAIL q z#2", "+waiting");
    world.check("LRANGE q 0 -1", r#"*1 $10 {"id":"z"}"#);
    world.check("JOB.DONE q z", ":1");
    world.check("JOB.TAKE w LEASE 1 FROM q", r#"*1 *4 $1 q $3 z#2 :2 $10 {"id":"z"}"#);
}

#[test]
fn a_lock_is_one_jobs_until_that_is_over() {
    let mut world = World::new();
    world.check("JOB.PUT q p1 ID a UNIQUE user:1 FOR 60000", "$1 a");
    world.check("JOB.PUT q p2 ID b UNIQUE user:1", "$1 a");
    world.check("PTTL {q}:jobs:unique:user:1", ":60000");
    world.check("JOB.GET q b", "$-1");
    world.say("JOB.TAKE w LEASE 10 FROM q");
    world.check("JOB.DONE q a", ":1");
    world.check("JOB.PUT q p2 ID b UNIQUE user:1", "$1 b");
    world.check("JOB.DROP q b", ":1");
    world.check("JOB.TAKE w LEASE 10 FROM q", "*-1");
    world.check("EXISTS {q}:jobs:unique:user:1 {q}:jobs", ":0");
}

#[test]
fn a_lock_is_free_when_its_job_is_dropped_or_comes_too_late() {
    let mut world = World::new();
    world.check("JOB.PUT q p ID a UNIQUE u", "$1 a");
    world.check("JOB.DROP q a", ":1");
    world.check("JOB.DROP q a", ":0");
    world.check("JOB.GET q a", "$-1");
    world.check("JOB.PUT q p ID b UNIQUE u EXPIRE 10", "$1 b");
    world.check("JOB.PUT q p ID c UNIQUE u", "$1 b");
    world.0.now += 11;
    world.check("JOB.PUT q p ID c UNIQUE u", "$1 c");
    world.check("JOB.TAKE w LEASE 10 COUNT 9 FROM q", "*1 *4 $1 q $1 c :1 $1 p");
    world.check("JOB.PUT q p ID d UNIQUE u", "$1 c");
}

#[test]
fn a_lock_whose_key_holds_something_else_ends_with_its_job() {
    let mut world = World::new();
    for end in ["DONE q a", "DROP q a"] {
        world.say("JOB.PUT q p ID a UNIQUE u");
        world.check("JOB.TAKE w LEASE 10 FROM q", "*1 *4 $1 q $1 a :1 $1 p");
        world.say("DEL {q}:jobs:unique:u");
        world.say("LPUSH {q}:jobs:unique:u x");
        world.check(&format!("JOB.{end}"), ":1");
        world.check("EXISTS {q}:jobs {q}:jobs:active", ":0");
        world.check("DEL {q}:jobs:unique:u", ":1");
    }
}

#[test]
fn a_job_that_began_in_time_comes_again_however_late() {
    let mut world = World::new();
    world.say("JOB.PUT q p ID a EXPIRE 10");
    world.check("JOB.TAKE w LEASE 50 FROM q", "*1 *4 $1 q $1 a :1 $1 p");
    world.0.now += 50;
    world.fire();
    world.check("JOB.TAKE w LEASE 50 FROM q", "*1 *4 $1 q $1 a :2 $1 p");
}

#[test]
fn a_job_that_could_not_begin_in_time_is_dropped() {
    let mut world = World::new();
    world.say("JOB.PUT q late ID a EXPIRE 10");
    world.say("JOB.PUT q good ID b");
    world.0.now = 1011;
    world.check("JOB.TAKE w LEASE 10 COUNT 9 FROM q", "*1 *4 $1 q $1 b :1 $4 good");
}

#[test]
fn who_waits_is_served_and_what_nobody_got_goes_back() {
    let mut world = World::new();
    world.check("JOB.TAKE w LEASE 10 FROM q", "*-1");
    world.check("JOB.TAKE w LEASE 10 WAIT 0 FROM p q", "waits");
    world.say("LPUSH q one");
    let served = std::mem::take(&mut world.0.outbox).into_iter().find_map(|message| match message {
        TxMessage::Served { handoff, .. } => Some(handoff),
        _ => None,
    });
    let served = served.expect("it waited for this");
    let restore = served.restore.expect("it says how the job goes back");
    let args: Vec<Vec<u8>> = restore.args.slices().iter().map(|arg| arg.to_vec()).collect();
    assert_eq!(args[..3], ["JOB.RELEASE", "q", "ATTEMPT"].map(|word| word.as_bytes().to_vec()));
    let args: Vec<&[u8]> = args.iter().map(|arg| &arg[..]).collect();
    assert_eq!(world.run(&args).as_deref(), Some(":1"));
    world.check("LLEN q", ":1");
    // If its lease ends before it goes back, another worker may have it by then.
    for _ in 0..2 {
        world.say("JOB.TAKE w LEASE 10 FROM q");
        world.0.now += 10;
        world.fire();
    }
    world.say("JOB.TAKE w LEASE 10 FROM q");
    assert_eq!(world.run(&args).as_deref(), Some(":0"));
    world.check("ZCARD {q}:jobs:active", ":1");
}

#[test]
fn what_is_no_queue_is_refused_and_nothing_is_lost() {
    let mut world = World::new();
    world.say("SET s 1");
    world.check(
        "JOB.TAKE w LEASE 10 FROM s",
        "-WRONGTYPE Operation against a key holding the wrong kind of value",
    );
    world.say("LPUSH q a");
    world.say("SET {q}:jobs 1");
    let error = "-WRONGTYPE {q}:jobs, which belongs to the queue's jobs, holds something else";
    world.check("JOB.TAKE w LEASE 10 FROM q", error);
    world.check("LLEN q", ":1");
    world.say("DEL {q}:jobs");
    world.check("LPUSH a}b x", ":1");
    world.check(
        "JOB.TAKE w LEASE 10 FROM a}b",
        "-ERR no name of a key lies beside this queue: give it a name without braces, or with a hash tag",
    );
    world.check("LPUSH {tag}q x", ":1");
    assert!(world.say("JOB.TAKE w LEASE 10 FROM {tag}q").starts_with("*1 *4"));
    world.check("EXISTS {tag}:{tag}q:jobs:active {tag}:{tag}q:jobs", ":2");
    for line in [
        "JOB.TAKE w LEASE 0 FROM q",
        "JOB.TAKE w LEASE -5 FROM q",
        "JOB.TAKE w LEASE 10 COUNT 0 FROM q",
        "JOB.TAKE w LEASE 10 WAIT x FROM q",
        "JOB.TAKE w LEASE 10 COUNT 1 q r",
        "JOB.PUT q p TRIES 0",
        "JOB.PUT q p IN -1",
        "JOB.PUT q p IN 1 AT 5",
        "JOB.PUT q p FOR 5",
        "JOB.PUT q p ID",
        "JOB.KEEP q 5 WHOSE a",
    ] {
        assert!(world.say(line).starts_with("-ERR"), "{line}");
    }
    world.check("LLEN q", ":1");
}

/// Runs random commands: a store that runs the effects ends up the same, and every job is in exactly one
/// state.
#[test]
fn effects_do_the_same_and_no_job_is_lost() {
    for seed in 0..200 {
        let (mut world, mut copy, mut random) = (World::new(), World::new(), Random::new(seed));
        let mut pick = |count: u64| random.next_u64() % count;
        let (mut put, mut ended) = (0, 0);
        for _ in 0..120 {
            world.0.now += pick(20) as i64;
            let id = format!("j{}", pick(12));
            let line = match pick(14) {
                0 | 1 => format!("JOB.PUT q payload ID {id} TRIES {}", 1 + pick(3)),
                2 => format!("JOB.PUT q {{\"id\":\"{id}\"}} IN {}", pick(50)),
                3 => format!("JOB.PUT q payload UNIQUE u{} ID {id}", pick(3)),
                4..=7 => format!("JOB.TAKE w{} LEASE {} COUNT {} FROM q", pick(3), 1 + pick(60), 1 + pick(2)),
                8 => format!("JOB.DONE q {id}"),
                9 => format!("JOB.FAIL q {id}"),
                10 => format!("JOB.FAIL q {id} IN {}", pick(30)),
                11 => format!("JOB.RELEASE q {id}"),
                12 => format!("JOB.RETRY q {id}"),
                _ => format!("JOB.KEEP q {} WORKER w{}", 1 + pick(40), pick(3)),
            };
            let reply = world.say(&line);
            match (line.split(' ').next(), &*reply) {
                (Some("JOB.PUT"), reply) if !reply.starts_with('-') => {
                    let has_lock = line.contains("UNIQUE") && !reply.ends_with(&format!(" {id}"));
                    put += u64::from(!has_lock);
                }
                (Some("JOB.DONE"), ":1") => ended += 1,
                _ => {}
            }
            world.fire();
            let effects = world.effects();
            copy.0.now = world.0.now;
            copy.0.replay(&effects).expect("effects are commands");
            assert_eq!(copy.dump("q"), world.dump("q"), "seed {seed}: {line}");
            let client = Client::internal(0, Proto::Resp2);
            let counted: u64 = world.0.with_store(client, |store| {
                let sets = [&b"{q}:jobs:active"[..], b"{q}:jobs:delayed", b"{q}:jobs:dead"];
                let in_sets = sets.map(|key| {
                    store.peek_as::<ZSet>(key).expect("its own").map_or(0, |set| set.len() as u64)
                });
                let list = store.peek_as::<keyspace::List>(b"q").expect("a list");
                in_sets.iter().sum::<u64>() + list.map_or(0, |list| list.len() as u64)
            });
            assert_eq!(counted, put - ended, "seed {seed}: {line} {reply}");
        }
    }
}

/// A store whose shards can all be taken.
pub(crate) struct Taken {
    pub(crate) world: World,
    pub(crate) is_taken: bool,
}

impl Visits for Taken {
    fn visit<R>(&mut self, _id: ShardId, work: impl FnOnce(&mut Tx) -> R) -> Option<R> {
        let client = Client::internal(0, Proto::Resp2);
        (!self.is_taken).then(|| self.world.0.with_store(client, |store| work(store.tx)))
    }

    fn visit_all<R>(
        &mut self,
        ids: &[ShardId],
        _is_patient: bool,
        work: impl FnOnce(&mut Tx) -> R,
    ) -> Option<R> {
        self.visit(*ids.first()?, work)
    }
}

#[test]
fn what_is_due_soon_happens_then() {
    let mut world = World::new();
    world.check("RPUSH mail a b c", ":3");
    world.check("ZADD {mail}:jobs:delayed 1800 x 90000 y", ":2");
    world.check("HSET {mail}:jobs x s=d\nlater y s=d\nmuch", ":2");
    let client = Client::internal(0, Proto::Resp2);
    let shards: Vec<ShardId> = world.0.with_store(client, |store| store.tx.hold.shards().ids().collect());
    let (mut taken, mut timers) = (Taken { world, is_taken: false }, JobTimers::default());
    timers.look((1000, Whose::Ours), shards.into_iter(), &mut taken);
    assert!(!timers.is_due(1799) && timers.is_due(1800));
    assert_eq!(timers.wait(|| 1_798_300), Some(Duration::from_micros(1700)), "until the millisecond begins");
    timers.fire(1799, |_| true, &mut taken);
    taken.world.check("LLEN mail", ":3");
    (taken.is_taken, taken.world.0.now) = (true, 1800);
    timers.fire(1800, |_| true, &mut taken);
    assert!(!timers.is_due(1800) && timers.is_due(1801), "a shard that was taken is tried again");
    (taken.is_taken, taken.world.0.now) = (false, 1801);
    timers.fire(1801, |_| true, &mut taken);
    taken.world.check("LLEN mail", ":4");
    assert_eq!(timers.wait(|| 1_801_000), None, "y is not due soon");
}

/// Sets a schedule of `q` and returns the reply.
fn set(world: &mut World, name: &str, schedule: &str, payload: &str, options: &str) -> String {
    let mut args = vec!["CRON", "SET", "q", name, schedule, payload];
    args.extend(options.split_whitespace());
    let args: Vec<&[u8]> = args.into_iter().map(str::as_bytes).collect();
    world.run(&args).expect("it does not wait")
}

#[test]
fn a_schedule_pushes_at_its_times() {
    let (mut world, mut copy) = (World::new(), World::new());
    assert_eq!(set(&mut world, "five", "*/5 * * * *", "job", ""), ":300000");
    assert_eq!(set(&mut world, "daily", "30 0 * * *", "other", "TZ Asia/Kolkata"), ":68400000");
    world.check("ZRANGE {q}:jobs:cron 0 -1 WITHSCORES", "*4 $4 five $6 300000 $5 daily $8 68400000");
    assert_eq!(world.fire(), 300_000);
    world.check("EXISTS q", ":0");
    world.0.now = 300_003;
    assert_eq!(world.fire(), 600_000);
    world.check("LRANGE q 0 -1", "*1 $3 job");
    // Set again unchanged before the due push was done; then changed.
    world.0.now = 600_500;
    assert_eq!(set(&mut world, "five", "*/5 * * * *", "job", "TZ UTC MISSED ONCE"), ":600000");
    assert_eq!(world.fire(), 900_000);
    assert_eq!(set(&mut world, "five", "*/7 * * * *", "seven", ""), ":840000");
    // Far too late: one push, or none.
    assert_eq!(set(&mut world, "skips", "* * * * *", "never", "MISSED SKIP"), ":660000");
    world.0.now = 10_000_000;
    assert_eq!(world.fire(), 10_020_000);
    world.check("LRANGE q 0 -1", "*3 $5 seven $3 job $3 job");
    // A clock that is set back.
    world.0.now = 5_000_000;
    assert_eq!(world.fire(), 10_020_000);
    world.check("CRON RUN q daily", ":1");
    world.check("CRON RUN q none", ":0");
    world.check("LINDEX q 0", "$5 other");
    let effects = world.effects();
    copy.0.replay(&effects).expect("effects are commands");
    for line in ["LRANGE q 0 -1", "ZRANGE {q}:jobs:cron 0 -1 WITHSCORES", "HLEN {q}:jobs:cron:lines"] {
        assert_eq!(copy.say(line), world.say(line));
    }
    for name in ["five", "daily", "skips"] {
        world.check(&format!("CRON DEL q {name}"), ":1");
    }
    world.check("CRON DEL q five", ":0");
    world.check("EXISTS {q}:jobs:cron {q}:jobs:cron:lines", ":0");
    assert_eq!(world.fire(), -1);
}

#[test]
fn a_schedule_may_have_line_breaks() {
    let mut world = World::new();
    assert_eq!(set(&mut world, "five", "*/5 *\n* * *\n", "push", ""), ":300000");
    world.check("CRON RUN q five", ":1");
    world.check("LRANGE q 0 -1", "*1 $4 push");
}

#[test]
fn each_push_is_filled_in() {
    let mut world = World::new();
    set(&mut world, "s", "*/10 * * * * *", "%{id} %{time} %{time_ms} %{x} %{", "");
    world.0.now = 10_007;
    world.fire();
    let element = world.say("LINDEX q 0");
    let (head, rest) = element.split_at(4);
    let (id, rest) = rest.split_at(24);
    assert_eq!((head, rest), ("$45 ", " 10.007 10007 %{x} %{"), "{element}");
    assert!(id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    world.check("CRON RUN q s", ":1");
    assert_ne!(world.say("LINDEX q 0"), element);
}

#[test]
fn what_is_no_schedule_is_refused() {
    let mut world = World::new();
    for (schedule, options, expected) in [
        ("* * * *", "", "-ERR '* * * *' is no schedule such as \"*/5 * * * *\": "),
        ("0 0 30 2 *", "", "-ERR the schedule '0 0 30 2 *' never comes"),
        (
            "* * * * *",
            "TZ Mars/Base",
            "-ERR 'Mars/Base' is no time zone: give a name such as Europe/Berlin, or UTC",
        ),
        (
            "* * * * *",
            "TZ",
            "-ERR syntax error near 'TZ': CRON SET takes TZ with a time zone, and MISSED with",
        ),
        ("* * * * *", "MISSED twice", "-ERR syntax error near 'twice': "),
        ("* * * * *", "AT 5", "-ERR syntax error near 'AT': "),
    ] {
        let reply = set(&mut world, "name", schedule, "job", options);
        assert!(reply.starts_with(expected), "{reply}");
    }
    let long = "n".repeat(513);
    assert_eq!(
        set(&mut world, &long, "* * * * *", "job", ""),
        "-ERR the name of a schedule has 1 to 512 bytes"
    );
    // Schedules that were changed by hand do no harm to others.
    set(&mut world, "good", "* * * * *", "job", "");
    world.say("ZADD {q}:jobs:cron 1 ghost 2 bad");
    world.say("HSET {q}:jobs:cron:lines bad Mars/Base\u{a0}once");
    world.0.now = 60_000;
    assert_eq!(world.fire(), 120_000);
    world.check("LRANGE q 0 -1", "*1 $3 job");
    world.check("ZCARD {q}:jobs:cron", ":1");
    world.say("DEL {q}:jobs:cron:lines");
    world.say("SET {q}:jobs:cron:lines x");
    let error = "-WRONGTYPE {q}:jobs:cron:lines, which belongs to the queue's jobs, holds something else";
    assert_eq!(set(&mut world, "good", "0 * * * *", "job", ""), error);
    world.check("CRON LIST q", error);
    world.check("CRON RUN q good", error);
}
