//! The answers of a store, and their meaning.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::document::{Document, DocumentError};
use crate::error::Error;
use crate::ids::{Life, Revision};

/// News, or none.
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
    pub found: Finding,
    /// Lives that are proven to be over.
    pub dead: BTreeSet<Life>,
}

/// A document that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The store has no document.
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
            Finding::Document(document) => Some(document),
            Finding::Nothing | Finding::Broken(_) => None,
        }
    }

    /// Whether both show the same document and the same deaths, though perhaps at different moments.
    pub(crate) fn is_like(&self, other: &Reading) -> bool {
        self.revision == other.revision && self.dead == other.dead && self.found == other.found
    }

    /// Checks that `document` may be written in the place of what was read. An assertion: the caller's rules see to it.
    pub(crate) fn assert_may_become(&self, document: &Document) {
        let checked = document.check().and_then(|()| match &self.found {
            Finding::Document(before) => document.check_succession(before),
            Finding::Nothing | Finding::Broken(_) => Ok(()),
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
    /// Reason its outcome is not known.
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

    /// Reason its outcome is not known.
    pub fn cause(&self) -> &Error {
        &self.cause
    }

    /// Whether a reading tells the outcome (Group rule 6): only one of *another* document than the change was to replace.
    /// Then the change has either made the documents since, or will never be carried out. As long as the reading shows the
    /// old revision, the change may be on its way, and the way to settle it is to write any change on that revision.
    ///
    /// The reading must have begun after the outcome became unknown. [`crate::Store::settle`] does all of it.
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
            found: Finding::Nothing,
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
