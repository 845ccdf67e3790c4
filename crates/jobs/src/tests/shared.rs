//! Tests a queue that workers with leases share with clients that do not know about leases, or misuse them.

use super::World;
use crate::job::PASSED_OVER_MAX;

/// A job with the id `x`, as it was pushed for the first time and again.
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
    // A client that pushes back what it popped returns the job.
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
    // Another job with the same id is taken; the place of the dropped one is passed over.
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
    assert!(world.0.outbox.iter().any(|message| matches!(message, engine::TxMessage::Served { .. })));
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

#[test]
fn what_was_pushed_goes_back_as_it_was() {
    let mut world = World::new();
    for (element, of_job) in [("text", ""), (FIRST, "x#2")] {
        world.say("FLUSHALL");
        if !of_job.is_empty() {
            // Another job has its id.
            world.check("JOB.PUT q p ID x IN 100000", "$1 x");
        }
        world.check(&format!("LPUSH q {element}"), ":1");
        let taken = world.say("JOB.TAKE w LEASE 10 FROM q");
        let id = taken.split(' ').nth(5).expect("an id").to_owned();
        assert!(of_job.is_empty() || id == of_job, "{taken}");
        let again =
            |attempt: u64| format!("*1 *4 $1 q ${} {id} :{attempt} ${} {element}", id.len(), element.len());
        let back = format!("*1 ${} {element}", element.len());
        assert_eq!(taken, again(1));
        // Its lease ends, it fails, is delayed, is released.
        world.0.now += 10;
        world.fire();
        world.check("LRANGE q 0 -1", &back);
        world.check("JOB.TAKE w LEASE 10 FROM q", &again(2));
        world.check(&format!("JOB.FAIL q {id}"), "+waiting");
        world.check("LRANGE q 0 -1", &back);
        world.check("JOB.TAKE w LEASE 10 FROM q", &again(3));
        world.check(&format!("JOB.FAIL q {id} IN 5"), "+delayed");
        world.0.now += 5;
        world.fire();
        world.check("LRANGE q 0 -1", &back);
        world.check("JOB.TAKE w LEASE 10 FROM q", &again(4));
        world.check(&format!("JOB.RELEASE q {id}"), ":1");
        world.check("EXISTS {q}:jobs:plain", ":1");
        // Another element with the same text is another job.
        world.check(&format!("LPUSH q {element}"), ":2");
        let both = world.say("JOB.TAKE w LEASE 10 COUNT 2 FROM q");
        assert!(both.contains(&format!(" {id} :4 ")) && both.matches(" :1 ").count() == 1, "{both}");
        world.check("EXISTS {q}:jobs:plain", ":0");
        world.check(&format!("JOB.RELEASE q {id}"), ":1");
        // A client that does not know about leases pops it as it was pushed.
        world.check("RPOP q", &format!("${} {element}", element.len()));
        // It can be dropped while it waits.
        world.check(&format!("RPUSH q {element}"), ":1");
        world.check(&format!("JOB.DROP q {id}"), ":1");
        world.check("JOB.TAKE w LEASE 10 FROM q", "*-1");
        world.check("EXISTS q {q}:jobs:plain", ":0");
    }
}

#[test]
fn a_key_that_is_somebody_elses_loses_no_element() {
    let mut world = World::new();
    world.say("SET {q}:jobs:plain x");
    world.say("LPUSH q text");
    let error = "-WRONGTYPE {q}:jobs:plain, which belongs to the queue's jobs, holds something else";
    world.check("JOB.TAKE w LEASE 10 FROM q", error);
    world.check("LLEN q", ":1");
    world.say("DEL {q}:jobs:plain");
    let taken = world.say("JOB.TAKE w LEASE 10 FROM q");
    let id = taken.split(' ').nth(5).expect("an id").to_owned();
    world.say("SET {q}:jobs:plain x");
    world.check(&format!("JOB.RELEASE q {id}"), error);
    world.check(&format!("JOB.FAIL q {id}"), error);
    world.check("ZCARD {q}:jobs:active", ":1");
    // Members that were added by hand do no harm.
    world.say("DEL {q}:jobs:plain");
    world.check(&format!("JOB.RELEASE q {id}"), ":1");
    world.check(&format!("HDEL {{q}}:jobs {id}"), ":1");
    let taken = world.say("JOB.TAKE w LEASE 10 FROM q");
    assert!(taken.contains(" :1 $4 text"), "{taken}");
    world.check("EXISTS {q}:jobs:plain", ":0");
}

#[test]
fn an_id_that_was_given_is_known_while_the_job_waits() {
    let mut world = World::new();
    world.check(&format!("JOB.PUT q {FIRST} ID x"), "$1 x");
    let error = "-JOBEXISTS this queue has a job of this id, which is waiting";
    world.check(&format!("JOB.PUT q {FIRST} ID x"), error);
    world.check(&format!("JOB.PUT q {FIRST}"), error);
    world.check("LRANGE q 0 -1", &format!("*1 ${} {FIRST}", FIRST.len()));
    world.check("JOB.TAKE w LEASE 10 FROM q", &format!("*1 *4 $1 q $1 x :1 ${} {FIRST}", FIRST.len()));
    world.check("JOB.DONE q x", ":1");
    world.check("EXISTS {q}:jobs", ":0");
}

#[test]
fn a_producer_can_ask_whether_the_job_was_added() {
    let mut world = World::new();
    world.check("JOB.PUT q p ID x UNIQUE l WITHADDED", "*2 $1 x :1");
    world.check("JOB.PUT q p ID y WITHADDED UNIQUE l FOR 10", "*2 $1 x :0");
    world.check("JOB.PUT q p ID y UNIQUE l", "$1 x");
    world.check("JOB.PUT q p ID y WITHADDED", "*2 $1 y :1");
}

#[test]
fn a_word_that_is_wrong_is_shown_with_what_is_right() {
    let mut world = World::new();
    for (line, expected) in [
        ("JOB.PUT q p IN 5 AT 7", "near 'AT': JOB.PUT takes ID, IN or AT, "),
        ("JOB.PUT q p ID", "near 'ID': "),
        ("JOB.PUT q p FOR 5", "near 'FOR': "),
        ("JOB.LIST q WAITING", "near 'WAITING': the state is ACTIVE, DELAYED or DEAD"),
        ("JOB.LIST q DEAD COUNT", "near 'COUNT': after the state JOB.LIST takes CURSOR and COUNT"),
        ("JOB.FAIL q x AT 5", "near 'AT': JOB.FAIL takes ATTEMPT, IN and WHY"),
        ("JOB.DONE q ATTEMPT x 1 y", "near 'y': behind ATTEMPT each id needs the number of its attempt"),
        ("JOB.DONE q ATTEMPT", "near 'ATTEMPT': behind ATTEMPT "),
        ("JOB.KEEP q 5 w w", "near 'w': JOB.KEEP takes ID and ids"),
        ("JOB.RETRY q x 5", "near 'x': JOB.RETRY takes an id, or ALL and then COUNT"),
        ("JOB.TAKE w FOR 5 FROM q", "near 'FOR': LEASE and its milliseconds come after the worker"),
        ("JOB.TAKE w LEASE 5 WHEN 5 FROM q", "near 'WHEN': JOB.TAKE takes WAIT, COUNT, "),
        ("JOB.TAKE w LEASE 5 FAIR STRICT FROM q", "near 'STRICT': "),
    ] {
        let reply = world.say(line);
        assert!(reply.starts_with(&format!("-ERR syntax error {expected}")), "{line}: {reply}");
    }
}

#[test]
fn jobs_are_taken_where_others_pop_and_else_opposite_to_where_they_push() {
    let mut world = World::new();
    let mut taken = |lines: &[&str]| {
        world.say("FLUSHALL");
        lines.iter().for_each(|line| _ = world.say(line));
        let taken = world.say("JOB.TAKE w LEASE 10 FROM mail");
        taken.rsplit(' ').next().expect("a payload").to_owned()
    };
    for (lines, expected) in [
        (&["RPUSH mail a b c", "LPOP mail"][..], "b"),
        (&["RPUSH mail a", "LPOP mail", "RPUSH mail b c"], "b"),
        (&["RPUSH mail a", "LPOP mail", "RPUSH mail b", "RPOP mail", "RPUSH mail c d"], "d"),
        (&["RPUSH mail a b c"], "c"),
        (&["RPUSH mail a"; 9], "a"),
        (
            &[
                "RPUSH mail a",
                "RPUSH mail b",
                "RPUSH mail c",
                "RPUSH mail d",
                "RPUSH mail e",
                "RPUSH mail f",
                "RPUSH mail g",
            ],
            "g",
        ),
        (
            &[
                "RPUSH mail a",
                "RPUSH mail b",
                "RPUSH mail c",
                "RPUSH mail d",
                "RPUSH mail e",
                "RPUSH mail f",
                "RPUSH mail g",
                "RPUSH mail h",
            ],
            "a",
        ),
        (&["LPUSH mail a b c"], "a"),
        (&["LPUSH mail a b c", "LPOP mail"], "b"),
        (&["RPUSH mail a b c", "RPOP mail"], "b"),
        (&["RPUSH mail a b c", "LPOP mail", "COPY mail post", "DEL mail", "RENAME post mail"], "b"),
        // One push by hand does not turn the queue round.
        (&["LPUSH mail a b", "JOB.TAKE w LEASE 9 FROM mail", "RPUSH mail next", "LPOP mail"], "next"),
    ] {
        assert_eq!(taken(lines), expected, "{lines:?}");
    }
}
