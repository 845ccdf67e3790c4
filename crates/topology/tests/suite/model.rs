//! The model of etcd: without faults it keeps the contract; with all of them, what is certain stays certain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proactor::Entropy;
use topology::model::{Faults, Model, ModelReply, ModelRequest};
use topology::{Document, Error, Life, Reading, Revision, Store, Swap, Unsettled};

use crate::contract::{Subject, check};
use crate::{change_surely, document, done, found, next_term, simulated_time, why};

fn model(seed: u64, faults: Faults) -> (Model, Arc<AtomicU64>) {
    (Model::new(Entropy::from_seed(seed), faults), Arc::default())
}

#[test]
fn keeps_the_contract() {
    let (model, now_ns) = model(1, Faults::none());
    let store = || {
        let watch_now = now_ns.clone();
        model.store(simulated_time(&now_ns)).with_watch_time(move || simulated_time(&watch_now))
    };
    let (mut one, mut other) = (store(), store());
    let mut write_unchecked = |text: &str| assert!(model.write_unchecked(text) > Revision::NONE);
    check(&mut Subject { one: &mut one, other: &mut other, write_unchecked: &mut write_unchecked });
}

/// The certain knowledge of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Made(Revision),
    NotMade,
    Open,
}

/// A user with one request under way.
#[derive(Default)]
struct User {
    call: Option<(topology::model::ModelCall, Option<usize>)>,
    reading: Option<Reading>,
    unsettled: Option<(Unsettled, usize)>,
}

/// Users at random on a store with all faults.
struct Run {
    entropy: Entropy,
    model: Model,
    now_ns: u64,
    users: Vec<User>,
    /// Each change that was sent: on which revision, the text, and what is known of it.
    changes: Vec<(Revision, String, Fate)>,
    /// Each revision of the document that was read, and its text.
    seen: BTreeMap<Revision, String>,
    /// The highest revision that anyone knows of.
    known: Revision,
    settled: u64,
    late: u64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut entropy = Entropy::from_seed(seed);
        let (model, _) = model(entropy.next_u64(), Faults::often());
        model.write_unchecked(&document().encode());
        let users = (0..3).map(|_| User::default()).collect();
        let (changes, seen) = (Vec::new(), BTreeMap::new());
        Run { entropy, model, now_ns: 0, users, changes, seen, known: Revision(0), settled: 0, late: 0 }
    }

    fn step(&mut self) {
        let step_ns = 1 << self.entropy.below(35);
        self.now_ns += self.entropy.below(step_ns) + 1;
        if self.entropy.one_in(50) {
            let is_away = self.entropy.one_in(2);
            self.model.set_away(is_away);
        }
        let at = self.entropy.below(self.users.len() as u64) as usize;
        match self.users[at].call {
            None => self.send(at),
            Some((call, change)) => {
                if let Some(reply) = self.model.answer(self.now_ns, call) {
                    self.users[at].call = None;
                    self.hear(at, reply, change);
                }
            }
        }
    }

    fn send(&mut self, at: usize) {
        let (request, change) = match self.users[at].reading.clone() {
            Some(on) if self.entropy.one_in(2) => {
                let next = if self.entropy.one_in(2) { next_term(found(&on)) } else { found(&on).clone() };
                let text = next.encode();
                self.changes.push((on.revision, text.clone(), Fate::Open));
                (
                    ModelRequest::Swap {
                        on: on.revision,
                        text,
                        why: why(&format!("change {}", self.changes.len() - 1)),
                    },
                    Some(self.changes.len() - 1),
                )
            }
            _ => (ModelRequest::Read, None),
        };
        self.users[at].call = Some((self.model.send(self.now_ns, request), change));
    }

    fn hear(&mut self, at: usize, reply: ModelReply, change: Option<usize>) {
        match (reply, change) {
            (ModelReply::Read(Ok(reading)), None) => self.learn(at, reading),
            (ModelReply::Read(Err(_)), None) => {}
            (ModelReply::Swap(Swap::Done(made)), Some(change)) => {
                let (on, text, fate) = &mut self.changes[change];
                assert!(made > *on);
                *fate = Fate::Made(made);
                let text = text.clone();
                self.note(made, text);
            }
            (ModelReply::Swap(Swap::Lost(current)), Some(change)) => {
                self.changes[change].2 = Fate::NotMade;
                assert_ne!(current.revision, self.changes[change].0);
                self.learn(at, current);
            }
            (ModelReply::Swap(Swap::NotDone(_)), Some(change)) => self.changes[change].2 = Fate::NotMade,
            (ModelReply::Swap(Swap::Unknown(unsettled)), Some(change)) => {
                self.users[at].unsettled = Some((unsettled, change));
            }
            (reply, change) => panic!("{reply:?} to {change:?}"),
        }
    }

    fn learn(&mut self, at: usize, reading: Reading) {
        let text = found(&reading).encode();
        self.note(reading.revision, text);
        if let Some((unsettled, change)) = self.users[at].unsettled.take() {
            match unsettled.settle(&reading) {
                Ok(()) => self.settled += 1,
                Err(unsettled) => self.users[at].unsettled = Some((unsettled, change)),
            }
        }
        self.users[at].reading = Some(reading);
    }

    /// A revision has one text, for everyone and for ever.
    fn note(&mut self, revision: Revision, text: String) {
        let before = self.seen.entry(revision).or_insert_with(|| text.clone());
        assert_eq!(*before, text, "two documents have revision {revision}");
        self.known = self.known.max(revision);
    }

    /// All that was certain is true at the end, when everything that was under way has been carried out.
    fn check(&mut self) {
        self.model.set_away(false);
        let mut store = self.model.store(simulated_time(&Arc::new(AtomicU64::new(u64::MAX / 2))));
        self.model.set_faults(Faults::none());
        let log = store.log(usize::MAX).unwrap();
        let replaced: BTreeSet<Revision> = log.iter().map(|entry| entry.on).collect();
        assert_eq!(replaced.len(), log.len(), "two changes were made on one revision");
        let made: BTreeMap<&str, Revision> = log.iter().map(|entry| (entry.why.text(), entry.made)).collect();
        for (number, (_, text, fate)) in self.changes.iter().enumerate() {
            let truth = made.get(format!("change {number}").as_str());
            match fate {
                Fate::Made(revision) => assert_eq!(truth, Some(revision), "a change was lost"),
                Fate::NotMade => assert_eq!(truth, None, "a change was made all the same"),
                Fate::Open => self.late += u64::from(truth.is_some()),
            }
            if let Some(seen) = truth.and_then(|revision| self.seen.get(revision)) {
                assert_eq!(seen, text);
            }
        }
        assert!(store.read().unwrap().revision >= self.known, "the store went back");
    }
}

#[test]
fn certain_outcomes_are_certain_in_spite_of_all_faults() {
    let (mut settled, mut late) = (0, 0);
    for seed in 0..300 {
        let mut run = Run::new(seed);
        for _ in 0..400 {
            run.step();
        }
        run.check();
        settled += run.settled;
        late += run.late;
    }
    assert!(settled > 100 && late > 100, "unknown outcomes occur: {settled} settled, {late} made");
}

/// The mistake that `Unsettled` prevents: to read the old revision, and to conclude that the change failed.
#[test]
fn an_error_is_carried_out_after_the_old_revision_was_read() {
    let is_made_late = |seed| {
        let faults = Faults { hang_one_in: 1, ..Faults::none() };
        let (model, now_ns) = model(seed, Faults::none());
        model.write_unchecked(&document().encode());
        let mut store = model.store(simulated_time(&now_ns));
        let on = store.read().unwrap();
        model.set_faults(faults);
        let swap = store.compare_and_swap(&on, &next_term(found(&on)), &why("takeover"));
        let Swap::Unknown(unsettled) = swap else { panic!("{swap:?}") };
        model.set_faults(Faults::none());
        let again = store.read().unwrap();
        if again.revision != on.revision {
            return false;
        }
        let Err(_still) = unsettled.settle(&again) else { panic!("the old revision tells nothing") };
        now_ns.store(u64::MAX / 2, Ordering::SeqCst);
        store.read().unwrap().revision != on.revision
    };
    assert!((0..20).any(is_made_late));
}

/// `settle` ends in a reading that tells, in spite of all faults, and the change is not made after it.
#[test]
fn an_unknown_outcome_is_settled_for_good() {
    let (mut made, mut prevented) = (0, 0);
    for seed in 0..200 {
        let (model, now_ns) = model(seed, Faults::none());
        model.write_unchecked(&document().encode());
        let mut store = model.store(simulated_time(&now_ns));
        let on = store.read().unwrap();
        model.set_faults(Faults { hang_one_in: 2, ..Faults::often() });
        let next = next_term(found(&on));
        let mut open = match store.compare_and_swap(&on, &next, &why("takeover")) {
            Swap::Unknown(unsettled) => unsettled,
            Swap::Done(_) | Swap::Lost(_) | Swap::NotDone(_) => continue,
        };
        let told = loop {
            match store.settle(open, &why("settle")) {
                Ok(told) => break told,
                Err(unsettled) => open = unsettled,
            }
        };
        let is_made = found(&told) == &next;
        made += u64::from(is_made);
        prevented += u64::from(!is_made);
        // Everything that was under way arrives.
        model.set_faults(Faults::none());
        now_ns.store(u64::MAX / 2, Ordering::SeqCst);
        assert_eq!(found(&store.read().unwrap()) == &next, is_made, "seed {seed}");
    }
    assert!(made > 10 && prevented > 10, "{made} made, {prevented} prevented");
}

#[test]
fn a_restored_store_is_refused_with_the_same_id() {
    let (model, now_ns) = model(3, Faults::none());
    let mut store = model.store(simulated_time(&now_ns));
    let nothing = store.read().unwrap();
    done(store.compare_and_swap(&nothing, &document(), &why("create")));
    model.back_up();
    change_surely(&mut store, next_term);
    model.restore();
    assert!(matches!(store.read(), Err(Error::WentBack { .. })));
    // A node that starts now sees nothing wrong but the revision that it kept.
    let mut later = model.store(simulated_time(&now_ns)).with_history(store.history());
    assert!(matches!(later.read(), Err(Error::WentBack { .. })));
    assert!(model.store(simulated_time(&now_ns)).read().is_ok());
}

#[test]
fn a_full_store_may_have_made_the_change_that_it_refused() {
    let (model, now_ns) = model(4, Faults::none());
    let mut store = model.store(simulated_time(&now_ns));
    let nothing = store.read().unwrap();
    done(store.compare_and_swap(&nothing, &document(), &why("create")));
    model.set_full(true);
    let on = store.read().unwrap();
    let swap = store.compare_and_swap(&on, &next_term(found(&on)), &why("takeover"));
    assert!(matches!(swap, Swap::Unknown(_)), "{swap:?}");
    assert_ne!(store.read().unwrap().revision, on.revision, "it was made");
    let on = store.read().unwrap();
    let swap = store.compare_and_swap(&on, &next_term(found(&on)), &why("takeover"));
    assert!(matches!(swap, Swap::Unknown(_)), "{swap:?}");
    assert_eq!(store.read().unwrap().revision, on.revision);
}

#[test]
fn nothing_is_heard_while_it_is_away_and_it_comes_back() {
    let (model, now_ns) = model(5, Faults::none());
    let mut store = model.store(simulated_time(&now_ns));
    let nothing = store.read().unwrap();
    done(store.compare_and_swap(&nothing, &document(), &why("create")));
    model.set_away(true);
    assert!(matches!(store.read(), Err(Error::TimedOut { .. })));
    assert!(store.prove_dead(Life(1), &why("gone")).is_err());
    model.set_away(false);
    store.prove_dead(Life(1), &why("gone")).unwrap();
    let reading: Document = found(&store.read().unwrap()).clone();
    assert_eq!(reading, document());
}

#[test]
fn announcements_end_and_are_only_hints() {
    let (model, now_ns) = model(6, Faults::none());
    let mut store = model.store(simulated_time(&now_ns));
    let ours = crate::contract::announcement("a", 0xaa);
    store.announce(&ours).unwrap();
    assert_eq!(store.live_nodes().unwrap(), std::slice::from_ref(&ours));
    now_ns.fetch_add(11_000_000_000, Ordering::SeqCst);
    assert!(store.live_nodes().unwrap().is_empty());
    // etcd may answer that it has renewed what is gone, and may keep what is not renewed.
    model.set_faults(Faults { wrong_lease_one_in: 2, ..Faults::none() });
    let (mut lost, mut stayed) = (false, false);
    for _ in 0..100 {
        store.announce(&ours).unwrap();
        let is_renewed = store.announce(&ours).is_ok();
        lost |= is_renewed && store.live_nodes().unwrap().is_empty();
        now_ns.fetch_add(11_000_000_000, Ordering::SeqCst);
        stayed |= !store.live_nodes().unwrap().is_empty();
    }
    assert!(lost && stayed);
}
