//! Takes the members with the lowest or the highest scores.
//!
//! The effect of a pop is to remove the members that it took, by name.

use std::borrow::Cow;
use std::iter::Take;

use ds::zset::{Iter, ZSet, ZSetRef};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, Host, KeySpec, OwnedArgs, Pace,
    Removed, Room, Route, Run, Shape, Store, Taking, integer, key, keyword_is, oneof, parse_count, take_from,
    token,
};
use keyspace::{Kind, Type, UnixMs};
use resp::{Proto, Reply};
use smallvec::SmallVec;

use super::due::{due_count, is_any_due};
use super::remove::state_removed;
use super::{Layout, MEMBERS, PAIR, reply_member, reply_members, with_zadd};
use crate::list::pop::{Pop, parse_several, pop_or_null};

/// The members to take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The members with the lowest scores, the lowest first.
    Min,
    /// The members with the highest scores, the highest first.
    Max,
}

impl End {
    fn event(self) -> &'static str {
        match self {
            End::Min => "zpopmin",
            End::Max => "zpopmax",
        }
    }
}

/// The reply of a pop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// The members.
    Members(Layout),
    /// The key, the only member, and its score.
    KeyAndMember,
    /// The key, and an array of pairs.
    KeyAndPairs,
}

/// A pop.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZSetPop {
    pub(super) end: End,
    /// The most members to take; not 0.
    pub(super) count: usize,
    /// Only members that are due at this time are taken ([`super::due`]).
    pub(super) due_by: Option<UnixMs>,
    pub(super) answer: Answer,
}

impl ZSetPop {
    /// The members of `zset` that it takes, in the order of the reply.
    fn taken<'z>(&self, zset: ZSetRef<'z>) -> Take<Iter<'z>> {
        let members = match self.end {
            End::Min => zset.iter(),
            End::Max => zset.iter_from_rank(zset.len().saturating_sub(1), true),
        };
        let count = match self.due_by {
            Some(now) => due_count(zset, self.count, now),
            None => self.count,
        };
        members.take(count)
    }
}

impl Pop for ZSetPop {
    const KIND: Kind = Kind::ZSet;

    fn one(word: &[u8]) -> Result<Self, CommandError> {
        let end = match word {
            word if keyword_is(word, "min") => End::Min,
            word if keyword_is(word, "max") => End::Max,
            _ => return Err(CommandError::SYNTAX),
        };
        Ok(ZSetPop { end, count: 1, due_by: None, answer: Answer::KeyAndPairs })
    }

    fn up_to(self, count: usize) -> Self {
        ZSetPop { count, ..self }
    }

    fn try_key(self, ctx: &mut Ctx, key: &[u8], owes: bool) -> Result<bool, CommandError> {
        if let Some(now) = self.due_by
            && !is_any_due(&ctx.store, key, now)?
        {
            return Ok(false);
        }
        let mut restore = owes.then(|| ctx.spare_args());
        let records = ctx.store.records_effects();
        let (reply, host) = (&mut ctx.reply, &mut *ctx.host);
        let mut popping =
            Popping { pop: self, key, reply, host, records, restore: restore.as_mut(), gone: Vec::new() };
        let is_found = take_from(&mut ctx.store, key, &mut popping)?;
        if let Some(restore) = restore.filter(|_| is_found) {
            ctx.restore_with(restore);
        }
        Ok(is_found)
    }
}

/// A pop under way.
struct Popping<'c, 'r> {
    pop: ZSetPop,
    key: &'c [u8],
    reply: &'c mut Reply<'r>,
    host: &'c mut dyn Host,
    /// Whether effects are recorded.
    records: bool,
    /// Where the command is put that puts the members back.
    restore: Option<&'c mut OwnedArgs>,
    /// The members for the effect.
    gone: Vec<Vec<u8>>,
}

impl Taking for Popping<'_, '_> {
    type Value = ZSet;
    const IS_LIMITED: bool = false;

    fn remove(&mut self, mut zset: <ZSet as Type>::Mut<'_>, _: Room) -> Removed {
        let (pop, reply, mut pace) = (self.pop, &mut *self.reply, Pace::new(&mut *self.host));
        if let Some(restore) = &mut self.restore {
            let taken: SmallVec<[(Cow<'_, [u8]>, f64); 1]> = pop.taken(zset.lend()).collect();
            with_zadd(self.key, &taken, |args| restore.set(args));
        }
        let taken = pop.taken(zset.lend());
        let (len, count) = (zset.lend().len(), taken.len());
        match pop.answer {
            Answer::Members(layout) => reply_members(reply, taken, layout, &mut pace),
            Answer::KeyAndMember => {
                reply.array(1 + 2 * count);
                reply.bulk(self.key);
                for (member, score) in taken {
                    reply_member(reply, &member, score, Layout::Flat);
                }
            }
            Answer::KeyAndPairs => {
                reply.array(2);
                reply.bulk(self.key);
                reply_members(reply, taken, Layout::Pairs, &mut pace);
            }
        }
        let ranks = match pop.end {
            End::Min => 0..count,
            End::Max => len - count..len,
        };
        if self.records {
            zset.remove_rank_range(ranks, &mut |member, _| {
                self.gone.push(member.to_vec());
                pace.step();
            });
        } else {
            zset.drop_rank_range(ranks);
        }
        Removed { count, is_empty: count == len }
    }

    fn change(&self, count: usize) -> Change {
        Change::new(Class::ZSet, self.pop.end.event()).times(count)
    }

    fn effect(&mut self, store: &mut Store, key: &[u8], _: usize) {
        state_removed(store, key, &self.gone);
    }
}

pub(super) const ZPOPMIN: Entry = Entry {
    name: "zpopmin",
    summary: "Returns the lowest-scoring members from a sorted set after removing them. Deletes the sorted \
            set if the last member was popped.",
    complexity: "O(log(N)*M) with N being the number of elements in the sorted set, and M being the number \
            of elements popped.",
    since: "5.0.0",
    group: Group::SortedSet,
    arity: -2,
    flags: &[Write, Fast],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[RW, Access, Delete])],
    args: &[key("key", 0), integer("count").optional()],
    reply: Shape::OneOf(&[MEMBERS, PAIR]),
    run: Run::Function(zpopmin),
    ..Entry::DEFAULT
};

fn zpopmin(ctx: &mut Ctx) -> CommandResult {
    pop(ctx, End::Min)
}

pub(super) const ZPOPMAX: Entry = Entry {
    name: "zpopmax",
    summary: "Returns the highest-scoring members from a sorted set after removing them. Deletes the \
            sorted set if the last member was popped.",
    run: Run::Function(zpopmax),
    ..ZPOPMIN
};

fn zpopmax(ctx: &mut Ctx) -> CommandResult {
    pop(ctx, End::Max)
}

/// Pops the number of members in argument 2 from the set at argument 1. In RESP3 the reply contains pairs
/// only if argument 2 is given.
fn pop(ctx: &mut Ctx, end: End) -> CommandResult {
    let key = ctx.args[1];
    let (count, layout) = match &ctx.args[2..] {
        [] => (1, Layout::Flat),
        [count] => (
            parse_count(count)?,
            if ctx.reply.proto() == Proto::Resp3 { Layout::Pairs } else { Layout::Flat },
        ),
        _ => return Err(CommandError::SYNTAX),
    };
    let popped = if count == 0 {
        ctx.store.write_as::<ZSet>(key)?;
        false
    } else {
        ZSetPop { end, count, due_by: None, answer: Answer::Members(layout) }.try_key(ctx, key, false)?
    };
    if !popped {
        ctx.reply.array(0);
    }
    Ok(())
}

/// The reply of `ZMPOP` and `BZMPOP`.
pub(super) const KEY_AND_PAIRS: Shape =
    Shape::OneOf(&[Shape::Tuple(&[Shape::Bulk, Shape::Array(&PAIR)]), Shape::Null]);

pub(super) const ZMPOP: Entry = Entry {
    name: "zmpop",
    summary: "Returns the highest- or lowest-scoring members from one or more sorted sets after removing \
            them. Deletes the sorted set if the last member was popped.",
    complexity: "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements \
            in the sorted set, and M being the number of elements popped.",
    since: "7.0.0",
    group: Group::SortedSet,
    arity: -4,
    flags: &[Write],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::numbered(1, &[RW, Access, Delete])],
    route: Route::KeysInTurn,
    args: &[
        integer("numkeys"),
        key("key", 0).multiple(),
        oneof("where", &[token("min", "MIN"), token("max", "MAX")]),
        integer("count").token("COUNT").optional(),
    ],
    reply: KEY_AND_PAIRS,
    run: Run::Function(zmpop),
    ..Entry::DEFAULT
};

fn zmpop(ctx: &mut Ctx) -> CommandResult {
    let (keys, pop) = parse_several::<ZSetPop>(&ctx.args[1..])?;
    pop_or_null(ctx, keys, pop)
}
