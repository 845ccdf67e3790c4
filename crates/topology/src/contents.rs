//! The contents of a store as plain data: the folder keeps it in a file, the model in memory. etcd's keys mean the same.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::ids::{Life, Revision};
use crate::outcome::{Finding, Reading};
use crate::records::{LogEntry, Reason};
use crate::store::{DEAD_MAX, LOG_MAX};

/// See the head of this file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contents {
    /// Counts all changes.
    pub(crate) revision: Revision,
    document: Option<Written>,
    dead: BTreeMap<Life, Proof>,
    /// The latest last.
    log: VecDeque<LogEntry>,
}

/// A document as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Written {
    revision: Revision,
    text: String,
}

/// A proof of death.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Proof {
    revision: Revision,
    why: Reason,
}

impl Contents {
    /// The document and the proofs of death.
    pub(crate) fn reading(&self) -> Reading {
        let (revision, found) = match &self.document {
            None => (Revision::NONE, Finding::Nothing),
            Some(written) => (written.revision, found(written.text.as_bytes())),
        };
        Reading { revision, as_of: self.revision, found, dead: self.dead.keys().copied().collect() }
    }

    /// Replaces the document if it has the revision `on`. Returns the new one.
    pub(crate) fn swap(&mut self, on: Revision, text: &str, why: &Reason) -> Option<Revision> {
        let present = self.document.as_ref().map_or(Revision::NONE, |written| written.revision);
        if present != on {
            return None;
        }
        let made = self.write_document(text);
        self.log.push_back(LogEntry { on, made, why: why.clone() });
        if self.log.len() > LOG_MAX {
            self.log.pop_front();
        }
        Some(made)
    }

    /// Writes a document that nothing has checked, as a person does who edits it.
    pub(crate) fn write_document(&mut self, text: &str) -> Revision {
        self.revision.0 += 1;
        self.document = Some(Written { revision: self.revision, text: text.to_owned() });
        self.revision
    }

    /// Writes down that a life is over.
    pub(crate) fn prove_dead(&mut self, life: Life, why: &Reason) {
        self.revision.0 += 1;
        let proof = Proof { revision: self.revision, why: why.clone() };
        self.dead.entry(life).or_insert(proof);
        while self.dead.len() > DEAD_MAX {
            let named = lives(&self.reading().found);
            let oldest = self.dead.iter().filter(|(life, _)| !named.contains(life));
            let Some(oldest) = oldest.min_by_key(|(_, proof)| proof.revision).map(|(life, _)| *life) else {
                break;
            };
            self.dead.remove(&oldest);
        }
    }

    /// The last changes, the latest first.
    pub(crate) fn log(&self, count_max: usize) -> Vec<LogEntry> {
        self.log.iter().rev().take(count_max).cloned().collect()
    }

    /// The first change on a revision tells others apart from those before a restore.
    #[cfg(test)]
    pub(crate) fn debug_validate(&self) {
        assert!(self.log.len() <= LOG_MAX);
        assert!(self.log.iter().zip(self.log.iter().skip(1)).all(|(one, next)| one.made < next.made));
    }
}

/// Reads the text that stands in the place of the document.
pub(crate) fn found(text: &[u8]) -> Finding {
    match Document::decode(text) {
        Ok(document) => Finding::Document(Arc::new(document)),
        Err(error) => Finding::Broken(error),
    }
}

/// The lives that a document names: proofs of their death are still needed.
pub(crate) fn lives(found: &Finding) -> BTreeSet<Life> {
    match found {
        Finding::Document(document) => {
            document.groups.values().flat_map(|group| group.in_sync.values().copied()).collect()
        }
        Finding::Nothing | Finding::Broken(_) => BTreeSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::tests::small;

    fn why() -> Reason {
        Reason::new("test", 0, "because")
    }

    #[test]
    fn logs_and_proofs_stay_limited_and_those_that_count_stay() {
        let mut contents = Contents::default();
        let document = small();
        let needed = document.groups.values().next().unwrap().leader.life;
        let mut revision = contents.swap(Revision::NONE, &document.encode(), &why()).unwrap();
        contents.prove_dead(needed, &why());
        for life in 1000..1000 + DEAD_MAX as u64 + 10 {
            contents.prove_dead(Life(life), &why());
        }
        for _ in 0..LOG_MAX + 10 {
            revision = contents.swap(revision, &document.encode(), &why()).unwrap();
        }
        contents.debug_validate();
        let reading = contents.reading();
        assert_eq!(reading.dead.len(), DEAD_MAX);
        assert!(reading.dead.contains(&needed) && !reading.dead.contains(&Life(1000)));
        assert_eq!(contents.log(usize::MAX).len(), LOG_MAX);
        assert_eq!(contents.log(1)[0].made, revision);
    }

    #[test]
    fn a_broken_document_is_found_as_such_and_can_be_replaced() {
        let mut contents = Contents::default();
        let revision = contents.write_document("{}");
        let reading = contents.reading();
        assert!(matches!(reading.found, Finding::Broken(_)), "{reading:?}");
        assert!(contents.swap(revision, &small().encode(), &why()).is_some());
    }
}
