//! The locks in a history: which jobs have them when.

use std::collections::BTreeMap;

use super::{Call, Deed, Job, Rules};
use crate::account::Moment;

/// A lock of a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lock {
    /// Its name.
    pub name: String,
    /// The longest time for which a job has it, in nanoseconds.
    pub time: Option<Moment>,
}

/// A job that was put with a lock.
struct Put<'h> {
    id: &'h str,
    queue: &'h str,
    lock: &'h Lock,
    /// The job that has the lock according to the reply.
    holder: Option<&'h str>,
    call: &'h Call,
}

impl Put<'_> {
    /// The time during which the job surely has its lock.
    fn has_surely(&self, job: &Job<'_>) -> Option<(Moment, Moment)> {
        let given = job.gives.iter().map(|give| give.answered).min();
        let from = self.call.answered.or(given)?;
        let over = self.lock.time.map_or(Moment::MAX, |time| self.call.sent + time);
        Some((from, over.min(job.ends_at_the_earliest().unwrap_or(Moment::MAX))))
    }

    /// The time from which the job surely no longer has its lock.
    fn has_lost(&self, job: &Job<'_>) -> Moment {
        let time = self.lock.time.zip(self.call.answered);
        let over = time.map_or(Moment::MAX, |(time, answered)| answered.saturating_add(time));
        over.min(job.dones().min().unwrap_or(Moment::MAX))
    }
}

/// The faults of the locks. Jobs with a lock never expire.
pub(super) fn complaints(history: &[Call], jobs: &BTreeMap<&str, Job<'_>>, rules: &Rules) -> Vec<String> {
    let mut puts: BTreeMap<(&str, &str), Vec<Put<'_>>> = BTreeMap::new();
    for call in history {
        if let Deed::Put { id, queue, lock: Some(lock), holder, .. } = &call.deed {
            let put = Put { id, queue, lock, holder: holder.as_deref(), call };
            puts.entry((queue, &lock.name)).or_default().push(put);
        }
    }
    puts.values().flat_map(|puts| of_lock(puts, jobs, rules)).collect()
}

/// The faults of one lock.
fn of_lock(puts: &[Put<'_>], jobs: &BTreeMap<&str, Job<'_>>, rules: &Rules) -> Vec<String> {
    let mut complaints = Vec::new();
    let got = || puts.iter().filter(|put| put.holder.is_none());
    for put in puts {
        let Some(answered) = put.call.answered else { continue };
        let name = &put.lock.name;
        let Some(holder) = put.holder else {
            let has = |other: &&Put<'_>| {
                let surely = jobs.get(other.id).and_then(|job| other.has_surely(job));
                let holds = |(from, to)| from < put.call.sent && answered + rules.slack < to;
                other.id != put.id && surely.is_some_and(holds)
            };
            let other = got().find(has);
            complaints
                .extend(other.map(|other| format!("{} got the lock {name}, which {} had", put.id, other.id)));
            continue;
        };
        let may_have = |other: &Put<'_>| {
            let lost = jobs.get(other.id).map_or(Moment::MAX, |job| other.has_lost(job));
            other.call.sent < answered && put.call.sent < lost.saturating_add(rules.slack)
        };
        if !got().any(|other| other.id == holder && may_have(other)) {
            let queue = put.queue;
            complaints.push(format!(
                "{} was refused for the lock {name} of {queue}, which {holder} had not",
                put.id
            ));
        }
    }
    complaints
}
