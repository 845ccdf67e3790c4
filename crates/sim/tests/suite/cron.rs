//! Schedules while the clock is set, the server dies and starts again: each tick pushes once, missed ones push once in all or not at
//! all, as the schedule says, and when the clock goes back ticks go by the new time at once. Leases last as long as they were given.
//!
//! The clock is set in the middle between two ticks, so what must be there then is known exactly. The server dies at any moment.

use proactor::{DiskFaults, Entropy};
use resp::Value;
use sim::{Client, Death, Journal, Setup, Sync, World, for_each_seed, request};

const STEP_MS: i64 = 2_000;
/// Ticks that are later than this are left out with `MISSED SKIP`.
const LATE_MS_MAX: i64 = 10_000;
/// The time that a server needs to notice that the clock was set: it looks for due times once a second. All jumps end
/// this long before a tick.
const NOTICES_MS: u64 = 1_300;
const ROUNDS: usize = 12;

fn now_ms(world: &mut World, client: &mut Client) -> i64 {
    let Value::Array(parts) = world.call(client, &request("TIME", [""; 0])) else { panic!("no time") };
    let part = |index: usize| match &parts[index] {
        Value::Bulk(text) => String::from_utf8_lossy(text).parse::<i64>().expect("a number"),
        other => panic!("{other:?}"),
    };
    part(0) * 1000 + part(1) / 1000
}

fn set(world: &mut World, client: &mut Client, skips: bool) {
    let missed = if skips { "SKIP" } else { "ONCE" };
    let words = ["SET", "q", "tick", "*/2 * * * * *", "%{time_ms}", "TZ", "UTC", "MISSED", missed];
    let reply = world.call(client, &request("CRON", words));
    assert!(matches!(reply, Value::Int(_)), "{reply:?}");
}

/// The ticks for which something was pushed, the first one first.
fn ticks(world: &mut World, client: &mut Client) -> Vec<i64> {
    let Value::Array(pushed) = world.call(client, &request("LRANGE", ["q", "0", "-1"])) else {
        panic!("no list")
    };
    let tick = |pushed: &Value| match pushed {
        Value::Bulk(text) => String::from_utf8_lossy(text).parse::<i64>().expect("a number") / STEP_MS,
        other => panic!("{other:?}"),
    };
    pushed.iter().rev().map(tick).collect()
}

/// Goes on to the middle between two ticks.
fn settle_between(world: &mut World, client: &mut Client) -> i64 {
    let phase = now_ms(world, client).rem_euclid(STEP_MS);
    let ms = (STEP_MS / 2 - phase).rem_euclid(STEP_MS);
    world.run_for(ms.cast_unsigned(), |_| {});
    now_ms(world, client)
}

/// The expected elements, and the tick that comes next.
struct Expected {
    ticks: Vec<i64>,
    next: i64,
    skips: bool,
}

impl Expected {
    /// The clock has gone on to this time without being set.
    fn pass(&mut self, now: i64) {
        while self.next * STEP_MS <= now {
            self.ticks.push(self.next);
            self.next += 1;
        }
    }

    /// The clock was set to this time.
    fn jump(&mut self, now: i64) {
        if self.next * STEP_MS > now {
            // Recurring times go by the new time if it was set back.
            self.next = now / STEP_MS + 1;
            return;
        }
        let is_left_out = self.skips && now - self.next * STEP_MS > LATE_MS_MAX;
        let tick = now / STEP_MS;
        self.ticks.extend((!is_left_out).then_some(tick));
        self.next = tick + 1;
    }
}

fn simulate(mut entropy: Entropy) -> [usize; 2] {
    let mut setup = Setup::any(&mut entropy);
    setup.journal = Some(Journal::any(&mut entropy, Sync::Always));
    setup.dies_in_start_one_in = 5;
    setup.stalls_take_time = false;
    let mut world = World::new(entropy, &setup);
    let mut client = world.connect();
    settle_between(&mut world, &mut client);
    let skips = world.one_in(2);
    set(&mut world, &mut client, skips);
    let mut expected =
        Expected { ticks: Vec::new(), next: now_ms(&mut world, &mut client) / STEP_MS + 1, skips };
    let mut jumps = 0;
    for _ in 0..ROUNDS {
        match world.below(4) {
            0 => {
                let ms = [-40_600, -2_700, 1_200, 3_200, 5_300, 9_400, 13_300, 91_200][world.below(8)];
                world.set_clock_ahead(ms);
                jumps += 1;
                let now = now_ms(&mut world, &mut client);
                expected.jump(now);
                world.run_for(NOTICES_MS, |_| {});
            }
            1 => {
                let ms = world.below(2 * STEP_MS as usize) as u64;
                world.run_for(ms, |_| {});
                let death = [Death::Power, Death::Process][world.below(2)];
                world.restart(death);
                client = world.connect();
            }
            2 => set(&mut world, &mut client, skips),
            _ => {
                let ms = world.below(4 * STEP_MS as usize) as u64;
                world.run_for(ms, |_| {});
            }
        }
        let now = settle_between(&mut world, &mut client);
        expected.pass(now);
        assert_eq!(ticks(&mut world, &mut client), expected.ticks, "skips: {skips}, at {now}");
    }
    [expected.ticks.len(), jumps]
}

#[test]
fn each_tick_pushes_once_whatever_the_clock_does() {
    let mut sums = [0; 2];
    for_each_seed("cron", 40, |entropy| {
        sums.iter_mut().zip(simulate(entropy)).for_each(|(sum, count)| *sum += count);
    });
    println!("{} ticks, {} jumps of the clock", sums[0], sums[1]);
}

/// How many elements some keys have beside a queue with a lease, a delay and a schedule, and in a set of Sidekiq's: all of them are due.
fn counts(world: &mut World, client: &mut Client) -> [i64; 5] {
    let mut count = |command: &str, key: &str| match world.call(client, &request(command, [key])) {
        Value::Int(count) => count,
        other => panic!("{other:?}"),
    };
    [
        count("LLEN", "q"),
        count("ZCARD", "{q}:jobs:active"),
        count("ZCARD", "{q}:jobs:delayed"),
        count("ZCARD", "schedule"),
        count("LLEN", "queue:low"),
    ]
}

/// Writes are refused for lack of a replica, or because a snapshot could not be saved; or no longer.
fn refuse(world: &mut World, client: &mut Client, lacks_replica: bool, refuses: bool) {
    if lacks_replica {
        let count = if refuses { "1" } else { "0" };
        world.call(client, &request("CONFIG", ["SET", "min-replicas-to-write", count]));
        return;
    }
    let room_bytes = if refuses { 0 } else { u64::MAX };
    world.disk().set_faults(DiskFaults { room_bytes, ..DiskFaults::default() });
    world.call(client, &request("BGSAVE", [""; 0]));
    world.run_for(2_000, |_| {});
}

/// Nothing that is due happens while writes are refused. Then it happens once.
#[test]
fn what_is_due_waits_until_writes_are_accepted() {
    for_each_seed("due while writes are refused", 10, |mut entropy| {
        let mut setup = Setup::any(&mut entropy);
        setup.stalls_take_time = false;
        setup.more = ["--promote=sidekiq", "--save=3600 1"].map(str::to_owned).to_vec();
        let mut world = World::new(entropy, &setup);
        let mut client = world.connect();
        let now = now_ms(&mut world, &mut client);
        // To the middle between two ticks.
        world.run_for((30_000 - now.rem_euclid(20_000)).cast_unsigned(), |_| {});
        let due_s = (now_ms(&mut world, &mut client) / 1000 + 15).to_string();
        let job = r#"{"class":"A","args":[],"jid":"a1","queue":"low"}"#;
        for (command, words) in [
            ("JOB.PUT", &["q", "leased", "ID", "a"][..]),
            ("JOB.TAKE", &["w", "LEASE", "15000", "FROM", "q"]),
            ("JOB.PUT", &["q", "delayed", "ID", "b", "IN", "15000"]),
            ("CRON", &["SET", "q", "tick", "*/20 * * * * *", "tick"]),
            ("ZADD", &["schedule", &due_s, job]),
        ] {
            let reply = world.call(&mut client, &request(command, words));
            assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
        }
        let lacks_replica = world.one_in(2);
        refuse(&mut world, &mut client, lacks_replica, true);
        let reply = world.call(&mut client, &request("SET", ["key", "value"]));
        assert!(matches!(reply, Value::Error(_)), "{reply:?}");
        world.run_for(60_000, |_| {});
        assert_eq!(counts(&mut world, &mut client), [0, 1, 1, 1, 0], "lacks a replica: {lacks_replica}");
        refuse(&mut world, &mut client, lacks_replica, false);
        world.run_for(2 * NOTICES_MS, |_| {});
        assert_eq!(counts(&mut world, &mut client), [3, 0, 0, 0, 1], "lacks a replica: {lacks_replica}");
    });
}

/// Leases and delays last as long as they were given while the clock is set at any moment, and the server dies between two settings.
#[test]
fn leases_last_as_long_whatever_the_clock_does() {
    for_each_seed("leases while the clock is set", 20, |mut entropy| {
        let mut setup = Setup::any(&mut entropy);
        setup.journal = Some(Journal::any(&mut entropy, Sync::Always));
        setup.stalls_take_time = false;
        let mut world = World::new(entropy, &setup);
        let mut client = world.connect();
        for words in [&["q", "leased", "ID", "a"][..], &["q", "delayed", "ID", "b", "IN", "45000"]] {
            world.call(&mut client, &request("JOB.PUT", words.iter().copied()));
        }
        let call = |world: &mut World, client: &mut Client, command: &str, words: &[&str]| {
            world.call(client, &request(command, words.iter().copied()))
        };
        call(&mut world, &mut client, "JOB.TAKE", &["w", "LEASE", "40000", "FROM", "q"]);
        for _ in 0..8 {
            let ms = [-7_200_000, -40_600, -2_700, 1_200, 91_200, 36_000_000][world.below(6)];
            world.run_for(1_000, |_| {});
            world.set_clock_ahead(ms);
            if world.one_in(2) {
                call(&mut world, &mut client, "JOB.KEEP", &["q", "20000", "ID", "none"]);
            }
            // A server that starts goes by the clock that it finds.
            world.run_for(NOTICES_MS, |_| {});
            if world.one_in(4) {
                let death = [Death::Power, Death::Process][world.below(2)];
                world.restart(death);
                client = world.connect();
            }
            let [_, active, delayed, ..] = counts(&mut world, &mut client);
            assert_eq!([active, delayed], [1, 1]);
        }
        world.run_for(45_000, |_| {});
        let [waiting, active, delayed, ..] = counts(&mut world, &mut client);
        assert_eq!([waiting, active, delayed], [2, 0, 0]);
    });
}
