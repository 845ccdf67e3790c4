//! The functions of a store.

use std::time::Duration;

use crate::document::Document;
use crate::error::Error;
use crate::history::History;
use crate::ids::Life;
use crate::outcome::{Reading, Sight, Swap, Unsettled};
use crate::records::{Announcement, LogEntry, Reason};

/// The changes that the log keeps.
pub const LOG_MAX: usize = 1_000;
/// The proofs of death that are kept. Beyond that, the oldest whose life the document does not name are forgotten.
pub const DEAD_MAX: usize = 1_000;
/// The most announcements that are read.
pub const NODES_MAX: usize = 1_000;

/// A store of one cluster's topology, as one thread uses it. Each call blocks for at most a few seconds.
pub trait Store: Send {
    /// Reads the document and the proofs of death, both as of one moment. Linearizable: it shows every change whose
    /// success anyone knew before the call.
    fn read(&mut self) -> Result<Reading, Error>;

    /// Replaces the document that `on` shows by `document`, if it is still the one. To write *any* change on a revision
    /// (to settle an unknown outcome), replace the document by itself: that makes a new revision.
    ///
    /// Panics if the document does not pass [`Document::check`], or must not follow that in `on`.
    fn compare_and_swap(&mut self, on: &Reading, document: &Document, why: &Reason) -> Swap;

    /// Tries to learn the outcome of a change (Group rule 6), by some calls: reads, and if the reading shows the document that
    /// was to be replaced, replaces it by itself and reads again. Returns the reading that tells; otherwise the change is as
    /// open as before, and the caller tries again.
    fn settle(&mut self, unsettled: Unsettled, why: &Reason) -> Result<Reading, Unsettled> {
        let Ok(reading) = self.read() else { return Err(unsettled) };
        let unsettled = match unsettled.settle(&reading) {
            Ok(()) => return Ok(reading),
            Err(unsettled) => unsettled,
        };
        // Without a document there is nothing to write; the caller writes one of its own.
        let Some(document) = reading.document().cloned() else { return Err(unsettled) };
        let current = match self.compare_and_swap(&reading, &document, why) {
            Swap::Lost(current) => Some(current),
            Swap::Done(_) | Swap::NotDone(_) | Swap::Unknown(_) => self.read().ok(),
        };
        let Some(current) = current else { return Err(unsettled) };
        unsettled.settle(&current).map(|()| current)
    }

    /// Begins to watch. The watch has connections of its own, so it may move to another thread.
    fn watch(&mut self) -> Result<Box<dyn Watch>, Error>;

    /// Says that this node lives and where it is. To be called once a second; others stop seeing the node some ten
    /// seconds after the last call.
    fn announce(&mut self, announcement: &Announcement) -> Result<(), Error>;

    /// The announcements of the nodes that seem to live, by node. Announcements that make no sense are left out.
    fn live_nodes(&mut self) -> Result<Vec<Announcement>, Error>;

    /// Writes down that a life is over. The caller is certain of it. After an error it may be written or not, now or
    /// later: the caller tries again.
    fn prove_dead(&mut self, life: Life, why: &Reason) -> Result<(), Error>;

    /// The last changes of the document, the latest first.
    fn log(&mut self, count_max: usize) -> Result<Vec<LogEntry>, Error>;

    /// The memory of the store. The node keeps it, and gives it to the store that it opens after a restart.
    fn history(&self) -> History;

    /// Forgets what is known of the store, on the word of a person who has seen that it went back or is another.
    fn accept_as_it_is(&mut self);
}

/// News of a store.
pub trait Watch: Send {
    /// Waits for at most `wait` until the document or the proofs of death differ from what the last call returned. The first
    /// call returns what there is. An error says that nothing is known at the moment; the watch goes on by itself.
    fn next(&mut self, wait: Duration) -> Result<Sight, Error>;
}
