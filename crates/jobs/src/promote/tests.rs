//! Jobs that are due move as Sidekiq's poller would move them; all others stay.

use std::time::Duration;

use engine::{CommandResult, Ctx, Entry, KeySpec, Local, Run};

use super::*;
use crate::tests::{Taken, World};
use crate::{JobTimers, Whose};

/// `promote set queues queue …`: moves what is due, and replies how many jobs had to stay.
const PROMOTE: Entry = Entry {
    name: "promote",
    arity: -3,
    keys: &[KeySpec::range(1, -1, 1, &[])],
    run: Run::Function(promote_in),
    ..Entry::DEFAULT
};

fn promote_in(ctx: &mut Ctx) -> CommandResult {
    let shard = ctx.store.locate(ctx.args[1]).0;
    let due = JobsDue { time_ms: 0, shard, db: 0, queue: ctx.args[1].into() };
    let plan = plan(ctx.store.tx, &due);
    let left_count = promote(ctx.store.tx, &due, &plan.jobs) + plan.left_count;
    ctx.reply.int(left_count as i64);
    Ok(())
}

fn world() -> World {
    let mut local = Local::new(&[commands::FAMILIES, &[&[PROMOTE]]].concat());
    local.record_effects();
    local.now = 1_700_000_000_123;
    local.config.promotes = true;
    World(local)
}

fn job(jid: &str, more: &str) -> String {
    format!(r#"{{"class":"A","args":[],"jid":"{jid}","queue":"mail"{more}}}"#)
}

#[test]
fn a_due_job_joins_its_queue_in_one_step() {
    let mut world = world();
    let (now, later) = (job("a", r#","created_at":1699999990.5"#), job("b", ""));
    world.check(&format!("ZADD schedule 1700000000.123 {now} 1700000000.1231 {later}"), ":2");
    world.effects();
    world.check("promote schedule queues queue:mail", ":0");
    let pushed = job("a", r#","created_at":1699999990.5,"enqueued_at":1700000000.123"#);
    let effects: Vec<String> = world
        .effects()
        .iter()
        .map(|effect| String::from_utf8_lossy(&effect.args.join(&b' ')).into_owned())
        .collect();
    let expected =
        [format!("ZREM schedule {now}"), "SADD queues mail".to_owned(), format!("LPUSH queue:mail {pushed}")];
    assert_eq!(effects, expected);
    world.check("ZCARD schedule", ":1");
    world.0.now += 1;
    world.check("promote schedule queues queue:mail", ":0");
    world.check("LLEN queue:mail", ":2");
    world.check("EXISTS schedule", ":0");
    let last = job("b", r#","enqueued_at":1700000000.124"#);
    world.check("LPOP queue:mail", &format!("${} {last}", last.len()));
}

#[test]
fn the_time_is_written_as_each_sidekiq_does() {
    let stamped = |more: &str| {
        let job = job("a", more);
        let rule = Rule::of_sidekiq(b"schedule");
        String::from_utf8(rule.stamped(job.as_bytes(), 1_700_000_000_007)).expect("it is text")
    };
    for (before, after) in [
        ("", r#","enqueued_at":1700000000.007"#),
        (r#","enqueued_at":1.5,"retry":true"#, r#","enqueued_at":1700000000.007,"retry":true"#),
        (r#","created_at":1699999999000"#, r#","created_at":1699999999000,"enqueued_at":1700000000007"#),
        (
            r#","enqueued_at":5,"created_at":1699999999000"#,
            r#","enqueued_at":1700000000007,"created_at":1699999999000"#,
        ),
    ] {
        assert_eq!(stamped(before), job("a", after), "{before}");
    }
}

#[test]
fn namespaces_are_kept_and_what_is_no_job_is_left() {
    let mut world = world();
    world.check("SADD app:queues other", ":1");
    world.check(&format!("ZADD app:retry 1 {}", job("a", "")), ":1");
    world.check("promote app:retry app:queues app:queue:mail", ":0");
    world.check("LLEN app:queue:mail", ":1");
    world.check("SCARD app:queues", ":2");
    for text in [
        "text",
        "{}",
        r#"{"class":"A","args":[],"jid":"a"}"#,
        r#"{"class":"A","args":[],"queue":"mail"}"#,
        r#"{"class":"A","args":[],"jid":"a","queue":""}"#,
        r#"{"class":"A","args":[],"jid":"a","queue":5}"#,
        r#"{"class":"A","args":[],"jid":"a","queue":"mail""#,
        &job("a", r#","at":5"#),
    ] {
        world.check(&format!("ZADD schedule 1 {text}"), ":1");
        world.check("promote schedule queues queue:mail", ":1");
        world.check(&format!("ZREM schedule {text}"), ":1");
    }
    world.say("SET queue:mail text");
    world.say(&format!("ZADD schedule 1 {}", job("a", "")));
    world.check("promote schedule queues queue:mail", ":1");
    world.check("ZCARD schedule", ":1");
}

#[test]
fn what_is_due_soon_moves_then() {
    let mut world = world();
    let start = world.0.now;
    for (number, ms) in [(0, 0), (1, 0), (2, 700)] {
        let score = format!("{}.{:03}", (start + ms) / 1000, (start + ms) % 1000);
        world.say(&format!("ZADD schedule {score} {}", job(&number.to_string(), "")));
    }
    world.say("ZADD retry 1 bad");
    for number in 10..110 {
        world.say(&format!("ZADD retry 2 {}", job(&number.to_string(), "")));
    }
    let client = Client::internal(0, Proto::Resp2);
    let shards: Vec<ShardId> = world.0.with_store(client, |store| store.tx.hold.shards().ids().collect());
    let (mut taken, mut promotions) = (Taken { world, is_taken: true }, JobTimers::default());
    promotions.look((start, Whose::Ours), shards.iter().copied(), &mut taken);
    assert_eq!(promotions.wait(|| start.cast_unsigned() * 1000), None, "they were taken");
    taken.is_taken = false;
    promotions.look((start, Whose::Ours), shards.into_iter(), &mut taken);
    taken.is_taken = true;
    promotions.fire(start, |_| true, &mut taken);
    assert_eq!(
        promotions.wait(|| start.cast_unsigned() * 1000),
        Some(Duration::from_millis(1)),
        "they are tried again"
    );
    (taken.is_taken, taken.world.0.now) = (false, start + 1);
    promotions.fire(start + 1, |_| true, &mut taken);
    taken.world.check("LLEN queue:mail", ":102");
    taken.world.check("ZCARD retry", ":1");
    assert_eq!(promotions.wait(|| (start + 1).cast_unsigned() * 1000), Some(Duration::from_millis(699)));
    taken.world.0.now = start + 700;
    promotions.fire(start + 700, |_| true, &mut taken);
    taken.world.check("LLEN queue:mail", ":103");
    assert_eq!(promotions.wait(|| (start + 700).cast_unsigned() * 1000), None);
}

#[test]
fn jobs_of_any_set_move_as_it_was_said() {
    let mut world = world();
    let start = world.0.now;
    world.0.config.promotes = false;
    let promotion = Promotion {
        set: b"later".to_vec(),
        to: b"jobs:{$.queue}".to_vec(),
        listed: Some(b"names".to_vec()),
        stamp: Some(b"at ms".to_vec()),
    };
    let text = promotion.encode();
    assert_eq!(world.run(&[b"HSET", PROMOTIONS, b"n", &text]).as_deref(), Some(":1"));
    // A score in seconds, one in milliseconds, and members that name no queue.
    world.check(
        r#"ZADD later 1700000000.123 {"queue":"mail"} 1700000000500 {"queue":"post"} 5 text 6 {}"#,
        ":4",
    );
    let client = Client::internal(0, Proto::Resp2);
    let shards: Vec<ShardId> = world.0.with_store(client, |store| store.tx.hold.shards().ids().collect());
    let (mut taken, mut timers) = (Taken { world, is_taken: false }, JobTimers::default());
    // The first look learns the rule; the second one applies it, whichever shard the set is on.
    timers.look((start, Whose::Ours), shards.iter().copied(), &mut taken);
    timers.look((start, Whose::Ours), shards.iter().copied(), &mut taken);
    timers.fire(start, |_| true, &mut taken);
    let pushed = r#"{"queue":"mail","at ms":1700000000.123}"#;
    taken.world.check("LRANGE jobs:mail 0 -1", &format!("*1 ${} {pushed}", pushed.len()));
    taken.world.check("SMEMBERS names", "*1 $4 mail");
    // A rule that was removed moves nothing, although the thread still remembers the job.
    taken.world.0.now = start + 500;
    timers.look((start + 500, Whose::Ours), shards.iter().copied(), &mut taken);
    taken.world.check("HDEL darter:promotions n", ":1");
    timers.fire(start + 500, |_| true, &mut taken);
    taken.world.check("ZCARD later", ":3");
    assert_eq!(taken.world.run(&[b"HSET", PROMOTIONS, b"n", &text]).as_deref(), Some(":1"));
    timers.look((start + 500, Whose::Ours), shards.iter().copied(), &mut taken);
    timers.look((start + 500, Whose::Ours), shards.into_iter(), &mut taken);
    timers.fire(start + 500, |_| true, &mut taken);
    taken.world.check("ZCARD later", ":2");
    taken.world.check("LLEN jobs:post", ":1");
}

#[test]
fn a_job_is_stamped_whatever_it_has() {
    let promotion =
        Promotion { set: b"s".to_vec(), to: b"q".to_vec(), listed: None, stamp: Some(b"at".to_vec()) };
    let rule = Rule { promotion, name: Some(b"n"[..].into()) };
    let stamped = |job: &str| {
        rule.read(job.as_bytes())?;
        Some(String::from_utf8(rule.stamped(job.as_bytes(), 1_700_000_000_007)).expect("it is text"))
    };
    for (before, after) in [
        ("{}", r#"{"at":1700000000.007}"#),
        ("{ } ", r#"{ "at":1700000000.007}"#),
        (r#"{"a":1}"#, r#"{"a":1,"at":1700000000.007}"#),
        (r#"{"at":null}"#, r#"{"at":1700000000.007}"#),
        (r#"{"at":1699999999000}"#, r#"{"at":1700000000007}"#),
    ] {
        assert_eq!(stamped(before).as_deref(), Some(after));
    }
    assert_eq!(stamped("text"), None);
}
