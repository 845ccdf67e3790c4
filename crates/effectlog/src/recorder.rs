//! The recorder of one thread, which encodes the effects of its transactions.
//!
//! It records only if it was given a [`Sink`]. Otherwise only [`Recorder::is_on`] is called.

use crate::line::Line;
use crate::record::Record;
use crate::sync::{Arc, AtomicBool, Ordering};

/// Memory that is kept for the next record.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// Takes the records of one thread.
pub trait Sink: Send {
    /// `record` is complete. The shards that it changed are still held, and `after` is the largest of their stamps: what is given to it here as
    /// its place in the order is larger than that of every record that changed them before. What is left in `record` is not read.
    fn publish(&mut self, record: &mut Record, after: u64) -> Place;
}

/// Whether what transactions do is recorded: read by every transaction, changed while one thread holds all shards. Every thread would wait for a
/// line that holds it beside something that is written often.
pub(crate) type Switch = Arc<Line<AtomicBool>>;

/// The place of a record in the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The slice that it is in.
    pub slice: u64,
    /// Where in that slice.
    pub stamp: u64,
}

/// Encodes the effects of one thread's transactions.
#[derive(Default)]
pub struct Recorder {
    sink: Option<Box<dyn Sink>>,
    switch: Option<Switch>,
    record: Record,
}

impl Recorder {
    /// A recorder whose records go to `sink`.
    pub fn new(sink: Box<dyn Sink>) -> Self {
        Recorder::with_switch(sink, Arc::new(Line(AtomicBool::new(true))))
    }

    /// The same while `switch` is on.
    pub(crate) fn with_switch(sink: Box<dyn Sink>, switch: Switch) -> Self {
        Recorder { sink: Some(sink), switch: Some(switch), record: Record::default() }
    }

    /// Whether effects are recorded: spares stating them.
    #[inline]
    pub fn is_on(&self) -> bool {
        // Relaxed: whoever has changed it held the shards that this thread holds now.
        self.switch.as_ref().is_some_and(|switch| switch.0.load(Ordering::Relaxed))
    }

    /// States that running `args` against database `db` makes a change that was made.
    pub fn push(&mut self, db: u32, args: &[&[u8]]) {
        self.record.push(db, args);
    }

    /// States a piece of another stream as it came, see [`Record::push_copy`]. It is recorded also where effects are not.
    pub fn push_copy(&mut self, db: u32, piece: &[u8]) {
        self.record.push_copy(db, piece);
    }

    /// A top-level command, `EXEC` or script is complete, and so are those whom it served.
    pub fn end_unit(&mut self) {
        self.record.end_unit();
    }

    /// Hands over what was recorded. To be called before any shard is left that it changed.
    pub fn commit(&mut self, after: u64) -> Option<Place> {
        self.record.end_unit();
        let sink = self.sink.as_mut().filter(|_| !self.record.is_empty());
        let place = sink.map(|sink| sink.publish(&mut self.record, after));
        self.record.clear(KEPT_BYTES_MAX);
        place
    }
}
