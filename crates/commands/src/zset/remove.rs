//! Removes members by name and by range.

use ds::zset::ZSet;
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, Store, double, integer,
    key, string,
};

use super::span::{By, Span};

pub(super) const ZREM: Entry = Entry {
    name: "zrem",
    summary: "Removes one or more members from a sorted set. Deletes the sorted set if all members were \
            removed.",
    complexity: "O(M*log(N)) with N being the number of elements in the sorted set and M the number of \
            elements to be removed.",
    since: "1.2.0",
    group: Group::SortedSet,
    arity: -3,
    flags: &[Write, Fast],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[RW, Delete])],
    args: &[key("key", 0), string("member").multiple()],
    history: &[("2.4.0", "Accepts multiple elements.")],
    reply: Shape::Int,
    run: Run::Function(zrem),
    ..Entry::DEFAULT
};

fn zrem(ctx: &mut Ctx) -> CommandResult {
    let (mut removed, mut pace) = (0, Pace::new(ctx.host));
    if let Some(mut zset) = ctx.store.write_as::<ZSet>(ctx.args[1])? {
        for member in &ctx.args[2..] {
            removed += usize::from(zset.remove(member).is_some());
            pace.step();
        }
    }
    finish(ctx, removed, "zrem", &[])
}

pub(super) const ZREMRANGEBYRANK: Entry = Entry {
    name: "zremrangebyrank",
    summary: "Removes members in a sorted set within a range of indexes. Deletes the sorted set if all \
            members were removed.",
    complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
            elements removed by the operation.",
    since: "2.0.0",
    group: Group::SortedSet,
    arity: 4,
    flags: &[Write],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[RW, Delete])],
    args: &[key("key", 0), integer("start"), integer("stop")],
    reply: Shape::Int,
    run: Run::Function(zremrangebyrank),
    ..Entry::DEFAULT
};

fn zremrangebyrank(ctx: &mut Ctx) -> CommandResult {
    remove_range(ctx, By::Rank, "zremrangebyrank")
}

pub(super) const ZREMRANGEBYSCORE: Entry = Entry {
    name: "zremrangebyscore",
    summary: "Removes members in a sorted set within a range of scores. Deletes the sorted set if all \
            members were removed.",
    since: "1.2.0",
    args: &[key("key", 0), double("min"), double("max")],
    run: Run::Function(zremrangebyscore),
    ..ZREMRANGEBYRANK
};

fn zremrangebyscore(ctx: &mut Ctx) -> CommandResult {
    remove_range(ctx, By::Score, "zremrangebyscore")
}

pub(super) const ZREMRANGEBYLEX: Entry = Entry {
    name: "zremrangebylex",
    summary: "Removes members in a sorted set within a lexicographical range. Deletes the sorted set if \
            all members were removed.",
    since: "2.8.9",
    args: &[key("key", 0), string("min"), string("max")],
    run: Run::Function(zremrangebylex),
    ..ZREMRANGEBYRANK
};

fn zremrangebylex(ctx: &mut Ctx) -> CommandResult {
    remove_range(ctx, By::Lex, "zremrangebylex")
}

/// Removes the members within the bounds at arguments 2 and 3.
fn remove_range(ctx: &mut Ctx, by: By, event: &'static str) -> CommandResult {
    let span = Span::parse(by, ctx.args[2], ctx.args[3])?;
    let (mut removed, mut named, records) = (0, Vec::new(), ctx.store.records_effects());
    let mut pace = Pace::new(ctx.host);
    if let Some(mut zset) = ctx.store.write_as::<ZSet>(ctx.args[1])? {
        let ranks = span.ranks(zset.lend(), false);
        let names = records && span.is_open(zset.lend());
        removed = if names {
            zset.remove_rank_range(ranks, &mut |member, _| {
                named.push(member.to_vec());
                pace.step();
            })
        } else {
            zset.drop_rank_range(ranks)
        };
    }
    finish(ctx, removed, event, &named)
}

/// Records the removal of these members.
pub(super) fn state_removed(store: &mut Store, key: &[u8], members: &[Vec<u8>]) {
    let words = [&b"ZREM"[..], key];
    let effect: Vec<&[u8]> = words.into_iter().chain(members.iter().map(Vec::as_slice)).collect();
    store.effect(&effect);
}

/// Announces that `removed` members of the set at argument 1 are gone, and replies with their number. The effect names
/// the members if `named` contains them; otherwise it is the request.
fn finish(ctx: &mut Ctx, removed: usize, event: &'static str, named: &[Vec<u8>]) -> CommandResult {
    let key = ctx.args[1];
    if removed > 0 {
        let change = Change::new(Class::ZSet, event).times(removed);
        if named.is_empty() {
            ctx.changed(key, change);
        } else {
            ctx.store.changed_with(key, change, |store| state_removed(store, key, named));
        }
        ctx.store.delete_if_empty(key);
    }
    ctx.reply.int(removed as i64);
    Ok(())
}
