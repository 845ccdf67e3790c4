//! SPOP and SRANDMEMBER: random members.

use ds::random::Random;
use ds::set::{Set, SetLimits, SetRef};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, integer,
    key, parse_count,
};

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
    let mut random = sample::random(ctx, key);
    let set = ctx.store.write_as::<Set>(key)?;
    let popped = set.and_then(|mut set| set.pop_random(random.next_u64(), random.next_u64()));
    match popped {
        None => ctx.reply.null(),
        Some(member) => {
            ctx.store.changed(key, Change::new(Class::Set, "spop"), &[b"SREM", key, &member]);
            ctx.store.delete_if_empty(key);
            ctx.reply.bulk(&member);
        }
    }
    Ok(())
}

fn pop_several(ctx: &mut Ctx, key: &[u8], count: usize) -> CommandResult {
    let mut random = sample::random(ctx, key);
    let mut pace = Pace::new(ctx.host);
    let Some(mut set) = ctx.store.write_as::<Set>(key)?.filter(|_| count > 0) else {
        ctx.reply.set(0);
        return Ok(());
    };
    let len = set.lend().len();
    if count >= len {
        ctx.reply.set(len);
        for member in set.lend().iter() {
            ctx.reply.bulk(&member);
            pace.step();
        }
        drop(set);
        // The deletion counts as one of these changes.
        ctx.store.also_changed(key, Change::new(Class::Set, "spop").times(len - 1));
        ctx.store.delete(key);
        return Ok(());
    }
    let popped = take_several(&mut set, count, &mut random, &mut pace);
    drop(set);
    ctx.reply.set(popped.len());
    for member in &popped {
        ctx.reply.bulk(member);
    }
    ctx.store.changed_with(key, Change::new(Class::Set, "spop").times(count), |store| {
        let mut effect: Vec<&[u8]> = vec![b"SREM", key];
        effect.extend(popped.iter().map(Vec::as_slice));
        store.effect(&effect);
    });
    Ok(())
}

/// Removes `count` random members from `set`, which has more.
fn take_several(set: &mut Set, count: usize, random: &mut Random, pace: &mut Pace<'_>) -> Vec<Vec<u8>> {
    if sample::should_walk(set.lend().len(), count) {
        let all = set.lend().iter().inspect(|_| pace.step());
        let members = sample::walk(all, set.lend().len(), count, random);
        let chosen: Vec<Vec<u8>> = members.map(|member| member.to_vec()).collect();
        for member in &chosen {
            set.remove(member);
            pace.step();
        }
        return chosen;
    }
    let mut pop = || {
        pace.step();
        set.pop_random(random.next_u64(), random.next_u64())
    };
    (0..count).map_while(|_| pop()).collect()
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
    let mut random = sample::random(ctx, key);
    let config = ctx.store.config();
    let (reply, mut pace) = (&mut ctx.reply, Pace::new(ctx.host));
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
            each_distinct(set, count, &mut random, &config.set, |member| {
                reply.bulk(member);
                pace.step();
            });
        }
        (Some(set), Some(Draw::Repeated(count))) => {
            let mut limit = ReplyLimit::new(reply, config.string_bytes_max, count)?;
            reply.array(count as usize);
            for _ in 0..count {
                if let Some(member) = set.random(random.next_u64(), random.next_u64()) {
                    reply.bulk(&member);
                }
                limit.check(reply)?;
                pace.step();
            }
        }
    }
    Ok(())
}

fn each_distinct(
    set: SetRef<'_>,
    count: usize,
    random: &mut Random,
    limits: &SetLimits,
    mut visit: impl FnMut(&[u8]),
) {
    if sample::should_walk(set.len(), count) {
        return sample::walk(set.iter(), set.len(), count, random).for_each(|member| visit(&member));
    }
    let mut seen = Set::new();
    while seen.lend().len() < count {
        if let Some(member) = set.random(random.next_u64(), random.next_u64())
            && seen.insert(&member, limits)
        {
            visit(&member);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use engine::{Client, CommandResult, Host, Local, OwnCall};
    use resp::{Output, Proto, Value, decode};

    /// Counts its breaths: one for every few hundred steps.
    struct Breathing(u64);

    impl Host for Breathing {
        fn run_own(&mut self, _call: OwnCall<'_, '_>) -> CommandResult {
            unreachable!("a data command asks nothing of its thread")
        }

        fn breathe(&mut self) {
            self.0 += 1;
        }
    }

    fn store(member_count: usize) -> Local {
        let mut local = Local::new(&[super::super::ENTRIES]);
        for number in 0..member_count {
            local.line(&format!("SADD s m{number}"));
        }
        local
    }

    fn members(local: &mut Local, line: &str) -> Vec<Vec<u8>> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let reply = local.reply(Proto::Resp2, &args);
        match decode(&reply).expect("replies are valid") {
            Some((Value::Array(items), _)) => items
                .into_iter()
                .map(|item| match item {
                    Value::Bulk(member) => member,
                    other => panic!("{other:?}"),
                })
                .collect(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn distinct_members_are_distinct_whichever_way_they_are_drawn() {
        for (len, count) in [(10, 3), (10, 10), (10, 99), (1000, 5), (1000, 333), (1000, 334), (1000, 999)] {
            let mut local = store(len);
            let drawn = members(&mut local, &format!("SRANDMEMBER s {count}"));
            assert_eq!(drawn.len(), count.min(len), "{count} of {len}");
            let all: BTreeSet<_> = members(&mut local, "SMEMBERS s").into_iter().collect();
            let distinct: BTreeSet<_> = drawn.iter().cloned().collect();
            assert!(distinct.len() == drawn.len() && distinct.is_subset(&all), "{count} of {len}");
        }
    }

    #[test]
    fn each_member_comes_as_often() {
        let mut local = store(10);
        for line in ["SRANDMEMBER s 3", "SRANDMEMBER s -3"] {
            let mut counts: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
            for _ in 0..1000 {
                for member in members(&mut local, line) {
                    *counts.entry(member).or_default() += 1;
                }
            }
            assert_eq!(counts.len(), 10);
            assert!(counts.values().all(|count| (220..380).contains(count)), "{line}: {counts:?}");
        }
    }

    #[test]
    fn what_spop_takes_is_gone_and_its_effect_says_what_that_was() {
        for (len, count) in [(10, 3), (10, 10), (300, 5), (300, 250)] {
            let mut local = store(0);
            local.record_effects();
            for number in 0..len {
                local.line(&format!("SADD s m{number}"));
            }
            local.line("SPOP s");
            let popped: BTreeSet<_> = members(&mut local, &format!("SPOP s {count}")).into_iter().collect();
            assert_eq!(popped.len(), count.min(len - 1));
            let left: BTreeSet<_> = members(&mut local, "SMEMBERS s").into_iter().collect();
            assert!(left.is_disjoint(&popped));
            assert_eq!(left.len(), len - 1 - popped.len());
            let effects = local.take_effects();
            assert!(effects.iter().all(|effect| *effect.args[0] != *b"SPOP"));
            let mut replayed = store(0);
            for effect in effects.iter().filter(|effect| *effect.args[0] != *b"DEL") {
                replayed.replay(std::slice::from_ref(effect)).expect("effects never fail");
            }
            let replayed: BTreeSet<_> = members(&mut replayed, "SMEMBERS s").into_iter().collect();
            assert!(left.is_subset(&replayed) && (left.is_empty() || left == replayed));
        }
    }

    #[test]
    fn a_reply_of_repeated_members_has_an_end() {
        let mut local = store(3);
        local.config.string_bytes_max = 10_000;
        assert_eq!(local.line("SRANDMEMBER s -9223372036854775807"), "-ERR value is out of range\r\n");
        assert_eq!(members(&mut local, "SRANDMEMBER s -1000").len(), 1000);
    }

    #[test]
    fn a_reply_that_will_be_too_long_is_refused_before_it_is_built() {
        let mut local = store(3);
        // The reply takes 8 bytes per member, 6 of them known beforehand.
        for (count, drawn_max) in [(2_000_000_000_u64, 0), (89_478_485, 4096), (80_000_000, 4096)] {
            let mut out = Output::new();
            let mut host = Breathing(0);
            let count_text = format!("-{count}");
            let args: [&[u8]; 3] = [b"SRANDMEMBER", b"s", count_text.as_bytes()];
            local.run(Client::internal(0, Proto::Resp2), &args, &mut host, &mut out);
            assert_eq!(out.to_vec(), b"-ERR value is out of range\r\n", "{count}");
            assert!(host.0 <= drawn_max / 100, "{count}: {} breaths", host.0);
        }
    }
}
