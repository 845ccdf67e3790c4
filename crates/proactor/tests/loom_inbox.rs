//! The inbox, the waker and the pool under the model checker: `RUSTFLAGS="--cfg loom" cargo test -p
//! proactor --test loom_inbox --release`.
//!
//! The bell is loom's `Notify`; if a wake-up is lost the consumer never rises and loom reports the deadlock.
//! Mutation-tested by hand: a test here fails without the fence in `Waker::notify`, without the fence in
//! `Waker::take_notice`, with a plain store in `Waker::try_sleep`, and with Relaxed in `Inbox::push` or
//! `Inbox::take_all`.
#![cfg(loom)]

use std::sync::Arc as StdArc;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Notify};
use loom::thread;
use proactor::{Inbox, MessageNode, SharedPool, Waker};

/// A payload whose reads and writes loom checks for a happens-before.
struct Tracked(UnsafeCell<u32>);

impl Tracked {
    fn new(value: u32) -> Tracked {
        let tracked = Tracked(UnsafeCell::new(0));
        tracked.0.with_mut(|cell| {
            // SAFETY: no other thread has it yet; loom checks that.
            unsafe { *cell = value }
        });
        tracked
    }

    fn get(&self) -> u32 {
        self.0.with(|cell| {
            // SAFETY: only the receiver of the message reads; loom checks that.
            unsafe { *cell }
        })
    }
}

/// SAFETY of sharing: a message has one owner at a time.
struct Shared {
    inbox: Inbox<Tracked>,
    waker: StdArc<Waker>,
    bell: Notify,
}

fn shared() -> Arc<Shared> {
    let waker = StdArc::new(Waker::without_bell());
    Arc::new(Shared { inbox: Inbox::new(waker.clone()), waker, bell: Notify::new() })
}

fn produce(shared: &Shared, values: &[u32]) {
    for &value in values {
        if shared.inbox.push(MessageNode::new(Tracked::new(value))) {
            shared.bell.notify();
        }
    }
}

/// The loop of a proactor: takes the notice, checks the inbox, and sleeps only if there was no notice.
fn consume(shared: &Shared, count: usize) -> Vec<u32> {
    let mut seen = Vec::new();
    while seen.len() < count {
        if shared.waker.take_notice() {
            seen.extend(shared.inbox.take_all().map(|node| node.value.get()));
        } else if shared.waker.try_sleep() {
            shared.bell.wait();
            shared.waker.rise();
        }
    }
    seen
}

#[test]
fn two_producers_lose_nothing() {
    // Three threads without a bound take minutes; every mutant above is found within two preemptions.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let shared = shared();
        let producers = [1, 2].map(|value| {
            let shared = shared.clone();
            thread::spawn(move || produce(&shared, &[value]))
        });
        let mut seen = consume(&shared, 2);
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
        for producer in producers {
            producer.join().expect("a producer panicked");
        }
    });
}

#[test]
fn one_producers_messages_stay_in_order_across_sleeps() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = shared();
        let producer = {
            let shared = shared.clone();
            thread::spawn(move || produce(&shared, &[1, 2, 3]))
        };
        assert_eq!(consume(&shared, 3), [1, 2, 3]);
        producer.join().expect("the producer panicked");
    });
}

#[test]
fn spares_have_one_owner_each_and_are_no_more_than_they_may_be() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let pool = Arc::new(SharedPool::new(2));
        let givers = [1, 2].map(|value| {
            let pool = pool.clone();
            thread::spawn(move || pool.give(MessageNode::new(Tracked::new(value))))
        });
        let mut seen: Vec<u32> = pool.take_all().map(|node| node.value.get()).collect();
        for giver in givers {
            giver.join().expect("a giver panicked");
        }
        seen.extend(pool.take_all().map(|node| node.value.get()));
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
        (0..5).for_each(|value| pool.give(MessageNode::new(Tracked::new(value))));
        assert_eq!(pool.take_all().count(), 2);
    });
}
