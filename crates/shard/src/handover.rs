//! Hands a shard from its holder directly to a thread that asked for it.
//!
//! ```text
//!   asker                                    holder of the shard
//!   Asked::new ──▶ HandOver ── mailbox ──▶   comes to it, first come, first served
//!   looks again and again                    forgets the shard, baton and backlog as they are
//!   holds the shard       ◀── given ───      and gives it
//! ```
//!
//! The baton stays taken throughout, so nobody gets in between, however busy the shard is. Only scripts that have
//! written ask: see `hold.rs`. If the holder's thread ends before it reaches the task, the task is *dropped*, and the
//! asker asks again.

use std::sync::Arc;

use crate::sync::{AtomicUsize, Ordering};

const WAITING: usize = 0;
const GIVEN: usize = 1;
const DROPPED: usize = 2;

/// The state of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// No answer yet.
    Waiting,
    /// The asker holds the shard, and must record that with [`Hold::accept`](crate::Hold::accept).
    Given,
    /// The request was lost: ask again.
    Dropped,
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

    /// The state of the request. Once it is given, what the last holder did to the shard is visible.
    pub fn answer(&self) -> Answer {
        match self.0.load(Ordering::Acquire) {
            WAITING => Answer::Waiting,
            GIVEN => Answer::Given,
            _ => Answer::Dropped,
        }
    }
}

/// The holder's half, to be passed to [`Hold::hand_over`](crate::Hold::hand_over).
#[derive(Debug)]
pub struct HandOver(Arc<AtomicUsize>);

impl HandOver {
    pub(crate) fn give(self) {
        self.0.store(GIVEN, Ordering::Release);
    }
}

impl Drop for HandOver {
    fn drop(&mut self) {
        if self.0.load(Ordering::Relaxed) == WAITING {
            self.0.store(DROPPED, Ordering::Release);
        }
    }
}
