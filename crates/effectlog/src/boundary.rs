//! Boundaries: ends of slices that the collector has not chosen itself.
//!
//! A thread that holds all shards ends the open slice: by a cut, or because the log is turned on and continues with
//! another number. The log keeps each boundary until the collector has closed the slice before it. Their number has no
//! limit, but each takes a few bytes, and holding all shards, to create.

use std::collections::VecDeque;

use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, PoisonError};

/// A cut's slice is not closed yet.
const UNKNOWN: u64 = u64::MAX;

/// The end of a slice at a moment at which one thread held all shards: what was committed before is in that slice or before it, and everything
/// else comes later.
#[derive(Clone, Debug)]
pub struct Cut {
    slice: u64,
    end: Arc<AtomicU64>,
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) enum Boundary {
    /// A cut.
    Cut(Cut),
    /// The log was turned on: after slice `last` comes slice `first`, and none in between.
    TurnedOn { last: u64, first: u64 },
}

/// The boundaries whose slices are not closed yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Boundaries(Mutex<VecDeque<Boundary>>);

impl Cut {
    fn new(slice: u64) -> Cut {
        Cut { slice, end: Arc::new(AtomicU64::new(UNKNOWN)) }
    }

    /// The number of the slice that it ended.
    pub fn slice(&self) -> u64 {
        self.slice
    }

    /// Where in the stream that slice ends, in bytes; `None` until the collector has closed it.
    pub fn end(&self) -> Option<u64> {
        // Acquire: what the collector did before is seen by whoever knows the end.
        Some(self.end.load(Ordering::Acquire)).filter(|end| *end != UNKNOWN)
    }

    pub(crate) fn set_end(&self, position: u64) {
        self.end.store(position, Ordering::Release);
    }
}

impl Boundary {
    /// The slice before it.
    fn slice(&self) -> u64 {
        match self {
            Boundary::Cut(cut) => cut.slice,
            Boundary::TurnedOn { last, .. } => *last,
        }
    }
}

impl Boundaries {
    /// Adds a cut after the slice that `end` ends and returns.
    pub(crate) fn cut(&self, end: impl FnOnce() -> u64) -> Cut {
        // Locked meanwhile: when the collector has seen that the slice has ended, it finds the boundary.
        let mut boundaries = self.lock();
        let cut = Cut::new(end());
        boundaries.push_back(Boundary::Cut(cut.clone()));
        cut
    }

    /// Adds the one where the log is turned on with slice `first`, after the slice that `end` ends and returns.
    pub(crate) fn turn_on(&self, first: u64, end: impl FnOnce() -> u64) -> u64 {
        let mut boundaries = self.lock();
        let last = end();
        boundaries.push_back(Boundary::TurnedOn { last, first });
        last
    }

    /// Takes the boundary after `slice`, which has ended, if there is one; older ones are of no interest any more.
    pub(crate) fn take(&self, slice: u64) -> Option<Boundary> {
        let mut boundaries = self.lock();
        while let Some(boundary) = boundaries.pop_front_if(|boundary| boundary.slice() <= slice) {
            if boundary.slice() == slice {
                return Some(boundary);
            }
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Boundary>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
