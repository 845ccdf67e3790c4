//! BZTSPOP and BZTSMOVE take the members of sorted sets whose scores are times that have come. They wait until the first
//! one is due, and are served at that moment.
//!
//! ```text
//!             score ≤ now
//!   ┌──────────────┐ BZTSPOP   to the client: the key, and members with scores
//!   │ due → member │ ────────▶
//!   └──────────────┘ BZTSMOVE  LPUSH to a list, the earliest first, so that BRPOP takes it first
//! ```
//!
//! No score has to be looked at but the lowest one: the thread is told when that will be due
//! ([`When::Due`]), and again when an earlier member is added. So a million members in the future cost nothing.
//!
//! Scores are seconds since 1970. Those that would be times after the year 5138 are milliseconds, as with QUEUE PROMOTE.
//!
//! The effects are ZREM, and LPUSH of a move, with the members that were taken, which any replica knows.

use ds::list::End as ListEnd;
use ds::zset::{ZSet, ZSetRef};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, Host, KeySpec, Pace, Removed, Room,
    Route, Run, Shape, Store, TakeOrWait, Taking, Took, When, double, integer, key, parse_count,
    parse_timeout_in_seconds, take_from,
};
use keyspace::queue::MS_MIN;
use keyspace::{List, Type, UnixMs, ValueRef};

use super::pop::{Answer, End, KEY_AND_PAIRS, ZSetPop};
use super::remove::state_removed;
use crate::list::pop::Pop;
use crate::list::push::{push_moved, state_pushes};

/// The most members in one removal that is recorded as an effect.
const EFFECT_MEMBERS_MAX: usize = 1024;

const COUNT_NOT_POSITIVE: CommandError = CommandError::fixed("ERR count should be greater than 0");

pub(super) const BZTSPOP: Entry = Entry {
    name: "bztspop",
    summary: "Removes and returns members whose scores are times that have come from the first of several sorted sets \
            that has some. Blocks until a member is due otherwise. Deletes the sorted set if the last member was popped.",
    complexity: "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements in the \
            sorted set, and M being the number of elements popped.",
    since: "",
    group: Group::SortedSet,
    arity: -4,
    // Not DenyOom: a full server can be drained.
    flags: &[Write, Blocking],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::range(1, -3, 1, &[RW, Access, Delete])],
    route: Route::KeysInTurn,
    args: &[key("key", 0).multiple(), integer("count"), double("timeout")],
    reply: KEY_AND_PAIRS,
    run: Run::Function(bztspop),
    ..Entry::DEFAULT
};

fn bztspop(ctx: &mut Ctx) -> CommandResult {
    let [_, keys @ .., count, timeout] = ctx.args else { unreachable!("the arity was checked") };
    let pop = due_pop(count, ctx.store.now())?;
    let timeout_ms = Some(parse_timeout_in_seconds(timeout, ctx.store.now())?);
    let (when, serve) = (When::Due(due_at), serve_bztspop);
    let ask = TakeOrWait { keys, order: None, when, also: None, timeout_ms, owes: true, serve };
    if ctx.take_or_wait(&ask, |ctx, key, owes| pop.try_key(ctx, key, owes))? == Took::Nothing {
        ctx.reply.null_array();
    }
    Ok(())
}

fn serve_bztspop(ctx: &mut Ctx, key: &[u8]) -> Result<bool, CommandError> {
    let [.., count, _] = ctx.args else { unreachable!("the arity was checked") };
    due_pop(count, ctx.store.now())?.try_key(ctx, key, true)
}

fn due_pop(count: &[u8], now: UnixMs) -> Result<ZSetPop, CommandError> {
    let (count, due_by) = (parse_up_to(count)?, Some(now));
    Ok(ZSetPop { end: End::Min, count, due_by, answer: Answer::KeyAndPairs })
}

fn parse_up_to(count: &[u8]) -> Result<usize, CommandError> {
    parse_count(count).ok().filter(|count| *count > 0).ok_or(COUNT_NOT_POSITIVE)
}

pub(super) const BZTSMOVE: Entry = Entry {
    name: "bztsmove",
    summary: "Moves members whose scores are times that have come from the first of several sorted sets that has some \
            to the head of a list, the earliest first, and returns them. Blocks until a member is due otherwise. \
            Deletes the sorted set if the last member was moved.",
    arity: -5,
    flags: &[Write, DenyOom, Blocking],
    keys: &[KeySpec::range(1, -3, 1, &[RW, Access, Delete])],
    // As with the other moves, both ends are entered before anything is taken.
    route: Route::Keys,
    args: &[key("key", 0).multiple(), key("list", 0), integer("count"), double("timeout")],
    reply: Shape::OneOf(&[Shape::BULKS, Shape::Null]),
    run: Run::Function(bztsmove),
    ..BZTSPOP
};

fn bztsmove(ctx: &mut Ctx) -> CommandResult {
    let [_, keys @ .., list, count, timeout] = ctx.args else { unreachable!("the arity was checked") };
    let count = parse_up_to(count)?;
    let timeout_ms = Some(parse_timeout_in_seconds(timeout, ctx.store.now())?);
    let (when, also, serve) = (When::Due(due_at), Some(*list), serve_bztsmove);
    let ask = TakeOrWait { keys, order: None, when, also, timeout_ms, owes: false, serve };
    if ctx.take_or_wait(&ask, |ctx, key, _| try_move(ctx, key, list, count))? == Took::Nothing {
        ctx.reply.null_array();
    }
    Ok(())
}

fn serve_bztsmove(ctx: &mut Ctx, key: &[u8]) -> Result<bool, CommandError> {
    let [.., list, count, _] = ctx.args else { unreachable!("the arity was checked") };
    let count = parse_up_to(count)?;
    try_move(ctx, key, list, count)
}

/// The first millisecond in which a member with this score is due.
fn due_ms(score: f64) -> UnixMs {
    if score >= MS_MIN {
        return score.ceil() as UnixMs;
    }
    // A double tells microseconds apart at times of this century, and no more: what it has beyond them is rounding.
    let us = (score * 1e6).round() as i64;
    us.div_euclid(1000) + i64::from(us.rem_euclid(1000) > 0)
}

/// When the first member is due ([`When::Due`]).
fn due_at(value: ValueRef<'_>) -> Option<UnixMs> {
    ZSet::of(value)?.score_at(0).map(due_ms)
}

/// How many members at the front of `zset` are due, at most `max`.
pub(super) fn due_count(zset: ZSetRef<'_>, max: usize, now: UnixMs) -> usize {
    zset.iter().take(max).take_while(|(_, score)| due_ms(*score) <= now).count()
}

/// Whether a member of the sorted set at `key` is due.
pub(super) fn is_any_due(store: &Store, key: &[u8], now: UnixMs) -> Result<bool, CommandError> {
    let first = store.peek_as::<ZSet>(key)?.and_then(|zset| zset.score_at(0));
    Ok(first.is_some_and(|score| due_ms(score) <= now))
}

/// Moves members that are due from `source` to a list, and replies with them. False, without a reply, if there are none.
fn try_move(ctx: &mut Ctx, source: &[u8], list: &[u8], count: usize) -> Result<bool, CommandError> {
    let now = ctx.store.now();
    if !is_any_due(&ctx.store, source, now)? {
        return Ok(false);
    }
    let refused = ctx.store.peek_as::<List>(list).err();
    let host = &mut *ctx.host;
    let mut moving = MovingDue { list, count, now, refused, moved: Vec::new(), host };
    if !take_from(&mut ctx.store, source, &mut moving)? {
        return Ok(false);
    }
    let moved = moving.moved;
    ctx.reply.array(moved.len());
    moved.iter().for_each(|member| ctx.reply.bulk(member));
    Ok(true)
}

/// A move under way.
struct MovingDue<'a, 'h> {
    list: &'a [u8],
    /// The most members to move; not 0.
    count: usize,
    now: UnixMs,
    /// Why nothing can be pushed to the list.
    refused: Option<CommandError>,
    /// The members, the earliest first.
    moved: Vec<Vec<u8>>,
    host: &'h mut dyn Host,
}

impl Taking for MovingDue<'_, '_> {
    type Value = ZSet;
    const IS_LIMITED: bool = false;

    fn refusal(&mut self) -> Option<CommandError> {
        self.refused.take()
    }

    fn remove(&mut self, mut zset: <ZSet as Type>::Mut<'_>, _: Room) -> Removed {
        let count = due_count(zset.lend(), self.count, self.now);
        let mut pace = Pace::new(&mut *self.host);
        zset.remove_rank_range(0..count, &mut |member, _| {
            self.moved.push(member.to_vec());
            pace.step();
        });
        Removed { count, is_empty: zset.lend().is_empty() }
    }

    fn place(&mut self, store: &mut Store) -> Result<(), CommandError> {
        let elements: Vec<&[u8]> = self.moved.iter().map(Vec::as_slice).collect();
        push_moved(store, self.list, ListEnd::Head, &elements)
    }

    /// The pushes count as the change.
    fn change(&self, _: usize) -> Change {
        Change::new(Class::ZSet, "zrem").times(0)
    }

    fn effect(&mut self, store: &mut Store, key: &[u8], _: usize) {
        for some in self.moved.chunks(EFFECT_MEMBERS_MAX) {
            state_removed(store, key, some);
            let elements: Vec<&[u8]> = some.iter().map(Vec::as_slice).collect();
            state_pushes(store, self.list, ListEnd::Head, &elements);
        }
    }
}
