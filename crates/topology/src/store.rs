//! The functions of a store, and what their answers mean.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::document::{Document, DocumentError};
use crate::error::Error;
use crate::history::History;
use crate::ids::{Life, Revision};
use crate::records::{Announcement, LogEntry, Why};

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
    fn compare_and_swap(&mut self, on: &Reading, document: &Document, why: &Why) -> Swap;

    /// Begins to watch. The watch has connections of its own, so it may move to another thread.
    fn watch(&mut self) -> Result<Box<dyn Watch>, Error>;

    /// Says that this node lives and where it is. To be called once a second; others stop seeing the node some ten
    /// seconds after the last call.
    fn announce(&mut self, announcement: &Announcement) -> Result<(), Error>;

    /// The announcements of the nodes that seem to live, by node. Announcements that make no sense are left out.
    fn live_nodes(&mut self) -> Result<Vec<Announcement>, Error>;

    /// Writes down that a life is over. The caller is certain of it. After an error it may be written or not, now or
    /// later: the caller tries again.
    fn prove_dead(&mut self, life: Life, why: &Why) -> Result<(), Error>;

    /// The last changes of the document, the latest first.
    fn log(&mut self, count_max: usize) -> Result<Vec<LogEntry>, Error>;

    /// What is known of the store. The node keeps it, and gives it to the store that it opens after a restart.
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

/// What a watch saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// A linearizable reading that differs from the last one.
    Changed(Reading),
    /// No difference was seen. There may be one.
    Silent,
}

/// A document and the proofs of death, as of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The revision of the document.
    pub revision: Revision,
    /// The revision of the whole store at that moment: of two readings, the one with the greater one is later.
    pub as_of: Revision,
    /// The document.
    pub found: Found,
    /// Lives that are proven to be over.
    pub dead: BTreeSet<Life>,
}

/// A document that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is none.
    Nothing,
    /// There is one.
    Document(Arc<Document>),
    /// There is one that cannot be used. A person may replace it.
    Broken(DocumentError),
}

impl Reading {
    /// The document, if there is one that can be used.
    pub fn document(&self) -> Option<&Arc<Document>> {
        match &self.found {
            Found::Document(document) => Some(document),
            Found::Nothing | Found::Broken(_) => None,
        }
    }

    /// Whether both show the same document and the same deaths, though perhaps at different moments.
    pub(crate) fn is_like(&self, other: &Reading) -> bool {
        self.revision == other.revision && self.dead == other.dead && self.found == other.found
    }

    /// Checks that `document` may be written in the place of what was read. An assertion: the caller's rules see to it.
    pub(crate) fn assert_may_become(&self, document: &Document) {
        let checked = document.check().and_then(|()| match &self.found {
            Found::Document(before) => document.check_succession(before),
            Found::Nothing | Found::Broken(_) => Ok(()),
        });
        assert!(checked.is_ok(), "a document that breaks a rule is not written: {checked:?}");
    }
}

/// The outcome of a compare-and-swap.
#[must_use = "an unknown outcome must be settled"]
#[derive(Debug)]
pub enum Swap {
    /// It was made, and the document has this revision.
    Done(Revision),
    /// It was not made and will not be: the document was another one, and is this.
    Lost(Reading),
    /// It was not made and will not be, for another reason.
    NotDone(Error),
    /// It was made, or will be at any time, or never.
    Unknown(Unsettled),
}

/// A change that may still be carried out.
#[must_use = "it may still be carried out"]
#[derive(Debug)]
pub struct Unsettled {
    /// The revision on which the change was to be made.
    on: Revision,
    /// Why its outcome is not known.
    cause: Error,
}

impl Unsettled {
    /// A change on `on` whose outcome is not known.
    pub fn new(on: Revision, cause: Error) -> Unsettled {
        Unsettled { on, cause }
    }

    /// The revision on which the change was to be made.
    pub fn on(&self) -> Revision {
        self.on
    }

    /// Why its outcome is not known.
    pub fn cause(&self) -> &Error {
        &self.cause
    }

    /// Whether a reading tells the outcome (Group rule 6): only one of *another* document than the change was to replace.
    /// Then the change has either made the documents since, or will never be carried out. As long as the reading shows the
    /// old revision, the change may be on its way, and the way to settle it is to write any change on that revision.
    ///
    /// The reading must have begun after the outcome became unknown.
    pub fn settle(self, reading: &Reading) -> Result<(), Unsettled> {
        if reading.revision == self.on { Err(self) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_document_settles_a_change() {
        let reading = |revision, as_of| Reading {
            revision: Revision(revision),
            as_of: Revision(as_of),
            found: Found::Nothing,
            dead: BTreeSet::new(),
        };
        let unsettled = || Unsettled::new(Revision(7), Error::Failed("timeout".to_owned()));
        assert!(unsettled().settle(&reading(7, 100)).is_err(), "it may be on its way");
        assert!(unsettled().settle(&reading(8, 8)).is_ok());
        assert!(
            unsettled().settle(&reading(0, 9)).is_ok(),
            "the document was removed, so nothing is made on 7"
        );
        let creating = Unsettled::new(Revision::NONE, Error::Failed("timeout".to_owned()));
        assert!(creating.settle(&reading(0, 100)).is_err(), "it may be created yet");
    }
}
