//! Tests of the queues of a database, without a server.

use std::sync::Arc;

use ds::hashing::{Seed, hash};
use ds::list::End;
use ds::zset::{ZSet, ZSetLimits};

use super::*;
use crate::{Db, Str, Value};

struct World {
    known: Arc<Known>,
    seed: Arc<Seed>,
    db: Db,
}

impl World {
    fn new() -> World {
        let (known, seed) = (Arc::<Known>::default(), Arc::new(Seed::new(1)));
        let db = Db::new(Arc::clone(&seed)).with_queues(&known, 0, true);
        World { known, seed, db }
    }

    fn push(&mut self, key: &str, now_ms: u64) {
        let make = |key: &[u8], idle: Option<Record>| {
            idle.unwrap_or_else(|| Record::new(key, Value::List(Box::new(List::new()))))
        };
        let (record, _) = self.db.find_or_insert(hash(&self.seed, key.as_bytes()), key.as_bytes(), make);
        let Value::List(list) = record.into_value() else { panic!("it is a list") };
        list.set_time(now_ms);
        list.push(End::Head, b"job");
    }

    /// Pops the last element. Returns whether the queue keeps the list.
    fn pop_last(&mut self, key: &str, now_ms: u64) -> bool {
        let hash = hash(&self.seed, key.as_bytes());
        let record = self.db.find_mut(hash, key.as_bytes()).expect("it is there");
        let Value::List(list) = record.into_value() else { panic!("it is a list") };
        list.set_time(now_ms);
        list.pop(End::Tail).expect("it has an element");
        self.db.remove_emptied(hash, key.as_bytes()).is_none()
    }

    /// Creates `schedule` with one job; returns the hash of that key.
    fn schedule(&mut self, due_ms: u64) -> u64 {
        let hash = hash(&self.seed, b"schedule");
        let limits = ZSetLimits { entries_max: 128, value_bytes_max: 64, pack_bytes_min: 0 };
        self.db.find_or_insert(hash, b"schedule", |key, _| {
            let mut zset = ZSet::new();
            zset.insert(b"job", due_ms as f64 / 1000.0, &limits);
            Record::new(key, Value::ZSet(Box::new(zset)))
        });
        hash
    }

    fn figures(&self, key: &str) -> Option<&Figures> {
        self.db.queues().figures(hash(&self.seed, key.as_bytes()), key.as_bytes())
    }
}

#[test]
fn an_emptied_queue_keeps_its_list_and_what_is_known_of_it() {
    let mut world = World::new();
    for round in 1..=3 {
        world.push("queue:a", round * 1000);
        assert!(world.pop_last("queue:a", round * 1000 + 5));
        let figures = world.figures("queue:a").expect("it is known");
        let figures =
            [&figures.depth, &figures.oldest_ms, &figures.pushed, &figures.popped].map(|figure| figure.get());
        assert_eq!(figures, [0, 0, round, round]);
    }
    world.push("other", 1);
    assert!(!world.pop_last("other", 2));
    assert_eq!(world.known.listed().len(), 1);
}

#[test]
fn waiting_times_stay_where_an_emptied_list_does_not() {
    let mut world = World::new();
    // A record with a key of this length is not kept.
    let key = format!("queue:{}", "x".repeat(100));
    for round in 1..=3 {
        world.push(&key, round * 1000);
        assert!(world.pop_last(&key, round * 1000 + 5));
        let hash = hash(&world.seed, key.as_bytes());
        let waits = world.db.queues().idle_book(hash, key.as_bytes()).and_then(Book::waits);
        let taken = waits.and_then(|waits| waits.quantiles(round * 1000 + 5, 60));
        assert_eq!(taken.map(|taken| (taken.count, taken.max_ms)), Some((round, 5)));
    }
}

#[test]
fn ages_go_with_a_list_to_another_name() {
    let mut world = World::new();
    world.push("queue:a", 1000);
    let hash_of = |key: &[u8]| hash(&world.seed, key);
    let (from, to) = (hash_of(b"queue:a"), hash_of(b"queue:b"));
    let value = world.db.remove(from, b"queue:a").expect("it is there").into_value();
    assert_eq!(world.figures("queue:a").map(|figures| figures.depth.get()), Some(0));
    world.db.insert(to, b"queue:b", value);
    let figures = world.figures("queue:b").expect("it is known");
    assert_eq!((figures.depth.get(), figures.oldest_ms.get()), (1, 1000));
}

#[test]
fn idle_queues_are_forgotten_and_others_are_not() {
    let mut world = World::new();
    for number in 0..100 {
        world.push(&format!("queue:{number}"), 1000);
    }
    for number in 0..60 {
        assert!(world.pop_last(&format!("queue:{number}"), 2000));
    }
    let paused = hash(&world.seed, b"queue:7");
    assert_eq!(world.db.pause_queue(paused, b"queue:7", true), Some(true));
    let at = |steady_ms| Now { steady_ms, wall_ms: steady_ms };
    world.db.refresh_queues(100, at(3000), 0);
    assert_eq!(world.known.listed().len(), 100);
    world.db.refresh_queues(100, at(3_000_000), 2_000_000);
    assert_eq!((world.known.listed().len(), world.known.count()), (41, 41));
    assert!(world.figures("queue:8").is_none() && world.figures("queue:7").is_some());
    world.push("queue:8", 3_000_001);
    assert_eq!(world.figures("queue:8").map(|figures| figures.pushed.get()), Some(1));
}

#[test]
fn a_queue_is_known_by_its_jobs_whatever_its_name() {
    let at = |steady_ms| Now { steady_ms, wall_ms: steady_ms };
    let key = &b"{mail}:jobs:turn"[..];
    let mut world = World::new();
    world.push("mail", 1000);
    assert!(world.figures("mail").is_none());
    let hash = hash(&world.seed, key);
    world.db.insert(hash, key, Value::Hash(Box::default()));
    // The next look finds its list.
    assert!(world.figures("mail").is_some_and(|figures| figures.has_jobs() && figures.depth.get() == 0));
    assert_eq!(world.db.refresh_queues(100, at(1500), 0).len(), 1);
    assert_eq!(world.figures("mail").map(|figures| figures.depth.get()), Some(1));
    assert!(world.pop_last("mail", 2000));
    world.push("mail", 2000);
    assert_eq!(world.figures("mail").map(|figures| figures.depth.get()), Some(1));
    assert!(world.pop_last("mail", 2000));
    // A queue is not forgotten while its jobs were not counted, or there are some.
    let mut counts = JobCounts::default();
    counts.set(JobFigure::Grouped, 1);
    for counts in [None, Some(counts)] {
        if let Some(counts) = counts {
            world.figures("mail").expect("it is known").set_jobs(&counts);
        }
        world.db.refresh_queues(100, at(3_000_000), 2_000_000);
        assert!(world.figures("mail").is_some());
    }
    world.figures("mail").expect("it is known").set_jobs(&JobCounts::default());
    world.db.refresh_queues(100, at(9_000_000), 8_000_000);
    assert!(world.figures("mail").is_none());
    // The command that puts the first job says so at once.
    world.push("post", 1000);
    world.db.know_jobs(hashing::hash(&world.seed, b"post"), b"post");
    assert_eq!(world.figures("post").map(|figures| figures.depth.get()), Some(1));
    let others = [&b"{mail}:jobs:limit"[..], b"{mail}:jobsx", b"{}:jobs", b"mail:jobs", b"{mail"];
    for name in others {
        let hash = hashing::hash(&world.seed, name);
        world.db.insert(hash, name, Value::Hash(Box::default()));
    }
    assert!(world.figures("mail").is_none() && world.figures("").is_none());
}

#[test]
fn what_is_loaded_is_listed_when_it_takes_its_place() {
    let mut world = World::new();
    world.push("queue:old", 1);
    let mut loaded = World {
        db: Db::new(Arc::clone(&world.seed)).with_queues(&world.known, 0, false),
        known: Arc::clone(&world.known),
        seed: Arc::clone(&world.seed),
    };
    loaded.push("queue:new", 2);
    let names = |known: &Known| -> Vec<String> {
        known.listed().iter().map(|figures| String::from_utf8_lossy(&figures.name).into_owned()).collect()
    };
    assert_eq!(names(&world.known), ["queue:old"]);
    world.db.swap(&mut loaded.db);
    assert_eq!(names(&world.known), ["queue:new"]);
    drop(loaded);
    assert_eq!((names(&world.known), world.known.count()), (vec!["queue:new".to_owned()], 1));
    world.db.take();
    assert_eq!((world.known.listed().len(), world.known.count()), (0, 0));
}

#[test]
fn no_more_are_known_than_may_be() {
    let mut world = World::new();
    world.known.set_count_max(2);
    for number in 0..5 {
        world.push(&format!("queue:{number}"), 1);
    }
    assert_eq!((world.known.listed().len(), world.known.turned_away()), (2, 3));
    let other = hash(&world.seed, b"queue:9");
    assert_eq!(world.db.pause_queue(other, b"queue:9", true), None);
}

#[test]
fn what_is_due_is_late_by_the_clock_that_it_was_set_by() {
    const HOUR_MS: u64 = 3_600_000;
    let steady_ms = 10 * HOUR_MS;
    let check = |wall_ms: u64, due_ms: u64, expected: (Option<u64>, Option<u64>)| {
        let mut world = World::new();
        world.schedule(due_ms);
        world.db.refresh_queues(100, Now { steady_ms, wall_ms }, 0);
        let row = Row::new(world.figures("schedule").expect("it is known"), steady_ms);
        assert_eq!((row.oldest_ms, row.due_in_ms), expected, "{wall_ms} {due_ms}");
    };
    for wall_ms in [steady_ms, steady_ms + HOUR_MS, steady_ms - HOUR_MS, 20 * HOUR_MS] {
        check(wall_ms, wall_ms - 5000, (Some(5000), None));
        check(wall_ms, wall_ms + 5000, (None, Some(5000)));
        check(wall_ms, wall_ms, (Some(0), None));
    }
    // The monotonic clock began after that.
    check(20 * HOUR_MS, HOUR_MS, (Some(steady_ms - 1), None));
    check(HOUR_MS, 0, (None, None));
}

#[test]
fn a_sorted_set_that_is_gone_has_nothing() {
    for is_emptied in [true, false] {
        let mut world = World::new();
        let hash = world.schedule(1000);
        world.db.refresh_queues(100, Now { steady_ms: 5000, wall_ms: 5000 }, 0);
        assert_eq!(world.figures("schedule").expect("it is known").depth.get(), 1);
        let gone = match is_emptied {
            true => world.db.remove_emptied(hash, b"schedule"),
            false => world.db.remove(hash, b"schedule"),
        };
        assert!(gone.is_some());
        let figures = world.figures("schedule").expect("it is known");
        let figures = [&figures.depth, &figures.oldest_ms, &figures.pushed, &figures.popped];
        assert_eq!(figures.map(|figure| figure.get()), [0, 0, 1, 1]);
    }
}

#[test]
fn a_queue_in_trouble_comes_before_what_lies_beside_queues() {
    let row = |(name, depth, age_ms): &(&str, u64, u64)| {
        let kinds = [Kind::List, Kind::ZSet];
        let class = kinds.into_iter().find_map(|kind| Patterns::default().class_of(name.as_bytes(), kind));
        let figures = Figures::new(name.as_bytes(), class.expect("it is a queue").number(), 0, 0);
        figures.depth.set(*depth);
        figures.oldest_ms.set(1_000_000 - age_ms);
        Row::new(&figures, 1_000_000)
    };
    let expected = [
        ("queue:old", 1, 900),
        ("queue:deep", 2, 900),
        ("queue:new", 9, 100),
        ("queue:a", 0, 0),
        ("queue:b", 0, 0),
        ("bull:q:active", 1, 5000),
        ("schedule", 1, 8000),
        ("retry", 1, 7000),
        ("dead", 1, 900_000),
    ];
    let mut rows: Vec<Row> = expected.iter().rev().map(row).collect();
    rows.sort_unstable_by(Row::order);
    let names: Vec<String> = rows.iter().map(|row| String::from_utf8_lossy(&row.name).into_owned()).collect();
    assert_eq!(names[..2], ["queue:deep", "queue:old"], "the deeper of those that are as old");
    assert_eq!(names[2..], expected[2..].iter().map(|(name, ..)| *name).collect::<Vec<_>>());
}

#[test]
fn a_queue_is_limited_while_the_key_of_its_limit_is_there() {
    let mut world = World::new();
    let (name, queue) = (&b"{mail}:jobs:limit"[..], &b"mail"[..]);
    let hash = hash(&world.seed, name);
    let hash_value = || Value::Hash(Box::default());
    assert!(!world.db.queues().is_limited(queue) && world.db.queues().is_empty());
    world.db.insert(hash, name, hash_value());
    assert!(world.db.queues().is_limited(queue) && !world.db.queues().is_limited(b"other"));
    // The limit moves with its database.
    let mut taken = world.db.take();
    assert!(!world.db.queues().is_limited(queue) && taken.queues().is_limited(queue));
    world.db.swap(&mut taken);
    assert!(world.db.remove(hash, name).is_some() && !world.db.queues().is_limited(queue));
    world.db.find_or_insert(hash, name, |key, _| Record::new(key, hash_value()));
    assert!(world.db.queues().is_limited(queue));
    assert!(world.db.remove_emptied(hash, name).is_some() && !world.db.queues().is_limited(queue));
    world.db.insert(hash, name, hash_value());
    let record = world.db.find_mut(hash, name).expect("it is there");
    let mut old = record.into_value().clone();
    *world.db.find_mut(hash, name).expect("it is there").into_value() = Value::Str(Str::new(b"x"));
    world.db.note_replaced(hash, name, &mut old);
    assert!(world.db.queues().is_limited(queue), "who looks for the limit finds that it is none");
    assert!(world.db.remove(hash, name).is_some() && !world.db.queues().is_limited(queue));
}

#[test]
fn a_queue_has_groups_while_their_turn_is_there() {
    let mut world = World::new();
    let (name, queue) = (&b"{eu}:{eu}mail:jobs:turn"[..], &b"{eu}mail"[..]);
    let hash = hash(&world.seed, name);
    world.db.insert(hash, name, Value::Hash(Box::default()));
    assert!(world.db.queues().is_grouped(queue) && !world.db.queues().is_limited(queue));
    assert!(!world.db.queues().is_grouped(b"mail"));
    assert!(world.db.remove_emptied(hash, name).is_some() && !world.db.queues().is_grouped(queue));
}

#[test]
fn names_beside_a_queue_are_read() {
    assert_eq!(queue_beside(b"{mail}:jobs:rate", b":jobs:rate"), Some(&b"mail"[..]));
    assert_eq!(queue_beside(b"{eu}:{eu}mail:jobs:rate", b":jobs:rate"), Some(&b"{eu}mail"[..]));
    for other in [&b"{mail:jobs:rate"[..], b"mail}:jobs:rate", b"{mail}x:jobs:rate", b"{mail}:jobs:rates"] {
        assert_eq!(queue_beside(other, b":jobs:rate"), None);
    }
}
