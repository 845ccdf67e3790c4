//! Random members, and walking a sorted set piece by piece.

use std::collections::BTreeSet;

use command::Flag::*;
use command::KeyFlag::*;
use command::{
    Acl, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, block, integer, key,
    keyword_is, parse_cursor, parse_i64, pattern, token,
};
use ds::glob;
use ds::random::Random;
use ds::zset::ZSet;

use super::{Layout, MEMBERS, reply_member, reply_members};

/// `ZRANDMEMBER` with a negative count may answer more than the set has. More bytes than this are refused.
const REPEATED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Members that a step of `ZSCAN` visits by default.
const SCAN_COUNT: usize = 10;

const COUNT_OUT_OF_RANGE: &str =
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";

pub(super) const ZRANDMEMBER: Entry = Entry {
    name: "zrandmember",
    summary: "Returns one or more random members from a sorted set.",
    complexity: "O(N) where N is the number of elements returned",
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
    let (count, with_scores) = match &ctx.args[2..] {
        [] => {
            let random = ctx.store.random(key).next_u64();
            match ctx.store.read_as::<ZSet>(key)?.and_then(|zset| zset.random(random)) {
                Some((member, _)) => ctx.reply.bulk(member),
                None => ctx.reply.null(),
            }
            return Ok(());
        }
        [count, options @ ..] => {
            let count = parse_i64(count)?;
            if count == i64::MIN {
                return Err(CommandError::new(COUNT_OUT_OF_RANGE));
            }
            match options {
                [] => (count, false),
                [word] if !keyword_is(word, "withscores") => return Err(CommandError::SYNTAX),
                [_] if count.unsigned_abs() > i64::MAX as u64 / 2 => return Err(CommandError::OUT_OF_RANGE),
                [_] => (count, true),
                _ => return Err(CommandError::SYNTAX),
            }
        }
    };
    let random = Random::new(ctx.store.random(key).next_u64());
    let layout = Layout::with_scores(with_scores, &ctx.reply);
    if count < 0 {
        return repeat_random(ctx, key, count.unsigned_abs() as usize, layout, random);
    }
    match ctx.store.read_as::<ZSet>(key)? {
        None => ctx.reply.array(0),
        Some(zset) if count as usize >= zset.len() => reply_members(&mut ctx.reply, zset.iter(), layout),
        Some(zset) => {
            let members = choose_ranks(zset.len(), count as usize, random).into_iter();
            let member = |rank| zset.at(rank).expect("the ranks are below the length");
            reply_members(&mut ctx.reply, members.map(member), layout);
        }
    }
    Ok(())
}

/// Answers `count` random members, some maybe several times.
fn repeat_random(
    ctx: &mut Ctx,
    key: &[u8],
    count: usize,
    layout: Layout,
    mut random: Random,
) -> CommandResult {
    let Some(zset) = ctx.store.read_as::<ZSet>(key)? else {
        ctx.reply.array(0);
        return Ok(());
    };
    ctx.reply.array(if layout == Layout::Flat { count * 2 } else { count });
    let bytes_max = ctx.reply.out().len().saturating_add(REPEATED_BYTES_MAX);
    for _ in 0..count {
        let (member, score) = zset.random(random.next_u64()).expect("a set in the keyspace is not empty");
        reply_member(&mut ctx.reply, member, score, layout);
        if ctx.reply.out().len() > bytes_max {
            return Err(CommandError::OUT_OF_RANGE);
        }
    }
    Ok(())
}

/// `count` different ranks below `len`, each choice equally likely (Floyd's algorithm; Bentley and Floyd, "A sample
/// of brilliance", 1987).
fn choose_ranks(len: usize, count: usize, mut random: Random) -> BTreeSet<usize> {
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
    complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection..",
    since: "2.8.0",
    group: Group::SortedSet,
    arity: -3,
    flags: &[ReadOnly],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[
        key("key", 0),
        integer("cursor"),
        pattern("pattern").token("MATCH").optional(),
        integer("count").token("COUNT").optional(),
    ],
    tips: &["nondeterministic_output"],
    reply: Shape::Tuple(&[Shape::Bulk, Shape::BULKS]),
    run: Run::Function(zscan),
    ..Entry::DEFAULT
};

fn zscan(ctx: &mut Ctx) -> CommandResult {
    let cursor = parse_cursor(ctx.args[2])?;
    let Some(zset) = ctx.store.read_as::<ZSet>(ctx.args[1])? else {
        ctx.reply.array(2);
        ctx.reply.bulk(b"0");
        ctx.reply.array(0);
        return Ok(());
    };
    let (mut pattern, mut count) = (None, SCAN_COUNT);
    let mut options = ctx.args[3..].iter();
    while let Some(word) = options.next() {
        match options.next() {
            Some(number) if keyword_is(word, "count") => {
                count = match parse_i64(number)? {
                    number if number > 0 => number as usize,
                    _ => return Err(CommandError::SYNTAX),
                };
            }
            Some(glob) if keyword_is(word, "match") => pattern = Some(*glob),
            _ => return Err(CommandError::SYNTAX),
        }
    }
    let mut found: Vec<(&[u8], f64)> = Vec::new();
    let next = zset.scan(cursor, count, &mut |member, score| {
        if pattern.is_none_or(|pattern| glob::matches(pattern, member, false)) {
            found.push((member, score));
        }
    });
    ctx.reply.array(2);
    ctx.reply.bulk(next.to_string().as_bytes());
    ctx.reply.array(found.len() * 2);
    for (member, score) in found {
        ctx.reply.bulk(member);
        ctx.reply.bulk_double(score);
    }
    Ok(())
}
