//! `repl_sync_replicas`: how far so many replicas have the stream. Replies wait for that as they wait for the disk.
//!
//! An acknowledged offset covers all slices that end there or before it. A slice that was covered once stays so: what was replied
//! cannot be taken back.
//!
//! Not here: what is held, and its release (`server`, `journal/turn.rs`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use effectlog::Backlog;

use crate::primary::Primary;

/// See the head of this file.
#[derive(Default)]
pub struct Synced {
    /// So many replicas are to have what replies tell of; 0: nothing waits for them.
    wanted: AtomicU64,
    /// The last slice that they have, with all before it.
    slice: AtomicU64,
    /// They were asked behind this slice.
    asked: AtomicU64,
    /// This server follows another one: what it replies is in no stream of its own.
    is_replica: AtomicBool,
}

impl Synced {
    /// Of a server where replies wait for so many.
    pub fn new(wanted: u64) -> Synced {
        Synced { wanted: AtomicU64::new(wanted), ..Synced::default() }
    }

    /// For how many replies wait.
    #[inline]
    pub fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Whether what is replied from now on waits for any.
    #[inline]
    pub fn holds_replies(&self) -> bool {
        self.wanted() > 0 && !self.is_replica.load(Ordering::Relaxed)
    }

    /// Replies wait for so many from now on. If for none, nothing up to slice `open` waits any more.
    pub fn set_wanted(&self, wanted: u64, open: u64) {
        self.wanted.store(wanted, Ordering::Relaxed);
        if wanted == 0 {
            self.slice.fetch_max(open, Ordering::AcqRel);
        }
    }

    /// Whether this server follows another one.
    pub fn set_replica(&self, is_replica: bool) {
        self.is_replica.store(is_replica, Ordering::Relaxed);
    }

    /// The last slice that enough replicas have.
    pub fn slice(&self) -> u64 {
        self.slice.load(Ordering::Acquire)
    }

    /// A replica has acknowledged something, or more or fewer are wanted.
    pub fn update(&self, primary: &Primary, backlog: &Backlog) {
        let wanted = self.wanted();
        if let Some(offset) = primary.offset_of(wanted as usize) {
            self.slice.fetch_max(backlog.last_before(offset), Ordering::AcqRel);
        }
    }

    /// Whether replicas are to be asked how far they are, because somebody waits for `slice`, which is closed. They are asked behind
    /// slice `last`.
    pub fn asks(&self, slice: u64, last: u64) -> bool {
        let asks = slice <= last && !self.has_asked(slice);
        if asks {
            self.asked.fetch_max(last, Ordering::Relaxed);
        }
        asks
    }

    /// Whether they were asked behind `slice`.
    pub fn has_asked(&self, slice: u64) -> bool {
        slice <= self.asked.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_asked_once_for_each_slice() {
        let synced = Synced::new(1);
        assert!(!synced.asks(5, 4), "it is not closed");
        assert!(synced.asks(5, 7) && !synced.asks(5, 9) && !synced.asks(7, 9));
        assert!(synced.has_asked(7) && !synced.has_asked(8));
        assert!(synced.asks(8, 9));
    }

    #[test]
    fn what_was_covered_stays_so() {
        let synced = Synced::new(2);
        assert!(synced.holds_replies());
        synced.set_wanted(0, 12);
        synced.set_wanted(1, 3);
        assert_eq!((synced.slice(), synced.wanted()), (12, 1));
        synced.set_replica(true);
        assert!(!synced.holds_replies());
    }
}
