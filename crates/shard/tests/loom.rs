//! Baton, mailbox and entry of several shards under the model checker: every interleaving of small cases.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p shard --test loom --release`
//!
//! Mutation-tested by hand: it detects a relaxed ordering in each of enter, push, take and leave.
#![cfg(loom)]

use ds::hashing::Seed;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use shard::{Answer, Asked, Baton, Delegated, HandOver, Hold, Placement, ShardId, Shards};

/// A command's argument in plain memory that the checker watches. The sender writes it, and the thread that runs it reads
/// it.
struct Command(UnsafeCell<usize>);

// SAFETY: a command has one owner at a time; the test checks that handing it over is ordered.
unsafe impl Send for Command {}

impl Command {
    fn new(number: usize) -> Command {
        let command = Command(UnsafeCell::new(0));
        // SAFETY: no other thread knows it yet.
        command.0.with_mut(|argument| unsafe { *argument = number });
        command
    }
}

/// Plain memory guarded by a baton. The checker detects unordered accesses.
struct Guarded {
    baton: Baton<Command>,
    sum: UnsafeCell<usize>,
    ran: AtomicUsize,
}

// SAFETY: `sum` is touched only while holding the baton; the test checks that this is enough.
unsafe impl Sync for Guarded {}
// SAFETY: `sum` is touched only while holding the baton; the test checks that this is enough.
unsafe impl Send for Guarded {}

impl Guarded {
    fn run(&self, command: &Command) {
        // SAFETY: the command was handed over to this thread.
        let number = command.0.with(|argument| unsafe { *argument });
        // SAFETY: the caller holds the baton.
        self.sum.with_mut(|sum| unsafe { *sum += number });
        self.ran.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs one command, or leaves it with the holder, which runs it before leaving.
    fn command(&self, number: usize) {
        let Some(node) = self.baton.enter_or_delegate(Delegated::new(Command::new(number))) else { return };
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

/// A task of the model of wide entry: tells its origin that the shard has come free.
struct Notice(Arc<AtomicUsize>);

fn leave(hold: &mut Hold<'_, Notice, ()>) {
    while let Some(&id) = hold.entered().last() {
        while let Some(node) = hold.next_task_or_leave(id) {
            node.task.0.store(1, Ordering::Release);
        }
    }
}

/// Enters all of `ids` like the server: if one is taken, leaves all and queues there.
fn enter_all(hold: &mut Hold<'_, Notice, ()>, ids: &[ShardId], patient: bool) {
    loop {
        match hold.try_enter_all(ids, patient) {
            Ok(()) => return,
            Err(taken) => {
                leave(hold);
                let told = Arc::new(AtomicUsize::new(0));
                if hold.enter_or_delegate(taken, Delegated::new(Notice(told.clone()))).is_some() {
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
                        hold.shard_mut(id).last_cas += 1;
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
            assert_eq!(hold.shard(id).last_cas, expected as u64);
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

/// A task of the models of scripts: another thread wants the shard.
struct Wish(HandOver);

/// Plain memory of two shards, in place of their data, which the checker cannot see.
struct Scripts {
    shards: Shards<Wish, ()>,
    sums: [UnsafeCell<usize>; 2],
}

// SAFETY: a sum is touched only while holding the baton of its shard; the test checks that this is enough.
unsafe impl Sync for Scripts {}
// SAFETY: a sum is touched only while holding the baton of its shard; the test checks that this is enough.
unsafe impl Send for Scripts {}

/// Leaves every shard, or hands it over to a thread that has asked for it.
fn leave_or_give(hold: &mut Hold<'_, Wish, ()>) {
    while let Some(&id) = hold.entered().last() {
        if let Some(node) = hold.next_task_or_leave(id) {
            hold.hand_over(id, node.task.0);
        }
    }
}

/// Asks for `id`. Meanwhile lends `lends` to any thread that asks for it. Returns when it holds both.
fn ask(hold: &mut Hold<'_, Wish, ()>, id: ShardId, lends: Option<ShardId>) {
    let (mut asked, wish) = Asked::new();
    if hold.enter_or_delegate(id, Delegated::new(Wish(wish))).is_some() {
        return;
    }
    let mut lent: Option<Asked> = None;
    let mut has_come = false;
    while !has_come || lent.is_some() {
        if !has_come && let Answer::Given(given) = asked.answer() {
            hold.accept(given);
            has_come = true;
        }
        if let Some(back) = &mut lent {
            if let Answer::Given(given) = back.answer() {
                hold.accept(given);
                lent = None;
            }
        } else if let Some(lends) = lends.filter(|_| !has_come)
            && let Some(node) = hold.take_first(lends, |_| true)
        {
            let (back, wish) = Asked::new();
            hold.put_first(lends, Delegated::new(Wish(wish)));
            hold.hand_over(lends, node.task.0);
            lent = Some(back);
        }
        thread::yield_now();
    }
}

/// A script that writes to its first shard and then needs the other one. If `trusted`, it has not entered the roaming
/// shard.
fn roam(scripts: &Scripts, first: u16, trusted: bool) {
    let mut hold = Hold::new(&scripts.shards);
    let (first, second, roaming) = (ShardId(first), ShardId(1 - first), scripts.shards.roaming());
    // In order, and it holds nothing while it waits.
    while !(hold.try_enter(first) && (trusted || hold.try_enter(roaming))) {
        leave_or_give(&mut hold);
        thread::yield_now();
    }
    scripts.write(&hold, first);
    if !hold.has(roaming) {
        ask(&mut hold, roaming, Some(first));
    }
    ask(&mut hold, second, None);
    scripts.write(&hold, second);
    scripts.write(&hold, first);
    leave_or_give(&mut hold);
}

impl Scripts {
    fn write(&self, hold: &Hold<'_, Wish, ()>, id: ShardId) {
        assert!(hold.has(id));
        // SAFETY: the caller holds the baton.
        self.sums[id.index()].with_mut(|sum| unsafe { *sum += 1 });
    }
}

fn check_scripts(first_trusted: bool, second_trusted: bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let shards = Shards::new(Placement::new(Seed::new(1), 2, None), 2, 1, 1);
        let scripts = Arc::new(Scripts { shards, sums: [UnsafeCell::new(0), UnsafeCell::new(0)] });
        let other = scripts.clone();
        let handle = thread::spawn(move || roam(&other, 1, second_trusted));
        roam(&scripts, 0, first_trusted);
        handle.join().expect("no panic");
        let mut hold = Hold::new(&scripts.shards);
        for id in scripts.shards.ids().chain([scripts.shards.roaming()]) {
            assert!(hold.try_enter(id), "every shard is free at the end");
        }
        for sum in &scripts.sums {
            // SAFETY: everything is held.
            assert_eq!(sum.with(|sum| unsafe { *sum }), 3);
        }
        leave_or_give(&mut hold);
    });
}

#[test]
fn scripts_that_roam_come_one_after_the_other() {
    check_scripts(false, false);
}

#[test]
fn a_trusted_script_lends_its_shard_to_one_that_roams() {
    check_scripts(true, false);
}

#[test]
fn two_trusted_scripts_do_not_wait_in_a_circle() {
    check_scripts(true, true);
}
