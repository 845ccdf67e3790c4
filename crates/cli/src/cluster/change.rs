//! A change of the document that a person asks for.
//!
//! Nothing is said before the outcome is known. If it is not, the change is settled (Group rule 6): another change is made
//! on the same revision, after which a reading tells whether the first one was made.

use std::thread;
use std::time::Duration;

use topology::{Document, Finding, Reading, Reason, Store, Swap};

use crate::cluster::error::Error;

/// How often a change is tried again because others were faster.
const TRIES_MAX: usize = 20;
/// How often it is tried to settle an unknown outcome. Each try takes a few seconds if the store does not answer.
const SETTLING_MAX: usize = 8;
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(250);

/// The meaning of the present document for a change.
pub(crate) enum NextDocument {
    /// This one has to be written.
    Write(Document),
    /// It is as it should be.
    IsSo,
}

/// Changes the document as `judge` says. It is asked again with each newer document. Returns the document that is so, and
/// whether it was so before.
pub(crate) fn change(
    store: &mut dyn Store,
    why: &Reason,
    mut judge: impl FnMut(&Finding) -> Result<NextDocument, Error>,
) -> Result<(Document, bool), Error> {
    let mut reading = store.read()?;
    let mut was_so = true;
    for _ in 0..TRIES_MAX {
        let next = match judge(&reading.found)? {
            NextDocument::IsSo => {
                let document = reading.document().expect("what is so is in a document");
                return Ok(((**document).clone(), was_so));
            }
            NextDocument::Write(next) => next,
        };
        check(&reading, &next)?;
        was_so = false;
        match store.compare_and_swap(&reading, &next, why) {
            Swap::Done(_) => return Ok((next, false)),
            Swap::NotDone(error) => return Err(error.into()),
            Swap::Lost(current) => reading = current,
            Swap::Unknown(unsettled) => {
                let mut open = unsettled;
                let mut tries = 0;
                reading = loop {
                    match settle(store, open, &reading, &next, why) {
                        Ok(current) => break current,
                        Err(unsettled) if tries == SETTLING_MAX => {
                            return Err(Error::Unknown(unsettled.cause().to_string()));
                        }
                        Err(unsettled) => open = unsettled,
                    }
                    tries += 1;
                    thread::sleep(PAUSE);
                };
            }
        }
    }
    Err(Error::Contended)
}

/// Settles a change. Where there was no document, the same change settles itself.
fn settle(
    store: &mut dyn Store,
    unsettled: topology::Unsettled,
    on: &Reading,
    next: &Document,
    why: &Reason,
) -> Result<Reading, topology::Unsettled> {
    if on.document().is_none() {
        // Done or lost, a later revision is read now.
        let _ = match store.compare_and_swap(on, next, why) {
            Swap::Lost(current) => return unsettled.settle(&current).map(|()| current),
            other => other,
        };
    }
    store.settle(unsettled, why)
}

/// Refuses a document that the store would crash on.
fn check(reading: &Reading, next: &Document) -> Result<(), Error> {
    let checked = next.check().and_then(|()| match reading.document() {
        Some(before) => next.check_succession(before),
        None => Ok(()),
    });
    checked.map_err(|error| Error::Refused(format!("the document would be wrong: {error}")))
}

/// The document, if it can be used.
pub(crate) fn usable(found: &Finding) -> Result<&Document, Error> {
    match found {
        Finding::Document(document) => Ok(document),
        Finding::Nothing => Err(Error::Refused(
            "the store has no document of this cluster: check cluster-name, or create it with 'darter --cluster create'"
                .to_owned(),
        )),
        Finding::Broken(error) => Err(Error::Refused(format!(
            "{error}: put a document back that can be used, such as the one before (the store's own tool shows it)"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use agent::first_document;
    use scratch::Scratch;
    use topology::folder::FolderStore;
    use topology::{
        Announcement, GroupId, History, Instance, Life, LogEntry, NodeId, Params, Unsettled, Watch,
    };

    use super::*;
    use crate::cluster::because;

    /// The fate of a change whose outcome is not told.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Fate {
        Made,
        NeverMade,
        /// It is made when the next change has been tried: just before that one.
        MadeLater,
    }

    /// A store that does not tell the outcome of the first change.
    struct Doubtful {
        inner: FolderStore,
        fate: Option<Fate>,
        on_its_way: Option<(Reading, Document)>,
        is_away: bool,
    }

    impl Doubtful {
        fn unknown(on: &Reading) -> Swap {
            Swap::Unknown(Unsettled::new(on.revision, topology::Error::Failed("timeout".to_owned())))
        }
    }

    impl Store for Doubtful {
        fn read(&mut self) -> Result<Reading, topology::Error> {
            match self.is_away && self.fate.is_none() {
                true => Err(topology::Error::Unreachable("away".to_owned())),
                false => self.inner.read(),
            }
        }

        fn compare_and_swap(&mut self, on: &Reading, document: &Document, why: &Reason) -> Swap {
            if self.is_away && self.fate.is_none() {
                return Swap::NotDone(topology::Error::Unreachable("away".to_owned()));
            }
            if let Some((on, document)) = self.on_its_way.take() {
                let late = self.inner.compare_and_swap(&on, &document, why);
                assert!(matches!(late, Swap::Done(_)), "{late:?}");
            }
            match self.fate.take() {
                None => return self.inner.compare_and_swap(on, document, why),
                Some(Fate::NeverMade) => {}
                Some(Fate::MadeLater) => self.on_its_way = Some((on.clone(), document.clone())),
                Some(Fate::Made) => {
                    let made = self.inner.compare_and_swap(on, document, why);
                    assert!(matches!(made, Swap::Done(_)), "{made:?}");
                }
            }
            Doubtful::unknown(on)
        }

        fn watch(&mut self) -> Result<Box<dyn Watch>, topology::Error> {
            self.inner.watch()
        }

        fn announce(&mut self, announcement: &Announcement) -> Result<(), topology::Error> {
            self.inner.announce(announcement)
        }

        fn live_nodes(&mut self) -> Result<Vec<Announcement>, topology::Error> {
            self.inner.live_nodes()
        }

        fn prove_dead(&mut self, life: Life, why: &Reason) -> Result<(), topology::Error> {
            self.inner.prove_dead(life, why)
        }

        fn log(&mut self, count_max: usize) -> Result<Vec<LogEntry>, topology::Error> {
            self.inner.log(count_max)
        }

        fn history(&self) -> History {
            self.inner.history()
        }

        fn accept_as_it_is(&mut self) {
            self.inner.accept_as_it_is();
        }
    }

    fn first() -> Document {
        let leader = Instance { node: "a".parse().unwrap(), life: Life(1) };
        first_document("g1".parse().unwrap(), leader, Default::default(), Params::default())
    }

    fn store(scratch: &Scratch, fate: Fate) -> Doubtful {
        let inner = FolderStore::open(scratch.folder(), &"c".parse().unwrap(), History::default()).unwrap();
        Doubtful { inner, fate: Some(fate), on_its_way: None, is_away: false }
    }

    fn create(store: &mut dyn Store) -> Result<(Document, bool), Error> {
        change(store, &because("create"), |found| match found {
            Finding::Document(document) if **document == first() => Ok(NextDocument::IsSo),
            Finding::Nothing => Ok(NextDocument::Write(first())),
            other => panic!("{other:?}"),
        })
    }

    fn add(store: &mut dyn Store, node: &str) -> Result<(Document, bool), Error> {
        let (id, node): (GroupId, NodeId) = ("g1".parse().unwrap(), node.parse().unwrap());
        change(store, &because("add"), |found| {
            let mut document = usable(found)?.clone();
            let group = document.groups.get_mut(&id).unwrap();
            Ok(if group.members.insert(node.clone()) {
                NextDocument::Write(document)
            } else {
                NextDocument::IsSo
            })
        })
    }

    #[test]
    fn an_unknown_outcome_is_settled_before_anything_is_said() {
        for fate in [Fate::Made, Fate::NeverMade, Fate::MadeLater] {
            let scratch = Scratch::new("change");
            let mut store = store(&scratch, fate);
            assert_eq!(create(&mut store).unwrap(), (first(), false), "{fate:?}");
            store.fate = Some(fate);
            let (document, was_so) = add(&mut store, "b").unwrap();
            assert_eq!(
                (document.groups.values().next().unwrap().members.len(), was_so),
                (2, false),
                "{fate:?}"
            );
            assert!(store.on_its_way.is_none(), "nothing is on its way: {fate:?}");
            assert_eq!(store.read().unwrap().document().map(|found| (**found).clone()), Some(document));
            assert!(add(&mut store, "b").unwrap().1, "it is so");
        }
    }

    #[test]
    fn what_cannot_be_settled_is_said_to_be_unknown() {
        let scratch = Scratch::new("change");
        let mut store = store(&scratch, Fate::Made);
        store.is_away = true;
        let error = create(&mut store).unwrap_err();
        assert!(error.to_string().contains("it is not known whether the change was made"), "{error}");
    }

    #[test]
    fn a_wrong_document_is_refused_not_written() {
        let scratch = Scratch::new("change");
        let mut store = store(&scratch, Fate::Made);
        create(&mut store).unwrap();
        let id: GroupId = "g1".parse().unwrap();
        let outcome = change(&mut store, &because("wrong"), |found| {
            let mut document = usable(found)?.clone();
            document.groups.get_mut(&id).unwrap().members.clear();
            Ok(NextDocument::Write(document))
        });
        assert!(outcome.unwrap_err().to_string().starts_with("the document would be wrong"));
    }
}
