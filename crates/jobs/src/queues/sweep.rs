//! Removes elements from a queue (`QUEUE REMOVE`), or moves them to another (`QUEUE MOVE`).
//!
//! Elements are visited in the order in which workers would take them. In a list, a step reads one node,
//! removes the wanted elements, and adds them to the other queue. So no element is ever in both queues or in
//! neither.
//!
//! Keys that a job system has beside its jobs change in the same step (`transfer`). A job for which that is
//! impossible stays in place; if that holds for all jobs, the error says why.
//!
//! The effects are commands of Redis. `LREM` alone is not enough: it removes the first element that equals
//! the given one, which may be a different one. So the elements to be removed are first marked (`LSET` with a
//! text that no client has sent), and then removed by that mark. Elements at the end of the list are popped.

use ds::list::{End, Stretch};

use ds::zset::{ZSet, ZSetRef};
use engine::{
    Change, Class, CommandError, CommandResult, Keys, Store, end_word, pop_command, pop_event, push_command,
    push_event,
};
use keyspace::Kind;
use keyspace::List;
use keyspace::queue::take;
use shard::ShardId;

use crate::queues::Ctx;
use crate::queues::commands::wrong_type;
use crate::queues::counts::has_kept;
use crate::queues::ends::popping_end;
use crate::queues::pattern::Pattern;
use crate::queues::slices::{Place, Progress, ScoredPlace, Slice, Step};
use crate::queues::transfer::{ALREADY_THERE, Going, Job, Transfer};

/// Elements of a list that a step moves, or members of a sorted set that it reads.
const STEP_ELEMENTS: usize = 16;
/// The most jobs with keys beside them that move in one step.
const STEP_JOBS_MAX: usize = 64;

/// The error of QUEUE MOVE if payloads would stay behind.
const KEPT: CommandError = CommandError::fixed(
    "ERR jobs of this queue are kept by their ids (JOB.PUT with options, or failed before) and cannot be moved: let workers take them",
);
const NOT_PERMITTED: CommandError =
    CommandError::fixed("NOPERM No permissions to access a key that has a part of the job");

/// A request to remove or move elements.
pub(crate) struct Sweep<'a> {
    /// The queue with the elements.
    pub(crate) from: &'a [u8],
    /// The queue that they are moved to; `None` removes them.
    pub(crate) to: Option<&'a [u8]>,
    /// The wanted elements; `None` means all.
    pub(crate) wanted: Option<Pattern<'a>>,
    /// The maximum number of elements.
    pub(crate) count: usize,
    /// The keys beside them. An error: they cannot be moved there.
    pub(crate) transfer: Result<Transfer<'a>, CommandError>,
}

/// The destination of a step's jobs.
struct Aim<'s> {
    transfer: &'s Transfer<'s>,
    to: Option<&'s [u8]>,
    /// The type of that key.
    kind: Kind,
}

/// An element of a list, with its index in its node.
type Hit = (usize, Box<[u8]>);

/// The jobs of a step that leave the queue.
#[derive(Default)]
struct Verdict {
    /// Their indexes among the examined jobs, and what becomes of them.
    going: Vec<(usize, Going)>,
    /// Not all jobs were examined: the step has enough, or needs more shards.
    is_cut: bool,
}

/// Replies with the number of elements, or says why none were moved or removed.
pub(crate) fn reply(ctx: &mut Ctx, progress: &Progress) -> CommandResult {
    match &progress.refusal {
        Some(refusal) if progress.done == 0 => Err(refusal.clone()),
        _ => {
            ctx.reply.int(progress.done as i64);
            Ok(())
        }
    }
}

impl Sweep<'_> {
    /// Takes one step.
    pub(crate) fn step(
        &self,
        ctx: &mut Ctx,
        progress: &mut Progress,
        slice: &Slice,
    ) -> Result<Step, CommandError> {
        if !progress.is_begun {
            // Counts as one use of the key, regardless of the number of slices.
            ctx.store.read(self.from);
        }
        let transfer = self.transfer.as_ref().map_err(CommandError::clone)?;
        let Some(value) = ctx.store.peek(self.from).map(|record| record.value()) else {
            return Ok(Step::End);
        };
        let (kind, len) = (value.kind(), value.len());
        if !matches!(kind, Kind::List | Kind::ZSet) {
            return Err(wrong_type(kind));
        }
        let aim = Aim { transfer, to: self.to, kind: transfer.kind_of_target(&ctx.store, kind)? };
        if self.to.is_some() && has_kept(&ctx.store, self.from) {
            return Err(KEPT);
        }
        if let Place::Behind(mark, true) = progress.place {
            let list = ctx.store.write_as::<List>(self.from)?;
            progress.place = Place::Behind(list.map_or(mark, |list| list.compress_at(mark)), false);
            return Ok(Step::More);
        }
        // Elements that arrive in the meantime do not count: a queue that others push onto would never end.
        let left = progress.left.get_or_insert(self.count.min(len));
        if *left == 0 {
            return Ok(Step::End);
        }
        match (kind, self.to) {
            (Kind::List, Some(to)) if self.wanted.is_none() && transfer.is_plain() => {
                self.move_first(&mut ctx.store, to, progress)
            }
            (Kind::List, _) => self.step_in_list(ctx, &aim, progress, slice),
            _ => self.step_in_zset(ctx, &aim, progress),
        }
    }

    fn is_wanted(&self, element: &[u8]) -> bool {
        self.wanted.as_ref().is_none_or(|pattern| pattern.matches(element))
    }

    /// Moves elements from the popping end.
    fn move_first(
        &self,
        store: &mut Store,
        to: &[u8],
        progress: &mut Progress,
    ) -> Result<Step, CommandError> {
        let (end, into) = (popping_end(store, self.from), popping_end(store, to).other());
        let left = progress.left.as_mut().expect("it is said before the first step");
        for _ in 0..STEP_ELEMENTS.min(*left) {
            let Some(list) = store.write_as::<List>(self.from)? else { return Ok(Step::End) };
            let Some(element) = take(list, end) else { return Ok(Step::End) };
            push(store, to, into, [&element[..]])?;
            store.also_changed(to, Change::new(Class::List, push_event(into)));
            store.changed_with(self.from, Change::new(Class::List, pop_event(end)).times(0), |store| {
                store.effect(&[b"LMOVE", self.from, to, end_word(end), end_word(into)]);
            });
            store.delete_if_empty(self.from);
            progress.done += 1;
            *left -= 1;
        }
        Ok(if *left == 0 { Step::End } else { Step::More })
    }

    fn step_in_list(
        &self,
        ctx: &mut Ctx,
        aim: &Aim<'_>,
        progress: &mut Progress,
        slice: &Slice,
    ) -> Result<Step, CommandError> {
        let end = popping_end(&ctx.store, self.from);
        let Some(list) = ctx.store.peek_as::<List>(self.from)? else { return Ok(Step::End) };
        let mark = if let Place::Behind(mark, _) = &progress.place { Some(mark) } else { None };
        let Some(at) = list.node_after(end, mark) else { return Ok(Step::End) };
        let left = progress.left.expect("it is said before the first step");
        let needs_element = self.to.is_some() || !aim.transfer.is_plain();
        let mut hits = list.read_node(at, |node| self.hits(node, needs_element));
        let behind = Place::Behind(list.bookmark(at), false);
        if hits.is_empty() {
            progress.place = behind;
            return Ok(Step::More);
        }
        if slice.is_begun() {
            return Ok(Step::Later(Vec::new()));
        }
        if end == End::Tail {
            hits.reverse();
        }
        let jobs = hits.iter().map(|(_, element)| Job { element, score: None });
        let verdict = match aim.judge(ctx, jobs, progress) {
            Ok(verdict) => verdict,
            Err(shards) => return Ok(Step::Later(shards)),
        };
        let count = verdict.going.len();
        assert!(count <= left, "no more elements leave than the command asks for");
        progress.left = Some(left - count);
        progress.done += count;
        let is_last = left == count;
        if count == 0 {
            progress.place = behind;
            return Ok(Step::More);
        }
        let mark = self.take(&mut ctx.store, at, &hits, &verdict)?;
        if !verdict.is_cut || is_last {
            progress.place = match mark {
                Some(mark) => Place::Behind(mark, true),
                None => Place::Begin,
            };
        }
        let gone: Vec<Going> = verdict.going.into_iter().map(|(_, job)| job).collect();
        aim.deliver(&mut ctx.store, &gone)?;
        // The changed node still has to be compressed.
        let rest = matches!(progress.place, Place::Behind(..)) && ctx.store.exists(self.from);
        Ok(if is_last && !rest { Step::End } else { Step::More })
    }

    /// The wanted elements of a node, by their indexes.
    fn hits(&self, node: &Stretch<'_>, needs_element: bool) -> Vec<Hit> {
        if self.wanted.as_ref().is_some_and(|pattern| !pattern.may_be_in(node.bytes())) {
            return Vec::new();
        }
        let kept = |element: &[u8]| if needs_element { element.into() } else { Box::default() };
        (0..)
            .zip(node.elements())
            .filter(|(_, element)| self.is_wanted(element))
            .map(|(place, element)| (place, kept(element)))
            .collect()
    }

    /// Removes the elements of a verdict from their node. Returns the bookmark of the rest of the node.
    fn take(
        &self,
        store: &mut Store,
        at: usize,
        hits: &[Hit],
        verdict: &Verdict,
    ) -> Result<Option<ds::list::Bookmark>, CommandError> {
        let end = popping_end(store, self.from);
        let mut places: Vec<usize> = verdict.going.iter().map(|(index, _)| hits[*index].0).collect();
        places.sort_unstable();
        let list = store.write_as::<List>(self.from)?.expect("it was read a moment ago");
        let (first, len) = (list.first_index(at), list.len());
        let mark = list.remove_in(at, &places, end);
        assert!(places.is_sorted_by(|one, next| one < next), "a step removes no element twice");
        assert_eq!(list.len() + places.len(), len, "a step removes what its effect says");
        let are_next = match end {
            End::Head => first + places[places.len() - 1] == places.len() - 1,
            End::Tail => first + places[0] == len - places.len(),
        };
        let event = if are_next { pop_event(end) } else { "lrem" };
        store.changed_with(self.from, Change::new(Class::List, event).times(places.len()), |store| {
            if are_next {
                let count = itoa::Buffer::new().format(places.len()).to_owned();
                return store.effect(&[pop_command(end), self.from, count.as_bytes()]);
            }
            let text = unused_text(store, self.from);
            for place in &places {
                let index = itoa::Buffer::new().format(first + place).to_owned();
                store.effect(&[b"LSET", self.from, index.as_bytes(), &text]);
            }
            // Remove from the nearer end.
            let count = if first < len / 2 { places.len() as i64 } else { -(places.len() as i64) };
            store.effect(&[b"LREM", self.from, itoa::Buffer::new().format(count).as_bytes(), &text]);
        });
        store.delete_if_empty(self.from);
        Ok(mark)
    }

    fn step_in_zset(
        &self,
        ctx: &mut Ctx,
        aim: &Aim<'_>,
        progress: &mut Progress,
    ) -> Result<Step, CommandError> {
        let Some(zset) = ctx.store.peek_as::<ZSet>(self.from)? else { return Ok(Step::End) };
        let left = progress.left.expect("it is said before the first step");
        let rank = match &progress.place {
            Place::Scored(place) => place.rank(zset),
            _ => 0,
        };
        let read = zset.iter_from_rank(rank, false).take(STEP_ELEMENTS);
        let read: Vec<(Box<[u8]>, f64)> = read.map(|(member, score)| (member.into(), score)).collect();
        let is_end = rank + read.len() >= zset.len();
        let wanted: Vec<usize> = (0..read.len()).filter(|index| self.is_wanted(&read[*index].0)).collect();
        let jobs = wanted.iter().map(|index| {
            let (element, score) = &read[*index];
            Job { element, score: Some(*score) }
        });
        let verdict = match aim.judge(ctx, jobs, progress) {
            Ok(verdict) => verdict,
            Err(shards) => return Ok(Step::Later(shards)),
        };
        let mut stays = vec![true; read.len()];
        verdict.going.iter().for_each(|(index, _)| stays[wanted[*index]] = false);
        // The next step begins after the members that stay, except those that were not examined.
        let last_looked_at = if verdict.is_cut {
            verdict.going.last().map(|(index, _)| wanted[*index])
        } else {
            read.len().checked_sub(1)
        };
        let looked_at = last_looked_at.map_or(0, |last| last + 1);
        if let Some(index) = (0..looked_at).rev().find(|index| stays[*index]) {
            let (member, score) = &read[index];
            progress.place =
                Place::Scored(ScoredPlace { score: *score, ties: 0, member: Some(member.clone()) });
        }
        let count = verdict.going.len();
        assert!(count <= left, "no more members leave than the command asks for");
        progress.left = Some(left - count);
        progress.done += count;
        let gone: Vec<&[u8]> = verdict.going.iter().map(|(index, _)| &*read[wanted[*index]].0).collect();
        self.take_members(&mut ctx.store, &gone)?;
        let gone: Vec<Going> = verdict.going.into_iter().map(|(_, job)| job).collect();
        aim.deliver(&mut ctx.store, &gone)?;
        Ok(if left == count || is_end && !verdict.is_cut { Step::End } else { Step::More })
    }

    fn take_members(&self, store: &mut Store, members: &[&[u8]]) -> Result<(), CommandError> {
        if members.is_empty() {
            return Ok(());
        }
        if let Some(mut zset) = store.write_as::<ZSet>(self.from)? {
            let gone_count = members.iter().filter(|member| zset.remove(member).is_some()).count();
            assert_eq!(gone_count, members.len(), "a step removes what its effect says");
        }
        store.changed_with(self.from, Change::new(Class::ZSet, "zrem").times(members.len()), |store| {
            let effect: Vec<&[u8]> = [&b"ZREM"[..], self.from].iter().chain(members).copied().collect();
            store.effect(&effect);
        });
        store.delete_if_empty(self.from);
        Ok(())
    }
}

impl Aim<'_> {
    /// Decides which of these jobs leave. An error: none was examined, because these shards are needed.
    fn judge<'j>(
        &self,
        ctx: &mut Ctx,
        jobs: impl Iterator<Item = Job<'j>>,
        progress: &mut Progress,
    ) -> Result<Verdict, Vec<ShardId>> {
        let mut verdict = Verdict::default();
        let left = progress.left.expect("it is said before the first step");
        let enough = if self.transfer.is_plain() { left } else { left.min(STEP_JOBS_MAX) };
        for (index, job) in jobs.enumerate() {
            let shards = match enter_beside(ctx, self.transfer, job.element) {
                Ok(()) => Vec::new(),
                Err(shards) if verdict.going.is_empty() => return Err(shards),
                Err(shards) => shards,
            };
            if verdict.going.len() == enough || !shards.is_empty() {
                verdict.is_cut = true;
                break;
            }
            match self.consider(ctx, job, &verdict.going) {
                Ok(going) => verdict.going.push((index, going)),
                Err(refusal) => progress.refusal = Some(refusal),
            }
        }
        assert!(verdict.going.len() <= enough, "a step takes some jobs at a time");
        Ok(verdict)
    }

    /// Decides whether and how a job leaves, given the others that leave; the error says why it stays.
    fn consider(
        &self,
        ctx: &mut Ctx,
        job: Job<'_>,
        others: &[(usize, Going)],
    ) -> Result<Going, CommandError> {
        for key in self.transfer.keys(&ctx.store, job.element) {
            if !(ctx.host.may_change)(ctx.command, ctx.args, Keys::One(&key)) {
                return Err(NOT_PERMITTED);
            }
        }
        let going = self.transfer.take(&ctx.store, job)?;
        // A sorted set would merge two equal jobs into one.
        if let (Some(to), Kind::ZSet, None) = (self.to, self.kind, job.score) {
            let there = ctx.store.peek_as::<ZSet>(to)?;
            let is_there = there.is_some_and(|there| there.score(&going.element).is_some());
            if is_there || others.iter().any(|(_, other)| other.element == going.element) {
                return Err(ALREADY_THERE);
            }
        }
        Ok(going)
    }

    /// Adds removed jobs to the other queue, if there is one, and changes the keys beside them.
    fn deliver(&self, store: &mut Store, gone: &[Going]) -> Result<(), CommandError> {
        match self.to {
            Some(to) if !gone.is_empty() && self.kind == Kind::List => push_jobs(store, to, gone)?,
            Some(to) if !gone.is_empty() => add_jobs(store, to, gone)?,
            _ => {}
        }
        self.transfer.follow(store, gone);
        Ok(())
    }
}

/// Enters the shards of the keys beside a job. An error: some are taken, and all of these are needed.
fn enter_beside(ctx: &mut Ctx, transfer: &Transfer<'_>, element: &[u8]) -> Result<(), Vec<ShardId>> {
    loop {
        let keys = transfer.keys(&ctx.store, element);
        let (mut has_more, mut missing) = (false, Vec::new());
        for key in &keys {
            let id = ctx.store.locate(key).0;
            let hold = &mut ctx.store.tx.hold;
            if hold.has(id) {
                continue;
            }
            if hold.try_enter(id) || hold.wait(id, false) {
                has_more = true;
            } else {
                missing.push(id);
            }
        }
        if !missing.is_empty() {
            missing.extend(ctx.store.entered());
            return Err(missing);
        }
        if !has_more {
            return Ok(());
        }
    }
}

impl ScoredPlace {
    /// The rank of the member after this position.
    pub(crate) fn rank(&self, zset: ZSetRef<'_>) -> usize {
        let first = zset.score_range(ds::zset::ScoreBound::Inclusive(self.score), MAX).start;
        match &self.member {
            None => first + self.ties,
            Some(member) if zset.score(member) == Some(self.score) => {
                zset.rank(member).map_or(first, |rank| rank + 1)
            }
            // The member is gone, and it was one of those read.
            Some(_) => first + self.ties.saturating_sub(1),
        }
    }
}

const MAX: ds::zset::ScoreBound = ds::zset::ScoreBound::Inclusive(f64::INFINITY);

/// Pushes elements.
fn push<'e>(
    store: &mut Store,
    key: &[u8],
    end: End,
    elements: impl IntoIterator<Item = &'e [u8]>,
) -> Result<(), CommandError> {
    let limits = store.config().list;
    let list = store.upsert::<List>(key)?;
    for element in elements {
        list.push(end, element);
        list.compress_inner(&limits);
    }
    Ok(())
}

/// Pushes jobs in the order in which they were taken.
fn push_jobs(store: &mut Store, key: &[u8], jobs: &[Going]) -> Result<(), CommandError> {
    let into = popping_end(store, key).other();
    push(store, key, into, jobs.iter().map(|job| &*job.element))?;
    let change = Change::new(Class::List, push_event(into)).times(jobs.len());
    store.changed_with(key, change, |store| {
        let elements = jobs.iter().map(|job| &*job.element);
        let effect: Vec<&[u8]> = [push_command(into), key].into_iter().chain(elements).collect();
        store.effect(&effect);
    });
    Ok(())
}

/// Adds jobs to a sorted set.
fn add_jobs(store: &mut Store, key: &[u8], jobs: &[Going]) -> Result<(), CommandError> {
    let limits = store.config().zset;
    let mut zset = store.upsert::<ZSet>(key)?;
    jobs.iter().for_each(|job| _ = zset.insert(&job.element, job.score, &limits));
    drop(zset);
    store.changed_with(key, Change::new(Class::ZSet, "zadd").times(jobs.len()), |store| {
        for job in jobs {
            let mut text = Vec::new();
            resp::format_double(job.score, &mut text);
            store.effect(&[b"ZADD", key, &text, &job.element]);
        }
    });
    Ok(())
}

/// A text that no client has sent as an element.
fn unused_text(store: &mut Store, key: &[u8]) -> Vec<u8> {
    let random = store.random(key);
    format!("darter:removed:{:016x}{:016x}", random.next_u64(), random.next_u64()).into_bytes()
}
