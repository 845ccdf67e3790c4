//! Baton, mailbox and entry of several shards under the model checker: every interleaving of small cases.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p shard --test loom --release`
//!
//! Tried by hand with mutants, all of which it finds: enter, push, take and leave, each made relaxed.
#![cfg(loom)]

use ds::hashing::Seed;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use shard::{Baton, Hold, Node, Placement, ShardId, Shards};

/// A command's argument in plain memory that the checker watches: written by the sender, read by whoever runs it.
struct Command(UnsafeCell<usize>);

// SAFETY: a command has one owner at a time; that handing it over is ordered is what the test checks.
unsafe impl Send for Command {}

impl Command {
    fn new(number: usize) -> Command {
        let command = Command(UnsafeCell::new(0));
        // SAFETY: nobody else knows it yet.
        command.0.with_mut(|argument| unsafe { *argument = number });
        command
    }
}

/// Plain memory guarded by a baton; the checker sees unordered accesses.
struct Guarded {
    baton: Baton<Command>,
    sum: UnsafeCell<usize>,
    ran: AtomicUsize,
}

// SAFETY: `sum` is touched only while holding the baton; that this is enough is what the test checks.
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

impl Guarded {
    fn run(&self, command: &Command) {
        // SAFETY: the command was handed over to this thread.
        let number = command.0.with(|argument| unsafe { *argument });
        // SAFETY: the caller holds the baton.
        self.sum.with_mut(|sum| unsafe { *sum += number });
        self.ran.fetch_add(1, Ordering::Relaxed);
    }

    /// One command: run here, or left with the holder, who runs it before it leaves.
    fn command(&self, number: usize) {
        let Some(node) = self.baton.enter_or_delegate(Node::new(Command::new(number))) else { return };
        self.run(&node.task);
        while !self.baton.try_leave() {
            for node in self.baton.take() {
                self.run(&node.task);
            }
        }
    }
}

fn check_commands(threads: usize, commands: usize) {
    let guarded =
        Arc::new(Guarded { baton: Baton::default(), sum: UnsafeCell::new(0), ran: AtomicUsize::new(0) });
    let handles: Vec<_> = (0..threads)
        .map(|_| {
            let guarded = guarded.clone();
            thread::spawn(move || (0..commands).for_each(|_| guarded.command(1)))
        })
        .collect();
    handles.into_iter().for_each(|handle| handle.join().expect("no panic"));
    assert!(guarded.baton.try_enter(), "nobody holds it at the end");
    // SAFETY: the baton was entered.
    assert_eq!(guarded.sum.with(|sum| unsafe { *sum }), threads * commands);
    assert!(guarded.baton.try_leave());
}

#[test]
fn two_threads_run_each_command_once() {
    loom::model(|| check_commands(2, 2));
}

#[test]
fn three_threads_run_each_command_once() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| check_commands(2, 3));
}

/// A task of the wide-entry model: tell its origin that the shard came free.
struct Notice(Arc<AtomicUsize>);

fn leave(hold: &mut Hold<'_, Notice, ()>) {
    while let Some(&id) = hold.entered().last() {
        while let Some(node) = hold.next_task_or_leave(id) {
            node.task.0.store(1, Ordering::Release);
        }
    }
}

/// Enters all of `ids` the way the server does: let go and queue at the one that is taken.
fn enter_all(hold: &mut Hold<'_, Notice, ()>, ids: &[ShardId], patient: bool) {
    loop {
        match hold.try_enter_all(ids, patient) {
            Ok(()) => return,
            Err(taken) => {
                leave(hold);
                let told = Arc::new(AtomicUsize::new(0));
                if hold.enter_or_delegate(taken, Node::new(Notice(told.clone()))).is_some() {
                    continue;
                }
                while told.load(Ordering::Acquire) == 0 {
                    thread::yield_now();
                }
            }
        }
    }
}

fn check_wide(first: &'static [u16], second: &'static [u16]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let shards = Arc::new(Shards::<Notice, ()>::new(Placement::new(Seed::new(1), 2, None), 2, 1, 1));
        let handles: Vec<_> = [first, second]
            .into_iter()
            .map(|ids| {
                let shards = shards.clone();
                thread::spawn(move || {
                    let ids: Vec<ShardId> = ids.iter().map(|id| ShardId(*id)).collect();
                    let mut hold = Hold::new(&shards);
                    enter_all(&mut hold, &ids, false);
                    for id in ids {
                        hold.shard_mut(id).stats.changes += 1;
                    }
                    leave(&mut hold);
                })
            })
            .collect();
        handles.into_iter().for_each(|handle| handle.join().expect("no panic"));
        let mut hold = Hold::new(&shards);
        for id in shards.ids() {
            assert!(hold.try_enter(id), "every shard is free at the end");
            let expected = [first, second].iter().filter(|ids| ids.contains(&id.0)).count();
            assert_eq!(hold.shard(id).stats.changes, expected as u64);
        }
        leave(&mut hold);
    });
}

#[test]
fn two_wide_entries_neither_deadlock_nor_lose_a_wake_up() {
    check_wide(&[0, 1], &[0, 1]);
}

#[test]
fn a_wide_entry_meets_a_narrow_one() {
    check_wide(&[0, 1], &[1]);
}
