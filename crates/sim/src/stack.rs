//! A thread of the server, or one that writes its snapshot or its journal, on a stack of its own, so that it can be
//! interrupted at many points.
//!
//! ```text
//!   world ──resume──▶ turn ── takes a baton, runs a command ── interrupt? ──▶ back to the world, baton held
//!         ◀─ Interrupted ───────────────────────────────────────────┘          others run, and find the baton taken
//!         ──resume──▶ continues where it was … turn over ─▶ TurnOver
//! ```
//!
//! [`shard::interrupt`] marks these points, and so do the operations of the disk, which may also hang. The seed decides
//! which of them are used. Everything runs on one real thread: only [`Stack::resume`] decides which stack runs.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use corosensei::{Coroutine, CoroutineResult, Yielder};
use proactor::{BlockingStep, Clock, Entropy};
use server::{JournalStep, SimulatedThread, WriterStep};

/// Why a stack was suspended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pause {
    /// In the middle of a turn.
    Interrupted,
    /// In the middle of a turn, until this time in nanoseconds on the world's clock, because the disk hangs.
    Hanging(u64),
    /// Between two turns.
    TurnOver,
    /// Between two turns, with nothing to do.
    Idle,
    /// Between two turns, until this time in nanoseconds on the world's clock or until it is woken.
    Asleep(u64),
    /// Between two turns, until this time in nanoseconds on the world's clock. It cannot be woken.
    Resting(u64),
}

/// The kinds of work that run on a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StackOf {
    /// A thread of the server, by its number.
    Thread(usize),
    /// The thread that writes the journal.
    Log,
    /// The thread that does those parts of the journal's work that may take longer.
    Disk,
    /// The writer of a snapshot.
    Writer,
    /// Something that a server does besides its threads, such as waiting for another server.
    BlockingTask,
}

type Handle = Yielder<(), Pause>;

/// Decides about interruptions, for the world that this real thread runs.
struct Chance {
    entropy: Entropy,
    one_in: u64,
}

thread_local! {
    static CHANCE: RefCell<Option<Chance>> = const { RefCell::new(None) };
    static RUNNING: Cell<*const Handle> = const { Cell::new(std::ptr::null()) };
}

/// From now on, one in `one_in` of the marked points interrupts. 0: none except those at which a thread waits.
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

/// The simulated disk calls this before each operation. Others may run meanwhile, and do so if it hangs.
pub(crate) fn on_disk(until_ns: Option<u64>) -> bool {
    let running = RUNNING.get();
    if running.is_null() {
        // The server is starting.
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
    /// `None` only while it is dropped.
    coroutine: Option<Coroutine<(), Pause, ()>>,
    handle: Rc<Cell<*const Handle>>,
    /// Why it was suspended; `None` if it has ended.
    pub(crate) pause: Option<Pause>,
    /// The event until which it is stalled after an interruption.
    pub(crate) stalled_until: u64,
    /// Whether it sleeps, and may have got messages since it fell asleep.
    pub(crate) is_called: bool,
}

impl Stack {
    pub(crate) fn of_thread(number: usize, thread: SimulatedThread) -> Stack {
        // Boxed, because what is moved to a new stack must not take more than a page.
        let mut thread = Box::new(thread);
        Stack::new(StackOf::Thread(number), move || thread.turn().then_some(Pause::TurnOver))
    }

    /// A thread that writes a journal, by this clock.
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

    pub(crate) fn of_blocking_task(mut run: impl FnMut() -> BlockingStep + 'static) -> Stack {
        Stack::new(StackOf::BlockingTask, move || match run() {
            BlockingStep::Worked => Some(Pause::TurnOver),
            BlockingStep::Waits => Some(Pause::Idle),
            BlockingStep::Ended => None,
        })
    }

    /// A stack that runs `turn` again and again until it returns `None`.
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
        let pause = Some(Pause::TurnOver);
        Stack { kind, coroutine: Some(coroutine), handle, pause, stalled_until: 0, is_called: false }
    }

    /// Wakes it from its sleep.
    pub(crate) fn wake(&mut self) {
        self.pause = Some(Pause::TurnOver);
        self.is_called = false;
    }

    /// Runs it to its next interruption or the end of its turn.
    pub(crate) fn resume(&mut self) {
        self.is_called = false;
        RUNNING.set(self.handle.get());
        let coroutine = self.coroutine.as_mut().expect("it is there until it is dropped");
        let result = coroutine.resume(());
        RUNNING.set(std::ptr::null());
        self.pause = match result {
            CoroutineResult::Yield(pause) => Some(pause),
            CoroutineResult::Return(()) => None,
        };
    }

    /// Whether it was suspended in the middle of a turn.
    pub(crate) fn is_interrupted(&self) -> bool {
        matches!(self.pause, Some(Pause::Interrupted | Pause::Hanging(_)))
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // The stack may have a script's frames, which cannot be unwound. So after a failure or a crash it is leaked.
        if self.is_interrupted() || std::thread::panicking() {
            std::mem::forget(self.coroutine.take());
        }
    }
}
