//! Tests that transcripts cannot cover, because they have one client and see only replies: waiters, effects,
//! events, and ranges of large sets against a model.

use ds::random::Random;
use engine::{Class, Local};

use crate::FAMILIES;
use crate::clients::Clients;

#[track_caller]
fn check_served(wait: &str, lines: &[&str], expected: &str) {
    let mut clients = Clients::new();
    assert_eq!(clients.run(1, wait), None, "{wait}");
    for line in lines {
        clients.run(2, line);
    }
    assert_eq!(clients.served(), [expected], "{wait}, {lines:?}");
}

#[test]
fn whoever_makes_a_sorted_set_serves_who_waits() {
    check_served("BZPOPMIN z 0", &["ZADD z 2.5 b 1 a"], "1: *3 $1 z $1 a $1 1 < ZADD z 1 a");
    check_served("BZPOPMAX z 0", &["ZADD z 2.5 b 1 a"], "1: *3 $1 z $1 b $3 2.5 < ZADD z 2.5 b");
    check_served("BZPOPMIN x z y 2", &["ZINCRBY z 1 a"], "1: *3 $1 z $1 a $1 1 < ZADD z 1 a");
    check_served("BZPOPMIN z z 0", &["SET z s", "DEL z", "ZADD z 1 a"], "1: *3 $1 z $1 a $1 1 < ZADD z 1 a");
    check_served("BZMPOP 0 2 x z MIN", &["ZADD z 1 a 2 b"], "1: *2 $1 z *1 *2 $1 a $1 1 < ZADD z 1 a");
    check_served(
        "BZMPOP 0 1 z MAX COUNT 9",
        &["ZADD z 1 a 2 b"],
        "1: *2 $1 z *2 *2 $1 b $1 2 *2 $1 a $1 1 < ZADD z 2 b 1 a",
    );
    let made = "1: *3 $1 z $1 a $1 1 < ZADD z 1 a";
    check_served("BZPOPMIN z 0", &["ZADD x 1 a", "ZUNIONSTORE z 1 x"], made);
    check_served("BZPOPMIN z 0", &["ZADD x 1 a", "ZRANGESTORE z x 0 -1"], made);
    check_served("BZPOPMIN z 0", &["ZADD x 1 a", "RENAME x z"], made);
}

#[test]
fn first_come_first_served() {
    let mut clients = Clients::new();
    for (id, line) in [(1, "BZPOPMAX z 0"), (2, "BZPOPMIN x z 0"), (3, "BZMPOP 0 1 z MIN")] {
        assert_eq!(clients.run(id, line), None);
    }
    clients.run(0, "ZADD z 1 a 2 b");
    let served = ["1: *3 $1 z $1 b $1 2 < ZADD z 2 b", "2: *3 $1 z $1 a $1 1 < ZADD z 1 a"];
    assert_eq!(clients.served(), served);
    assert_eq!(clients.effects(), ["ZADD z 1 a 2 b", "ZREM z b", "ZREM z a"]);
    clients.run(0, "ZADD z 3 c");
    assert_eq!(clients.served(), ["3: *2 $1 z *1 *2 $1 c $1 3 < ZADD z 3 c"]);
    assert_eq!(clients.run(0, "ZCARD z").as_deref(), Some(":0"));
}

#[test]
fn effects_say_what_came_out() {
    for (lines, expected) in [
        (&["ZADD z 1 a", "ZADD z GT 2 a 0 b"][..], &["ZADD z 1 a", "ZADD z GT 2 a 0 b"][..]),
        (&["ZADD z 1 a", "ZADD z 1 a", "ZADD z NX 2 a", "ZADD x XX 2 a"], &["ZADD z 1 a"]),
        (&["ZINCRBY z 0.1 a", "ZADD z INCR 0.2 a"], &["ZADD z 0.1 a", "ZADD z 0.30000000000000004 a"]),
        (&["ZADD z 1 a 2 b", "ZREM z a x", "ZREM z x"], &["ZADD z 1 a 2 b", "ZREM z a x"]),
        (&["ZADD z 1 a 2 b 3 c", "ZPOPMAX z 2", "ZPOPMIN z 0"], &["ZADD z 1 a 2 b 3 c", "ZREM z b c"]),
        (&["ZADD z 1 a", "ZMPOP 2 x z MIN", "ZMPOP 1 z MIN"], &["ZADD z 1 a", "ZREM z a"]),
        (
            &["ZADD z 1 a", "ZREMRANGEBYSCORE z 2 3", "ZREMRANGEBYRANK z 0 0"],
            &["ZADD z 1 a", "ZREMRANGEBYRANK z 0 0"],
        ),
        (
            &["ZADD z 1 a 2 b", "ZUNIONSTORE z 1 z WEIGHTS 2"],
            &["ZADD z 1 a 2 b", "ZUNIONSTORE z 1 z WEIGHTS 2"],
        ),
        // With different scores, a range of names selects the members that are stored between the two names.
        (
            &["ZADD z 1 b 2 a", "ZREMRANGEBYLEX z (0 +", "ZADD z 1 b 2 a", "ZREMRANGEBYLEX z (a +"],
            &["ZADD z 1 b 2 a", "ZREM z b a", "ZADD z 1 b 2 a"],
        ),
        (
            &["ZADD z 1 a 2 b", "ZRANGESTORE x z [a + BYLEX LIMIT 0 1", "ZREMRANGEBYSCORE z 2 2"],
            &["ZADD z 1 a 2 b", "DEL x", "ZADD x 1 a", "ZREMRANGEBYSCORE z 2 2"],
        ),
        (
            &["ZADD z 0 a 0 b", "ZRANGESTORE x z [a + BYLEX", "ZREMRANGEBYLEX z (a +"],
            &["ZADD z 0 a 0 b", "ZRANGESTORE x z [a + BYLEX", "ZREMRANGEBYLEX z (a +"],
        ),
        (&["ZADD z 1 a", "ZINTERSTORE z 2 z x", "ZDIFFSTORE z 1 x"], &["ZADD z 1 a", "DEL z"]),
    ] {
        let mut clients = Clients::new();
        for line in lines {
            clients.run(0, line);
        }
        assert_eq!(clients.effects(), expected, "{lines:?}");
    }
}

#[test]
fn a_stored_set_of_many_has_negative_zeros() {
    let mut local = Local::new(FAMILIES);
    let pairs =
        |from: usize| (from..from + 100).map(|number| format!(" {number} m{number}")).collect::<String>();
    local.line(&format!("ZADD a{}", pairs(0)));
    local.line(&format!("ZADD b{}", pairs(100)));
    for (line, zero) in [
        ("ZUNIONSTORE c 2 a b WEIGHTS -1 -1", "-0"),
        ("ZINTERSTORE d 2 c c WEIGHTS 1 1 AGGREGATE MIN", "-0"),
        ("ZDIFFSTORE d 1 c", "-0"),
        // A small set has only one zero.
        ("ZUNIONSTORE d 1 a WEIGHTS -1", "0"),
        ("ZINTERSTORE d 2 a c WEIGHTS -1 1", "0"),
    ] {
        assert!(local.line(line).starts_with(':'), "{line}");
        let key = line.split(' ').nth(1).expect("a destination");
        assert_eq!(
            local.line(&format!("ZSCORE {key} m0")),
            format!("${}\r\n{zero}\r\n", zero.len()),
            "{line}"
        );
    }
}

#[test]
fn events_come_in_order() {
    for (lines, expected) in [
        (&["ZADD z 1 a", "ZADD z 1 a", "ZADD z INCR 1 a", "ZINCRBY z 1 a"][..], "zadd zincr zincr"),
        (&["ZADD z 1 a 2 b", "ZREM z a x", "ZREM z b"], "zadd zrem zrem del"),
        (&["ZADD z 1 a 2 b", "ZPOPMIN z", "ZPOPMAX z 5"], "zadd zpopmin zpopmax del"),
        (&["ZADD z 1 a 2 b", "ZMPOP 1 z MAX", "BZPOPMIN z 0"], "zadd zpopmax zpopmin del"),
        (&["ZADD z 1 a", "ZREMRANGEBYRANK z 1 1", "ZREMRANGEBYRANK z 0 0"], "zadd zremrangebyrank del"),
        (&["ZADD z 1 a", "ZREMRANGEBYSCORE z 1 1"], "zadd zremrangebyscore del"),
        (&["ZADD z 1 a", "ZREMRANGEBYLEX z - +"], "zadd zremrangebylex del"),
        (&["ZADD z 1 a", "ZRANGESTORE z z 0 0", "ZRANGESTORE z z 1 1"], "zadd zrangestore del"),
        (&["ZADD z 1 a", "ZUNIONSTORE z 1 z", "ZINTERSTORE z 1 z"], "zadd zunionstore zinterstore"),
        (&["ZADD z 1 a", "ZDIFFSTORE z 1 z", "ZDIFFSTORE z 2 z z"], "zadd zdiffstore del"),
    ] {
        let mut clients = Clients::new();
        clients.notify(&[Class::ZSet, Class::Generic]);
        for line in lines {
            clients.run(0, line);
        }
        assert_eq!(clients.events().join(" "), expected, "{lines:?}");
    }
}

/// A store with the set `z` of `len` members, and the members in order.
fn numbered(len: usize, distinct_scores: i64) -> (Local, Vec<(String, i64)>) {
    let mut local = Local::new(FAMILIES);
    let mut model: Vec<_> =
        (0..len).map(|number| (format!("m{number}"), number as i64 % distinct_scores)).collect();
    for (member, score) in &model {
        local.line(&format!("ZADD z {score} {member}"));
    }
    model.sort_by(|left, right| (left.1, &left.0).cmp(&(right.1, &right.0)));
    (local, model)
}

#[track_caller]
fn check_range<'a>(
    local: &mut Local,
    line: &str,
    expected: impl ExactSizeIterator<Item = &'a (String, i64)>,
) {
    let mut text = format!("*{}\r\n", expected.len());
    for (member, _) in expected {
        text.push_str(&format!("${}\r\n{member}\r\n", member.len()));
    }
    assert_eq!(local.line(line), text, "{line}");
}

#[test]
fn ranges_of_small_and_large_sets_are_those_of_a_model() {
    let mut random = Random::new(7);
    for (len, distinct_scores) in [(20, 6), (1000, 50), (300, 1)] {
        let (mut local, model) = numbered(len, distinct_scores);
        for _ in 0..100 {
            let mut below = |n: usize| random.below(n as u64) as usize;
            let (start, count) = (below(len + 2), below(len + 2));
            let span = start.min(len)..(start + count).min(len).max(start.min(len));
            let last = start as i64 + count as i64 - 1;
            if last >= 0 {
                check_range(&mut local, &format!("ZRANGE z {start} {last}"), model[span.clone()].iter());
                let reversed: Vec<_> = model.iter().rev().collect();
                let reversed = reversed[span].iter().copied();
                check_range(&mut local, &format!("ZRANGE z {start} {last} REV"), reversed);
            }
            let (min, max) =
                (below(distinct_scores as usize + 1) as i64, below(distinct_scores as usize + 1) as i64);
            let within: Vec<_> = model.iter().filter(|(_, score)| (min..max).contains(score)).collect();
            check_range(&mut local, &format!("ZRANGEBYSCORE z {min} ({max}"), within.iter().copied());
            let (offset, limit) = (below(30), below(30));
            let line = format!("ZREVRANGEBYSCORE z ({max} {min} LIMIT {offset} {limit}");
            let limited: Vec<_> = within.iter().rev().skip(offset).take(limit).copied().collect();
            check_range(&mut local, &line, limited.into_iter());
            assert_eq!(local.line(&format!("ZCOUNT z {min} ({max}")), format!(":{}\r\n", within.len()));
            if distinct_scores == 1 {
                let (min, max) = (format!("m{}", below(len)), format!("m{}", below(len)));
                let within: Vec<_> =
                    model.iter().filter(|(member, _)| *member >= min && *member < max).collect();
                check_range(&mut local, &format!("ZRANGEBYLEX z [{min} ({max}"), within.iter().copied());
                let reversed: Vec<_> = within.into_iter().rev().collect();
                check_range(&mut local, &format!("ZRANGE z ({max} [{min} BYLEX REV"), reversed.into_iter());
            }
        }
    }
}

#[test]
fn random_members_are_distinct_and_repeated_ones_have_an_end() {
    let (mut local, model) = numbered(1000, 10);
    for count in [1, 5, 999] {
        let reply = local.line(&format!("ZRANDMEMBER z {count}"));
        let members: std::collections::BTreeSet<_> =
            reply.lines().filter(|line| line.starts_with('m')).collect();
        assert_eq!(members.len(), count);
        assert!(model.iter().filter(|(member, _)| members.contains(&**member)).count() == count);
    }
    local.config.string_bytes_max = 10_000;
    assert_eq!(local.line("ZRANDMEMBER z -9223372036854775807"), "-ERR value is out of range\r\n");
}

#[test]
fn scanning_in_steps_shows_every_member() {
    let (mut local, model) = numbered(1000, 10);
    let (mut cursor, mut seen, mut steps) = ("0".to_owned(), std::collections::BTreeSet::new(), 0);
    loop {
        let reply = local.line(&format!("ZSCAN z {cursor} COUNT 20"));
        seen.extend(reply.lines().filter(|line| line.starts_with('m')).map(str::to_owned));
        cursor = reply.lines().nth(2).expect("a reply has a cursor").to_owned();
        steps += 1;
        if cursor == "0" {
            break;
        }
    }
    assert!(steps > 10);
    assert_eq!(seen.len(), model.len());
}

#[test]
fn counted_inputs_have_their_result_as_the_effect() {
    let mut clients = Clients::new();
    clients.notify(&[Class::ZSet, Class::Generic]);
    for line in ["ZADD a 5 m 6 n", "ZADD b 7 m"] {
        clients.run(0, line);
    }
    let effects: &[&str] = &["DEL d", "ZADD d 1 n 2 m"];
    clients.check_change("ZUNIONSTORE d 2 a b AGGREGATE COUNT", ":2", effects, &["zunionstore"]);
    let line = "ZINTERSTORE d 2 a b WEIGHTS 2 3 AGGREGATE COUNT";
    clients.check_change(line, ":1", &["DEL d", "ZADD d 5 m"], &["zinterstore"]);
    clients.check_change("ZINTERSTORE d 2 a none AGGREGATE COUNT", ":0", &["DEL d"], &["del"]);
    let line = "ZUNIONSTORE d 2 a b AGGREGATE MAX";
    clients.check_change(line, ":2", &[line], &["zunionstore"]);
}

#[test]
fn a_move_waits_for_a_member() {
    check_served("BZMOVE z d MIN 0", &["ZADD z 2.5 b 1 a"], "1: *1 $1 a");
    check_served("BZMOVE z d MAX 0", &["ZADD z 2.5 b 1 a"], "1: *1 $1 b");
    check_served(
        "BZMOVE z d MAX 0 COUNT 9",
        &["ZADD d 1 x", "SET z s", "DEL z", "ZADD z 2 b 1 a"],
        "1: *2 $1 b $1 a",
    );
    check_served("BZMOVE z d MIN 0", &["ZADD x 1 a", "ZMOVE x z MIN"], "1: *1 $1 a");
    let wrong = "1: -WRONGTYPE Operation against a key holding the wrong kind of value";
    check_served("BZMOVE z d MIN 0", &["SET d x", "ZADD z 1 a"], wrong);
}

#[test]
fn the_effect_of_a_move_names_the_members() {
    let mut clients = Clients::new();
    clients.notify(&[Class::ZSet, Class::Generic]);
    for (line, reply, effects, events) in [
        ("ZMOVE z d MIN", "*1 $1 a", &["ZREM z a", "ZADD d 1 a"][..], &["zadd", "zrem"][..]),
        ("ZMOVE z d MAX COUNT 2", "*2 $1 c $1 b", &["ZREM z c b", "ZADD d inf c 2.5 b"], &["zadd", "zrem"]),
        (
            "ZMOVE z d BYSCORE 0 inf",
            "*3 $1 a $1 b $1 c",
            &["ZREM z a b c", "ZADD d 1 a 2.5 b inf c"],
            &["zadd", "zrem", "del"],
        ),
        ("ZMOVE z d BYSCORE 7 8", "*-1", &[], &[]),
        ("BZMOVE z d MIN 0", "*1 $1 a", &["ZREM z a", "ZADD d 1 a"], &["zadd", "zrem"]),
        (
            "ZMOVEMEMBER z d MEMBERS 3 c x a",
            "*2 $1 c $1 a",
            &["ZREM z c a", "ZADD d inf c 1 a"],
            &["zadd", "zrem"],
        ),
        ("ZMOVEMEMBER z d XX MEMBERS 1 a", "*-1", &[], &[]),
    ] {
        clients.run(0, "FLUSHALL");
        clients.run(0, "ZADD z 1 a 2.5 b inf c");
        clients.check_change(line, reply, effects, events);
    }
    clients.run(0, "DARTER.PAUSE z 1");
    clients.check_change("ZMOVE z d MIN", "*-1", &[], &[]);
}
