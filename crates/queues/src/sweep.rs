//! Removes elements from a queue (`QUEUE REMOVE`), or moves them to another (`QUEUE MOVE`).
//!
//! Elements are visited in the order in which workers would take them. In a list, a step reads one node, removes what
//! is wanted, and adds it to the other queue. So no element is ever in both queues or in neither.
//!
//! The effects are commands of Redis. `LREM` alone is not enough: it removes the first element that equals the given
//! one, which may be a different one. So the elements to be removed are first marked (`LSET` with a text that no client
//! has sent), and then removed by that mark.

use command::{Change, Class, CommandError, Store, end_word, pop_event, push_command, push_event};
use ds::list::{Bookmark, End, List};
use ds::queue::take;
use std::borrow::Cow;

use ds::zset::{ZSet, ZSetRef};
use keyspace::Kind;

use crate::Ctx;
use crate::commands::wrong_type;
use crate::ends::{opposite, popping_end};
use crate::jobs::has_kept;
use crate::pattern::Pattern;
use crate::slices::{Place, Progress, ScoredPlace, Slice, Step};

/// Elements of a list that a step moves, or members of a sorted set that it reads.
const STEP_ELEMENTS: usize = 16;

/// What QUEUE MOVE answers if payloads would stay behind.
const KEPT: CommandError = CommandError::fixed(
    "ERR jobs of this queue are kept by their ids (JOB.PUT with options, or failed before) and cannot be moved: let workers take them",
);

/// What is to be done.
pub(crate) struct Sweep<'a> {
    /// The queue with the elements.
    pub(crate) from: &'a [u8],
    /// The queue that they are moved to; `None` removes them.
    pub(crate) to: Option<&'a [u8]>,
    /// Which elements; `None` means all.
    pub(crate) wanted: Option<Pattern<'a>>,
    /// The maximum number of elements.
    pub(crate) count: usize,
}

impl Sweep<'_> {
    /// Makes one step.
    pub(crate) fn step(
        &self,
        ctx: &mut Ctx,
        progress: &mut Progress,
        slice: &Slice,
    ) -> Result<Step, CommandError> {
        if !progress.is_begun {
            // Counts as one use of the key, however many slices there are.
            ctx.store.read(self.from);
        }
        let Some(value) = ctx.store.peek(self.from).map(|record| record.value()) else {
            return Ok(Step::End);
        };
        let (kind, len) = (value.kind(), value.len());
        if kind == Kind::Stream {
            return Err(wrong_type(kind));
        }
        let kind_of_to = self.to.and_then(|to| Some(ctx.store.peek(to)?.value().kind()));
        if kind_of_to.is_some_and(|of_to| of_to != kind) {
            return Err(CommandError::WRONG_TYPE);
        }
        if self.to.is_some() && has_kept(&ctx.store, self.from) {
            return Err(KEPT);
        }
        if let Place::Behind(mark, true) = progress.place {
            let list = ctx.store.write_as::<List>(self.from)?;
            progress.place = Place::Behind(list.map_or(mark, |list| list.compress_at(mark)), false);
            return Ok(Step::More);
        }
        // What comes meanwhile is not for it: a queue into which others push would never end.
        let left = progress.left.get_or_insert(self.count.min(len));
        if *left == 0 {
            return Ok(Step::End);
        }
        match (kind, self.to) {
            (Kind::List, Some(to)) if self.wanted.is_none() => self.move_first(&mut ctx.store, to, progress),
            (Kind::List, _) => self.step_in_list(&mut ctx.store, progress, slice),
            (Kind::ZSet, _) => self.step_in_zset(&mut ctx.store, progress),
            _ => Err(CommandError::WRONG_TYPE),
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
        let (end, into) = (popping_end(store, self.from), opposite(popping_end(store, to)));
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
        store: &mut Store,
        progress: &mut Progress,
        slice: &Slice,
    ) -> Result<Step, CommandError> {
        let end = popping_end(store, self.from);
        let Some(list) = store.peek_as::<List>(self.from)? else { return Ok(Step::End) };
        let mark = if let Place::Behind(mark, _) = &progress.place { Some(mark) } else { None };
        let Some(at) = list.node_after(end, mark) else { return Ok(Step::End) };
        let left = progress.left.as_mut().expect("it is said before the first step");
        let hits = list.read_node(at, |node| self.hits(node, end, *left));
        if hits.is_empty() {
            progress.place = Place::Behind(list.bookmark(at), false);
            return Ok(Step::More);
        }
        if slice.is_begun() {
            return Ok(Step::Later);
        }
        *left -= hits.len();
        progress.done += hits.len();
        let is_last = *left == 0;
        progress.place = match self.take(store, at, hits)? {
            Some(mark) => Place::Behind(mark, true),
            None => Place::Begin,
        };
        // The node that was changed is yet to be compressed.
        let rest = matches!(progress.place, Place::Behind(..)) && store.exists(self.from);
        Ok(if is_last && !rest { Step::End } else { Step::More })
    }

    /// The wanted elements of a node, at most `limit`, counted from `end`: their indexes, ascending, and the payloads
    /// to be moved.
    fn hits(&self, node: &ds::list::Stretch<'_>, end: End, limit: usize) -> Vec<(usize, Box<[u8]>)> {
        if self.wanted.as_ref().is_some_and(|pattern| !pattern.may_be_in(node.bytes())) {
            return Vec::new();
        }
        let kept = |element: &[u8]| if self.to.is_some() { element.into() } else { Box::default() };
        let mut hits: Vec<(usize, Box<[u8]>)> = (0..)
            .zip(node.elements())
            .filter(|(_, element)| self.is_wanted(element))
            .map(|(place, element)| (place, kept(element)))
            .collect();
        match end {
            End::Head => hits.truncate(limit),
            End::Tail => drop(hits.drain(..hits.len().saturating_sub(limit))),
        }
        hits
    }

    /// Removes elements from a node, and pushes them to the other queue if there is one.
    fn take(
        &self,
        store: &mut Store,
        at: usize,
        mut hits: Vec<(usize, Box<[u8]>)>,
    ) -> Result<Option<Bookmark>, CommandError> {
        let end = popping_end(store, self.from);
        let places: Vec<usize> = hits.iter().map(|(place, _)| *place).collect();
        let list = store.write_as::<List>(self.from)?.expect("it was read a moment ago");
        let (first, len) = (list.first_index(at), list.len());
        let mark = list.remove_in(at, &places, end);
        let change = Change::new(Class::List, "lrem").times(places.len());
        store.changed_with(self.from, change, |store| {
            let text = unused_text(store, self.from);
            for place in &places {
                let index = itoa::Buffer::new().format(first + place).to_owned();
                store.effect(&[b"LSET", self.from, index.as_bytes(), &text]);
            }
            // From the nearer end.
            let count = if first < len / 2 { places.len() as i64 } else { -(places.len() as i64) };
            store.effect(&[b"LREM", self.from, itoa::Buffer::new().format(count).as_bytes(), &text]);
        });
        store.delete_if_empty(self.from);
        if let Some(to) = self.to {
            if end == End::Tail {
                hits.reverse();
            }
            let into = opposite(popping_end(store, to));
            push(store, to, into, hits.iter().map(|(_, element)| &**element))?;
            let change = Change::new(Class::List, push_event(into)).times(hits.len());
            store.changed_with(to, change, |store| {
                let elements = hits.iter().map(|(_, element)| &**element);
                let effect: Vec<&[u8]> = [push_command(into), to].into_iter().chain(elements).collect();
                store.effect(&effect);
            });
        }
        Ok(mark)
    }

    fn step_in_zset(&self, store: &mut Store, progress: &mut Progress) -> Result<Step, CommandError> {
        let Some(zset) = store.peek_as::<ZSet>(self.from)? else { return Ok(Step::End) };
        let left = progress.left.as_mut().expect("it is said before the first step");
        let (mut hits, mut looked_at) = (Vec::new(), 0);
        let mut rank = match &progress.place {
            Place::Scored(place) => place.rank(zset),
            _ => 0,
        };
        for (member, score) in zset.iter_from_rank(rank, false).take(STEP_ELEMENTS) {
            looked_at += 1;
            if hits.len() < *left && self.is_wanted(&member) {
                hits.push((Box::<[u8]>::from(member), score));
            }
        }
        // What stays of them is before the place.
        let stays = |(member, _): &(Cow<'_, [u8]>, f64)| !hits.iter().any(|(gone, _)| **gone == **member);
        let mut stayed: Vec<(Cow<'_, [u8]>, f64)> =
            zset.iter_from_rank(rank, false).take(looked_at).filter(stays).collect();
        if let Some((member, score)) = stayed.pop() {
            progress.place = Place::Scored(ScoredPlace { score, ties: 0, member: Some(member.into()) });
        }
        rank += looked_at;
        let is_last = rank >= zset.len() || hits.len() == *left;
        *left -= hits.len();
        progress.done += hits.len();
        self.take_members(store, &hits)?;
        Ok(if is_last { Step::End } else { Step::More })
    }

    fn take_members(&self, store: &mut Store, hits: &[(Box<[u8]>, f64)]) -> Result<(), CommandError> {
        if hits.is_empty() {
            return Ok(());
        }
        if let Some(mut zset) = store.write_as::<ZSet>(self.from)? {
            hits.iter().for_each(|(member, _)| _ = zset.remove(member));
        }
        store.changed_with(self.from, Change::new(Class::ZSet, "zrem").times(hits.len()), |store| {
            let members = hits.iter().map(|(member, _)| &**member);
            let effect: Vec<&[u8]> = [&b"ZREM"[..], self.from].into_iter().chain(members).collect();
            store.effect(&effect);
        });
        store.delete_if_empty(self.from);
        let Some(to) = self.to else { return Ok(()) };
        let limits = store.config().zset;
        let mut zset = store.upsert::<ZSet>(to)?;
        hits.iter().for_each(|(member, score)| _ = zset.insert(member, *score, &limits));
        drop(zset);
        store.changed_with(to, Change::new(Class::ZSet, "zadd").times(hits.len()), |store| {
            for (member, score) in hits {
                let mut text = Vec::new();
                resp::format_double(*score, &mut text);
                store.effect(&[b"ZADD", to, &text, member]);
            }
        });
        Ok(())
    }
}

impl ScoredPlace {
    /// The rank of the member behind this place.
    pub(crate) fn rank(&self, zset: ZSetRef<'_>) -> usize {
        let first = zset.score_range(ds::zset::ScoreBound::Inclusive(self.score), MAX).start;
        match &self.member {
            None => first + self.ties,
            Some(member) if zset.score(member) == Some(self.score) => {
                zset.rank(member).map_or(first, |rank| rank + 1)
            }
            // It is gone, and was one of them.
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
    let limits = &store.config().list;
    let list = store.upsert::<List>(key)?;
    for element in elements {
        list.push(end, element);
        list.compress_inner(limits);
    }
    Ok(())
}

/// A text that no client has sent as an element.
fn unused_text(store: &mut Store, key: &[u8]) -> Vec<u8> {
    let random = store.random(key);
    format!("darter:removed:{:016x}{:016x}", random.next_u64(), random.next_u64()).into_bytes()
}
