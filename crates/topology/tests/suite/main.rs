//! Tests of the stores: one contract for all of them, the faults of the model, and a real etcd of three members.

#![allow(clippy::unwrap_used, reason = "tests")]

mod cluster;
mod contract;
mod etcd;
mod fake;
mod folder;
mod hostile;
mod model;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use topology::model::Time;
use topology::{
    Document, Finding, GroupId, Instance, Life, OwnedSlots, Params, Reading, Reason, ReplicaGroup, SlotRange,
    Store, Swap, Term,
};

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A document with one group of nodes `a`, `b` and `c`, of which the first two are in sync.
fn document() -> Document {
    let instance = |node: &str, life| Instance { node: node.parse().unwrap(), life: Life(life) };
    let (a, b) = (instance("a", 0xaa), instance("b", 0xbb));
    let group = ReplicaGroup {
        term: Term::FIRST,
        leader: a.clone(),
        in_sync: [(a.node, a.life), (b.node, b.life)].into(),
        members: ["a", "b", "c"].iter().map(|node| node.parse().unwrap()).collect(),
    };
    let id: GroupId = "g1".parse().unwrap();
    Document {
        params: Params::default(),
        groups: [(id.clone(), group)].into(),
        slots: vec![OwnedSlots { slots: SlotRange::ALL, group: id }],
        place: Default::default(),
        moves: Default::default(),
    }
}

/// The document after a takeover by the other node.
fn next_term(document: &Document) -> Document {
    let mut next = document.clone();
    let group = next.groups.values_mut().next().unwrap();
    let other = group.in_sync.iter().find(|(node, _)| **node != group.leader.node).unwrap();
    group.leader = Instance { node: other.0.clone(), life: *other.1 };
    group.term = group.term.next();
    next
}

fn why(reason: &str) -> Reason {
    Reason::new("test", 1_700_000_000_000, reason)
}

fn found(reading: &Reading) -> &Document {
    match &reading.found {
        Finding::Document(document) => document,
        other => panic!("no document: {other:?}"),
    }
}

/// The revision of a change that must have been made.
#[track_caller]
fn done(swap: Swap) -> topology::Revision {
    match swap {
        Swap::Done(made) => made,
        other => panic!("it was not made: {other:?}"),
    }
}

/// Tries until it succeeds.
#[track_caller]
fn within_patience<T>(mut attempt: impl FnMut() -> Result<T, topology::Error>) -> T {
    let begin = Instant::now();
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(error) => assert!(begin.elapsed() < PATIENCE, "still: {error}"),
        }
        std::thread::yield_now();
    }
}

/// Replaces what is there by `change` of it, whatever it takes, and returns the new revision.
fn change_surely(store: &mut dyn Store, change: impl Fn(&Document) -> Document) -> topology::Revision {
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < PATIENCE, "no change was made");
        let Ok(reading) = store.read() else { continue };
        if let Swap::Done(made) = store.compare_and_swap(&reading, &change(found(&reading)), &why("again")) {
            return made;
        }
    }
}

/// A clock that passes when a simulated thread sleeps.
fn simulated_time(now_ns: &Arc<AtomicU64>) -> Time {
    let now_ns = now_ns.clone();
    Box::new(move |until_ns| now_ns.fetch_max(until_ns, Ordering::SeqCst).max(until_ns))
}
