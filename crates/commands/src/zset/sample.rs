//! Random members (`ZRANDMEMBER`), and `ZSCAN`.

use std::collections::BTreeSet;

use ds::random::Random;
use ds::zset::ZSet;
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{Acl, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, block, integer, key, token};

use super::{Layout, MEMBERS, reply_member, reply_members};
use crate::sample::{self, Draw, ReplyLimit};
use crate::scan;

pub(super) const ZRANDMEMBER: Entry = Entry {
    name: "zrandmember",
    summary: "Returns one or more random members from a sorted set.",
    complexity: "O(N) where N is the number of members returned",
    since: "6.2.0",
    group: Group::SortedSet,
    arity: -2,
    flags: &[ReadOnly],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[
        key("key", 0),
        block("options", &[integer("count"), token("withscores", "WITHSCORES").optional()]).optional(),
    ],
    tips: &["nondeterministic_output"],
    reply: Shape::OneOf(&[Shape::Bulk, Shape::Null, MEMBERS]),
    run: Run::Function(zrandmember),
    ..Entry::DEFAULT
};

fn zrandmember(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let mut random = sample::random(ctx, key);
    let Some(count) = ctx.args.get(2) else {
        match ctx.store.read_as::<ZSet>(key)?.and_then(|zset| zset.random(random.next_u64())) {
            Some((member, _)) => ctx.reply.bulk(&member),
            None => ctx.reply.null(),
        }
        return Ok(());
    };
    let (draw, mut pace) = (Draw::parse(count)?, Pace::new(ctx.host));
    let layout = Layout::with_scores(draw.parse_pairs(&ctx.args[3..], "withscores")?, &ctx.reply);
    let string_bytes_max = ctx.store.config().string_bytes_max;
    let Some(zset) = ctx.store.read_as::<ZSet>(key)? else {
        ctx.reply.array(0);
        return Ok(());
    };
    match draw {
        Draw::Distinct(count) if count >= zset.len() => {
            reply_members(&mut ctx.reply, zset.iter(), layout, &mut pace)
        }
        Draw::Distinct(count) => {
            let member = |rank| zset.at(rank).expect("the ranks are below the length");
            let ranks = choose_ranks(zset.len(), count, &mut random);
            reply_members(&mut ctx.reply, ranks.into_iter().map(member), layout, &mut pace);
        }
        Draw::Repeated(count) => {
            let mut limit = ReplyLimit::new(&mut ctx.reply, string_bytes_max, count)?;
            let count = count as usize;
            ctx.reply.array(if layout == Layout::Flat { count * 2 } else { count });
            for _ in 0..count {
                let (member, score) =
                    zset.random(random.next_u64()).expect("no set in the keyspace is empty");
                reply_member(&mut ctx.reply, &member, score, layout);
                limit.check(&mut ctx.reply)?;
                pace.step();
            }
        }
    }
    Ok(())
}

/// `count` different ranks below `len`; every choice is equally likely (Floyd's algorithm; Bentley and Floyd, "A sample
/// of brilliance", 1987).
fn choose_ranks(len: usize, count: usize, random: &mut Random) -> BTreeSet<usize> {
    let mut ranks = BTreeSet::new();
    for last in len - count..len {
        if !ranks.insert(random.below(last as u64 + 1) as usize) {
            ranks.insert(last);
        }
    }
    ranks
}

pub(super) const ZSCAN: Entry = Entry {
    name: "zscan",
    summary: "Iterates over members and scores of a sorted set.",
    group: Group::SortedSet,
    acl: &[Acl::SortedSet],
    run: Run::Function(zscan),
    ..scan::ENTRY
};

fn zscan(ctx: &mut Ctx) -> CommandResult {
    scan::reply_step::<ZSet>(ctx, false, |zset, cursor, options, reply, count, pace| {
        zset.scan(cursor, options.count, &mut |member, score| {
            pace.step();
            if options.wants(member) {
                reply.bulk(member);
                // It is text in RESP3, too.
                reply.bulk_double(score);
                *count += 2;
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_of_ranks_comes_as_often() {
        let mut random = Random::new(1);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..10_000 {
            *counts.entry(choose_ranks(5, 2, &mut random)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 10);
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
