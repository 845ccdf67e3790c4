//! A queue that workers with leases share with clients that know nothing of leases, or misuse them.

use super::World;
use crate::job::PASSED_OVER_MAX;

/// A job of the id `x`, as it was pushed for the first time and again.
const FIRST: &str = r#"{"jid":"x","retry":0}"#;
const AGAIN: &str = r#"{"jid":"x","retry":1}"#;

#[test]
fn what_was_known_of_a_popped_job_does_not_hold_for_a_later_one() {
    let taken = |id: &str| format!("*1 *4 $1 q ${} {id} :1 ${} {AGAIN}", id.len(), AGAIN.len());
    for known in ["EXPIRE 100", "TRIES 1", "UNIQUE lock"] {
        let mut world = World::new();
        world.check(&format!("JOB.PUT q {FIRST} {known}"), "$1 x");
        world.say("RPOP q");
        if known != "EXPIRE 100" {
            world.check("JOB.DROP q x", ":1");
        }
        world.0.now += 200;
        world.say(&format!("LPUSH q {AGAIN}"));
        world.check("JOB.TAKE w LEASE 10 FROM q", &taken("x#2"));
    }
    // Whoever pushes what he has popped gives it back.
    let mut world = World::new();
    world.say(&format!("JOB.PUT q {FIRST} TRIES 1"));
    world.say("RPOP q");
    world.say(&format!("LPUSH q {FIRST}"));
    world.check("JOB.TAKE w LEASE 10 FROM q", &format!("*1 *4 $1 q $1 x :1 ${} {FIRST}", FIRST.len()));
    world.check("JOB.FAIL q x", "+dead");
}

#[test]
fn a_dropped_job_keeps_its_place_but_not_its_payload() {
    let mut world = World::new();
    world.say("JOB.PUT q payload ID x");
    world.check("JOB.DROP q x", ":1");
    assert!(!world.say("HGET {q}:jobs x").contains("payload"));
    let error =
        "this queue has a job of this id, which is dropped, and leaves its place when workers come to it";
    world.check("JOB.PUT q other ID x", &format!("-JOBEXISTS {error}"));
    // Another job that says the same id is taken; the place of the dropped one is passed over.
    world.say(&format!("RPUSH q {AGAIN}"));
    world.say("JOB.PUT q last ID y");
    let again = format!("*4 $1 q $3 x#2 :1 ${} {AGAIN}", AGAIN.len());
    world.check("JOB.TAKE w LEASE 10 COUNT 9 FROM q", &format!("*2 {again} *4 $1 q $1 y :1 $4 last"));
    world.check("HLEN {q}:jobs", ":2");
}

#[test]
fn who_waits_gets_a_job_behind_any_number_of_dropped_ones() {
    let mut world = World::new();
    for number in 0..=PASSED_OVER_MAX {
        world.say(&format!("JOB.PUT q p ID d{number}"));
        world.check(&format!("JOB.DROP q d{number}"), ":1");
    }
    world.say("JOB.PUT q p ID live");
    world.check("JOB.TAKE w LEASE 10 WAIT 0 FROM q", "waits");
    assert!(world.0.posts.iter().any(|post| matches!(post, command::Post::Served { .. })));
    world.check("ZRANGE {q}:jobs:active 0 -1", "*1 $4 live");
}

#[test]
fn a_delayed_job_that_comes_too_late_gives_its_lock_back() {
    let mut world = World::new();
    world.check("JOB.PUT q p ID x IN 10000 UNIQUE l EXPIRE 50", "$1 x");
    world.check("JOB.PUT q p ID y UNIQUE l", "$1 x");
    world.0.now += 200;
    world.check("JOB.PUT q p ID y UNIQUE l", "$1 y");
    world.0.now += 10_000;
    world.fire();
    world.check("JOB.TAKE w LEASE 10 COUNT 9 FROM q", "*1 *4 $1 q $1 y :1 $1 p");
    world.check("JOB.PUT q p ID z UNIQUE l", "$1 y");
}

#[test]
fn workers_that_are_gone_are_forgotten_where_nothing_comes_due() {
    let mut world = World::new();
    for number in 0..100 {
        world.check(&format!("JOB.KEEP q 1 WORKER w{number}"), "+OK");
        world.0.now += 1;
    }
    world.check("ZCARD {q}:jobs:workers", ":1");
    let long = "w".repeat(513);
    let error = "-ERR the name of a worker has 1 to 512 bytes";
    world.check(&format!("JOB.KEEP q 1 WORKER {long}"), error);
    world.check(&format!("JOB.TAKE {long} LEASE 1 FROM q"), error);
}

#[test]
fn many_jobs_that_say_the_same_id_get_ids_of_their_own() {
    let mut world = World::new();
    for _ in 0..50 {
        world.say(&format!("LPUSH q {FIRST}"));
    }
    let taken = world.say("JOB.TAKE w LEASE 10 COUNT 100 FROM q");
    assert!(taken.starts_with("*50 ") && taken.contains(" x#9 ") && !taken.contains(" x#10 "), "{taken}");
    world.check("HLEN {q}:jobs", ":50");
    world.check("ZCARD {q}:jobs:active", ":50");
}
