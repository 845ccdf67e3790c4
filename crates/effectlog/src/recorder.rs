//! The recorder of one thread, which encodes the effects of its transactions.
//!
//! It records only if it was given a [`Sink`]. Otherwise only [`Recorder::is_on`] is called.

use crate::line::CacheLine;
use crate::places::{Lsn, Stamp};
use crate::record::Record;
use crate::sync::{Arc, AtomicBool, Ordering};

/// How much memory is kept for the next record.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// Receives the records of one thread.
pub trait Sink: Send {
    /// Receives a complete record. The shards that it changed are still held. `after` is the greatest of their stamps.
    /// The returned place is greater than that of each record that changed these shards before. The content of `record`
    /// afterwards is undefined.
    fn publish(&mut self, record: &mut Record, after: Stamp) -> RecordPlace;

    /// Frees memory, because nothing was published for a while.
    fn rest(&mut self) {}
}

/// Whether effects are recorded. Every transaction reads this; it changes only while one thread holds all shards. It
/// has cache lines of its own, so that no thread waits because of other writes.
pub(crate) type Switch = Arc<CacheLine<AtomicBool>>;

/// The place of a record in the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordPlace {
    /// The slice that contains the record.
    pub slice: Lsn,
    /// The order within the slice.
    pub stamp: Stamp,
}

/// Encodes the effects of one thread's transactions.
#[derive(Default)]
pub struct Recorder {
    sink: Option<Box<dyn Sink>>,
    switch: Option<Switch>,
    record: Record,
    /// Whether there was a record since the last [`give_back_unused`](Self::give_back_unused).
    is_used: bool,
}

impl Recorder {
    /// A recorder that sends its records to `sink`.
    pub fn new(sink: Box<dyn Sink>) -> Self {
        Recorder::with_switch(sink, Arc::new(CacheLine(AtomicBool::new(true))))
    }

    /// A recorder that records while `switch` is on.
    pub(crate) fn with_switch(sink: Box<dyn Sink>, switch: Switch) -> Self {
        Recorder { sink: Some(sink), switch: Some(switch), record: Record::default(), is_used: false }
    }

    /// Whether its records go anywhere.
    pub fn has_sink(&self) -> bool {
        self.sink.is_some()
    }

    /// Whether effects are recorded. If not, callers need not push them.
    #[inline]
    pub fn is_on(&self) -> bool {
        // Relaxed: the thread that changed it held the shards that this thread holds now.
        self.switch.as_ref().is_some_and(|switch| switch.0.load(Ordering::Relaxed))
    }

    /// Adds an effect: running `args` on database `db` makes the change that was made.
    pub fn push(&mut self, db: u32, args: &[&[u8]]) {
        self.record.push(db, args);
    }

    /// Adds a piece of another stream unchanged, see [`Record::push_copy`]. It is recorded even if effects are not.
    pub fn push_copy(&mut self, db: u32, piece: &[u8]) {
        self.record.push_copy(db, piece);
    }

    /// Ends the unit: a top-level command, `EXEC` or script is complete, together with the blocked clients that it
    /// served.
    pub fn end_unit(&mut self) {
        self.record.end_unit();
    }

    /// Sends the record. Call this before any shard that it changed is left.
    pub fn commit(&mut self, after: Stamp) -> Option<RecordPlace> {
        self.record.end_unit();
        let sink = self.sink.as_mut().filter(|_| !self.record.is_empty());
        let place = sink.map(|sink| sink.publish(&mut self.record, after));
        self.record.clear(KEPT_BYTES_MAX);
        self.is_used |= place.is_some();
        place
    }

    /// Frees memory if there was no record since the last call: for calls some seconds apart.
    pub fn give_back_unused(&mut self) {
        if std::mem::take(&mut self.is_used) || !self.record.is_empty() {
            return;
        }
        self.record.clear(0);
        if let Some(sink) = &mut self.sink {
            sink.rest();
        }
    }
}
