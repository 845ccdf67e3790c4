//! Tests a machine clock that is set ahead or back by hours.

use engine::{Client, JobsNews, TxMessage};
use resp::Proto;
use shard::ShardId;

use super::{World, set};
use crate::clock::follow_all;

const HOUR_MS: i64 = 3_600_000;

/// Sets the clock ahead, or back.
fn set_ahead(world: &mut World, ms: i64) {
    world.0.now += ms;
    world.0.set_ahead_ms += ms;
}

fn world() -> World {
    let mut world = World::new();
    world.0.now = 1_800_000_000_000;
    world.fire();
    world
}

/// How long a job of `q` remains active or delayed.
fn left_ms(world: &mut World, state: &str, id: &str) -> Option<i64> {
    let score = world.say(&format!("ZSCORE {{q}}:jobs:{state} {id}"));
    let score: Option<i64> = score.split(' ').nth(1)?.parse().ok();
    score.map(|score| score - world.0.now)
}

#[test]
fn a_lease_lasts_as_long_whatever_the_clock_shows() {
    for jump_ms in [10 * HOUR_MS, -10 * HOUR_MS, 1_500, -1_500] {
        // The lease is as long as before, whichever command comes first.
        for first in ["fire q", "JOB.KEEP q 5000 ID other", "JOB.TAKE w LEASE 5000 FROM q"] {
            let mut world = world();
            world.say("JOB.PUT q p ID a");
            world.say("JOB.PUT q p ID b");
            world.say("JOB.TAKE w LEASE 10000 FROM q");
            world.0.now += 2_000;
            set_ahead(&mut world, jump_ms);
            world.say(first);
            assert_eq!(left_ms(&mut world, "active", "a"), Some(8_000), "{jump_ms} {first}");
            // Back again.
            set_ahead(&mut world, -jump_ms);
            world.0.now += 1_000;
            world.fire();
            assert_eq!(left_ms(&mut world, "active", "a"), Some(7_000), "{jump_ms} {first}");
            world.0.now += 7_000;
            world.fire();
            assert_eq!(left_ms(&mut world, "active", "a"), None);
        }
    }
}

#[test]
fn a_heartbeat_keeps_leases_for_as_long() {
    for jump_ms in [HOUR_MS, -HOUR_MS] {
        let mut world = world();
        world.say("JOB.PUT q p ID a");
        world.say("JOB.TAKE w LEASE 1000 FROM q");
        world.check("JOB.KEEP q 9000 WORKER w", "+OK");
        set_ahead(&mut world, jump_ms);
        world.0.now += 1_000;
        world.fire();
        assert_eq!(left_ms(&mut world, "active", "a"), Some(8_000));
        world.0.now += 8_000;
        world.fire();
        assert_eq!(left_ms(&mut world, "active", "a"), None);
    }
}

#[test]
fn delays_last_as_long_but_times_of_day_are_those_of_the_clock() {
    for jump_ms in [HOUR_MS, -HOUR_MS] {
        let mut world = world();
        let at = world.0.now + 2 * HOUR_MS;
        world.say("JOB.PUT q p ID in IN 7200000");
        world.say(&format!("JOB.PUT q p ID at AT {at}"));
        world.say("JOB.PUT q p ID failed AT 5");
        world.say("JOB.TAKE w LEASE 1000 FROM q");
        world.check("JOB.FAIL q failed IN 7200000", "+delayed");
        set_ahead(&mut world, jump_ms);
        world.fire();
        assert_eq!(left_ms(&mut world, "delayed", "in"), Some(2 * HOUR_MS));
        assert_eq!(left_ms(&mut world, "delayed", "failed"), Some(2 * HOUR_MS));
        assert_eq!(left_ms(&mut world, "delayed", "at"), Some(2 * HOUR_MS - jump_ms));
    }
}

#[test]
fn schedules_go_by_the_new_time_at_once() {
    let mut world = world();
    set(&mut world, "minutes", "*/5 * * * *", "m", "");
    set(&mut world, "fixed", "0 8-23 * * *", "f", "");
    let next = |world: &mut World, name: &str| {
        let score = world.say(&format!("ZSCORE {{q}}:jobs:cron {name}"));
        score.split(' ').nth(1).expect("a score").parse::<i64>().expect("a number")
    };
    // The clock shows eight o'clock, in UTC.
    let eight = world.0.now;
    for (hours, fixed_comes) in [(2, 11), (4, 9)] {
        set_ahead(&mut world, hours * HOUR_MS);
        world.fire();
        world.check("LLEN q", ":2");
        set_ahead(&mut world, -hours * HOUR_MS);
        world.fire();
        world.check("DEL q", ":1");
        assert_eq!(next(&mut world, "minutes"), eight + 300_000, "{hours}");
        // Fixed times come again if the clock was set back by three hours or more.
        assert_eq!(next(&mut world, "fixed"), eight + (fixed_comes - 8) * HOUR_MS, "{hours}");
    }
    // A slow adjustment is not a jump.
    set(&mut world, "second", "*/2 * * * * *", "s", "");
    let before = next(&mut world, "second");
    set_ahead(&mut world, -500);
    world.fire();
    assert_eq!(next(&mut world, "second"), before);
}

#[test]
fn a_database_that_is_new_here_follows_from_now_on() {
    let mut world = world();
    world.say("FLUSHALL");
    set(&mut world, "minutes", "*/5 * * * *", "m", "");
    world.say("JOB.PUT q p ID a");
    world.say("JOB.TAKE w LEASE 5000 FROM q");
    // As after a start: loaded times are not moved, but schedules that were ahead of the clock are computed
    // again.
    let mut other = World::new();
    other.0.now = world.0.now - HOUR_MS;
    other.0.set_ahead_ms = -HOUR_MS;
    let effects = world.effects();
    other.0.replay(&effects).expect("effects are commands");
    other.fire();
    assert_eq!(left_ms(&mut other, "active", "a"), Some(HOUR_MS + 5_000));
    let next = other.0.now + 300_000;
    other.check("ZSCORE {q}:jobs:cron minutes", &format!("$13 {next}"));
}

#[test]
fn a_schedule_that_has_just_run_elsewhere_does_not_run_again_for_a_thread_that_is_behind() {
    for behind_ms in [4, 200, 900] {
        let mut world = world();
        set(&mut world, "second", "* * * * * *", "s", "");
        world.0.now = world.0.now / 1_000 * 1_000 + 1_003;
        world.fire();
        world.check("LLEN q", ":1");
        // Its replica takes over. Its first command runs by a clock that was read before the schedule ran.
        let mut other = World::new();
        let effects = world.effects();
        other.0.now = world.0.now - behind_ms;
        other.0.replay(&effects).expect("effects are commands");
        other.0.outbox.clear();
        other.check("JOB.KEEP q 1000 WORKER w", "+OK");
        let asks_for_a_visit = |message: &TxMessage| matches!(message, TxMessage::Jobs(JobsNews::Due(due)) if *due.queue == *b"q" && due.time_ms == other.0.now);
        assert!(other.0.outbox.iter().any(asks_for_a_visit), "{behind_ms}");
        other.0.now = world.0.now;
        other.fire();
        other.0.now = world.0.now + 300;
        other.fire();
        other.check("LLEN q", ":1");
    }
}

#[test]
fn databases_without_keys_need_not_follow() {
    let mut world = world();
    world.say("SET key value");
    let numbers: Vec<u32> = world.0.with_store(Client::internal(0, Proto::Resp2), |store| {
        let shards: Vec<ShardId> = store.tx.hold.shards().ids().collect();
        for shard in &shards {
            follow_all(store.tx, *shard, true);
            follow_all(store.tx, *shard, false);
        }
        let numbers = |shard: &ShardId| -> Vec<u32> {
            store.tx.hold.shard(*shard).dbs.iter().map(|(number, _)| number).collect()
        };
        shards.iter().flat_map(numbers).collect()
    });
    assert!(!numbers.is_empty() && numbers.iter().all(|number| *number == 0), "{numbers:?}");
}

#[test]
fn a_push_is_missed_if_it_is_more_than_ten_seconds_late() {
    for (late_ms, pushes) in [(0, ":1"), (10_000, ":1"), (10_001, ":0")] {
        let mut world = world();
        world.check("CRON SET q name @hourly p MISSED SKIP", ":1800003600000");
        world.0.now += HOUR_MS + late_ms;
        world.fire();
        world.check("LLEN q", pushes);
    }
}
