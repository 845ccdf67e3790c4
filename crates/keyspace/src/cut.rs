//! A snapshot of a database, taken while the database changes.
//!
//! ```text
//!  the cut            a record changes, or goes        the traversal comes by
//!  all are old ──▶ old? the witness takes it  ──▶  old? the witness takes it  ──▶ none is old: the end
//!                  and it is no longer old          and it is no longer old
//! ```
//!
//! So the witness sees each record of the cut exactly once, as it was at that moment, regardless of changes
//! to the record and the table in the meantime. The table knows which records are old
//! ([`CompactTable::begin_turn`](ds::compact_table::CompactTable::begin_turn)). The witness does not see
//! newer records. A database that is swapped or flushed takes its cut along.
//!
//! A large value is captured in parts. After the first part it must not change until all are captured: a
//! command that is about to change it calls [`Db::holds_back`](crate::Db::holds_back) and runs later. If it
//! is changed nevertheless, the witness captures the rest at once.

use std::collections::VecDeque;

use ds::compact_table::Held;

use crate::record::{Record, RecordRef};

/// How much of a record a witness has captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// All of it.
    All,
    /// A part of it; the rest comes later.
    Part,
    /// Nothing: it has no time or no space.
    Nothing,
}

/// Sees the records of a database as they were at the cut.
pub trait Witness: Send {
    /// Captures a record, completely if `at_once`. After it has captured a part, it is shown the same record next,
    /// except for records that must be captured at once.
    fn take(&mut self, record: RecordRef<'_>, at_once: bool) -> Taken;

    /// Whether it has no space for records that change.
    fn is_full(&self) -> bool;

    /// Whether it captures this record in parts.
    fn is_large(&self, record: RecordRef<'_>) -> bool;

    /// Called when it has seen all records.
    fn end(self: Box<Self>);
}

/// A snapshot that is being taken of a database.
pub(crate) struct Cut {
    pub(crate) witness: Box<dyn Witness>,
    /// Where the traversal continues.
    pub(crate) cursor: u64,
    /// Hashes and keys of the records to be captured first: those partly captured, and those that commands
    /// wait for.
    pub(crate) wanted: VecDeque<(u64, Box<[u8]>)>,
    /// Number of old records, which the witness has not seen yet.
    unseen_count: usize,
}

impl Cut {
    /// A cut of a database with this many records.
    pub(crate) fn new(witness: Box<dyn Witness>, record_count: usize) -> Cut {
        Cut { witness, cursor: 0, wanted: VecDeque::new(), unseen_count: record_count }
    }

    /// Shows the witness an old record that is about to change.
    #[cold]
    #[inline(never)]
    pub(crate) fn show(cut: &mut Option<Box<Cut>>, held: &mut Held<'_, Record>) {
        let Some(cut) = cut else { unreachable!("a record is old that the snapshot before has not seen") };
        let taken = cut.witness.take(held.get(), true);
        assert_eq!(taken, Taken::All, "a record that is to change is taken at once");
        held.renew();
        cut.note_seen(1);
    }

    /// Counts records that the witness has captured and that are no longer old.
    pub(crate) fn note_seen(&mut self, count: usize) {
        assert!(count <= self.unseen_count, "the snapshot sees a record twice, or one that came later");
        self.unseen_count -= count;
    }

    /// Ends the snapshot: no record is old any more.
    pub(crate) fn end(self) {
        assert!(self.wanted.is_empty(), "what is wanted is old");
        assert_eq!(self.unseen_count, 0, "the snapshot has not seen all that was there at the cut");
        self.witness.end();
    }

    pub(crate) fn want(&mut self, hash: u64, key: &[u8]) {
        if !self.wanted.iter().any(|(_, wanted)| **wanted == *key) {
            self.wanted.push_back((hash, key.into()));
        }
    }

    pub(crate) fn first_wanted(&self) -> Option<(u64, &[u8])> {
        self.wanted.front().map(|(hash, key)| (*hash, &**key))
    }

    pub(crate) fn forget_wanted(&mut self) {
        self.wanted.pop_front();
    }
}
