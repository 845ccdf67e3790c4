//! Limits of queues: how many elements are taken within a window, and how many jobs are active.
//!
//! A limit is a hash beside the list, and the recent takes are a sorted set, so snapshots, the journal and
//! replicas include both:
//!
//! ```text
//! {mail}:jobs:limit   rate 100  per_ms 60000  active 5  per_group 1
//! {mail}:jobs:rate    "1-40" → 1700000060000    takes 1 to 40 count until then
//!                     "41-41" → 1700000060012
//! ```
//!
//! **Rate.** A take counts for `per_ms` milliseconds. Another one is allowed only if fewer than `rate` takes
//! count. So no window of that length, wherever it begins, has more than `rate` takes. Takes within the same
//! thousandth of `per_ms` are one member, which counts as if all of them had happened at its end. So there
//! are at most about 1,001 members, and a limit that was reached opens later by at most that thousandth.
//! Times are those of the machine's clock, because they outlive the server.
//!
//! The command that takes also counts its takes, in the same transaction. A journal or a primary states them
//! as effects.
//!
//! Not here: where takes are held back (`engine/store/queues/taking.rs`), the most active jobs (`active`), groups, and
//! QUEUE LIMIT (`queues/commands`).

mod active;

pub(crate) use active::has_some;

use std::str::from_utf8;

use ds::hash::Hash;
use ds::num::ScoreBound;
use ds::zset::{ZSet, ZSetRef};
use engine::{
    Change, Class, CommandError, JobsDue, JobsNews, Rates, Room, SOON_MS, Store, TxMessage, beside, got_room,
    keyword_is, parse_i64, peek_into,
};
use keyspace::List;
use keyspace::queue::{LIMIT, RATE};

/// The largest number in a limit. As milliseconds it is about ten thousand years, and a double represents any
/// time until then.
const NUMBER_MAX: i64 = 1 << 48;
/// A thread reads the clock at the beginning of its turn and may lose its processor then, so it may see later takes of
/// other threads: later by less than this.
const BEHIND_MS_MAX: i64 = 10_000;
/// The number of parts of the window. Takes within one part count as the last of them.
const PARTS: i64 = 1000;

const BAD_NUMBER: CommandError =
    CommandError::fixed("ERR numbers of a limit are greater than 0 and not greater than 281474976710656");
/// The rate at which elements are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rate {
    /// The number of elements.
    pub(crate) count: u64,
    /// The window in milliseconds.
    pub(crate) per_ms: i64,
}

impl Rate {
    /// The time until which a take counts that happens now: a window after the end of its part.
    fn until_ms(self, now_ms: i64) -> i64 {
        assert!(self.per_ms > 0, "a window has a length");
        let part_ms = (self.per_ms / PARTS).max(1);
        now_ms - now_ms.rem_euclid(part_ms) + part_ms - 1 + self.per_ms
    }
}

/// The limits of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Limit {
    /// The most elements that are taken within a window.
    pub(crate) rate: Option<Rate>,
    /// The most active jobs.
    pub(crate) active: Option<u64>,
    /// The most active jobs of each group.
    pub(crate) per_group: Option<u64>,
}

impl Limit {
    /// Parses `[RATE n PER ms] [ACTIVE n] [PER GROUP n]`.
    ///
    /// # Errors
    /// If there are other words, or there is no limit among them.
    pub(crate) fn parse(args: &[&[u8]]) -> Result<Limit, CommandError> {
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

    /// Names and numbers, as they are stored and shown.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> {
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
    /// If its key holds something else.
    pub(crate) fn of(store: &Store, queue: &[u8]) -> Result<Option<Limit>, CommandError> {
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

    /// Sets or removes the limit of `queue`, and serves the waiting clients that may take now. Earlier takes
    /// keep counting if they counted before.
    ///
    /// # Errors
    /// If `queue` or a key beside it holds something else.
    pub(crate) fn set(store: &mut Store, queue: &[u8], limit: Option<Limit>) -> Result<(), CommandError> {
        let keys = Keys::of(store, queue)?;
        store.peek_as::<List>(queue)?;
        peek_into::<Hash>(store, &keys.limit, &mut Vec::new()).map_err(|_| wrong_type(&keys.limit))?;
        store.peek_as::<ZSet>(&keys.rate).map_err(|_| wrong_type(&keys.rate))?;
        // An unreadable limit is replaced.
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
        // Let the thread move the groups that the new limit affects.
        let (shard, _) = store.locate(queue);
        let (db, time_ms) = (store.client.db, store.now());
        store.tx.outbox.push(TxMessage::Jobs(JobsNews::Due(JobsDue {
            time_ms,
            shard,
            db,
            queue: queue.into(),
        })));
        Ok(())
    }

    fn keep(&self, store: &mut Store, key: &[u8]) -> Result<(), CommandError> {
        let mut effect: Vec<Vec<u8>> = vec![b"HSET".to_vec(), key.to_vec()];
        for (name, number) in self.rows() {
            effect.push(name.into());
            effect.push(itoa::Buffer::new().format(number).into());
        }
        let limits = store.config().hash;
        let mut fields = store.upsert::<Hash>(key)?;
        for field in effect[2..].chunks(2) {
            fields.set(&field[0], &field[1], &limits);
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

    /// Changes the time that all takes count by `by_ms`, but not beyond that of a take that happens now.
    /// Takes that then count equally long become one member, so that their order remains that of their
    /// numbers.
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
        assert!(shifted.is_sorted_by_key(|(_, until_ms)| until_ms), "takes stay in their order");
        store.delete(&self.rate);
        for (span, until_ms) in shifted {
            self.put(store, span.text().as_bytes(), until_ms)?;
        }
        Ok(())
    }

    /// Notes that these takes count until then.
    fn put(&self, store: &mut Store, takes: &[u8], until_ms: i64) -> Result<(), CommandError> {
        let (key, limits) = (&*self.rate, store.config().zset);
        store.upsert::<ZSet>(key)?.insert(takes, until_ms as f64, &limits);
        store.changed_with(key, Change::new(Class::ZSet, "zadd").times(0), |store| {
            store.effect(&[b"ZADD", key, itoa::Buffer::new().format(until_ms).as_bytes(), takes]);
        });
        Ok(())
    }

    /// If the clock was set back by more than threads differ, treats takes that seem to be in the future as
    /// takes of now.
    fn follow_clock(&self, store: &mut Store, rate: Rate) -> Result<(), CommandError> {
        let last = self.counted(store.peek_as::<ZSet>(&self.rate)?, store.now())?.last;
        let is_ahead =
            last.is_some_and(|(_, until_ms)| until_ms > rate.until_ms(store.now()) + BEHIND_MS_MAX);
        if is_ahead { self.shift(store, 0, rate) } else { Ok(()) }
    }

    /// Returns when there is room again, if there is none, and tells the thread.
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
            store.tx.outbox.push(TxMessage::Jobs(JobsNews::Due(JobsDue { time_ms, shard, db, queue })));
        }
        Ok(opens_ms)
    }

    /// Forgets takes that no longer count.
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

    /// The takes that count at `now_ms`.
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

/// The oldest and the newest takes that count, each with the time until which they do.
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

/// Consecutive takes, by their numbers.
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

/// Whether there is the key of a limit beside the list at `queue`. Quick if the shard has none.
#[inline]
pub(crate) fn has_limit(store: &Store, queue: &[u8]) -> bool {
    let (shard, _) = store.locate(queue);
    store.db(shard).queues().is_limited(queue)
}

/// What commands that take from a queue ask of its limit.
pub const RATES: Rates = Rates { room, took };

/// How many elements the rate limit allows to take from the list at `queue`.
///
/// # Errors
/// If the limit or its takes cannot be read.
fn room(store: &Store, queue: &[u8]) -> Result<Room, CommandError> {
    let Some(rate) = Limit::of(store, queue)?.and_then(|limit| limit.rate) else { return Ok(Room::ANY) };
    let Ok(keys) = Keys::of(store, queue) else { return Ok(Room::ANY) };
    let takes = store.peek_as::<ZSet>(&keys.rate).map_err(|_| wrong_type(&keys.rate))?;
    let counted = keys.counted(takes, store.now())?;
    Ok(Room::of(rate.count.saturating_sub(counted.count())))
}

/// Counts elements that were taken from the list at `queue`.
///
/// # Errors
/// If [`room`] would return one.
fn took(store: &mut Store, queue: &[u8], count: u64) -> Result<(), CommandError> {
    let Some(rate) = Limit::of(store, queue)?.and_then(|limit| limit.rate) else { return Ok(()) };
    let Ok(keys) = Keys::of(store, queue) else { return Ok(()) };
    keys.follow_clock(store, rate)?;
    keys.forget_old(store)?;
    let key = &*keys.rate;
    let last = keys.counted(store.peek_as::<ZSet>(key)?, store.now())?.last;
    // Another thread's clock may be ahead of this one's. The order of the members has to stay that of their numbers.
    let until_ms = rate.until_ms(store.now()).max(last.map_or(0, |(_, last_ms)| last_ms));
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
    assert!(span.first <= span.last, "takes are numbered upward");
    keys.put(store, span.text().as_bytes(), until_ms)?;
    keys.tell_when_open(store, queue, rate)?;
    Ok(())
}

/// Brings the takes up to date with the clock, and serves waiting clients if there is room. Otherwise returns
/// when there will be. Call this now and then while takes count.
///
/// # Errors
/// If the limit or its takes cannot be read.
pub(crate) fn open(store: &mut Store, queue: &[u8]) -> Result<Option<i64>, CommandError> {
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

/// The error for a key of a limit that holds something else.
fn wrong_type(key: &[u8]) -> CommandError {
    let key = key.escape_ascii();
    CommandError::new(format!("WRONGTYPE {key}, which belongs to the queue's limit, holds something else"))
}

/// The error for unreadable fields or members of such a key.
fn unreadable(key: &[u8]) -> CommandError {
    let key = key.escape_ascii();
    CommandError::new(format!("ERR {key}, which belongs to the queue's limit, was changed by hand: DEL it"))
}

fn parse_number(text: &[u8]) -> Result<u64, CommandError> {
    let number = parse_i64(text).ok().filter(|number| (1..=NUMBER_MAX).contains(number));
    number.map(i64::cast_unsigned).ok_or(BAD_NUMBER)
}
