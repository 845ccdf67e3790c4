//! A shard that goes from its holder straight to somebody who asked for it.
//!
//! ```text
//!   asker                                    holder of the shard
//!   Asked::new ──▶ HandOver ── mailbox ──▶   comes to it, first come, first served
//!   looks again and again                    forgets the shard, baton and backlog as they are
//!   holds the shard       ◀── given ───      and gives it
//! ```
//!
//! The baton stays taken all the while, so nobody comes between, however busy the shard is. Only scripts that have written
//! ask: see `hold.rs`. If the holder's thread ends before it came to the task, the task is *dropped*, and the asker asks
//! anew.

use std::sync::Arc;

use crate::sync::{AtomicUsize, Ordering};

const WAITING: usize = 0;
const GIVEN: usize = 1;
const DROPPED: usize = 2;

/// What has become of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Nothing yet.
    Waiting,
    /// The asker holds the shard: it must say so with [`Hold::accept`](crate::Hold::accept).
    Given,
    /// Nobody will ever give it: ask again.
    Dropped,
}

/// The asker's half of a request for a shard.
#[derive(Debug)]
pub struct Asked(Arc<AtomicUsize>);

impl Asked {
    /// A request, and the half of it that goes to the holder of the shard.
    pub fn new() -> (Asked, HandOver) {
        let state = Arc::new(AtomicUsize::new(WAITING));
        (Asked(Arc::clone(&state)), HandOver(state))
    }

    /// What has become of it. What the last holder did to the shard is seen once it is given.
    pub fn answer(&self) -> Answer {
        match self.0.load(Ordering::Acquire) {
            WAITING => Answer::Waiting,
            GIVEN => Answer::Given,
            _ => Answer::Dropped,
        }
    }
}

/// The holder's half: to be given to [`Hold::hand_over`](crate::Hold::hand_over).
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
