//! How other threads wake one thread.
//!
//! Every proactor has one [`Waker`], a word and an eventfd (the bell). The word says what the thread is
//! doing:
//!
//! ```text
//!             consumer: try_sleep                    AWAKE     working or polling, nothing new since the last notice
//!   AWAKE ───────────────────────▶ SLEEPING          SLEEPING  inside a blocking system call, or about to enter it
//!     ▲ ◀───────────────────────     │               NOTIFIED  a producer left something; the thread will look before
//!     │       consumer: rise         │                         it sleeps, so no other producer needs to act
//!     │ consumer: take_notice        │ producer: notify, which also has to ring
//!     └────────── NOTIFIED ◀─────────┘
//!                    ▲ producer: notify (from AWAKE, no ring)
//! ```
//!
//! A producer first makes its message visible, then passes a `SeqCst` fence, then reads the word. If it reads
//! NOTIFIED it is done without writing to the shared line. The consumer turns NOTIFIED into AWAKE, passes a
//! `SeqCst` fence and only then looks at its inboxes. One of the two fences comes first. If it is the
//! producer's, the consumer sees the message; if it is the consumer's, the producer cannot read the old
//! NOTIFIED. Going to sleep is a compare-and-swap from AWAKE, so a notice given in between makes it fail:
//! there is nothing to look at again.
//!
//! Invariants: the bell is rung at most once per sleep, because only the producer that replaced SLEEPING
//! rings; a ring that comes late, when the thread has risen for another reason, is a harmless extra wake-up.
//! `tests/loom_inbox.rs` checks all this. Without either fence the model checker finds the lost message.

use crate::sync::{AtomicU32, Ordering, fence};
use crate::sys::EventFd;

const AWAKE: u32 = 0;
const SLEEPING: u32 = 1;
const NOTIFIED: u32 = 2;

/// Wakes one thread from any other.
#[derive(Debug)]
pub struct Waker {
    state: AtomicU32,
    bell: Option<EventFd>,
}

impl Waker {
    pub(crate) fn with_bell(bell: EventFd) -> Waker {
        Waker { state: AtomicU32::new(AWAKE), bell: Some(bell) }
    }

    /// A waker whose thread never blocks in the kernel: simulated threads, and tests of the protocol.
    pub fn without_bell() -> Waker {
        Waker { state: AtomicU32::new(AWAKE), bell: None }
    }

    pub(crate) fn bell(&self) -> Option<&EventFd> {
        self.bell.as_ref()
    }

    /// Makes the thread report [`Event::Wake`](crate::Event::Wake) from its current or next turn.
    pub fn wake(&self) {
        if self.notify() {
            self.ring();
        }
    }

    /// Producer: leaves a notice. True if the thread sleeps and the caller must [`ring`](Waker::ring), now or
    /// at the end of its own turn; no other producer will.
    #[must_use = "a sleeping thread stays asleep until someone rings"]
    pub fn notify(&self) -> bool {
        fence(Ordering::SeqCst);
        if self.state.load(Ordering::Relaxed) == NOTIFIED {
            return false;
        }
        self.state.swap(NOTIFIED, Ordering::AcqRel) == SLEEPING
    }

    /// Producer: gets the thread out of its system call.
    pub fn ring(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    /// Whether a notice waits to be taken.
    pub fn is_notified(&self) -> bool {
        self.state.load(Ordering::Relaxed) == NOTIFIED
    }

    /// Whether the thread blocks in the kernel: only a hint, which may be outdated.
    pub fn is_asleep(&self) -> bool {
        self.state.load(Ordering::Relaxed) == SLEEPING
    }

    /// Consumer: takes the notice, if there is one. The inboxes have to be checked after this, not before.
    pub fn take_notice(&self) -> bool {
        if self.state.load(Ordering::Relaxed) != NOTIFIED {
            return false;
        }
        self.state.swap(AWAKE, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        true
    }

    /// Consumer: announces that it is about to block. False if there is a notice: then it must not.
    #[must_use = "a thread that blocks over a notice is never woken"]
    pub fn try_sleep(&self) -> bool {
        self.state.compare_exchange(AWAKE, SLEEPING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Consumer: has returned from blocking, for any reason.
    pub fn rise(&self) {
        // Failure means that a producer has put NOTIFIED there, which has to stay.
        let _ = self.state.compare_exchange(SLEEPING, AWAKE, Ordering::AcqRel, Ordering::Relaxed);
    }
}
