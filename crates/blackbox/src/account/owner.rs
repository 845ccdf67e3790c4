//! The account of a client that has keys of its own.
//!
//! The account has every state of the client's keys, one after each step. After a crash they must be in one of those
//! states: at or after the last step that had to survive, and at or before the last one that was sent. So nothing
//! acknowledged is lost, nothing is torn, and nothing is there that was never sent.

use std::collections::BTreeSet;

use super::deed::Deed;
use super::found::Found;
use super::model::{Contents, Model, shown};
use super::moment::{Crash, Moment, Span};
use super::plan::{Planner, Step};

/// Most keys that a complaint shows.
const KEYS_SHOWN: usize = 6;

/// One client's account.
#[derive(Debug)]
pub struct Owner {
    /// Prefix of its keys.
    pub name: String,
    /// The database of its keys.
    pub db: u32,
    /// Most steps that it sends before it reads a reply.
    pub window: usize,
    /// Makes its steps.
    pub planner: Planner,
    /// The contents of its keys at the start.
    base: Model,
    /// Its steps since the start.
    pub history: Vec<(Step, Span)>,
}

/// The step up to which a crash has kept the changes, and what is needed to compare that with other clients.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cut {
    /// When the last step was sent that certainly survived.
    pub(crate) last_kept_sent: Option<Moment>,
    /// When the first step was acknowledged that was certainly lost.
    pub(crate) first_lost_acked: Option<Moment>,
    /// The state that was found, as the number of steps before it.
    pub(crate) steps: usize,
}

impl Owner {
    /// An empty account of client `name`.
    pub fn new(name: &str, db: u32, window: usize, flushes: bool) -> Owner {
        let planner = Planner::new(name, flushes);
        Owner { name: name.to_owned(), db, window, planner, base: Model::new(), history: Vec::new() }
    }

    /// Determines which of its states was found.
    pub(crate) fn check(&self, found: &Found, crash: Crash) -> Result<Cut, String> {
        let ceiling = self.history.iter().take_while(|(_, span)| span.may_be(crash)).count();
        let floor = self.history.iter().take_while(|(_, span)| span.must_be(crash)).count();
        let mut comparison = Comparison::new(self, found);
        let mut matching = Vec::new();
        let mut nearest = (usize::MAX, 0);
        for steps in 0..=ceiling {
            if steps > 0 {
                comparison.advance(&self.history[steps - 1].0);
            }
            if comparison.differing.is_empty() {
                matching.push(steps);
            }
            if steps >= floor && comparison.differing.len() < nearest.0 {
                nearest = (comparison.differing.len(), steps);
            }
        }
        let allowed: Vec<usize> = matching.iter().copied().filter(|steps| *steps >= floor).collect();
        match (allowed.first(), allowed.last()) {
            (Some(first), Some(last)) => Ok(Cut {
                last_kept_sent: first.checked_sub(1).map(|step| self.history[step].1.sent),
                first_lost_acked: self
                    .history
                    .get(*last)
                    .and_then(|(_, span)| span.acked.filter(|_| span.was_acked(crash))),
                steps: *last,
            }),
            _ => Err(self.complaint(found, floor, ceiling, matching.last().copied(), nearest.1)),
        }
    }

    fn complaint(
        &self,
        found: &Found,
        floor: usize,
        ceiling: usize,
        matching: Option<usize>,
        nearest: usize,
    ) -> String {
        let name = &self.name;
        if let Some(steps) = matching {
            let lost: Vec<String> = self.history[steps..floor]
                .iter()
                .take(KEYS_SHOWN)
                .map(|(step, span)| shown_step(step, *span))
                .collect();
            return format!(
                "{name}: {} acknowledged steps are lost: found is the state after {steps}, {floor} must be there. \
                 The first lost:\n    {}",
                floor - steps,
                lost.join("\n    ")
            );
        }
        let mut comparison = Comparison::new(self, found);
        self.history[..nearest].iter().for_each(|(step, _)| comparison.advance(step));
        let keys: Vec<String> = comparison
            .differing
            .iter()
            .take(KEYS_SHOWN)
            .map(|key| {
                let found = shown(found.get(self.db, key));
                format!("{key}:\n      expected {}\n      found    {found}", shown(comparison.model.get(key)))
            })
            .collect();
        let from = nearest.saturating_sub(1);
        let steps: Vec<String> = self.history[from..ceiling.min(from + KEYS_SHOWN)]
            .iter()
            .map(|(step, span)| shown_step(step, *span))
            .collect();
        format!(
            "{name}: its keys are in a state that it never made, or one older than {floor} steps, \
             which must be there. Nearest is the state after {nearest} of {ceiling} steps, but for\n    {}\n  \
             its steps from there:\n    {}",
            keys.join("\n    "),
            steps.join("\n    ")
        )
    }

    /// Continues from the data that was found, which was the state after `cut.steps` steps.
    pub(crate) fn adopt(&mut self, found: &Found, cut: Cut) {
        let mut model = std::mem::take(&mut self.base);
        self.history[..cut.steps].iter().for_each(|(step, _)| step.apply(&mut model));
        model.retain(|key, _| found.get(self.db, key).is_some());
        self.planner.resume(&model);
        self.base = model;
        self.history.clear();
    }
}

/// Compares a client's model with what was found, step by step.
struct Comparison<'a> {
    owner: &'a Owner,
    found: &'a Found,
    model: Model,
    /// Keys whose contents differ from what was found.
    differing: BTreeSet<String>,
}

impl<'a> Comparison<'a> {
    fn new(owner: &'a Owner, found: &'a Found) -> Comparison<'a> {
        let model = owner.base.clone();
        let mut comparison = Comparison { owner, found, model, differing: BTreeSet::new() };
        comparison.compare_all();
        comparison
    }

    fn compare_all(&mut self) {
        let prefix = format!("{}:", self.owner.name);
        let there = self.found.databases.get(&self.owner.db).into_iter().flat_map(|model| model.keys());
        let there = there.filter(|key| key.starts_with(&prefix));
        // Also those that differed: they may now be in neither.
        let keys: BTreeSet<String> = there.chain(self.model.keys()).chain(&self.differing).cloned().collect();
        keys.iter().for_each(|key| self.compare(key));
    }

    fn advance(&mut self, step: &Step) {
        step.apply(&mut self.model);
        for deed in &step.deeds {
            if *deed == Deed::Flush {
                self.compare_all();
            }
            deed.keys().into_iter().for_each(|key| self.compare(key));
        }
    }

    fn compare(&mut self, key: &str) {
        let found = self.found.get(self.owner.db, key);
        if agrees(self.model.get(key), found, self.found.read_ms) {
            self.differing.remove(key);
        } else {
            self.differing.insert(key.to_owned());
        }
    }
}

/// Whether a key has the expected contents, given when it was read.
fn agrees(expected: Option<&Contents>, found: Option<&Contents>, read_ms: (u64, u64)) -> bool {
    match (expected, found) {
        (None, None) => true,
        (None, Some(_)) => false,
        (Some(expected), None) => expected.expires_at.is_some_and(|at| at <= read_ms.1),
        (Some(expected), Some(found)) => {
            expected == found && found.expires_at.is_none_or(|at| at >= read_ms.0)
        }
    }
}

fn shown_step(step: &Step, span: Span) -> String {
    let deeds: Vec<String> = step
        .deeds
        .iter()
        .map(|deed| {
            let words = deed.request();
            let words: Vec<String> = words
                .iter()
                .map(|word| String::from_utf8_lossy(&word[..word.len().min(30)]).into_owned())
                .collect();
            words.join(" ")
        })
        .collect();
    let acked = span.acked.map_or("never acknowledged".to_owned(), |acked| format!("acknowledged {acked}"));
    format!("{:?} [{}] sent {}, {acked}", step.form, deeds.join("; "), span.sent)
}
