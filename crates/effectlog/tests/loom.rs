//! The order of the log under the model checker: every interleaving of small cases, and each rule left out once.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p effectlog --test loom --release`
#![cfg(loom)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use effectlog::{Closing, Collector, LaneEnds, Log, Lsn, Mutant, Recorder, Slice, Stamp};
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;

/// A counter that all cores agree on too little to help.
fn no_ticks() -> u64 {
    0
}

/// The part of a shard that concerns the log. The lock is the baton.
#[derive(Default)]
struct Shard {
    last_stamp: Stamp,
    last_slice: Lsn,
}

type Held<'a> = MutexGuard<'a, Shard>;

fn log(threads: usize, mutant: Option<Mutant>) -> (std::sync::Arc<Log>, Vec<Recorder>, LaneEnds) {
    let (log, recorders, ends) = Log::with_mutant(threads, Box::new(no_ticks), mutant);
    log.turn_on(1);
    (log, recorders, ends)
}

/// Commits an effect, identified by `db`, on the shards that are held. Returns the number of its slice.
fn commit(recorder: &mut Recorder, db: u32, held: &mut [Held<'_>]) -> Lsn {
    recorder.push(db, &[b"SET"]);
    let after = held.iter().map(|shard| shard.last_stamp).max().unwrap_or_default();
    let place = recorder.commit(after).expect("something was recorded");
    for shard in held {
        assert!(shard.last_stamp < place.stamp, "the later of two records that met has the larger stamp");
        assert!(shard.last_slice <= place.slice, "and is in no earlier slice");
        (shard.last_stamp, shard.last_slice) = (place.stamp, place.slice);
    }
    place.slice
}

fn close(collector: &mut Collector) -> Slice {
    loop {
        match collector.close(true, Vec::new) {
            Closing::Done(slice) => return slice,
            Closing::Busy => thread::yield_now(),
            Closing::Nothing => unreachable!("it may be empty"),
        }
    }
}

/// The databases in the order in which the stream selects them.
fn order(slices: &[Slice]) -> Vec<u32> {
    let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.payload.clone()).collect();
    let text = String::from_utf8(bytes).expect("it is text");
    let words: Vec<&str> = text.split("\r\n").collect();
    let selected = words.windows(3).filter(|words| words[0] == "SELECT");
    selected.map(|words| words[2].parse().expect("a number")).collect()
}

/// A thread commits while slices are closed: its record is in the slice that it read. (The collector asserts that none comes late.)
fn a_slice_is_complete(mutant: Option<Mutant>) {
    let (log, mut recorders, ends) = log(1, mutant);
    let mut collector = Collector::new(&log, ends);
    let mut recorder = recorders.remove(0);
    let thread = thread::spawn(move || commit(&mut recorder, 7, &mut []));
    let first = close(&mut collector);
    let in_slice = thread.join().expect("it commits");
    let slices = [first, close(&mut collector)];
    let found: Vec<Lsn> =
        slices.iter().filter(|slice| !slice.payload.is_empty()).map(|slice| slice.number).collect();
    assert_eq!(found, [in_slice], "the record is in its slice, once");
    assert_eq!(slices[1].position, slices[0].end());
}

/// One thread commits and another one cuts, each while it holds the shard, and a third closes slices meanwhile. The record is before the cut
/// if its thread held the shard first. With `holds_none` the committing thread holds no shard, and its record is still in the slice that it
/// read.
fn a_cut_is_complete(mutant: Option<Mutant>, holds_none: bool) {
    let (log, mut recorders, ends) = log(1, mutant);
    let mut collector = Collector::new(&log, ends);
    let shard = Arc::new(Mutex::new(Shard::default()));
    let committing = {
        let (mut recorder, shard) = (recorders.remove(0), shard.clone());
        thread::spawn(move || match holds_none {
            true => commit(&mut recorder, 7, &mut []),
            false => commit(&mut recorder, 7, &mut [shard.lock().unwrap()]),
        })
    };
    let has_cut = Arc::new(AtomicBool::new(false));
    let cutting = {
        let has_cut = has_cut.clone();
        thread::spawn(move || {
            let held = shard.lock().unwrap();
            let cut = log.cut().slice();
            has_cut.store(true, Ordering::Relaxed);
            (cut, held.last_slice != Lsn::NONE)
        })
    };
    // Makes the checker try to close after the cut. It would not by itself: of several threads that load one number it considers only the
    // last. Relaxed: it orders nothing.
    has_cut.load(Ordering::Relaxed);
    let mut slices = Vec::new();
    if let Closing::Done(slice) = collector.close(false, Vec::new) {
        slices.push(slice);
    }
    let in_slice = committing.join().expect("it commits");
    let (cut, is_before) = cutting.join().expect("it cuts");
    while collector.next() <= in_slice.max(cut) {
        slices.push(close(&mut collector));
    }
    let found: Vec<Lsn> =
        slices.iter().filter(|slice| !slice.payload.is_empty()).map(|slice| slice.number).collect();
    assert_eq!(found, [in_slice], "the record is in its slice, once");
    assert!(
        holds_none || is_before == (in_slice <= cut),
        "a cut is between what was before and what comes later"
    );
}

/// Two threads meet in a shard: the stream has them in that order. `leaves_first` leaves the shard and commits then.
fn who_meets_is_in_order(mutant: Option<Mutant>, leaves_first: bool) {
    let (log, mut recorders, ends) = log(2, mutant);
    let (shard, met) = (Arc::new(Mutex::new(Shard::default())), Arc::new(Mutex::new(Vec::new())));
    let mut run = |db: u32| {
        let (mut recorder, shard, met) = (recorders.remove(0), shard.clone(), met.clone());
        thread::spawn(move || {
            let mut held = [shard.lock().unwrap()];
            met.lock().unwrap().push(db);
            if leaves_first {
                drop(held);
                held = [shard.lock().unwrap()];
            }
            commit(&mut recorder, db, &mut held);
        })
    };
    let threads = [run(1), run(2)];
    let mut collector = Collector::new(&log, ends);
    let first = close(&mut collector);
    for thread in threads {
        thread.join().expect("it commits");
    }
    let slices = [first, close(&mut collector)];
    assert_eq!(order(&slices), *met.lock().unwrap(), "the order of the stream is that of meeting");
}

/// One writes in a shard, another one reads there and writes elsewhere, a third writes elsewhere after that: through the one in the middle the first is
/// before the third.
fn who_only_read_is_in_order(mutant: Option<Mutant>) {
    let (log, mut recorders, ends) = log(2, mutant);
    let (x, y) = (Arc::new(Mutex::new(Shard::default())), Arc::new(Mutex::new(Shard::default())));
    let mut second = recorders.remove(0);
    let mut first = recorders.remove(0);
    let reader = {
        let (x, y) = (x.clone(), y.clone());
        thread::spawn(move || {
            let mut held = [x.lock().unwrap(), y.lock().unwrap()];
            let saw = held[0].last_stamp != Stamp::NONE;
            commit(&mut second, 2, &mut held);
            saw
        })
    };
    commit(&mut first, 1, &mut [x.lock().unwrap()]);
    let saw = reader.join().expect("it commits");
    let mut collector = Collector::new(&log, ends);
    let expected = if saw { [1, 2] } else { [2, 1] };
    assert_eq!(order(&[close(&mut collector)]), expected);
}

/// Every interleaving in which threads lose their core at most three times; one or two suffice to detect the
/// mutants.
fn model(case: impl Fn() + Sync + Send + 'static) {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(3);
    checker.check(case);
}

/// Whether the model checker finds that `case` is wrong.
fn is_caught(case: impl Fn() + Sync + Send + 'static) -> bool {
    catch_unwind(AssertUnwindSafe(|| model(case))).is_err()
}

#[test]
fn slices_are_complete() {
    loom::model(|| a_slice_is_complete(None));
}

#[test]
fn slices_would_not_be_complete() {
    for mutant in [Mutant::NoFenceAtCommit, Mutant::NoFenceAtClose, Mutant::NotBusy, Mutant::SentTooLate] {
        assert!(is_caught(move || a_slice_is_complete(Some(mutant))), "{mutant:?}");
    }
}

#[test]
fn slices_that_a_cut_has_ended_are_complete() {
    for holds_none in [false, true] {
        model(move || a_cut_is_complete(None, holds_none));
    }
}

#[test]
fn slices_that_a_cut_has_ended_would_not_be_complete() {
    for holds_none in [false, true] {
        let is_wrong = is_caught(move || a_cut_is_complete(Some(Mutant::NoFenceAfterCut), holds_none));
        assert!(is_wrong, "no shard: {holds_none}");
    }
}

#[test]
fn records_that_met_are_in_order() {
    model(|| who_meets_is_in_order(None, false));
    model(|| who_only_read_is_in_order(None));
}

#[test]
fn records_that_met_would_not_be_in_order() {
    assert!(
        is_caught(|| who_meets_is_in_order(Some(Mutant::StampOfItsOwn), false)),
        "stamps of threads alone"
    );
    assert!(is_caught(|| who_meets_is_in_order(None, true)), "a shard that is left before the commit");
    assert!(is_caught(|| who_only_read_is_in_order(Some(Mutant::StampOfItsOwn))), "stamps of threads alone");
}
