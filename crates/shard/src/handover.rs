//! Hands a shard from its holder directly to a thread that asked for it.
//!
//! ```text
//!   asker                                    holder of the shard
//!   Asked::new ──▶ HandOver ── mailbox ──▶   comes to it, first come, first served
//!   looks again and again                    forgets the shard, baton and backlog as they are
//!   holds the shard       ◀── given ───      and gives it
//! ```
//!
//! The baton stays taken throughout, so no third thread gets in between, however busy the shard is. Only
//! scripts that have written ask: see `hold.rs`. If the holder's thread ends before it reaches the task, the
//! task is *dropped*, and the asker asks again.

use std::sync::Arc;

use crate::placement::ShardId;
use crate::sync::{AtomicUsize, Ordering};

const WAITING: usize = 0;
const DROPPED: usize = 1;
const TAKEN: usize = 2;
/// Plus the number of the shard.
const GIVEN: usize = 3;

/// The state of a request.
#[derive(PartialEq, Eq, Debug)]
pub enum Answer {
    /// No answer yet.
    Waiting,
    /// The asker holds the shard.
    Given(Given),
    /// The request was lost: ask again.
    Dropped,
}

/// A shard that its last holder has given away. The thread that has this value is the shard's holder, and
/// records that with [`Hold::accept`](crate::Hold::accept).
#[derive(PartialEq, Eq, Debug)]
#[must_use = "the shard is held until it is accepted and left"]
pub struct Given(ShardId);

impl Given {
    pub(crate) fn shard(self) -> ShardId {
        self.0
    }
}

/// The asker's half of a request for a shard.
#[derive(Debug)]
pub struct Asked(Arc<AtomicUsize>);

impl Asked {
    /// A request: the asker's half, and the half that goes to the holder of the shard.
    pub fn new() -> (Asked, HandOver) {
        let state = Arc::new(AtomicUsize::new(WAITING));
        (Asked(Arc::clone(&state)), HandOver(state))
    }

    /// The state of the request. Once the shard is given, this thread sees everything that the last holder
    /// did there.
    ///
    /// # Panics
    /// If it was given before: a shard is given once.
    pub fn answer(&mut self) -> Answer {
        match self.0.load(Ordering::Acquire) {
            WAITING => Answer::Waiting,
            DROPPED => Answer::Dropped,
            TAKEN => panic!("the shard was given before"),
            given => {
                self.0.store(TAKEN, Ordering::Relaxed);
                Answer::Given(Given(ShardId((given - GIVEN) as u16)))
            }
        }
    }
}

/// The holder's half, to be passed to [`Hold::hand_over`](crate::Hold::hand_over).
#[derive(Debug)]
pub struct HandOver(Arc<AtomicUsize>);

impl HandOver {
    pub(crate) fn give(self, id: ShardId) {
        self.0.store(GIVEN + id.index(), Ordering::Release);
    }
}

impl Drop for HandOver {
    fn drop(&mut self) {
        if self.0.load(Ordering::Relaxed) == WAITING {
            self.0.store(DROPPED, Ordering::Release);
        }
    }
}
