//! SPOP and SRANDMEMBER.

use command::Flag::*;
use command::KeyFlag::*;
use command::{
    Acl, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, integer, key,
    parse_count,
};
use ds::random::Random;
use ds::set::{Set, SetLimits};

use crate::sample::{self, Draw, ReplyLimit};

pub(super) const SPOP: Entry = Entry {
    name: "spop",
    summary: "Returns one or more random members from a set after removing them. Deletes the set if the last \
            member was popped.",
    complexity: "Without the count argument O(1), otherwise O(N) where N is the value of the passed count.",
    since: "1.0.0",
    group: Group::Set,
    arity: -2,
    flags: &[Write, Fast],
    acl: &[Acl::Set],
    keys: &[KeySpec::one(1, &[RW, Access, Delete])],
    args: &[key("key", 0), integer("count").optional().since("3.2.0")],
    history: &[("3.2.0", "Added the `count` argument.")],
    tips: &["nondeterministic_output"],
    reply: Shape::OneOf(&[Shape::BULK_OR_NULL, Shape::Set(&Shape::Bulk)]),
    run: Run::Function(spop),
    ..Entry::DEFAULT
};

fn spop(ctx: &mut Ctx) -> CommandResult {
    match *ctx.args {
        [_, key] => pop_one(ctx, key),
        [_, key, count] => pop_several(ctx, key, parse_count(count)?),
        _ => Err(CommandError::SYNTAX),
    }
}

fn pop_one(ctx: &mut Ctx, key: &[u8]) -> CommandResult {
    let mut random = seeded(ctx, key);
    let popped =
        ctx.store.write_as::<Set>(key)?.and_then(|set| set.pop_random(random.next_u64(), random.next_u64()));
    match popped {
        None => ctx.reply.null(),
        Some(member) => {
            ctx.store.changed(key, Class::Set, "spop");
            ctx.store.delete_if_empty(key);
            ctx.store.effect(key, &[b"SREM", key, &member]);
            ctx.reply.bulk(&member);
        }
    }
    Ok(())
}

fn pop_several(ctx: &mut Ctx, key: &[u8], count: usize) -> CommandResult {
    let mut random = seeded(ctx, key);
    let Some(set) = ctx.store.write_as::<Set>(key)?.filter(|_| count > 0) else {
        ctx.reply.set(0);
        return Ok(());
    };
    if count >= set.len() {
        ctx.reply.set(set.len());
        for member in set.iter() {
            ctx.reply.bulk(&member);
        }
        ctx.store.changed(key, Class::Set, "spop");
        ctx.store.delete(key);
        return Ok(());
    }
    let popped = take_several(set, count, &mut random);
    ctx.reply.set(popped.len());
    for member in &popped {
        ctx.reply.bulk(member);
    }
    ctx.store.changed(key, Class::Set, "spop");
    if ctx.store.records_effects(key) {
        let mut effect: Vec<&[u8]> = vec![b"SREM", key];
        effect.extend(popped.iter().map(Vec::as_slice));
        ctx.store.effect(key, &effect);
    }
    Ok(())
}

/// Takes `count` members, of which there are more, out of `set`.
fn take_several(set: &mut Set, count: usize, random: &mut Random) -> Vec<Vec<u8>> {
    if sample::should_walk(set.len(), count) {
        let chosen: Vec<Vec<u8>> =
            sample::walk(set.iter(), set.len(), count, random).map(|member| member.to_vec()).collect();
        for member in &chosen {
            set.remove(member);
        }
        return chosen;
    }
    (0..count).map_while(|_| set.pop_random(random.next_u64(), random.next_u64())).collect()
}

pub(super) const SRANDMEMBER: Entry = Entry {
    name: "srandmember",
    summary: "Get one or multiple random members from a set",
    complexity: "Without the count argument O(1), otherwise O(N) where N is the absolute value of the passed \
            count.",
    since: "1.0.0",
    group: Group::Set,
    arity: -2,
    flags: &[ReadOnly],
    acl: &[Acl::Set],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), integer("count").optional().since("2.6.0")],
    history: &[("2.6.0", "Added the optional `count` argument.")],
    tips: &["nondeterministic_output"],
    reply: Shape::OneOf(&[Shape::BULK_OR_NULL, Shape::BULKS]),
    run: Run::Function(srandmember),
    ..Entry::DEFAULT
};

fn srandmember(ctx: &mut Ctx) -> CommandResult {
    let (key, draw) = match *ctx.args {
        [_, key] => (key, None),
        [_, key, count] => (key, Some(Draw::parse(count)?)),
        _ => return Err(CommandError::SYNTAX),
    };
    let mut random = seeded(ctx, key);
    let config = ctx.store.config();
    let reply = &mut ctx.reply;
    let set = ctx.store.read_as::<Set>(key)?;
    match (set, draw) {
        (None, None) => reply.null(),
        (None, Some(_)) => reply.array(0),
        (Some(set), None) => {
            if let Some(member) = set.random(random.next_u64(), random.next_u64()) {
                reply.bulk(&member);
            }
        }
        (Some(set), Some(Draw::Distinct(count))) => {
            reply.array(count.min(set.len()));
            each_distinct(set, count, &mut random, &config.set, |member| reply.bulk(member));
        }
        (Some(set), Some(Draw::Repeated(count))) => {
            let limit = ReplyLimit::new(reply, config.string_bytes_max);
            reply.array(count as usize);
            for _ in 0..count {
                if let Some(member) = set.random(random.next_u64(), random.next_u64()) {
                    reply.bulk(&member);
                }
                limit.check(reply)?;
            }
        }
    }
    Ok(())
}

fn each_distinct(
    set: &Set,
    count: usize,
    random: &mut Random,
    limits: &SetLimits,
    mut visit: impl FnMut(&[u8]),
) {
    if sample::should_walk(set.len(), count) {
        return sample::walk(set.iter(), set.len(), count, random).for_each(|member| visit(&member));
    }
    let mut seen = Set::new();
    while seen.len() < count {
        if let Some(member) = set.random(random.next_u64(), random.next_u64())
            && seen.insert(&member, limits)
        {
            visit(&member);
        }
    }
}

/// Chance of its own, because the set is borrowed from the same shard.
fn seeded(ctx: &mut Ctx, key: &[u8]) -> Random {
    Random::new(ctx.store.random(key).next_u64())
}
