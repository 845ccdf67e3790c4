//! SINTER, SUNION and SDIFF, and the algorithms that they share with the commands that store or count.
//!
//! A missing key is an empty set. The members of an intersection are written straight into the reply, and so
//! are those of a difference if looking up each member is cheaper. A union, and a difference computed the
//! other way, need a set of their own.

use ds::set::{Set, SetLimits, SetRef};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{Acl, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, Store, key};
use resp::Reply;
use smallvec::SmallVec;

/// The sets of several keys, `None` for keys that do not exist.
pub(super) type Sets<'s> = SmallVec<[Option<SetRef<'s>>; 8]>;

/// Looks up all keys, in order.
pub(super) fn find<'s>(store: &'s mut Store, keys: &[&[u8]]) -> Result<Sets<'s>, CommandError> {
    // The first look-ups count the keys and expire them, the second ones borrow all of them.
    for key in keys {
        store.read_as::<Set>(key)?;
    }
    let store = &*store;
    keys.iter().map(|key| store.peek_as::<Set>(key)).collect()
}

pub(super) const SINTER: Entry = Entry {
    name: "sinter",
    summary: "Returns the intersect of multiple sets.",
    complexity: "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.",
    since: "1.0.0",
    group: Group::Set,
    arity: -2,
    flags: &[ReadOnly],
    acl: &[Acl::Set],
    keys: &[KeySpec::range(1, -1, 1, &[RO, Access])],
    args: &[key("key", 0).multiple()],
    tips: &["nondeterministic_output_order"],
    reply: Shape::Set(&Shape::Bulk),
    run: Run::Function(sinter),
    ..Entry::DEFAULT
};

fn sinter(ctx: &mut Ctx) -> CommandResult {
    let (sets, mut pace) = (find(&mut ctx.store, &ctx.args[1..])?, Pace::new(ctx.host));
    let mark = ctx.reply.deferred();
    let mut count = 0;
    each_common(&sets, &mut pace, |member| {
        ctx.reply.bulk(member);
        count += 1;
        true
    });
    ctx.reply.finish_set(mark, count);
    Ok(())
}

pub(super) const SUNION: Entry = Entry {
    name: "sunion",
    summary: "Returns the union of multiple sets.",
    complexity: "O(N) where N is the total number of elements in all given sets.",
    since: "1.0.0",
    group: Group::Set,
    arity: -2,
    flags: &[ReadOnly],
    acl: &[Acl::Set],
    keys: &[KeySpec::range(1, -1, 1, &[RO, Access])],
    args: &[key("key", 0).multiple()],
    tips: &["nondeterministic_output_order"],
    reply: Shape::Set(&Shape::Bulk),
    run: Run::Function(sunion),
    ..Entry::DEFAULT
};

fn sunion(ctx: &mut Ctx) -> CommandResult {
    let limits = ctx.store.config().set;
    let (sets, mut pace) = (find(&mut ctx.store, &ctx.args[1..])?, Pace::new(ctx.host));
    match sets.as_slice() {
        [Some(only)] => write_set(&mut ctx.reply, *only, &mut pace),
        _ => write_set(&mut ctx.reply, union(&sets, &limits, &mut pace).lend(), &mut pace),
    }
    Ok(())
}

pub(super) const SDIFF: Entry = Entry {
    name: "sdiff",
    summary: "Returns the difference of multiple sets.",
    run: Run::Function(sdiff),
    ..SUNION
};

fn sdiff(ctx: &mut Ctx) -> CommandResult {
    let limits = ctx.store.config().set;
    let (sets, mut pace) = (find(&mut ctx.store, &ctx.args[1..])?, Pace::new(ctx.host));
    let mark = ctx.reply.deferred();
    let mut count = 0;
    each_different(&sets, &limits, &mut pace, |member| {
        ctx.reply.bulk(member);
        count += 1;
        true
    });
    ctx.reply.finish_set(mark, count);
    Ok(())
}

fn write_set(reply: &mut Reply, set: SetRef<'_>, pace: &mut Pace<'_>) {
    reply.set(set.len());
    for member in set.iter() {
        reply.bulk(&member);
        pace.step();
    }
}

/// Visits the members that all sets have, until `visit` returns false: looks up each member of the smallest set in the
/// others.
pub(super) fn each_common(
    sets: &[Option<SetRef<'_>>],
    pace: &mut Pace<'_>,
    mut visit: impl FnMut(&[u8]) -> bool,
) {
    let Some(mut sets) = sets.iter().copied().collect::<Option<SmallVec<[SetRef<'_>; 8]>>>() else { return };
    sets.sort_by_key(|set| set.len());
    let Some((smallest, others)) = sets.split_first() else { return };
    smallest.iter().try_for_each(|member| {
        pace.step();
        let goes_on = !others.iter().all(|set| set.contains(&member)) || visit(&member);
        goes_on.then_some(())
    });
}

/// The members that any of the sets has.
pub(super) fn union(sets: &[Option<SetRef<'_>>], limits: &SetLimits, pace: &mut Pace<'_>) -> Set {
    let mut result = Set::new();
    for member in sets.iter().flatten().flat_map(|set| set.iter()) {
        result.insert(&member, limits);
        pace.step();
    }
    result
}

/// Visits the members of the first set that no other has, until `visit` returns false, in the way that takes fewer steps: by looking each of them up
/// in the others, whose cost is halved because it can stop early, or by removing all members of the others from a copy.
pub(super) fn each_different(
    sets: &[Option<SetRef<'_>>],
    limits: &SetLimits,
    pace: &mut Pace<'_>,
    mut visit: impl FnMut(&[u8]) -> bool,
) {
    let Some((Some(first), others)) = sets.split_first() else { return };
    let mut others: SmallVec<[SetRef<'_>; 8]> = others.iter().flatten().copied().collect();
    let steps_looking_up = first.len() * (others.len() + 1) / 2;
    let steps_removing = first.len() + others.iter().map(|other| other.len()).sum::<usize>();
    if steps_looking_up <= steps_removing {
        others.sort_by_key(|other| std::cmp::Reverse(other.len()));
        for member in first.iter() {
            pace.step();
            if !others.iter().any(|other| other.contains(&member)) && !visit(&member) {
                break;
            }
        }
        return;
    }
    let mut rest = union(&[Some(*first)], limits, pace);
    for other in others {
        for member in other.iter() {
            rest.remove(&member);
            pace.step();
        }
        if rest.lend().is_empty() {
            break;
        }
    }
    // The visitor itself knows whether it broke.
    let _ = rest.lend().iter().try_for_each(|member| {
        pace.step();
        visit(&member).then_some(())
    });
}
