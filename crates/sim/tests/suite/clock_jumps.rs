//! The machine's clock is set while queues hold jobs. Measured durations are unaffected. Whether a scheduled job is late depends on
//! the new time.

use proactor::Entropy;
use resp::Value;
use sim::{Client, Setup, World, for_each_seed, request};

const HOUR_MS: i64 = 3_600_000;
const MS_NS: u64 = 1_000_000;
/// Time until the first scheduled job is due.
const DUE_IN_MS: i64 = 60_000;
/// Lateness is only updated periodically, and scheduled times are in seconds here.
const SLACK_MS: i64 = 2_500;

/// A field of a queue in QUEUE LIST; `None` if it is null.
fn field(world: &mut World, client: &mut Client, queue: &str, name: &str) -> Option<i64> {
    let reply = world.call(client, &request("QUEUE", ["LIST", "MATCH", queue]));
    let Value::Array(rows) = reply else { panic!("{reply:?}") };
    let [Value::Array(row)] = &rows[..] else { panic!("{rows:?}") };
    let pair = row.chunks_exact(2).find(|pair| pair[0] == Value::Bulk(name.into()));
    match &pair.expect("all queues have it")[1] {
        Value::Int(number) => Some(*number),
        Value::Null => None,
        Value::Bulk(rate) => {
            let rate: f64 = String::from_utf8_lossy(rate).parse().expect("it is a number");
            assert!((0.0..1000.0).contains(&rate), "{rate}");
            Some(rate as i64)
        }
        other => panic!("{other:?}"),
    }
}

/// Checks that the figures of all queues make sense, whatever the clock says.
fn check_all(world: &mut World, client: &mut Client, pushed_ns: [u64; 2], ahead_ms: i64) {
    let since_ms = |ns: u64, at_ns: u64| ((at_ns - ns) / MS_NS) as i64;
    let before_ns = world.now_ns();
    let age_ms = field(world, client, "queue:a", "oldest_ms").expect("there is a job");
    let after_ns = world.now_ns();
    // The thread reads its clock once per turn.
    let at_least = since_ms(pushed_ns[1], before_ns) - 200;
    assert!(
        (at_least..=since_ms(pushed_ns[0], after_ns) + 1).contains(&age_ms),
        "{age_ms}, at least {at_least}"
    );
    let came_ms = since_ms(pushed_ns[0], after_ns) + ahead_ms;
    for (queue, late_ms) in [("schedule", came_ms - DUE_IN_MS), ("events:a", came_ms)] {
        let found_ms = field(world, client, queue, "oldest_ms");
        match found_ms {
            Some(found_ms) => {
                assert!((found_ms - late_ms).abs() < SLACK_MS, "{queue}: {found_ms} is not {late_ms}")
            }
            None => assert!(late_ms < SLACK_MS, "{queue} is late by {late_ms}"),
        }
        assert_eq!(field(world, client, queue, "depth"), Some(1));
    }
    for rate in ["in_per_s", "out_per_s"] {
        field(world, client, "queue:a", rate);
    }
    let info = world.info(client);
    let [oldest_ms, waiting] = ["queue_oldest_ms", "queue_jobs_waiting"].map(|name| info[name] as i64);
    assert!((0..6 * HOUR_MS).contains(&oldest_ms) && waiting == 2, "{oldest_ms} {waiting}");
}

fn simulate(mut entropy: Entropy) {
    let setup = Setup::any(&mut entropy);
    let mut world = World::new(entropy, &setup);
    world.stop_cuts();
    // A thread that is off its core for a second does not sample queues every second.
    world.let_stalls_take_time(false);
    let mut client = world.connect();
    let mut call =
        |world: &mut World, words: &[&str]| world.call(&mut client, &request(words[0], &words[1..]));
    call(&mut world, &["CONFIG", "SET", "queue-pattern", "events:*"]);
    let Value::Array(time) = call(&mut world, &["TIME"]) else { panic!("no time") };
    let Value::Bulk(seconds) = &time[0] else { panic!("{time:?}") };
    let now_s: i64 = String::from_utf8_lossy(seconds).parse().expect("it is a number");
    call(&mut world, &["ZADD", "schedule", &(now_s + DUE_IN_MS / 1000).to_string(), "job"]);
    call(&mut world, &["XADD", "events:a", "*", "n", "1"]);
    let began_ns = world.now_ns();
    call(&mut world, &["LPUSH", "queue:a", "job"]);
    let pushed_ns = [began_ns, world.now_ns()];
    let mut ahead_ms = 0;
    for _ in 0..6 {
        let jump_ms = [-2 * HOUR_MS, -HOUR_MS, HOUR_MS, 2 * HOUR_MS][world.below(4)];
        if (-2 * HOUR_MS..=2 * HOUR_MS).contains(&(ahead_ms + jump_ms)) {
            world.set_clock_ahead(jump_ms);
            ahead_ms += jump_ms;
        }
        world.run_for(3000, |_| {});
        check_all(&mut world, &mut client, pushed_ns, ahead_ms);
    }
    world.call(&mut client, &request("RPOP", ["queue:a"]));
    let reply = world.call(&mut client, &request("EVAL", [WAITED_MAX, "0"]));
    let Value::Int(waited_ms) = reply else { panic!("{reply:?}") };
    let most_ms = ((world.now_ns() - pushed_ns[0]) / MS_NS) as i64;
    // Both ends are rounded down to milliseconds.
    assert!((18_000 - 200..=most_ms + 1).contains(&waited_ms), "{waited_ms} of {most_ms}");
}

/// The longest time that an element of the queue has waited.
const WAITED_MAX: &str = "local info = redis.call('QUEUE', 'INFO', 'queue:a') \
    for i = 1, #info, 2 do if info[i] == 'waits' then return info[i + 1][2][10] end end";

#[test]
fn ages_and_waiting_times_do_not_jump_with_the_clock() {
    for_each_seed("clock jumps", 40, simulate);
}
