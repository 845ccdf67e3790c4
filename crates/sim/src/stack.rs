//! A thread of the server, or one that writes its snapshot or its journal, on a stack of its own, so that it can be
//! interrupted at many points.
//!
//! ```text
//!   world ──resume──▶ turn ── takes a baton, runs a command ── interrupt? ──▶ back to the world, baton held
//!         ◀─ Interrupted ───────────────────────────────────────────┘          others run, and meet a taken baton
//!         ──resume──▶ goes on where it was … turn over ─▶ TurnOver
//! ```
//!
//! [`shard::interrupt`] marks these points, and so do the operations of the disk, which may also hang. The seed decides
//! which of them are used. Everything runs on one real thread: only [`Stack::resume`] decides which stack runs.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use corosensei::{Coroutine, CoroutineResult, Yielder};
use proactor::{Clock, Entropy, ErrandStep};
use server::{JournalStep, SimulatedThread, WriterStep};

/// Why a stack came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pause {
    /// In the middle of a turn.
    Interrupted,
    /// Until so many nanoseconds on the world's clock: the disk hangs.
    Hanging(u64),
    /// Between two turns.
    TurnOver,
    /// The same, and it has nothing to do.
    Idle,
    /// The same until so many nanoseconds on the world's clock, unless somebody wakes it.
    Asleep(u64),
    /// The same, whoever wants to wake it.
    Resting(u64),
}

/// Whose stack it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StackOf {
    /// A thread of the server, by its number.
    Thread(usize),
    /// What writes the journal.
    Log,
    /// What does for the journal what may take longer.
    Disk,
    /// What writes a snapshot.
    Writer,
    /// What a server does beside its threads, and waits for others.
    Errand,
}

type Handle = Yielder<(), Pause>;

/// What decides about interruptions, for the world that this real thread steps.
struct Chance {
    entropy: Entropy,
    one_in: u64,
}

thread_local! {
    static CHANCE: RefCell<Option<Chance>> = const { RefCell::new(None) };
    static RUNNING: Cell<*const Handle> = const { Cell::new(std::ptr::null()) };
}

/// From now on one in `one_in` of the marked places interrupts; 0 is none, but for those at which a thread waits.
pub(crate) fn interrupt_one_in(one_in: u64, entropy: Entropy) {
    CHANCE.set(Some(Chance { entropy, one_in }));
    shard::on_interrupt(|waits| {
        let running = RUNNING.get();
        if running.is_null() || !(waits || wants_interrupt()) {
            return;
        }
        // SAFETY: `resume` set it for the stack that runs now, which holds the handle until it has returned.
        let handle = unsafe { &*running };
        handle.suspend(Pause::Interrupted);
    });
}

fn wants_interrupt() -> bool {
    CHANCE.with_borrow_mut(|chance| {
        chance.as_mut().is_some_and(|chance| chance.one_in > 0 && chance.entropy.one_in(chance.one_in))
    })
}

/// What the simulated disk calls before each operation: others may run meanwhile, and do if it hangs.
pub(crate) fn on_disk(until_ns: Option<u64>) -> bool {
    let running = RUNNING.get();
    if running.is_null() {
        // The server starts.
        return false;
    }
    let comes_between =
        || CHANCE.with_borrow_mut(|chance| chance.as_mut().is_some_and(|chance| chance.entropy.one_in(2)));
    let pause = match until_ns {
        Some(until_ns) => Pause::Hanging(until_ns),
        None if comes_between() => Pause::Interrupted,
        None => return true,
    };
    // SAFETY: `resume` set it for the stack that runs now, which holds the handle until it has returned.
    let handle = unsafe { &*running };
    handle.suspend(pause);
    true
}

/// A thread of the server, or what writes for it.
pub(crate) struct Stack {
    pub(crate) kind: StackOf,
    /// None only while it is dropped.
    coroutine: Option<Coroutine<(), Pause, ()>>,
    handle: Rc<Cell<*const Handle>>,
    /// Why it came back; `None` if it has ended.
    pub(crate) pause: Option<Pause>,
    /// Until which event it sits still if it was interrupted.
    pub(crate) stalled_until: u64,
}

impl Stack {
    pub(crate) fn of_thread(number: usize, thread: SimulatedThread) -> Stack {
        // A stack begins with no more than a page of what is moved to it.
        let mut thread = Box::new(thread);
        Stack::new(StackOf::Thread(number), move || thread.turn().then_some(Pause::TurnOver))
    }

    /// What writes a journal, by this clock.
    pub(crate) fn of_journal(
        kind: StackOf,
        mut step: impl FnMut() -> JournalStep + 'static,
        clock: Clock,
    ) -> Stack {
        let after = move |time: Duration| clock.monotonic_ns() + time.as_nanos() as u64;
        Stack::new(kind, move || match step() {
            JournalStep::Worked => Some(Pause::TurnOver),
            JournalStep::Waits(time) => Some(Pause::Asleep(after(time))),
            JournalStep::Rests(time) => Some(Pause::Resting(after(time))),
            JournalStep::Ended => None,
        })
    }

    pub(crate) fn of_writer(mut write: impl FnMut() -> WriterStep + 'static) -> Stack {
        Stack::new(StackOf::Writer, move || match write() {
            WriterStep::Wrote => Some(Pause::TurnOver),
            WriterStep::Waits => Some(Pause::Idle),
            WriterStep::Ended => None,
        })
    }

    pub(crate) fn of_errand(mut run: impl FnMut() -> ErrandStep + 'static) -> Stack {
        Stack::new(StackOf::Errand, move || match run() {
            ErrandStep::Worked => Some(Pause::TurnOver),
            ErrandStep::Waits => Some(Pause::Idle),
            ErrandStep::Ended => None,
        })
    }

    /// Takes one turn after the other until there is none.
    fn new(kind: StackOf, mut turn: impl FnMut() -> Option<Pause> + 'static) -> Stack {
        let handle = Rc::new(Cell::new(std::ptr::null()));
        let own = handle.clone();
        let coroutine = Coroutine::new(move |yielder: &Handle, ()| {
            own.set(std::ptr::from_ref(yielder));
            RUNNING.set(own.get());
            while let Some(pause) = turn() {
                yielder.suspend(pause);
            }
        });
        Stack { kind, coroutine: Some(coroutine), handle, pause: Some(Pause::TurnOver), stalled_until: 0 }
    }

    /// Lets it run to its next interruption or the end of its turn.
    pub(crate) fn resume(&mut self) {
        RUNNING.set(self.handle.get());
        let coroutine = self.coroutine.as_mut().expect("it is there until it is dropped");
        let result = coroutine.resume(());
        RUNNING.set(std::ptr::null());
        self.pause = match result {
            CoroutineResult::Yield(pause) => Some(pause),
            CoroutineResult::Return(()) => None,
        };
    }

    /// Whether it is in the middle of a turn.
    pub(crate) fn is_interrupted(&self) -> bool {
        matches!(self.pause, Some(Pause::Interrupted | Pause::Hanging(_)))
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // A script may be on it, whose frames cannot be unwound: it is leaked, after a failure or a crash.
        if self.is_interrupted() || std::thread::panicking() {
            std::mem::forget(self.coroutine.take());
        }
    }
}
