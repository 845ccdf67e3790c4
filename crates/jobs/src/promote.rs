//! Jobs of Sidekiq's that are due join their queues by themselves, as if Sidekiq's poller had come by at that moment (setting
//! `promote`).
//!
//! ```text
//!   schedule, retry      score ≤ now       queue:<queue>
//!   ┌──────────────┐    ZREM, SADD, LPUSH  ┌───────────┐
//!   │ due → job    │ ────────────────────▶ │ new … old │ ─▶ BRPOP
//!   └──────────────┘   one transaction     └───────────┘
//! ```
//!
//! As with leases, a thread looks each second for what is due soon in the sets at home there, and who adds something that is due sooner tells its own
//! thread. The sets and the queues lie on different shards. So a visit of the set first says which jobs are due and where
//! they go, then all these shards are entered together, and each job that is still there moves. Sidekiq's poller, which takes a job
//! out of the set before it pushes it, can only have it before or find nothing.
//!
//! A job that is none that Sidekiq would have put there is left to Sidekiq's poller ([`Payload::parse`]), which knows better.
//!
//! Not here: which keys are such sets (`keyspace`, [`Class::is_promoted`](keyspace::queue::Class::is_promoted)).

use std::collections::BTreeSet;

use command::{Change, Class, Client, JobsDue, Store, Tx};
use ds::list::{End, List};
use ds::set::Set;
use ds::zset::ZSet;
use keyspace::UnixMs;
use queues::{json_member, json_text};
use resp::Proto;
use shard::{PATIENCE_AFTER, ShardId};
use upkeep::Visits;

use crate::job::Jobs;
use crate::soon::{AGAIN_MS, Soon, VISITS_MAX};

/// Jobs that move in one visit.
const MOVED_MAX: usize = 32;
/// Jobs at the beginning of a set that one visit looks at: so many that Sidekiq's poller has to see to stop this until it has.
const LOOKED_AT_MAX: usize = 256;
/// Sets that a thread knows to have something due.
const SETS_MAX: usize = 10_000;

/// Sets in which something is due soon.
#[derive(Debug, Default)]
pub(crate) struct Promotions {
    pub(crate) soon: Soon<SETS_MAX>,
    /// How often the shards could not be had, since they were last.
    tries: u32,
}

/// What a visit of a set has found.
#[derive(Default)]
struct Plan {
    jobs: Vec<Vec<u8>>,
    /// Those of the set and of all that these jobs touch.
    shards: BTreeSet<ShardId>,
    /// When something is due next, if it is known.
    next_ms: Option<UnixMs>,
    left_count: usize,
}

impl Promotions {
    /// Does what is due.
    pub(crate) fn fire(&mut self, now_ms: UnixMs, thread: &mut impl Visits) {
        for _ in 0..VISITS_MAX {
            let Some(due) = self.soon.pop_due(now_ms) else { return };
            let again_ms = self.move_due(now_ms, &due, thread);
            self.soon.add_again(due, again_ms, now_ms);
        }
    }

    /// Moves some of the jobs that are due in a set; when to come again.
    fn move_due(&mut self, now_ms: UnixMs, due: &JobsDue, thread: &mut impl Visits) -> Option<UnixMs> {
        let Some(plan) = thread.visit(due.shard, |tx| plan(tx, due)) else { return Some(now_ms + AGAIN_MS) };
        let mut left_count = plan.left_count;
        if !plan.jobs.is_empty() {
            let shards: Vec<ShardId> = plan.shards.iter().copied().collect();
            let is_patient = self.tries >= PATIENCE_AFTER;
            let Some(count) = thread.visit_all(&shards, is_patient, |tx| promote(tx, due, &plan.jobs)) else {
                self.tries = self.tries.saturating_add(1);
                return Some(now_ms + AGAIN_MS);
            };
            self.tries = 0;
            left_count += count;
        }
        if left_count > 0 && self.soon.may_say(now_ms) {
            let set = due.queue.escape_ascii();
            tracing::warn!(db = due.db, "jobs in {set} that are due are left to Sidekiq: {left_count}");
        }
        plan.next_ms
    }
}

/// Which jobs of a set are due, and where they go.
fn plan(tx: &mut Tx, due: &JobsDue) -> Plan {
    let mut plan = Plan::default();
    if !tx.config.promotes {
        return plan;
    }
    let store = store_of(tx, due.db);
    let Ok(Some(set)) = store.peek_as::<ZSet>(&due.queue) else { return plan };
    let keys = Keys::beside(&due.queue);
    for (looked_at, (job, score)) in set.iter().enumerate() {
        if !is_due(score, store.now()) {
            plan.next_ms = Some(due_ms(score));
            break;
        }
        if plan.jobs.len() == MOVED_MAX {
            plan.next_ms = Some(store.now());
            break;
        }
        if looked_at == LOOKED_AT_MAX {
            break;
        }
        match Payload::parse(&job) {
            Some(payload) => {
                let (queue, _) = store.locate(&keys.queue(&payload.queue));
                plan.shards.extend([queue, store.locate(&keys.queues).0, due.shard]);
                plan.jobs.push(job.to_vec());
            }
            None => plan.left_count += 1,
        }
    }
    plan
}

/// Moves these jobs to their queues, unless they are gone or not due any more; how many had to be left where they are.
fn promote(tx: &mut Tx, due: &JobsDue, jobs: &[Vec<u8>]) -> usize {
    let (mut store, mut left_count) = (store_of(tx, due.db), 0);
    let keys = Keys::beside(&due.queue);
    for job in jobs {
        let Ok(Some(set)) = store.peek_as::<ZSet>(&due.queue) else { break };
        if !set.score(job).is_some_and(|score| is_due(score, store.now())) {
            continue;
        }
        let Some(payload) = Payload::parse(job) else { continue };
        let queue = keys.queue(&payload.queue);
        if store.peek_as::<List>(&queue).is_err() || store.peek_as::<Set>(&keys.queues).is_err() {
            left_count += 1;
            continue;
        }
        let element = payload.stamped(job, store.now());
        take_out(&mut store, &due.queue, job);
        note_queue(&mut store, &keys.queues, &payload.queue);
        if Jobs::push(&mut store, &queue, End::Head, &element).is_err() {
            unreachable!("it is a list, or nothing")
        }
        store.tx.hold.shard_mut(due.shard).stats.promoted_jobs.add(1);
    }
    left_count
}

fn store_of<'a, 't>(tx: &'a mut Tx<'t>, db: u32) -> Store<'a, 't> {
    Store::new(tx, Client::internal(db, Proto::Resp2))
}

/// A time in seconds since 1970, with a fraction, as Sidekiq writes it.
pub(crate) fn in_seconds(ms: UnixMs) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

/// As Sidekiq's poller asks for them.
fn is_due(score: f64, now_ms: UnixMs) -> bool {
    score * 1000.0 <= now_ms as f64
}

/// The first millisecond in which a job with this score is due.
fn due_ms(score: f64) -> UnixMs {
    (score * 1000.0).ceil() as UnixMs
}

fn take_out(store: &mut Store, key: &[u8], job: &[u8]) {
    let Ok(Some(mut set)) = store.write_as::<ZSet>(key) else { return };
    set.remove(job);
    drop(set);
    store.changed(key, Change::new(Class::ZSet, "zrem"), &[b"ZREM", key, job]);
    store.delete_if_empty(key);
}

/// Sidekiq lists its queues in a set.
fn note_queue(store: &mut Store, key: &[u8], queue: &[u8]) {
    let limits = &store.config().set;
    let Ok(mut set) = store.upsert::<Set>(key) else { return };
    let is_new = set.insert(queue, limits);
    drop(set);
    if is_new {
        store.changed(key, Change::new(Class::Set, "sadd"), &[b"SADD", key, queue]);
    }
}

/// The keys that Sidekiq has beside a set: all of them begin with the namespace, if there is one.
struct Keys<'a> {
    namespace: &'a [u8],
    queues: Vec<u8>,
}

impl<'a> Keys<'a> {
    fn beside(set: &'a [u8]) -> Keys<'a> {
        let end = memchr::memrchr(b':', set).map_or(0, |at| at + 1);
        let namespace = &set[..end];
        Keys { namespace, queues: [namespace, b"queues"].concat() }
    }

    fn queue(&self, name: &[u8]) -> Vec<u8> {
        [self.namespace, b"queue:", name].concat()
    }
}

/// What there is to know of a job before it is pushed.
struct Payload {
    queue: Vec<u8>,
    /// Where `enqueued_at` has its value.
    stamp: Option<std::ops::Range<usize>>,
    /// Times are integers, in milliseconds: it is of Sidekiq 8. Before, they are seconds with a fraction.
    is_in_ms: bool,
}

/// Numbers from here on are milliseconds rather than seconds.
const MS_MIN: i64 = 100_000_000_000;

impl Payload {
    /// Of a job that Sidekiq's client put there, complete but for the time at which it joins its queue. `None`: it is something else, such as
    /// a job without an id or a queue, to which Sidekiq's poller adds its defaults.
    fn parse(job: &[u8]) -> Option<Payload> {
        if !job.trim_ascii_end().ends_with(b"}") || json_member(job, "at").is_some() {
            return None;
        }
        for name in ["class", "args", "jid"] {
            json_member(job, name)?;
        }
        let queue = json_text(json_member(job, "queue")?)?.into_owned();
        let begin = |value: &[u8]| value.as_ptr().addr() - job.as_ptr().addr();
        let stamp = json_member(job, "enqueued_at").map(|value| begin(value)..begin(value) + value.len());
        let created = json_member(job, "created_at").and_then(|value| std::str::from_utf8(value).ok());
        let is_in_ms = created.and_then(|text| text.parse().ok()).is_some_and(|time: i64| time >= MS_MIN);
        (!queue.is_empty()).then_some(Payload { queue, stamp, is_in_ms })
    }

    /// The job as it is pushed at this moment.
    fn stamped(&self, job: &[u8], now_ms: UnixMs) -> Vec<u8> {
        let time = if self.is_in_ms { now_ms.to_string() } else { in_seconds(now_ms) };
        match &self.stamp {
            Some(place) => [&job[..place.start], time.as_bytes(), &job[place.end..]].concat(),
            None => {
                let rest = job.trim_ascii_end();
                let open = rest.strip_suffix(b"}").unwrap_or(rest);
                [open, b",\"enqueued_at\":", time.as_bytes(), b"}"].concat()
            }
        }
    }
}

#[cfg(test)]
mod tests;
