//! Tests groups: each gets its turn, none has more active jobs than allowed, and an empty one leaves nothing
//! behind.

use std::collections::BTreeMap;

use ds::random::Random;

use super::World;

impl World {
    /// Takes a job and returns its payload, if there is one.
    fn next(&mut self) -> Option<String> {
        let taken = self.say("JOB.TAKE w LEASE 1000 FROM q");
        taken.starts_with("*1 ").then(|| taken.rsplit(' ').next().expect("a payload").to_owned())
    }

    fn order(&mut self, count: usize) -> String {
        (0..count).map_while(|_| self.next()).collect::<Vec<_>>().join(" ")
    }

    fn put(&mut self, group: &str, count: usize) {
        for _ in 0..count {
            let reply = self.say(&format!("JOB.PUT q {group} GROUP {group}"));
            assert!(reply.starts_with('$'), "{reply}");
        }
    }
}

/// The checks of random tests.
impl World {
    fn number(&mut self, line: &str) -> u64 {
        self.say(line)[1..].parse().expect("a number")
    }

    /// The number of jobs in all states.
    fn job_count(&mut self) -> u64 {
        let sets = ["active", "delayed", "dead"].map(|set| format!("ZCARD {{q}}:jobs:{set}"));
        let lists = [0, 1, 2, 3, 4].map(|group| format!("LLEN {{q}}:jobs:group:g{group}"));
        let elsewhere: u64 = sets.iter().chain(&lists).map(|line| self.number(line)).sum();
        elsewhere + self.number("LLEN q")
    }

    /// The active jobs by group, after checking that as many are counted.
    fn checked_counts(&mut self) -> BTreeMap<String, u64> {
        let mut counted: BTreeMap<String, u64> = BTreeMap::new();
        for id in self.say("ZRANGE {q}:jobs:active 0 -1").split(' ').skip(2).step_by(2) {
            let record = self.say(&format!("HGET {{q}}:jobs {id}"));
            if let Some(group) = record.split([' ', '\n']).find_map(|word| word.strip_prefix("g=")) {
                *counted.entry(group.to_owned()).or_default() += 1;
            }
        }
        for (group, count) in &counted {
            let expected = format!("${} {count}", count.to_string().len());
            self.check(&format!("HGET {{q}}:jobs:groups:active {group}"), &expected);
        }
        assert_eq!(self.number("HLEN {q}:jobs:groups:active"), counted.len() as u64);
        counted
    }

    /// Whether a group has waiting jobs and is under its limit.
    fn has_group_under(&mut self, per_group: u64) -> bool {
        let counts = self.checked_counts();
        (0..5).map(|group| format!("g{group}")).any(|group| {
            let has_some = self.number(&format!("LLEN {{q}}:jobs:group:{group}")) > 0;
            has_some && counts.get(&group).is_none_or(|count| *count < per_group)
        })
    }

    /// Takes and does all jobs, and checks that nothing is left.
    fn do_all(&mut self) {
        self.say("limit q OFF");
        for _ in 0..100 {
            self.0.now += 100;
            self.fire();
            self.say("JOB.TAKE w LEASE 1 COUNT 1000 FROM q");
            for id in self.say("ZRANGE {q}:jobs:active 0 -1").split(' ').skip(2).step_by(2) {
                self.say(&format!("JOB.DONE q {id}"));
            }
        }
        self.say("DEL {q}:jobs:dead {q}:jobs");
        self.check("DBSIZE", ":0");
    }
}

#[test]
fn groups_take_turns() {
    let mut world = World::new();
    world.put("a", 6);
    world.put("b", 2);
    world.put("c", 3);
    assert_eq!(world.order(3), "a b c");
    // A new group is served within the round.
    world.put("0", 2);
    assert_eq!(world.order(9), "0 a b c 0 a c a a");
    world.check("EXISTS q {q}:jobs:group:b", ":0");
    assert_eq!(world.order(2), "a");
    world.check("EXISTS {q}:jobs:groups {q}:jobs:groups:full {q}:jobs:turn", ":0");
    assert_eq!(world.say("HLEN {q}:jobs:groups:active"), ":4");
    world.0.now += 1000;
    world.fire();
    assert_eq!(world.say("HLEN {q}:jobs:groups:active"), ":0");
    assert_eq!(world.say("ZCARD {q}:jobs:groups"), ":4", "their leases have ended");
    assert_eq!(world.order(4), "0 a b c");
}

#[test]
fn the_list_is_one_more_group() {
    let mut world = World::new();
    world.say("RPUSH q l l l l l");
    world.put("a", 3);
    world.put("b", 3);
    assert_eq!(world.order(11), "l a b l a b l a b l l");
    world.say("RPUSH q l l");
    world.put("a", 1);
    world.check("BRPOP q 0", "*2 $1 q $1 l");
    world.check("LLEN q", ":1");
    let order = world.order(3);
    assert!(order == "l a" || order == "a l", "{order}");
    world.check("BRPOP q 0", "waits");
    world.put("a", 1);
    assert_eq!(world.next().as_deref(), Some("a"), "who waits for the list does not get jobs of groups");
}

#[test]
fn who_has_one_job_at_a_time_gets_as_much_as_who_has_many() {
    for name in ["0", "z"] {
        let mut world = World::new();
        world.put("m", 100);
        world.put("n", 100);
        world.put(name, 1);
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for _ in 0..90 {
            let group = world.next().expect("there are some");
            if group == name {
                world.put(name, 1);
            }
            *counts.entry(group).or_default() += 1;
        }
        assert!(counts.values().all(|count| count.abs_diff(30) <= 1), "{counts:?}");
    }
}

#[test]
fn shares_are_equal_among_any_number_of_groups() {
    for (groups, rounds) in [(1, 30), (2, 30), (37, 30), (1000, 4), (10_000, 2)] {
        let mut world = World::new();
        let mut random = Random::new(groups);
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for group in 0..groups {
            // As many as all others together, or just enough.
            let count = rounds + if group % 100 == 0 { random.next_u64() % 200 } else { 0 };
            world.put(&format!("g{group}"), count as usize);
        }
        for _ in 0..groups * rounds {
            *counts.entry(world.next().expect("there are some")).or_default() += 1;
        }
        assert_eq!(counts.len() as u64, groups);
        assert!(counts.values().all(|count| *count == rounds), "{groups}");
    }
}

#[test]
fn a_group_has_no_more_active_jobs_than_it_may() {
    let mut world = World::new();
    world.check("limit q PER GROUP 1", "+OK");
    world.put("a", 3);
    world.put("b", 2);
    world.say("RPUSH q l l l");
    assert_eq!(world.order(9), "l a b l l");
    world.check("ZRANGE {q}:jobs:groups:full 0 -1 WITHSCORES", "*4 $1 a $1 1 $1 b $1 1");
    world.check("JOB.TAKE w LEASE 1000 WAIT 0 FROM q", "waits");
    world.put("a", 1);
    assert!(world.served().is_empty());
    let listed = world.say("JOB.LIST q ACTIVE COUNT 100");
    let words: Vec<&str> = listed.split(' ').collect();
    let at = words.iter().rposition(|word| *word == "a").expect("one of a is active");
    let id = words[at - 6];
    world.check(&format!("JOB.DONE q {id}"), ":1");
    let served = world.served();
    assert!(served.len() == 1 && served[0].ends_with(" a"), "{served:?}");
    // The limit is raised, and lowered.
    world.check("JOB.TAKE w LEASE 1000 WAIT 0 FROM q", "waits");
    world.check("limit q PER GROUP 2", "+OK");
    assert_eq!(world.served().len(), 1);
    assert_eq!(world.order(9), "b");
    world.put("b", 1);
    world.put("c", 4);
    world.check("limit q PER GROUP 1", "+OK");
    assert_eq!(world.order(9), "c");
    world.check("limit q OFF", "+OK");
    assert_eq!(world.order(99).split(' ').filter(|group| *group == "c").count(), 3);
    world.check("EXISTS {q}:jobs:groups {q}:jobs:groups:full {q}:jobs:turn", ":0");
}

#[test]
fn a_limit_that_is_lowered_leaves_nobody_in_the_way() {
    let mut world = World::new();
    for group in 0..2500 {
        world.put(&format!("g{group}"), 3);
    }
    world.order(5000);
    world.put("late", 1);
    world.check("limit q PER GROUP 1", "+OK");
    world.check("JOB.TAKE w LEASE 100000 WAIT 0 FROM q", "waits");
    let mut visits = 0;
    while world.fire() <= world.0.now {
        visits += 1;
        assert!(visits < 10, "it comes to an end");
    }
    assert_eq!(world.served().len(), 1, "it waited for the one that has none");
    world.check("ZCARD {q}:jobs:groups:full", ":2500");
}

#[test]
fn a_limit_that_changes_serves_all_who_wait() {
    let mut world = World::new();
    for group in 0..1500 {
        world.put(&format!("g{group}"), 3);
    }
    world.check("limit q PER GROUP 1", "+OK");
    assert_eq!(world.order(1600).split(' ').count(), 1500, "each group has one active");
    let takers = 40;
    for _ in 0..takers {
        world.check("JOB.TAKE w LEASE 100000 WAIT 0 FROM q", "waits");
    }
    world.check("limit q PER GROUP 2", "+OK");
    assert_eq!(world.served().len(), takers);
    // The limit is lowered while more workers wait: the groups with two active jobs exceed it.
    world.check("limit q PER GROUP 1", "+OK");
    world.check("JOB.TAKE w LEASE 100000 WAIT 0 FROM q", "waits");
    while world.fire() <= world.0.now {}
    assert_eq!(world.served().len(), 0);
    let active = |world: &mut World, count: &str| {
        let counts = world.say("HGETALL {q}:jobs:groups:active");
        let mut words = counts.split(' ').skip(2).step_by(2);
        while let (Some(group), Some(active)) = (words.next(), words.next()) {
            if active == count {
                return group.to_owned();
            }
        }
        unreachable!("a group has so many active jobs")
    };
    let group = active(&mut world, "1");
    let ids = world.say("ZRANGE {q}:jobs:active 0 -1");
    let of_group = ids
        .split(' ')
        .skip(2)
        .step_by(2)
        .find(|id| {
            let record = world.say(&format!("HGET {{q}}:jobs {id}"));
            record.split([' ', '\n']).any(|word| word.strip_prefix("g=") == Some(&group))
        })
        .expect("it has one");
    world.check(&format!("JOB.DONE q {of_group}"), ":1");
    assert_eq!(world.served().len(), 1);
}

#[test]
fn who_waits_is_served_when_databases_are_swapped() {
    let mut world = World::new();
    let put: &[&[u8]] = &[b"JOB.PUT", b"q", b"p", b"ID", b"1", b"GROUP", b"a"];
    assert_eq!(world.run_in(1, put).as_deref(), Some("$1 1"));
    // A client that only pops the list is ahead of it.
    world.check("BRPOP q 0", "waits");
    world.check("JOB.TAKE w LEASE 1000 WAIT 0 FROM q", "waits");
    world.check("SWAPDB 0 1", "+OK");
    assert_eq!(world.served(), ["*1 *4 $1 q $1 1 :1 $1 p"]);
}

#[test]
fn jobs_of_groups_are_counted() {
    let mut world = World::new();
    let waiting = |world: &mut World, count: &str| world.check("HGET {q}:jobs:turn waiting", count);
    world.put("a", 3);
    world.put("b", 2);
    waiting(&mut world, "$1 5");
    world.say("LPUSH q list");
    world.order(3);
    waiting(&mut world, "$1 3");
    let id = world.say("ZRANGE {q}:jobs:active 0 0").split(' ').nth(2).expect("an id").to_owned();
    world.check(&format!("JOB.RELEASE q {id}"), ":1");
    world.order(9);
    world.check("EXISTS {q}:jobs:turn", ":0");
}

#[test]
fn what_belongs_to_groups_must_be_what_it_is() {
    let mut world = World::new();
    for line in ["JOB.PUT q p GROUP", "JOB.PUT q p GROUP a GROUP b"] {
        assert!(world.say(line).starts_with("-ERR syntax error near 'GROUP': "), "{line}");
    }
    let long = "x".repeat(513);
    let error = "-ERR the name of a group has 1 to 512 bytes";
    assert_eq!(world.run(&[b"JOB.PUT", b"q", b"p", b"GROUP", b""]).as_deref(), Some(error));
    world.check(&format!("JOB.PUT q p GROUP {long}"), error);
    world.check(&format!("JOB.PUT q p ID 1 GROUP {}", &long[1..]), "$1 1");
    world.check("JOB.DROP q 1", ":1");
    assert_eq!(world.next(), None);
    let any = b"\r\n {}:\0";
    assert_eq!(world.run(&[b"JOB.PUT", b"q", b"p", b"ID", b"2", b"GROUP", any]).as_deref(), Some("$1 2"));
    assert_eq!(world.next().as_deref(), Some("p"));
    world.check("JOB.FAIL q 2", "+waiting");
    assert_eq!(world.next().as_deref(), Some("p"));
    world.check("JOB.DONE q 2", ":1");
    world.check("DBSIZE", ":0");
    // Keys that hold something else.
    world.check("JOB.PUT q p ID 1 GROUP a IN 100 UNIQUE u", "$1 1");
    for key in ["group:a", "groups", "groups:full", "groups:active", "turn"] {
        world.say(&format!("SET {{q}}:jobs:{key} x"));
        let error =
            format!("-WRONGTYPE {{q}}:jobs:{key}, which belongs to the queue's jobs, holds something else");
        world.check("JOB.PUT q p ID 2 GROUP a UNIQUE v", &error);
        world.check("JOB.RETRY q 1", &error);
        world.check("EXISTS {q}:jobs:unique:v", ":0");
        world.say(&format!("DEL {{q}}:jobs:{key}"));
    }
    world.say("SET {q}:jobs:limit x");
    let error = "-WRONGTYPE {q}:jobs:limit, which belongs to the queue's limit, holds something else";
    world.check("JOB.PUT q p ID 2 GROUP a UNIQUE v", error);
    world.check("EXISTS {q}:jobs:unique:v {q}:jobs:group:a", ":0");
    world.say("DEL {q}:jobs:limit");
    world.check("JOB.RETRY q 1", ":1");
    assert_eq!(world.next().as_deref(), Some("p"));
    world.say("SET {q}:jobs:group:a x");
    let error = "-WRONGTYPE {q}:jobs:group:a, which belongs to the queue's jobs, holds something else";
    world.check("JOB.FAIL q 1", error);
    world.check("ZCARD {q}:jobs:active", ":1");
    world.say("DEL {q}:jobs:group:a");
    world.check("JOB.FAIL q 1", "+waiting");
    // A list that a client deleted.
    world.say("DEL {q}:jobs:group:a");
    assert_eq!(world.next(), None);
    world.check("EXISTS {q}:jobs:groups {q}:jobs:turn", ":0");
}

/// An element of the list with the id of a group's job is another job, and does not count as one of the
/// group.
#[test]
fn a_job_of_a_group_is_not_taken_from_the_list() {
    let mut world = World::new();
    world.check("limit q PER GROUP 1", "+OK");
    world.say(r#"LPUSH q {"id":"a","n":2}"#);
    world.check(r#"JOB.PUT q {"id":"b"} GROUP g"#, "$1 b");
    world.check(r#"JOB.PUT q {"id":"a"} GROUP g TRIES 1"#, "$1 a");
    world.check("JOB.TAKE w LEASE 9 FROM q", r#"*1 *4 $1 q $3 a#2 :1 $16 {"id":"a","n":2}"#);
    world.check("JOB.TAKE w LEASE 9 COUNT 9 FROM q", r#"*1 *4 $1 q $1 b :1 $10 {"id":"b"}"#);
    world.check("JOB.DONE q b", ":1");
    world.check("JOB.TAKE w LEASE 9 COUNT 9 FROM q", r#"*1 *4 $1 q $1 a :1 $10 {"id":"a"}"#);
    world.check("JOB.FAIL q a", "+dead");
}

/// Runs random commands: no group has more active jobs than allowed, no job is lost, no waiting worker could
/// have had one, a store that runs the effects ends up the same, and nothing is left at the end.
#[test]
fn groups_of_random_jobs() {
    for seed in 0..60 {
        let (mut world, mut copy, mut random) = (World::new(), World::new(), Random::new(seed));
        copy.0.keeps_due = true;
        let mut pick = |count: u64| random.next_u64() % count;
        let mut per_group = 1 + pick(3);
        world.say(&format!("limit q PER GROUP {per_group} ACTIVE 8"));
        let (mut put, mut ended, mut number) = (0, 0, 0);
        for _ in 0..250 {
            world.0.now += pick(20) as i64;
            let ids = world.say("ZRANGE {q}:jobs:active 0 -1");
            let ids: Vec<&str> = ids.split(' ').skip(2).step_by(2).collect();
            let id = ids.get(pick(8) as usize).copied().unwrap_or("none").to_owned();
            number += 1;
            let line = match pick(16) {
                0..=4 => format!("JOB.PUT q g{} ID j{number} GROUP g{}", number % 5, number % 5),
                5 => format!("JOB.PUT q g1 ID j{number} GROUP g1 IN {}", pick(50)),
                6 => "RPUSH q l".to_owned(),
                7..=9 => format!("JOB.TAKE w LEASE {} COUNT {} FROM q", 1 + pick(60), 1 + pick(3)),
                10 | 11 => format!("JOB.DONE q {id}"),
                12 => format!("JOB.FAIL q {id} IN {}", pick(20)),
                13 => format!("JOB.FAIL q {id}"),
                14 => format!("JOB.RELEASE q {id}"),
                _ => {
                    per_group = 1 + pick(3);
                    format!("limit q PER GROUP {per_group} ACTIVE 8")
                }
            };
            let reply = world.say(&line);
            assert!(!reply.starts_with('-'), "{line}: {reply}");
            match line.split(' ').next() {
                Some("JOB.PUT" | "RPUSH") => put += 1,
                Some("JOB.DONE") => ended += u64::from(reply == ":1"),
                Some("JOB.TAKE") if reply == "*-1" => {
                    assert!(ids.len() >= 8 || !world.has_group_under(per_group), "seed {seed}: there is one");
                }
                _ => {}
            }
            world.fire();
            assert_eq!(world.job_count(), put - ended, "seed {seed}: {line}");
            let counted = world.checked_counts();
            if line.starts_with("JOB.TAKE") && reply != "*-1" {
                let taken = reply.split(' ').filter(|word| word.starts_with('g'));
                for group in taken {
                    assert!(
                        counted.get(group).is_none_or(|count| *count <= per_group),
                        "seed {seed}: {group}"
                    );
                }
            }
            let effects = world.effects();
            copy.0.now = world.0.now;
            copy.0.replay(&effects).expect("effects are commands");
            assert_eq!(copy.dump("q"), world.dump("q"), "seed {seed}: {line}");
        }
        world.do_all();
    }
}
