//! Boundaries: ends of slices that the collector has not chosen itself.
//!
//! A thread that holds all shards ends the open slice: by a cut, or because the log is turned on and continues with
//! another number. The log keeps each boundary until the collector has closed the slice before it. Their number has no
//! limit, but each takes a few bytes, and holding all shards, to create.

use std::collections::VecDeque;

use crate::places::{AtomicStreamPosition, Lsn, StreamPosition};
use crate::sync::{Arc, Mutex, MutexGuard, Ordering, PoisonError};

/// The slice of a cut is not closed yet.
const UNKNOWN: StreamPosition = StreamPosition::MAX;

/// The end of a slice, set while one thread held all shards. Changes committed before are in that slice or earlier
/// ones; all others are in later ones.
#[derive(Clone, Debug)]
pub struct Cut {
    slice: Lsn,
    end: Arc<AtomicStreamPosition>,
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) enum Boundary {
    /// A cut.
    Cut(Cut),
    /// The log was turned on: slice `first` follows slice `last`, with no slices between them.
    TurnedOn { last: Lsn, first: Lsn },
}

/// Boundaries of slices that are not closed yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Boundaries(Mutex<VecDeque<Boundary>>);

impl Cut {
    fn new(slice: Lsn) -> Cut {
        Cut { slice, end: Arc::new(AtomicStreamPosition::new(UNKNOWN)) }
    }

    /// The number of the slice that the cut ended.
    pub fn slice(&self) -> Lsn {
        self.slice
    }

    /// The position at the end of that slice, in bytes; `None` until the collector has closed it.
    pub fn end(&self) -> Option<StreamPosition> {
        // Acquire: a thread that knows the end sees everything that the collector did before.
        Some(self.end.load(Ordering::Acquire)).filter(|end| *end != UNKNOWN)
    }

    pub(crate) fn set_end(&self, position: StreamPosition) {
        self.end.store(position, Ordering::Release);
    }
}

impl Boundary {
    /// The slice before it.
    fn slice(&self) -> Lsn {
        match self {
            Boundary::Cut(cut) => cut.slice,
            Boundary::TurnedOn { last, .. } => *last,
        }
    }
}

impl Boundaries {
    /// Adds a cut. `end` ends a slice and returns its number.
    pub(crate) fn cut(&self, end: impl FnOnce() -> Lsn) -> Cut {
        // Locked meanwhile: when the collector has seen that the slice has ended, it finds the boundary.
        let mut boundaries = self.lock();
        let cut = Cut::new(end());
        boundaries.push_back(Boundary::Cut(cut.clone()));
        cut
    }

    /// Adds the boundary at which the log is turned on with slice `first`. `end` ends a slice and returns its number.
    pub(crate) fn turn_on(&self, first: Lsn, end: impl FnOnce() -> Lsn) -> Lsn {
        let mut boundaries = self.lock();
        let last = end();
        boundaries.push_back(Boundary::TurnedOn { last, first });
        last
    }

    /// Takes out the boundary after `slice`, which has ended. Older boundaries are dropped.
    pub(crate) fn take(&self, slice: Lsn) -> Option<Boundary> {
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
