//! Limits of queues: how many elements are taken in a time, and how many jobs are with workers.
//!
//! A limit is a hash beside the list, and what was taken of late is a sorted set, so snapshots, the journal and replicas have both:
//!
//! ```text
//! {mail}:jobs:limit   rate 100  per_ms 60000  active 5  per_group 1
//! {mail}:jobs:rate    "1-40" → 1700000060000    takes 1 to 40 count until then
//!                     "41-41" → 1700000060012
//! ```
//!
//! **Rate.** A take counts for `per_ms` milliseconds. Another one happens only if fewer than `rate` takes count, so no window of
//! that length, wherever it begins, has more of them than `rate`. Takes within the same thousandth of `per_ms` are one member,
//! which counts as if all had happened at its end: so there are at most some 1,001 members, and a limit that is reached opens
//! later by that thousandth at most. Times are those of the machine's clock, because they outlive the server.
//!
//! Takes are counted by the command that takes, in the same transaction. A journal or a primary states them as effects.
//!
//! Not here: who has active jobs and groups (`jobs`), and QUEUE LIMIT (`queues`).

use std::str::from_utf8;

use ds::hash::Hash;
use ds::list::List;
use ds::num::ScoreBound;
use ds::zset::{ZSet, ZSetRef};
use keyspace::Class;
use keyspace::queue::{LIMIT, RATE};
use shard::Placement;

use super::Store;
use super::lookup::peek_into;
use super::storing::got_room;
use crate::change::Change;
use crate::error::CommandError;
use crate::parse::{keyword_is, parse_i64};
use crate::task::{JobsDue, Post};

/// What is due within this time is said to the thread; what is later is found by the looks that it takes each second.
pub const SOON_MS: i64 = 1500;
/// The largest number in a limit. As a number of milliseconds it is some ten thousand years, and a double holds any time until then.
const NUMBER_MAX: i64 = 1 << 48;
/// A thread reads the clock at the beginning of its turn, so it may see takes of others that came later: by less than this.
const BEHIND_MS_MAX: i64 = 1000;
/// Takes within one of so many parts of the window count as the last of them.
const PARTS: i64 = 1000;

/// Bytes that names of keys beside a queue have more than the queue's, mostly.
const BESIDE_BYTES: usize = 24;

const BAD_NUMBER: CommandError =
    CommandError::fixed("ERR numbers of a limit are greater than 0 and not greater than 281474976710656");
const BAD_NAME: CommandError = CommandError::fixed(
    "ERR no name of a key lies beside this queue: give it a name without braces, or with a hash tag",
);

/// How many elements are taken in a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// So many.
    pub count: u64,
    /// In each window of so many milliseconds.
    pub per_ms: i64,
}

impl Rate {
    /// Until when a take counts that happens now: a window after the end of the part in which it happens.
    fn until_ms(self, now_ms: i64) -> i64 {
        let part_ms = (self.per_ms / PARTS).max(1);
        now_ms - now_ms.rem_euclid(part_ms) + part_ms - 1 + self.per_ms
    }
}

/// What limits a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limit {
    /// How many elements are taken in a time.
    pub rate: Option<Rate>,
    /// How many jobs are active.
    pub active: Option<u64>,
    /// How many jobs of each group are active.
    pub per_group: Option<u64>,
}

/// How many elements may be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room(u64);

impl Room {
    /// As many as there are, and nobody counts them.
    pub const ANY: Room = Room(u64::MAX);

    /// Whether there is none.
    #[inline]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// So many, or fewer if there is less room.
    #[inline]
    pub fn fit(self, count: usize) -> usize {
        self.0.min(count as u64) as usize
    }
}

impl Limit {
    /// As `[RATE n PER ms] [ACTIVE n] [PER GROUP n]` says.
    ///
    /// # Errors
    /// If the words are others, or nothing is limited.
    pub fn parse(args: &[&[u8]]) -> Result<Limit, CommandError> {
        let (mut limit, mut rest) = (Limit::default(), args);
        loop {
            rest = match *rest {
                [rate, count, per, per_ms, ref rest @ ..]
                    if keyword_is(rate, "rate") && keyword_is(per, "per") && limit.rate.is_none() =>
                {
                    let per_ms = parse_number(per_ms)?.cast_signed();
                    limit.rate = Some(Rate { count: parse_number(count)?, per_ms });
                    rest
                }
                [active, count, ref rest @ ..] if keyword_is(active, "active") && limit.active.is_none() => {
                    limit.active = Some(parse_number(count)?);
                    rest
                }
                [per, group, count, ref rest @ ..]
                    if keyword_is(per, "per") && keyword_is(group, "group") && limit.per_group.is_none() =>
                {
                    limit.per_group = Some(parse_number(count)?);
                    rest
                }
                [] if limit != Limit::default() => return Ok(limit),
                _ => return Err(CommandError::SYNTAX),
            };
        }
    }

    /// Names and numbers, as they are kept and shown.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let rows = [
            ("rate", self.rate.map(|rate| rate.count)),
            ("per_ms", self.rate.map(|rate| rate.per_ms.cast_unsigned())),
            ("active", self.active),
            ("per_group", self.per_group),
        ];
        rows.into_iter().filter_map(|(name, number)| Some((name, number?)))
    }

    /// The limit of `queue`, if it has one.
    ///
    /// # Errors
    /// If something else is where it would be.
    pub fn of(store: &Store, queue: &[u8]) -> Result<Option<Limit>, CommandError> {
        if !has_limit(store, queue) {
            return Ok(None);
        }
        let Ok(keys) = Keys::of(store, queue) else { return Ok(None) };
        let mut buffer = Vec::new();
        let fields =
            peek_into::<Hash>(store, &keys.limit, &mut buffer).map_err(|_| wrong_type(&keys.limit))?;
        let Some(fields) = fields else { return Ok(None) };
        let number = |name: &str| match fields.get(name.as_bytes()) {
            None => Ok(None),
            Some(text) => parse_number(&text.bytes()).map(Some).map_err(|_| unreadable(&keys.limit)),
        };
        let rate = match (number("rate")?, number("per_ms")?) {
            (Some(count), Some(per_ms)) => Some(Rate { count, per_ms: per_ms.cast_signed() }),
            (None, None) => None,
            _ => return Err(unreadable(&keys.limit)),
        };
        Ok(Some(Limit { rate, active: number("active")?, per_group: number("per_group")? }))
    }

    /// Limits `queue` so, or no longer, and serves those who wait and may take now. What was taken before counts, as far as it did.
    ///
    /// # Errors
    /// If `queue` or a key beside it holds something else.
    pub fn set(store: &mut Store, queue: &[u8], limit: Option<Limit>) -> Result<(), CommandError> {
        let keys = Keys::of(store, queue)?;
        store.peek_as::<List>(queue)?;
        peek_into::<Hash>(store, &keys.limit, &mut Vec::new()).map_err(|_| wrong_type(&keys.limit))?;
        store.peek_as::<ZSet>(&keys.rate).map_err(|_| wrong_type(&keys.rate))?;
        // One that cannot be read is replaced.
        let before = Limit::of(store, queue).unwrap_or(None).and_then(|limit| limit.rate);
        store.delete(&keys.limit);
        if let Some(limit) = &limit {
            limit.keep(store, &keys.limit)?;
        }
        match (before, limit.and_then(|limit| limit.rate)) {
            (Some(before), Some(rate)) if before.per_ms != rate.per_ms => {
                keys.shift(store, rate.per_ms - before.per_ms, rate)?;
            }
            (_, None) => _ = store.delete(&keys.rate),
            (_, Some(_)) => {}
        }
        open(store, queue)?;
        got_room(store, queue);
        // What is kept of groups is to follow.
        let (shard, _) = store.locate(queue);
        let (db, time_ms) = (store.client.db, store.now());
        store.tx.posts.push(Post::Due(JobsDue { time_ms, shard, db, queue: queue.into() }));
        Ok(())
    }

    fn keep(&self, store: &mut Store, key: &[u8]) -> Result<(), CommandError> {
        let mut effect: Vec<Vec<u8>> = vec![b"HSET".to_vec(), key.to_vec()];
        for (name, number) in self.rows() {
            effect.push(name.into());
            effect.push(itoa::Buffer::new().format(number).into());
        }
        let limits = &store.config().hash;
        let mut fields = store.upsert::<Hash>(key)?;
        for field in effect[2..].chunks(2) {
            fields.set(&field[0], &field[1], limits);
        }
        drop(fields);
        store.changed_with(key, Change::new(Class::Hash, "hset"), |store| {
            store.effect(&effect.iter().map(|arg| &arg[..]).collect::<Vec<_>>());
        });
        Ok(())
    }
}

/// The keys of a limit.
struct Keys {
    limit: Vec<u8>,
    rate: Vec<u8>,
}

impl Keys {
    fn of(store: &Store, queue: &[u8]) -> Result<Keys, CommandError> {
        let begin = beside(store, queue)?;
        let name = |end: &[u8]| [&begin, end].concat();
        Ok(Keys { limit: name(LIMIT), rate: name(RATE) })
    }

    /// All takes count for so much longer, but none for longer than one that happens now. Those that count equally long are one member
    /// from then on: so their order is that of their numbers.
    fn shift(&self, store: &mut Store, by_ms: i64, rate: Rate) -> Result<(), CommandError> {
        let Some(takes) = store.peek_as::<ZSet>(&self.rate)? else { return Ok(()) };
        let (now_ms, latest_ms) = (store.now(), rate.until_ms(store.now()));
        let mut shifted: Vec<(Span, i64)> = Vec::new();
        for (takes, until_ms) in takes.iter() {
            let span = Span::parse(&takes).ok_or_else(|| unreadable(&self.rate))?;
            let until_ms = (until_ms as i64).saturating_add(by_ms).min(latest_ms);
            match shifted.last_mut() {
                Some((before, before_ms)) if *before_ms == until_ms => before.last = span.last,
                _ if until_ms > now_ms => shifted.push((span, until_ms)),
                _ => {}
            }
        }
        store.delete(&self.rate);
        for (span, until_ms) in shifted {
            self.put(store, span.text().as_bytes(), until_ms)?;
        }
        Ok(())
    }

    /// These takes count until then.
    fn put(&self, store: &mut Store, takes: &[u8], until_ms: i64) -> Result<(), CommandError> {
        let (key, limits) = (&*self.rate, &store.config().zset);
        store.upsert::<ZSet>(key)?.insert(takes, until_ms as f64, limits);
        store.changed_with(key, Change::new(Class::ZSet, "zadd").times(0), |store| {
            store.effect(&[b"ZADD", key, itoa::Buffer::new().format(until_ms).as_bytes(), takes]);
        });
        Ok(())
    }

    /// If the clock was set back, by more than threads differ, takes that seem to come later happen now.
    fn follow_clock(&self, store: &mut Store, rate: Rate) -> Result<(), CommandError> {
        let last = self.counted(store.peek_as::<ZSet>(&self.rate)?, store.now())?.last;
        let is_ahead =
            last.is_some_and(|(_, until_ms)| until_ms > rate.until_ms(store.now()) + BEHIND_MS_MAX);
        if is_ahead { self.shift(store, 0, rate) } else { Ok(()) }
    }

    /// When there is room again, if there is none; the thread is told.
    fn tell_when_open(
        &self,
        store: &mut Store,
        queue: &[u8],
        rate: Rate,
    ) -> Result<Option<i64>, CommandError> {
        let counted = self.counted(store.peek_as::<ZSet>(&self.rate)?, store.now())?;
        let opens_ms = counted.opens_ms(rate);
        if let Some(time_ms) = opens_ms.filter(|opens_ms| *opens_ms < store.now() + SOON_MS) {
            let (shard, _) = store.locate(queue);
            let (db, queue) = (store.client.db, queue.into());
            store.tx.posts.push(Post::Due(JobsDue { time_ms, shard, db, queue }));
        }
        Ok(opens_ms)
    }

    /// Forgets takes that count no more.
    fn forget_old(&self, store: &mut Store) -> Result<(), CommandError> {
        let (key, now_ms) = (&*self.rate, store.now());
        let Some(takes) = store.peek_as::<ZSet>(key)? else { return Ok(()) };
        let old = takes.score_range(ScoreBound::Inclusive(f64::NEG_INFINITY), up_to(now_ms));
        if old.is_empty() {
            return Ok(());
        }
        if let Some(mut takes) = store.write_as::<ZSet>(key)? {
            takes.drop_rank_range(old);
        }
        store.changed_with(key, Change::new(Class::ZSet, "zremrangebyscore").times(0), |store| {
            let now_ms = itoa::Buffer::new().format(now_ms).to_owned();
            store.effect(&[b"ZREMRANGEBYSCORE", key, b"-inf", now_ms.as_bytes()]);
        });
        store.delete_if_empty(key);
        Ok(())
    }

    /// What counts at `now_ms`.
    fn counted(&self, takes: Option<ZSetRef<'_>>, now_ms: i64) -> Result<Counted, CommandError> {
        let Some(takes) = takes else { return Ok(Counted::default()) };
        let first = takes.score_range(ScoreBound::Inclusive(f64::NEG_INFINITY), up_to(now_ms)).end;
        let parse = |rank: usize| -> Result<Option<(Span, i64)>, CommandError> {
            let Some((span, until_ms)) = takes.at(rank) else { return Ok(None) };
            Ok(Some((Span::parse(&span).ok_or_else(|| unreadable(&self.rate))?, until_ms as i64)))
        };
        let last = takes.len().checked_sub(1).map(parse).transpose()?.flatten();
        Ok(Counted { first: parse(first)?, last })
    }
}

fn up_to(now_ms: i64) -> ScoreBound {
    ScoreBound::Inclusive(now_ms as f64)
}

/// The oldest takes that count, and the newest, each with the time until which they do.
#[derive(Clone, Copy, Default)]
struct Counted {
    first: Option<(Span, i64)>,
    last: Option<(Span, i64)>,
}

impl Counted {
    fn count(self) -> u64 {
        match (self.first, self.last) {
            (Some((first, _)), Some((last, _))) => (last.last + 1).saturating_sub(first.first),
            _ => 0,
        }
    }

    /// When there is room again, if there is none.
    fn opens_ms(self, rate: Rate) -> Option<i64> {
        self.first.filter(|_| self.count() >= rate.count).map(|(_, until_ms)| until_ms)
    }
}

/// Takes that follow each other, by their numbers.
#[derive(Clone, Copy)]
struct Span {
    first: u64,
    last: u64,
}

impl Span {
    fn parse(text: &[u8]) -> Option<Span> {
        let (first, last) = from_utf8(text).ok()?.split_once('-')?;
        let span = Span { first: first.parse().ok()?, last: last.parse().ok()? };
        (span.first <= span.last && span.last < u64::MAX / 2).then_some(span)
    }

    fn text(self) -> String {
        format!("{}-{}", self.first, self.last)
    }
}

/// How the names of keys begin that lie beside `queue` on its shard, because what decides where the queue lies is their hash tag.
///
/// ```text
/// mail        {mail}
/// {eu}mail    {eu}:{eu}mail      where a hash tag or a rule of `colocate` decides
/// ```
///
/// # Errors
/// If no name does.
pub fn beside(store: &Store, queue: &[u8]) -> Result<Vec<u8>, CommandError> {
    beside_in(store.tx.hold.shards().placement(), queue)
}

/// The same where keys are placed so.
pub(super) fn beside_in(placement: &Placement, queue: &[u8]) -> Result<Vec<u8>, CommandError> {
    let part = placement.placing_part(queue);
    if part.is_empty() || part.contains(&b'}') {
        return Err(BAD_NAME);
    }
    let mut begin = Vec::with_capacity(part.len() + queue.len() + BESIDE_BYTES);
    begin.push(b'{');
    begin.extend_from_slice(part);
    begin.push(b'}');
    if part.len() < queue.len() {
        begin.push(b':');
        begin.extend_from_slice(queue);
    }
    Ok(begin)
}

/// Whether the key of a limit lies beside the list at `queue`. Quick where none lies on the shard.
#[inline]
pub fn has_limit(store: &Store, queue: &[u8]) -> bool {
    store.db(store.entered_shard(queue)).queues().is_limited(queue)
}

/// Whether something limits the list at `queue` for who runs the transaction.
#[inline]
fn is_limited(store: &Store, queue: &[u8]) -> bool {
    has_limit(store, queue) && !store.tx.keeps_due
}

/// How many elements may be taken from the list at `queue`, as far as its rate is limited.
///
/// # Errors
/// If what says so cannot be read.
#[inline]
pub fn room(store: &Store, queue: &[u8]) -> Result<Room, CommandError> {
    if is_limited(store, queue) { limited_room(store, queue) } else { Ok(Room::ANY) }
}

#[cold]
fn limited_room(store: &Store, queue: &[u8]) -> Result<Room, CommandError> {
    let Some(rate) = Limit::of(store, queue)?.and_then(|limit| limit.rate) else { return Ok(Room::ANY) };
    let Ok(keys) = Keys::of(store, queue) else { return Ok(Room::ANY) };
    let takes = store.peek_as::<ZSet>(&keys.rate).map_err(|_| wrong_type(&keys.rate))?;
    let counted = keys.counted(takes, store.now())?;
    Ok(Room(rate.count.saturating_sub(counted.count()).min(u64::MAX - 1)))
}

/// Counts elements that were taken from the list at `queue`, in which there was such `room`.
///
/// # Errors
/// If [`room`] would have one.
#[inline]
pub fn took(store: &mut Store, queue: &[u8], room: Room, count: usize) -> Result<(), CommandError> {
    if room == Room::ANY { Ok(()) } else { count_takes(store, queue, count as u64) }
}

#[cold]
fn count_takes(store: &mut Store, queue: &[u8], count: u64) -> Result<(), CommandError> {
    let Some(rate) = Limit::of(store, queue)?.and_then(|limit| limit.rate) else { return Ok(()) };
    let Ok(keys) = Keys::of(store, queue) else { return Ok(()) };
    if count == 0 {
        return Ok(());
    }
    keys.follow_clock(store, rate)?;
    keys.forget_old(store)?;
    let (until_ms, key) = (rate.until_ms(store.now()), &*keys.rate);
    let last = keys.counted(store.peek_as::<ZSet>(key)?, store.now())?.last;
    let first = last.map_or(1, |(span, _)| span.last + 1);
    let mut span = Span { first, last: first + count - 1 };
    if let Some((same, _)) = last.filter(|(_, last_ms)| *last_ms == until_ms) {
        let text = same.text();
        if let Some(mut takes) = store.write_as::<ZSet>(key)? {
            takes.remove(text.as_bytes());
        }
        store.changed_with(key, Change::new(Class::ZSet, "zrem").times(0), |store| {
            store.effect(&[b"ZREM", key, text.as_bytes()]);
        });
        span.first = same.first;
    }
    keys.put(store, span.text().as_bytes(), until_ms)?;
    keys.tell_when_open(store, queue, rate)?;
    Ok(())
}

/// Brings what was taken up to date with the clock, and serves those who wait if there is room; when there will be, if there is none.
/// To be called now and then while takes count.
///
/// # Errors
/// If what says so cannot be read.
pub fn open(store: &mut Store, queue: &[u8]) -> Result<Option<i64>, CommandError> {
    let Some(limit) = Limit::of(store, queue)? else { return Ok(None) };
    let (Ok(keys), Some(rate)) = (Keys::of(store, queue), limit.rate) else {
        got_room(store, queue);
        return Ok(None);
    };
    keys.follow_clock(store, rate)?;
    keys.forget_old(store)?;
    let opens_ms = keys.tell_when_open(store, queue, rate)?;
    if opens_ms.is_none() {
        got_room(store, queue);
    }
    Ok(opens_ms)
}

/// A limit or what it counts holds something else.
fn wrong_type(key: &[u8]) -> CommandError {
    let key = key.escape_ascii();
    CommandError::new(format!("WRONGTYPE {key}, which belongs to the queue's limit, holds something else"))
}

/// The same of its fields or members.
fn unreadable(key: &[u8]) -> CommandError {
    let key = key.escape_ascii();
    CommandError::new(format!("ERR {key}, which belongs to the queue's limit, was changed by hand: DEL it"))
}

fn parse_number(text: &[u8]) -> Result<u64, CommandError> {
    let number = parse_i64(text).ok().filter(|number| (1..=NUMBER_MAX).contains(number));
    number.map(i64::cast_unsigned).ok_or(BAD_NUMBER)
}
