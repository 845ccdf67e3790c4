//! Tests of BZTSPOP and BZTSMOVE with a clock that stands still.

use engine::{Class, TxMessage};
use resp::Proto;

use crate::clients::Clients;

/// A clock that shows 1,000 seconds.
fn at_1000() -> Clients {
    let mut clients = Clients::new();
    clients.0.now = 1_000_000;
    clients
}

#[test]
fn what_is_due_is_taken_at_once_in_the_order_of_its_times() {
    for (line, reply, effects) in [
        ("BZTSPOP z 1 0", "*2 $1 z *1 *2 $1 c $4 -inf", &["ZREM z c"][..]),
        ("BZTSPOP x z 9 0", "*2 $1 z *3 *2 $1 c $4 -inf *2 $1 b $3 1.5 *2 $1 a $4 1000", &["ZREM z c b a"]),
        ("BZTSMOVE z l 2 0", "*2 $1 c $1 b", &["ZREM z c b", "LPUSH l c b"]),
        ("BZTSMOVE x z l 9 0", "*3 $1 c $1 b $1 a", &["ZREM z c b a", "LPUSH l c b a"]),
    ] {
        let mut clients = at_1000();
        clients.run(0, "ZADD z 1000 a 1.5 b -inf c 1000.001 d inf e");
        clients.effects();
        clients.check(line, reply);
        assert_eq!(clients.effects(), effects, "{line}");
        assert_eq!(clients.told(), []);
    }
}

#[test]
fn a_clock_of_milliseconds_does_and_no_time_comes_early() {
    for (score, due_ms) in [
        ("1764016057.428", 1_764_016_057_428),
        ("1764016057.428448", 1_764_016_057_429),
        ("1764016057.4280001", 1_764_016_057_428),
        ("1764016057", 1_764_016_057_000),
        ("1764016057428", 1_764_016_057_428),
        ("99999999999", 99_999_999_999_000),
    ] {
        let mut clients = Clients::new();
        clients.run(0, &format!("ZADD z {score} a"));
        clients.0.now = due_ms - 1;
        clients.wait(1, "BZTSPOP z 1 0");
        assert_eq!(clients.told(), [due_ms], "{score}");
        clients.0.now = due_ms;
        clients.run(0, "wake z");
        assert_eq!(clients.served().len(), 1, "{score}");
    }
}

#[test]
fn the_thread_is_told_of_the_first_time_and_of_earlier_ones() {
    let mut clients = at_1000();
    clients.run(0, "ZADD z 5000 later 1001.25 a");
    clients.wait(1, "BZTSPOP z 1 0");
    assert_eq!(clients.told(), [1_001_250]);
    for (line, told) in [
        ("ZADD z 1001.125 b", &[1_001_125][..]),
        ("ZADD z XX 1001.0625 a", &[1_001_063]),
        ("ZINCRBY z -0.5 a", &[1_000_563]),
        ("ZADD z 3000 later", &[1_000_563]),
        ("GEOADD z 13 38 place", &[1_000_563]),
        ("ZREM z a", &[]),
    ] {
        clients.run(0, line);
        assert_eq!(clients.told(), told, "{line}");
    }
    // The old time has come, and nothing is due. The next is known.
    clients.0.now = 1_000_563;
    clients.run(0, "wake z");
    assert_eq!(clients.told(), [1_001_125]);
    clients.0.now = 1_001_125;
    clients.run(0, "wake z");
    clients.check_served(&["1: *2 $1 z *1 *2 $1 b $8 1001.125 < ZADD z 1001.125 b"]);
    assert_eq!(clients.told(), []);
}

#[test]
fn whatever_brings_a_member_that_is_due_serves() {
    let served = "1: *2 $1 z *1 *2 $1 a $1 1 < ZADD z 1 a";
    for lines in [
        &["ZADD z 1 a"][..],
        &["ZADD z 2000 a", "ZADD z XX LT 1 a"],
        &["ZADD z 2000 a", "ZINCRBY z -1999 a"],
        &["ZADD z 2000 b", "ZADD x 1 a", "ZMOVE x z MIN"],
        &["ZADD z 2000 b", "ZADD x 1 a", "ZUNIONSTORE z 2 z x"],
        &["ZADD z 2000 b", "ZADD x 1 a", "ZRANGESTORE z x 0 0"],
        &["ZADD z 2000 b", "ZADD x 1 a", "RENAME x z"],
        &["ZADD z 2000 b", "ZADD x 1 a", "COPY x z REPLACE"],
        &["SET z s", "DEL z", "ZADD z 1 a"],
        &["DARTER.PAUSE z 1", "ZADD z 1 a", "DARTER.PAUSE z 0"],
    ] {
        let mut clients = at_1000();
        clients.wait(1, "BZTSPOP x1 z 9 0");
        lines.iter().for_each(|line| _ = clients.run(0, line));
        clients.told();
        clients.check_served(&[served]);
    }
}

#[test]
fn who_waits_is_served_in_order_and_shares_what_is_due() {
    let mut clients = at_1000();
    for (id, line) in
        [(1, "BZTSPOP z 2 0"), (2, "BZTSMOVE z l 1 0"), (3, "BZPOPMIN z 0"), (4, "BZTSPOP z 9 0")]
    {
        clients.wait(id, line);
    }
    clients.check("ZADD z 1 a 2 b 3 c 4000 d", ":4");
    clients.check_served(&[
        "1: *2 $1 z *2 *2 $1 a $1 1 *2 $1 b $1 2 < ZADD z 1 a 2 b",
        "2: *1 $1 c",
        "3: *3 $1 z $1 d $4 4000 < ZADD z 4000 d",
    ]);
    clients.check("RPOP l", "$1 c");
    clients.check("ZADD z 3999 d", ":1");
    // It waits for a time that it does not share with the one before it.
    clients.wait(5, "BZPOPMAX z1 y 0");
    clients.check_served(&[]);
    clients.check("ZADD z 5 e", ":1");
    clients.check_served(&["4: *2 $1 z *1 *2 $1 e $1 5 < ZADD z 5 e"]);
}

#[test]
fn who_waits_for_any_member_is_served_behind_who_waits_for_due_ones() {
    let mut clients = at_1000();
    clients.wait(1, "BZTSPOP z 1 0");
    clients.wait(2, "BZTSPOP z 1 0");
    clients.wait(3, "BZPOPMIN z 0");
    clients.check("ZADD z 4000 d", ":1");
    clients.check_served(&["3: *3 $1 z $1 d $4 4000 < ZADD z 4000 d"]);
}

#[test]
fn a_thousand_wait_for_one_set() {
    let mut clients = at_1000();
    (1..=1000).for_each(|id| clients.wait(id, "BZTSPOP z 1 0"));
    let members: Vec<String> = (0..1000).map(|number| format!("1001.{number:03} m{number:03}")).collect();
    clients.check(&format!("ZADD z {}", members.join(" ")), ":1000");
    assert_eq!(clients.told(), [1_001_000]);
    for number in 0..1000_u64 {
        clients.0.now = 1_001_000 + number as i64;
        clients.run(0, "wake z");
        let told: &[i64] = if number < 999 { &[1_001_001 + number as i64] } else { &[] };
        assert_eq!(clients.told(), told);
        let served = clients.served();
        let begin = format!("{}: *2 $1 z *1 *2 $4 m{number:03} ", number + 1);
        assert!(served.len() == 1 && served[0].starts_with(&begin), "{served:?}");
    }
}

#[test]
fn the_clock_may_be_set() {
    let mut clients = at_1000();
    clients.run(0, "ZADD z 1001 a");
    clients.wait(1, "BZTSPOP z 1 0");
    assert_eq!(clients.told(), [1_001_000]);
    // An hour back: nothing is due soon.
    clients.0.now -= 3_600_000;
    clients.run(0, "wake z");
    assert_eq!((clients.told(), clients.served()), (vec![], vec![]));
    // A day ahead, the next look serves.
    clients.0.now += 86_400_000;
    clients.run(0, "wake z");
    clients.check_served(&["1: *2 $1 z *1 *2 $1 a $4 1001 < ZADD z 1001 a"]);
}

#[test]
fn a_move_that_cannot_be_done_says_so_and_leaves_the_members() {
    let mut clients = at_1000();
    clients.run(0, "SET l x");
    clients.run(0, "ZADD z 1001 a");
    clients.wait(1, "BZTSMOVE z l 1 0");
    clients.told();
    clients.0.now = 1_001_000;
    clients.run(0, "wake z");
    clients.check_served(&["1: -WRONGTYPE Operation against a key holding the wrong kind of value"]);
    clients.check("ZSCORE z a", "$4 1001");
}

#[test]
fn what_was_popped_for_a_client_that_is_gone_goes_back() {
    let mut clients = at_1000();
    clients.wait(1, "BZTSPOP z 2 0");
    clients.check("ZADD z 1 a 2 b", ":2");
    let Some(TxMessage::Served { handoff, .. }) = clients.0.outbox.pop() else { panic!("it was not served") };
    let restore = handoff.restore.expect("members were popped");
    clients.0.reply(Proto::Resp2, &restore.args.slices());
    clients.check("ZRANGE z 0 -1 WITHSCORES", "*4 $1 a $1 1 $1 b $1 2");
}

#[test]
fn pops_and_moves_are_announced() {
    let mut clients = at_1000();
    clients.notify(&[Class::ZSet, Class::List, Class::Generic]);
    for (line, reply, effects, events) in [
        ("BZTSPOP z 1 0", "*2 $1 z *1 *2 $1 a $1 1", &["ZREM z a"][..], &["zpopmin"][..]),
        ("BZTSMOVE z l 1 0", "*1 $1 b", &["ZREM z b", "LPUSH l b"], &["lpush", "zrem", "del"]),
        ("together BZTSPOP z 1 0", "*-1", &[], &[]),
        ("together BZTSMOVE z l 1 0", "*-1", &[], &[]),
    ] {
        if line.starts_with("BZTSPOP") {
            clients.run(0, "ZADD z 1 a 2 b");
        }
        clients.check_change(line, reply, effects, events);
    }
    let members: Vec<String> = (0..1500).map(|number| format!("1 m{number:04}")).collect();
    clients.run(0, &format!("ZADD z {}", members.join(" ")));
    clients.effects();
    clients.run(0, "BZTSMOVE z l 9999 0");
    assert_eq!(clients.effects().len(), 4);
    clients.check("RPOP l", "$1 b");
    clients.check("RPOP l", "$5 m0000");
    clients.check("LPOP l", "$5 m1499");
}
