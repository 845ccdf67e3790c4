//! Moves jobs to their queues when they are due: Sidekiq's, as if its poller had come by at that moment
//! (setting `promote`), and those of any sorted set that QUEUE PROMOTE names.
//!
//! ```text
//!   schedule, retry      score ≤ now       queue:<queue>
//!   ┌──────────────┐    ZREM, SADD, LPUSH  ┌───────────┐
//!   │ due → job    │ ────────────────────▶ │ new … old │ ─▶ BRPOP
//!   └──────────────┘   one transaction     └───────────┘
//! ```
//!
//! As with leases, each thread looks every second for jobs that are due soon in the sets of its shards, and a
//! command that adds an earlier job tells its own thread. The sets and the queues are on different shards. So
//! a visit of the set first finds which jobs are due and where they go. Then all these shards are entered
//! together, and each job that is still in the set moves. Sidekiq's poller removes a job from the set before
//! it pushes it, so it either has the job first or finds nothing. The rules of QUEUE PROMOTE are read again
//! in that visit, so nothing moves after a rule was removed.
//!
//! A job that Sidekiq would not have put there is left to Sidekiq's poller, which knows better
//! ([`Rule::read`]).
//!
//! Not here: which sets are Sidekiq's (`keyspace`,
//! [`Class::is_promoted`](keyspace::queue::Class::is_promoted)), and the rules of QUEUE PROMOTE (`queues`,
//! [`Promotion`]).

use std::collections::BTreeSet;

pub(crate) use crate::queues::in_seconds;
use crate::queues::{Promotion, coming_end, json_member, stamped};
use background::Visits;
use ds::Kind;
use ds::hash::Hash;
use ds::set::Set;
use ds::zset::ZSet;
use engine::{Change, Class, Client, JobsDue, Store, Tx, peek_into};
use keyspace::List;
use keyspace::UnixMs;
use keyspace::queue::{MS_MIN, PROMOTIONS};
use resp::Proto;
use shard::{PATIENCE_AFTER, ShardId};

use crate::job::Jobs;
use crate::soon::{AGAIN_MS, Soon, VISITS_MAX};

/// The most jobs that move in one visit.
const MOVED_MAX: usize = 32;
/// The most jobs at the front of a set that one visit reads. If this many can join no queue, they block the
/// set until an operator removes them.
const LOOKED_AT_MAX: usize = 256;
/// The most sets with due jobs that a thread remembers.
const SETS_MAX: usize = 10_000;

/// Sets in which jobs are due soon.
#[derive(Debug, Default)]
pub(crate) struct Promotions {
    pub(crate) soon: Soon<SETS_MAX>,
    /// How often in a row the shards could not be entered.
    tries: u32,
}

/// The result of a visit of a set.
#[derive(Default)]
struct Plan {
    jobs: Vec<Vec<u8>>,
    /// The shards of the set and of all keys that these jobs touch.
    shards: BTreeSet<ShardId>,
    /// When the next job is due, if that is known.
    next_ms: Option<UnixMs>,
    left_count: usize,
}

impl Promotions {
    /// Moves the jobs that are due.
    pub(crate) fn fire(&mut self, now_ms: UnixMs, thread: &mut impl Visits) {
        for _ in 0..VISITS_MAX {
            let Some(due) = self.soon.pop_due(now_ms) else { return };
            let again_ms = self.move_due(now_ms, &due, thread);
            self.soon.add_again(due, again_ms, now_ms);
        }
    }

    /// Moves some of the jobs that are due in a set. Returns when to come again.
    fn move_due(&mut self, now_ms: UnixMs, due: &JobsDue, thread: &mut impl Visits) -> Option<UnixMs> {
        let Some(plan) = thread.visit(due.shard, |tx| plan(tx, due)) else { return Some(now_ms + AGAIN_MS) };
        let mut left_count = plan.left_count;
        if !plan.jobs.is_empty() {
            assert!(plan.jobs.len() <= MOVED_MAX, "a visit moves some jobs at a time");
            assert!(plan.shards.contains(&due.shard), "a set is entered with the queues of its jobs");
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
            tracing::warn!(db = due.db, "jobs in {set} that are due are left there: {left_count}");
        }
        plan.next_ms
    }
}

/// Finds which jobs of a set are due, and where they go.
fn plan(tx: &mut Tx, due: &JobsDue) -> Plan {
    let mut plan = Plan::default();
    let store = store_of(tx, due.db);
    let Some(rule) = Rule::of(&store, &due.queue) else { return plan };
    let Ok(Some(set)) = store.peek_as::<ZSet>(&due.queue) else { return plan };
    for (looked_at, (job, score)) in set.iter().enumerate() {
        let due_ms = rule.due_ms(score);
        if due_ms > store.now() {
            plan.next_ms = Some(due_ms);
            break;
        }
        if plan.jobs.len() == MOVED_MAX {
            plan.next_ms = Some(store.now());
            break;
        }
        if looked_at == LOOKED_AT_MAX {
            break;
        }
        match rule.read(&job) {
            Some(payload) => {
                plan.shards.extend(rule.keys(&payload).map(|key| store.locate(key).0));
                plan.jobs.push(job.to_vec());
            }
            None => plan.left_count += 1,
        }
    }
    plan
}

/// Moves these jobs to their queues, unless they are gone or no longer due. Returns how many had to stay.
fn promote(tx: &mut Tx, due: &JobsDue, jobs: &[Vec<u8>]) -> usize {
    let (mut store, mut left_count) = (store_of(tx, due.db), 0);
    let Some(rule) = Rule::of(&store, &due.queue).filter(|rule| rule.is_said(&store)) else { return 0 };
    for job in jobs {
        let Ok(Some(set)) = store.peek_as::<ZSet>(&due.queue) else { break };
        if set.score(job).is_none_or(|score| rule.due_ms(score) > store.now()) {
            continue;
        }
        let Some(payload) = rule.read(job) else { continue };
        // The rule may have changed since the plan was made.
        if rule.keys(&payload).any(|key| !store.tx.hold.has(store.locate(key).0)) {
            break;
        }
        let listed = rule.promotion.listed.as_deref().zip(payload.member.as_deref());
        let is_set = listed.is_none_or(|(key, _)| store.peek_as::<Set>(key).is_ok());
        if store.peek_as::<List>(&payload.queue).is_err() || !is_set {
            left_count += 1;
            continue;
        }
        let element = rule.stamped(job, store.now());
        take_out(&mut store, &due.queue, job);
        if let Some((key, member)) = listed {
            note_queue(&mut store, key, member);
        }
        let end = coming_end(&store, &payload.queue);
        if Jobs::push(&mut store, &payload.queue, end, &element).is_err() {
            unreachable!("it is a list, or nothing")
        }
        store.tx.hold.shard_mut(due.shard).stats.promoted_jobs.add(1);
    }
    left_count
}

/// When the first job of a set is due, if jobs of this set move.
pub(crate) fn first_due_ms(store: &Store, set: &[u8]) -> Option<UnixMs> {
    let rule = Rule::of(store, set)?;
    let first = store.peek_as::<ZSet>(set).ok()??.score_at(0)?;
    Some(rule.due_ms(first))
}

fn store_of<'a, 't>(tx: &'a mut Tx<'t>, db: u32) -> Store<'a, 't> {
    Store::new(tx, Client::internal(db, Proto::Resp2))
}

fn take_out(store: &mut Store, key: &[u8], job: &[u8]) {
    let Ok(Some(mut set)) = store.write_as::<ZSet>(key) else { return };
    let was_there = set.remove(job).is_some();
    assert!(was_there, "a job leaves its set before it joins its queue");
    drop(set);
    store.changed(key, Change::new(Class::ZSet, "zrem"), &[b"ZREM", key, job]);
    store.delete_if_empty(key);
}

/// Adds a queue to the set that lists the queues, as Sidekiq does.
fn note_queue(store: &mut Store, key: &[u8], queue: &[u8]) {
    let limits = store.config().set;
    let Ok(mut set) = store.upsert::<Set>(key) else { return };
    let is_new = set.insert(queue, &limits);
    drop(set);
    if is_new {
        store.changed(key, Change::new(Class::Set, "sadd"), &[b"SADD", key, queue]);
    }
}

/// How the jobs of a set join their queues.
struct Rule {
    promotion: Promotion,
    /// The name of the rule in QUEUE PROMOTE. `None`: the set is Sidekiq's.
    name: Option<Box<[u8]>>,
}

/// Where a job goes, known before it is pushed.
struct Payload {
    queue: Vec<u8>,
    /// The member that is added to the set of queues.
    member: Option<Vec<u8>>,
}

impl Rule {
    /// The rule of a set.
    fn of(store: &Store, set: &[u8]) -> Option<Rule> {
        let known = store.tx.hold.shards().queues();
        if let Some(promoted) = known.promotions().of(store.client.db, set) {
            return Some(Rule { promotion: Promotion::decode(&promoted.text)?, name: Some(promoted.name) });
        }
        let is_sidekiqs =
            || known.patterns().0.class_of(set, Kind::ZSet).is_some_and(|class| class.is_promoted());
        (store.config().promotes && is_sidekiqs()).then(|| Rule::of_sidekiq(set))
    }

    /// The rule of Sidekiq's poller: all keys begin with the namespace, if there is one.
    fn of_sidekiq(set: &[u8]) -> Rule {
        let namespace = &set[..memchr::memrchr(b':', set).map_or(0, |at| at + 1)];
        let promotion = Promotion {
            set: set.to_vec(),
            to: [namespace, b"queue:{$.queue}"].concat(),
            listed: Some([namespace, b"queues"].concat()),
            stamp: Some(b"enqueued_at".to_vec()),
        };
        Rule { promotion, name: None }
    }

    /// Whether the rule is still in force. The shards of [`Self::keys`] have to be entered.
    fn is_said(&self, store: &Store) -> bool {
        let Some(name) = &self.name else { return true };
        if !store.tx.hold.has(store.locate(PROMOTIONS).0) {
            return false;
        }
        let mut buffer = Vec::new();
        let said = peek_into::<Hash>(store, PROMOTIONS, &mut buffer).ok().flatten();
        let said = said.and_then(|said| Promotion::decode(&said.get(name)?.bytes()));
        said.as_ref() == Some(&self.promotion)
    }

    /// The keys that moving a job touches.
    fn keys<'a>(&'a self, payload: &'a Payload) -> impl Iterator<Item = &'a [u8]> {
        let said = self.name.is_some().then_some(PROMOTIONS);
        [Some(&*self.promotion.set), Some(&*payload.queue), self.promotion.listed.as_deref(), said]
            .into_iter()
            .flatten()
    }

    /// The first millisecond in which a job with this score is due.
    fn due_ms(&self, score: f64) -> UnixMs {
        let is_in_ms = self.name.is_some() && score >= MS_MIN;
        (if is_in_ms { score } else { score * 1000.0 }).ceil() as UnixMs
    }

    /// Reads where a job goes; `None` if it can join no queue. In Sidekiq's sets, that is any job that
    /// Sidekiq's client did not put there complete except for the time at which it joins its queue. An
    /// example is a job without an id, to which Sidekiq's poller adds its defaults.
    fn read(&self, job: &[u8]) -> Option<Payload> {
        if self.name.is_none() {
            let lacks = |name: &&str| json_member(job, name).is_none();
            if ["class", "args", "jid"].iter().any(lacks) || json_member(job, "at").is_some() {
                return None;
            }
        }
        let (queue, member) = self.promotion.queue_of(job)?;
        if let Some(stamp) = &self.promotion.stamp {
            stamped(job, std::str::from_utf8(stamp).ok()?, 0)?;
        }
        Some(Payload { queue, member })
    }

    /// The job as it is pushed now.
    fn stamped(&self, job: &[u8], now_ms: UnixMs) -> Vec<u8> {
        let name = self.promotion.stamp.as_deref().and_then(|name| std::str::from_utf8(name).ok());
        name.and_then(|name| stamped(job, name, now_ms)).unwrap_or_else(|| job.to_vec())
    }
}

#[cfg(test)]
mod tests;
