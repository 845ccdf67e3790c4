//! Histories of jobs: the calls that clients made with `JOB.PUT`, `JOB.TAKE` and their relatives, with the replies.
//! [`check`] decides whether a server that behaves as `docs/jobs.md` says can have given these replies.
//!
//! ```text
//!   call     sent ├───────────┤ answered      it took effect at one moment in between, or, without an answer, at any later one, or never
//!   lease             ├╌╌╌├━━━━━━━━━━━┤╌╌╌┤   held surely from the answer until its time is over since it was sent,
//!                                             or until a call was sent that may end it
//! ```
//!
//! [`check`] complains only of facts that no order of these moments explains:
//! * two workers hold a lease of a job at once, or an attempt has the number of another one;
//! * attempts have numbers that no worker can have got, or more of them than the job may have;
//! * a job is done twice, comes again after it was done, or is no longer the worker's though its lease goes on;
//! * a call about one attempt is heeded while another one goes on;
//! * an acknowledged job is nowhere, or is there after it was done, or in two states, or a job was never put;
//! * two jobs have a lock at once, or a job is refused for a lock that no job can have;
//! * a later job of a queue is first taken before an earlier one, or a queue is served while one that stands before it has jobs;
//! * more jobs are active, or taken in a time, than the limit of the queue allows.
//!
//! A job is known by its id, which no other job of the history has. If a call names no attempt, the server goes by
//! the id alone: the worker that ends the job need not be the one that has it.

mod job;
mod lock;
mod servers;
mod taken;
#[cfg(test)]
mod tests;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use crate::account::Moment;
use crate::client::text;
use job::Job;
pub use lock::Lock;
use resp::Value;
pub use servers::Survivor;
pub use taken::{Named, Taken, taken};
pub use work::{Lives, Plan};

/// A call of a client, with its reply.
#[derive(Clone, Debug)]
pub struct Call {
    /// Before it was sent.
    pub sent: Moment,
    /// After the reply was read; `None` if no reply came.
    pub answered: Option<Moment>,
    /// The operation.
    pub deed: Deed,
}

/// An operation on jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Deed {
    /// A job was put.
    Put {
        /// Where.
        queue: String,
        /// Its id.
        id: String,
        /// The attempts that it has.
        tries: u64,
        /// The job is delayed.
        is_delayed: bool,
        /// The lock that it is to have.
        lock: Option<Lock>,
        /// The reply says that this job, and not the new one, has the lock.
        holder: Option<String>,
    },
    /// Jobs were asked for.
    Take {
        /// The queues, the first of which is to be served first.
        queues: Vec<String>,
        /// How long the leases are, in nanoseconds.
        lease: Moment,
        /// The most jobs that it may have got.
        count: u64,
        /// The jobs of the reply.
        got: Vec<Taken>,
    },
    /// A call named a job by its id.
    Say {
        /// What.
        what: About,
        /// The job.
        id: String,
        /// The attempt, if the call named one.
        attempt: Option<u64>,
        /// The reply says that it was active, or else that it was there.
        was_active: bool,
    },
}

impl Deed {
    /// Records the reply.
    pub fn hear(&mut self, reply: &Value) {
        match self {
            Deed::Put { id, holder, .. } => *holder = Some(text(reply)).filter(|other| other != id),
            Deed::Take { got, .. } => *got = taken(reply),
            Deed::Say { was_active, .. } => {
                *was_active = !matches!(reply, Value::Int(0) | Value::Null | Value::NullArray);
            }
        }
    }
}

/// An operation on a job that is active, or was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum About {
    /// `JOB.DONE`
    Done,
    /// `JOB.FAIL`
    Fail,
    /// `JOB.RELEASE`
    Release,
    /// `JOB.KEEP … ID`, for this many nanoseconds.
    Keep(Moment),
    /// `JOB.RETRY`, of one that is dead or delayed. Its attempts begin from 1 again.
    Retry,
}

/// The limits of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Limits {
    /// Active jobs.
    pub active: Option<usize>,
    /// Takes within this many nanoseconds.
    pub rate: Option<(usize, Moment)>,
}

/// The facts that the history does not contain.
#[derive(Clone, Default, Debug)]
pub struct Rules {
    /// By how much the server's clock, which it reads now and then, may be behind.
    pub slack: Moment,
    /// The prefix of the ids of a schedule's jobs; the time in ms follows. It pushes at most one in a second.
    pub made: Option<String>,
    /// The limits of queues, which never change.
    pub limits: BTreeMap<String, Limits>,
}

/// The jobs that are left at the end.
#[derive(Clone, Default, Debug)]
pub struct Left {
    /// The waiting jobs.
    pub waiting: BTreeSet<String>,
    /// The dead jobs.
    pub dead: BTreeSet<String>,
}

/// The faults of a history at whose end these jobs were there.
pub fn check(history: &[Call], left: &Left, rules: &Rules) -> Vec<String> {
    let jobs = job::lives(history);
    let mut complaints = Vec::new();
    for (id, job) in &jobs {
        complaints.extend(job.complaints(id, rules));
        complaints.extend(end(id, job, left, rules));
    }
    let strangers = left.waiting.iter().chain(&left.dead).filter(|id| !jobs.contains_key(id.as_str()));
    let is_made = |id: &str| rules.made.as_ref().is_some_and(|made| id.starts_with(made));
    complaints
        .extend(strangers.filter(|id| !is_made(id)).map(|id| format!("nobody put {id}, which is there")));
    complaints.extend(rules.made.iter().flat_map(|prefix| pushed_twice(history, left, prefix)));
    complaints.extend(missing_attempts(history, &jobs));
    complaints.extend(lock::complaints(history, &jobs, rules));
    complaints.extend(order(history, &jobs, left, rules));
    for (queue, limits) in &rules.limits {
        complaints.extend(limit(queue, *limits, &jobs, rules));
    }
    complaints
}

/// Where a job is at the end.
fn end(id: &str, job: &Job<'_>, left: &Left, rules: &Rules) -> Option<String> {
    let (waits, is_dead) = (left.waiting.contains(id), left.dead.contains(id));
    let is_made = rules.made.as_ref().is_some_and(|made| id.starts_with(made));
    let [was_done, may_be_done] = [job.was_done(), job.may_be_done()];
    match () {
        () if job.put.is_none() && !is_made => Some(format!("nobody put {id}, which was given")),
        () if waits && is_dead => Some(format!("{id} waits and is dead")),
        () if was_done && (waits || is_dead) => Some(format!("{id} was done, and is there")),
        () if waits || is_dead || may_be_done => None,
        // A job that was given has been put, even if its producer got no reply.
        () if job.gives.is_empty() && job.put.is_none_or(|put| put.answered.is_none()) => None,
        () => Some(format!("{id} is lost")),
    }
}

/// The ids of all jobs that workers got.
pub fn given(history: &[Call]) -> impl Iterator<Item = &str> {
    let got = history.iter().flat_map(|call| match &call.deed {
        Deed::Take { got, .. } => &got[..],
        _ => &[],
    });
    got.map(|job| job.id.as_str())
}

/// In which seconds a schedule pushed more than once. The ids of its jobs are `prefix` and the time in ms.
fn pushed_twice(history: &[Call], left: &Left, prefix: &str) -> Vec<String> {
    let ids: BTreeSet<&str> =
        given(history).chain(left.waiting.iter().chain(&left.dead).map(String::as_str)).collect();
    let mut seconds = BTreeSet::new();
    let ticks = ids.iter().filter_map(|id| id.strip_prefix(prefix)?.parse::<u64>().ok());
    let twice = ticks.filter(|ms| !seconds.insert(ms / 1000));
    twice.map(|ms| format!("the schedule pushed twice in the second of {ms}")).collect()
}

/// Attempts that no worker got: there may be no more than replies that no worker got.
fn missing_attempts(history: &[Call], jobs: &BTreeMap<&str, Job<'_>>) -> Option<String> {
    let unknown: u64 = history
        .iter()
        .filter(|call| call.answered.is_none())
        .map(|call| match &call.deed {
            Deed::Take { count, .. } => *count,
            _ => 0,
        })
        .sum();
    let missing = |job: &Job<'_>| {
        let got: BTreeSet<u64> = job.gives.iter().map(|give| give.attempt).collect();
        got.last().map_or(0, |last| last - got.len() as u64)
    };
    let missing: u64 = jobs.values().map(missing).sum();
    (missing > unknown)
        .then(|| format!("{missing} attempts were given to nobody, {unknown} at most can have been"))
}

/// A job that surely waited for its first attempt in this time, between two moments.
struct Wait<'h> {
    from: Moment,
    to: Moment,
    id: &'h str,
}

/// Jobs that were served too early: before earlier jobs of the queue, or before a queue that comes first.
fn order(history: &[Call], jobs: &BTreeMap<&str, Job<'_>>, left: &Left, rules: &Rules) -> Vec<String> {
    let is_unheard = |call: &&Call| call.answered.is_none() && matches!(call.deed, Deed::Take { .. });
    let unheard: Vec<&Call> = history.iter().filter(is_unheard).collect();
    let mut waits: BTreeMap<&str, Vec<Wait<'_>>> = BTreeMap::new();
    for (id, job) in jobs {
        if let Some((queue, from, to)) = job.surely_waits(&unheard, left.waiting.contains(*id)) {
            waits.entry(queue).or_default().push(Wait { from, to, id });
        }
    }
    for queue in waits.values_mut() {
        queue.sort_by_key(|wait| wait.from);
        // From here on `to` is that of the job that waited longest.
        for index in 1..queue.len() {
            if queue[index - 1].to > queue[index].to {
                (queue[index].to, queue[index].id) = (queue[index - 1].to, queue[index - 1].id);
            }
        }
    }
    // Whether a job waited in `queue` from before `from` until after `to`.
    let waited = |queue: &str, from: Moment, to: Moment| {
        let queue = waits.get(queue)?;
        let before = queue.partition_point(|wait| wait.from < from);
        let longest = queue[..before].last()?;
        (longest.to > to).then_some(longest.id)
    };
    let mut complaints = Vec::new();
    for (id, job) in jobs {
        let Some((put, give)) = job.put.zip(job.first_give()) else { continue };
        let earlier = waited(give.queue, put.sent, give.answered);
        complaints.extend(
            earlier.map(|earlier| format!("{id} was taken before {earlier}, which was put before it")),
        );
    }
    for call in history {
        let (Deed::Take { queues, got, .. }, Some(answered)) = (&call.deed, call.answered) else { continue };
        let Some(Taken { queue: served, id, .. }) = got.first() else { continue };
        let before = queues.iter().take_while(|queue| *queue != served);
        for queue in before.filter(|queue| !rules.limits.contains_key(*queue)) {
            let waiting = waited(queue, call.sent, answered);
            complaints.extend(
                waiting.map(|waiting| format!("{id} was taken from {served} while {waiting} was in {queue}")),
            );
        }
    }
    complaints
}

/// Finds takes that exceed the limits of a queue.
fn limit(queue: &str, limits: Limits, jobs: &BTreeMap<&str, Job<'_>>, rules: &Rules) -> Vec<String> {
    let mut complaints = Vec::new();
    let of_queue = || jobs.values().flat_map(|job| job.gives.iter().map(move |give| (job, give)));
    let of_queue = || of_queue().filter(|(_, give)| give.queue == queue);
    if let Some(most) = limits.active {
        let mut changes: Vec<(Moment, i64)> = Vec::new();
        for (job, give) in of_queue() {
            let until = job.held_until(give).saturating_sub(rules.slack);
            if until > give.answered {
                changes.extend([(give.answered, 1), (until, -1)]);
            }
        }
        changes.sort_unstable();
        let counts = changes.iter().scan(0, |active, (_, change)| {
            *active += change;
            Some(*active)
        });
        let highest = counts.max().unwrap_or(0);
        if highest > most as i64 {
            complaints.push(format!("{highest} jobs of {queue} were active at once, not {most}"));
        }
    }
    if let Some((most, window)) = limits.rate {
        let mut spans: Vec<(Moment, Moment)> =
            of_queue().map(|(_, give)| (give.sent, give.answered)).collect();
        spans.sort_unstable();
        for (index, (first, _)) in spans.iter().enumerate() {
            let end = first + window.saturating_sub(rules.slack);
            let within = spans[index..].iter().take_while(|(sent, _)| *sent < end);
            let count = within.filter(|(_, answered)| *answered < end).count();
            if count > most {
                complaints.push(format!("{count} jobs of {queue} were taken within its window, not {most}"));
                break;
            }
        }
    }
    complaints
}
