//! A server thread on a stack of its own, so that it can be interrupted in the middle of a turn.
//!
//! ```text
//!   world ──resume──▶ turn ── takes a baton, runs a command ── interrupt? ──▶ back to the world, baton held
//!         ◀─ Interrupted ───────────────────────────────────────────┘          others run, and meet a taken baton
//!         ──resume──▶ goes on where it was … turn over ─▶ TurnOver
//! ```
//!
//! [`shard::interrupt`] marks the places. Whether one of them is used follows from the seed. Everything is on one real
//! thread: which stack runs is decided by [`Stack::resume`] alone.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use corosensei::{Coroutine, CoroutineResult, Yielder};
use proactor::Entropy;
use server::SimulatedThread;

/// Why a stack came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pause {
    /// In the middle of a turn.
    Interrupted,
    /// Between two turns.
    TurnOver,
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

/// A thread of the server.
pub(crate) struct Stack {
    /// None only while it is dropped.
    coroutine: Option<Coroutine<(), Pause, ()>>,
    handle: Rc<Cell<*const Handle>>,
    pub(crate) is_interrupted: bool,
}

impl Stack {
    pub(crate) fn new(thread: SimulatedThread) -> Stack {
        // A stack begins with no more than a page of what is moved to it.
        let mut thread = Box::new(thread);
        let handle = Rc::new(Cell::new(std::ptr::null()));
        let own = handle.clone();
        let coroutine = Coroutine::new(move |yielder: &Handle, ()| {
            own.set(std::ptr::from_ref(yielder));
            RUNNING.set(own.get());
            while thread.turn() {
                yielder.suspend(Pause::TurnOver);
            }
        });
        Stack { coroutine: Some(coroutine), handle, is_interrupted: false }
    }

    /// Lets it run to its next interruption or the end of its turn.
    pub(crate) fn resume(&mut self) {
        RUNNING.set(self.handle.get());
        let coroutine = self.coroutine.as_mut().expect("it is there until it is dropped");
        let result = coroutine.resume(());
        RUNNING.set(std::ptr::null());
        self.is_interrupted = match result {
            CoroutineResult::Yield(pause) => pause == Pause::Interrupted,
            CoroutineResult::Return(()) => panic!("the server stopped"),
        };
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // A script may be on it, whose frames cannot be unwound: it is leaked, after a failure only.
        if self.is_interrupted || std::thread::panicking() {
            std::mem::forget(self.coroutine.take());
        }
    }
}
