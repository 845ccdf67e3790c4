//! The account of two queues and of all clients that work on them.
//!
//! * `q:l0`: producers push, often while a pop waits; consumers pop with `BRPOP`. An element may be gone if a pop was
//!   in progress when the server died: it was delivered, but the consumer did not get the reply. Each such pop accounts
//!   for at most one element.
//! * `q:l1`: consumers move elements to a list of their own (`BLMOVE`), and remove them there when they are done. No
//!   element that was pushed may be gone before a client sent the request to remove it.
//!
//! No element may be there twice, or again after its consumer had got it, or without having been pushed.

use std::collections::{BTreeMap, BTreeSet};

use super::found::Found;
use super::model::Bytes;
use super::moment::{Crash, Moment, Span};

/// The database of the queues.
pub(crate) const DB: u32 = 0;
/// The queue from which elements are popped.
pub const POPPED: &str = "q:l0";
/// The queue from which elements are moved.
pub const MOVED: &str = "q:l1";

/// An operation of a client on a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Doing {
    /// Pushed elements to its head, atomically.
    Push(Vec<Bytes>),
    /// Popped an element from its tail, or moved one to a list of its own. The element, if the reply has arrived.
    Take(Option<Bytes>),
    /// Removed an element from a list of its own.
    Finish(Bytes),
}

/// A client that works on a queue.
#[derive(Debug)]
pub struct Worker {
    /// Prefix of its elements, and part of the name of its own list.
    pub name: String,
    /// The key of its queue.
    pub queue: &'static str,
    /// Number of elements that it has made.
    pub number: u64,
    /// Elements that it has moved and not finished.
    pub held: Vec<Bytes>,
    /// Its operations so far.
    pub history: Vec<(Doing, Span)>,
}

impl Worker {
    /// A worker that has done nothing yet.
    pub fn new(name: &str, queue: &'static str) -> Worker {
        Worker { name: name.to_owned(), queue, number: 0, held: Vec::new(), history: Vec::new() }
    }

    /// The list to which it moves elements.
    pub fn own_list(&self) -> String {
        format!("q:{}:l", self.name)
    }
}

/// The known events of an element.
#[derive(Clone, Copy, Default, Debug)]
struct Life {
    /// When it was pushed; `None` if it was there at the start.
    pushed: Option<Span>,
    /// When it was removed for good: popped or finished.
    gone: Option<Span>,
}

/// The events that a crash kept and lost, for the comparison with other clients.
#[derive(Default, Debug)]
pub(crate) struct Evidence {
    /// When events were sent that survived.
    pub(crate) kept_sent: Vec<Moment>,
    /// When events were acknowledged that were lost.
    pub(crate) lost_acked: Vec<Moment>,
}

/// A queue with its workers.
#[derive(Debug)]
pub struct Queue {
    /// Its key.
    pub key: &'static str,
    /// Its elements at the start, including those in lists of workers.
    base: BTreeSet<Bytes>,
    /// Its workers.
    pub workers: Vec<Worker>,
}

impl Queue {
    /// An empty queue.
    pub fn new(key: &'static str, names: &[&str]) -> Queue {
        let workers = names.iter().map(|name| Worker::new(name, key)).collect();
        Queue { key, base: BTreeSet::new(), workers }
    }

    fn is_popped(&self) -> bool {
        self.key == POPPED
    }

    /// The elements in the queue and in the lists of its workers.
    fn elements(&self, found: &Found) -> Vec<Bytes> {
        let lists = self.workers.iter().map(Worker::own_list).chain([self.key.to_owned()]);
        lists.flat_map(|key| found.list(DB, &key)).collect()
    }

    /// Every element that may exist.
    fn lives(&self, crash: Crash) -> BTreeMap<Bytes, Life> {
        let mut lives: BTreeMap<Bytes, Life> =
            self.base.iter().map(|element| (element.clone(), Life::default())).collect();
        let events = self.workers.iter().flat_map(|worker| &worker.history);
        for (doing, span) in events.clone().filter(|(_, span)| span.may_be(crash)) {
            if let Doing::Push(elements) = doing {
                for element in elements {
                    lives.insert(element.clone(), Life { pushed: Some(*span), gone: None });
                }
            }
        }
        for (doing, span) in events.filter(|(_, span)| span.may_be(crash)) {
            let gone = match doing {
                Doing::Take(Some(element)) if self.is_popped() && span.was_acked(crash) => element,
                Doing::Finish(element) => element,
                _ => continue,
            };
            if let Some(life) = lives.get_mut(gone) {
                life.gone = Some(*span);
            }
        }
        lives
    }

    /// Checks for elements that are missing, duplicated, there again, or invented.
    pub(crate) fn check(&self, found: &Found, crash: Crash) -> Result<Evidence, String> {
        let elements = self.elements(found);
        let there: BTreeSet<&Bytes> = elements.iter().collect();
        if there.len() < elements.len() {
            return Err(format!("{}: elements are there twice: {}", self.key, repeated(&elements)));
        }
        let lives = self.lives(crash);
        if let Some(element) = there.iter().find(|element| !lives.contains_key(**element)) {
            return Err(format!("{}: {} was not pushed by anybody", self.key, text(element)));
        }
        self.check_order(found)?;
        self.check_whole(&there, crash)?;
        let mut evidence = Evidence::default();
        let mut missing = Vec::new();
        for (element, life) in &lives {
            let is_there = there.contains(element);
            match life.gone {
                Some(gone) if is_there && gone.must_be(crash) => {
                    let what = if self.is_popped() { "was popped" } else { "was removed" };
                    return Err(format!("{}: {} {what}, and it is there again", self.key, text(element)));
                }
                Some(gone) if is_there => {
                    evidence.lost_acked.extend(gone.acked.filter(|_| gone.was_acked(crash)));
                }
                Some(gone) if life.pushed.is_none_or(|pushed| pushed.must_be(crash)) => {
                    evidence.kept_sent.push(gone.sent);
                }
                Some(_) => {}
                None if !is_there && life.pushed.is_none_or(|pushed| pushed.was_acked(crash)) => {
                    missing.push((life.pushed.and_then(|pushed| pushed.acked).unwrap_or(0), *life, element));
                }
                None => {}
            }
            if is_there {
                evidence.kept_sent.extend(life.pushed.map(|pushed| pushed.sent));
            }
        }
        missing.sort_by_key(|(acked, ..)| *acked);
        let excused = if self.is_popped() { self.open_pops(crash) } else { 0 };
        for (acked, life, element) in missing.into_iter().skip(excused) {
            if life.pushed.is_none_or(|pushed| pushed.must_be(crash)) {
                let (element, key) = (text(element), self.key);
                return Err(format!(
                    "{key}: {element} is lost, whose push was acknowledged ({acked}); {excused} pops were under way"
                ));
            }
            evidence.lost_acked.push(acked);
        }
        Ok(evidence)
    }

    /// Number of pops in progress. Each may have taken an element.
    fn open_pops(&self, crash: Crash) -> usize {
        let events = self.workers.iter().flat_map(|worker| &worker.history);
        events.filter(|(doing, span)| matches!(doing, Doing::Take(_)) && span.is_open(crash)).count()
    }

    /// Checks that the elements of each producer are in the order in which it pushed them.
    fn check_order(&self, found: &Found) -> Result<(), String> {
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        // From the tail, where the oldest elements are.
        for element in found.list(DB, self.key).iter().rev() {
            let (producer, number) = parsed(element);
            if let Some(before) = last.insert(producer, number).filter(|before| *before > number) {
                return Err(format!("{}: {} lies behind number {before}", self.key, text(element)));
            }
        }
        Ok(())
    }

    /// Checks that elements that were pushed together are there together, unless some were taken. The first ones are
    /// taken first.
    fn check_whole(&self, there: &BTreeSet<&Bytes>, crash: Crash) -> Result<(), String> {
        // Elements in the lists of workers are finished in any order.
        if !self.is_popped() {
            return Ok(());
        }
        let events = self.workers.iter().flat_map(|worker| &worker.history);
        for (doing, _) in events.filter(|(_, span)| span.is_open(crash)) {
            let Doing::Push(elements) = doing else { continue };
            let present: Vec<bool> = elements.iter().map(|element| there.contains(element)).collect();
            if present.windows(2).any(|pair| pair[0] && !pair[1]) {
                let shown: Vec<String> = elements.iter().map(text).collect();
                return Err(format!("{}: of a push of {shown:?} only {present:?} are there", self.key));
            }
        }
        Ok(())
    }

    /// Continues from the data that was found.
    pub(crate) fn adopt(&mut self, found: &Found) {
        self.base = self.elements(found).into_iter().collect();
        for worker in &mut self.workers {
            worker.held = found.list(DB, &worker.own_list());
            worker.history.clear();
        }
    }
}

/// Parses `producer-number-padding`.
fn parsed(element: &Bytes) -> (String, u64) {
    let text = String::from_utf8_lossy(element);
    let mut parts = text.split('-');
    let producer = parts.next().unwrap_or_default().to_owned();
    (producer, parts.next().and_then(|number| number.parse().ok()).unwrap_or(0))
}

fn text(element: &Bytes) -> String {
    String::from_utf8_lossy(&element[..element.len().min(40)]).into_owned()
}

fn repeated(elements: &[Bytes]) -> String {
    let mut met = BTreeSet::new();
    elements.iter().filter(|element| !met.insert(*element)).map(text).collect::<Vec<_>>().join(", ")
}
