//! A snapshot that is being taken of a database while it changes.
//!
//! ```text
//!  the cut            a record changes, or goes        the traversal comes by
//!  all are old ──▶ old? the witness takes it  ──▶  old? the witness takes it  ──▶ none is old: the end
//!                  and it is old no more            and it is old no more
//! ```
//!
//! So the witness gets to see each record that was there at the cut once, as it was then, whatever happens to it and to the table
//! meanwhile; which records are old the table knows ([`CompactTable::begin_turn`](ds::compact_table::CompactTable::begin_turn)).
//! Records that come later are none of its business. A database that is swapped or flushed takes its cut along.
//!
//! A large value is taken in parts. As long as only a part was taken nobody may change it: whoever is about to asks
//! [`Db::holds_back`](crate::Db::holds_back) and comes again later. If somebody changes it all the same, the witness takes
//! the rest at once.

use std::collections::VecDeque;

use ds::compact_table::Held;

use crate::record::{Record, RecordRef};

/// How much of a record a witness has taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// All of it.
    All,
    /// A part of it; the rest is to come.
    Part,
    /// Nothing: it has no time or no room.
    Nothing,
}

/// Gets to see the records of a database as they were at the cut.
pub trait Witness: Send {
    /// Takes a record: all of it if `at_once`. When it has taken a part, the next one it sees is the same record, but for others
    /// that are to be taken at once.
    fn take(&mut self, record: RecordRef<'_>, at_once: bool) -> Taken;

    /// Whether it has no room for records that change.
    fn is_full(&self) -> bool;

    /// Whether it takes this record in parts.
    fn is_large(&self, record: RecordRef<'_>) -> bool;

    /// There are no more records.
    fn end(self: Box<Self>);
}

/// See the head of this file.
pub(crate) struct Cut {
    pub(crate) witness: Box<dyn Witness>,
    /// Where the traversal goes on.
    pub(crate) cursor: u64,
    /// Hashes and keys of records that are taken first: of which a part was taken, and for which somebody waits.
    pub(crate) wanted: VecDeque<(u64, Box<[u8]>)>,
    /// Old records: how many the witness has still to see.
    unseen_count: usize,
}

impl Cut {
    /// Of a database with so many records.
    pub(crate) fn new(witness: Box<dyn Witness>, record_count: usize) -> Cut {
        Cut { witness, cursor: 0, wanted: VecDeque::new(), unseen_count: record_count }
    }

    /// Shows the witness an old record that is to change.
    #[cold]
    #[inline(never)]
    pub(crate) fn show(cut: &mut Option<Box<Cut>>, held: &mut Held<'_, Record>) {
        let Some(cut) = cut else { unreachable!("a record is old that the snapshot before has not seen") };
        let taken = cut.witness.take(held.get(), true);
        assert_eq!(taken, Taken::All, "a record that is to change is taken at once");
        held.renew();
        cut.note_seen(1);
    }

    /// The witness has taken so many records, which are not old any more.
    pub(crate) fn note_seen(&mut self, count: usize) {
        assert!(count <= self.unseen_count, "the snapshot sees a record twice, or one that came later");
        self.unseen_count -= count;
    }

    /// No record is old any more.
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
