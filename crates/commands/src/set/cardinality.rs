//! SINTERCARD, SUNIONCARD and SDIFFCARD: how many members SINTER, SUNION and SDIFF would return, up to a limit.
//!
//! A union is counted without building it: all members of the largest set, and those of the others that it has not.
//! Only for three sets and more, members of the others are remembered, because two of them may have the same. With
//! `APPROX` a HyperLogLog estimates their number in 12 KiB.

use ds::hll;
use ds::set::{Set, SetLimits, SetRef};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, integer, key, keyword_is,
    token,
};
use smallvec::SmallVec;

use super::combine::{each_common, each_different, find};

pub(super) const SINTERCARD: Entry = Entry {
    name: "sintercard",
    summary: "Returns the number of members of the intersect of multiple sets.",
    complexity: "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.",
    since: "7.0.0",
    group: Group::Set,
    arity: -3,
    flags: &[ReadOnly],
    acl: &[Acl::Set],
    keys: &[KeySpec::numbered(1, &[RO, Access])],
    args: &[integer("numkeys"), key("key", 0).multiple(), integer("limit").token("LIMIT").optional()],
    reply: Shape::Int,
    run: Run::Function(sintercard),
    ..Entry::DEFAULT
};

fn sintercard(ctx: &mut Ctx) -> CommandResult {
    let CardQuery { keys, limit, .. } = CardQuery::parse(ctx.args, false)?;
    let (sets, mut pace) = (find(&mut ctx.store, keys)?, Pace::new(ctx.host));
    let mut count = 0;
    each_common(&sets, &mut pace, |_| {
        count += 1;
        count != limit
    });
    ctx.reply.int(count as i64);
    Ok(())
}

pub(super) const SDIFFCARD: Entry = Entry {
    name: "sdiffcard",
    summary: "Returns the number of members of the difference between the first set and all successive sets.",
    complexity: "O(N) where N is the total number of elements in all given sets.",
    since: "8.10.0",
    run: Run::Function(sdiffcard),
    ..SINTERCARD
};

fn sdiffcard(ctx: &mut Ctx) -> CommandResult {
    let CardQuery { keys, limit, .. } = CardQuery::parse(ctx.args, false)?;
    let limits = ctx.store.config().set;
    let (sets, mut pace) = (find(&mut ctx.store, keys)?, Pace::new(ctx.host));
    let mut count = 0;
    if let [Some(only)] = *sets {
        count = limited(only.len(), limit);
    } else {
        each_different(&sets, &limits, &mut pace, |_| {
            count += 1;
            count != limit
        });
    }
    ctx.reply.int(count as i64);
    Ok(())
}

pub(super) const SUNIONCARD: Entry = Entry {
    name: "sunioncard",
    summary: "Returns the number of members of the union of multiple sets.",
    args: &[
        integer("numkeys"),
        key("key", 0).multiple(),
        token("approx", "APPROX").optional(),
        integer("limit").token("LIMIT").optional(),
    ],
    run: Run::Function(sunioncard),
    ..SDIFFCARD
};

fn sunioncard(ctx: &mut Ctx) -> CommandResult {
    let CardQuery { keys, limit, is_approximate } = CardQuery::parse(ctx.args, true)?;
    let limits = ctx.store.config().set;
    let (sets, mut pace) = (find(&mut ctx.store, keys)?, Pace::new(ctx.host));
    let mut sets: SmallVec<[SetRef<'_>; 8]> = sets.iter().flatten().copied().collect();
    sets.sort_by_key(|set| std::cmp::Reverse(set.len()));
    let count = match &*sets {
        [] => 0,
        [largest, others @ ..] if others.is_empty() || (limit != 0 && largest.len() >= limit) => {
            largest.len()
        }
        // Two sets are counted exactly at no cost.
        [_, _, _, ..] if is_approximate => approximate(&sets, &mut pace),
        [largest, others @ ..] => union_len(*largest, others, limit, &limits, &mut pace),
    };
    ctx.reply.int(limited(count, limit) as i64);
    Ok(())
}

/// The number of members in the union of `largest` and `others`, counted up to `limit` (0: to the end).
fn union_len(
    largest: SetRef<'_>,
    others: &[SetRef<'_>],
    limit: usize,
    limits: &SetLimits,
    pace: &mut Pace<'_>,
) -> usize {
    let (mut count, mut seen) = (largest.len(), Set::new());
    for member in others.iter().flat_map(|set| set.iter()) {
        pace.step();
        if !largest.contains(&member) && (others.len() == 1 || seen.insert(&member, limits)) {
            count += 1;
            if count == limit {
                break;
            }
        }
    }
    count
}

/// An estimate of the number of members in the union of `sets`.
fn approximate(sets: &[SetRef<'_>], pace: &mut Pace<'_>) -> usize {
    let mut log = hll::new();
    for member in sets.iter().flat_map(|set| set.iter()) {
        pace.step();
        hll::add(&mut log, &member, 0).expect("it is our own");
    }
    hll::count(&mut log).expect("it is our own") as usize
}

fn limited(count: usize, limit: usize) -> usize {
    if limit == 0 { count } else { count.min(limit) }
}

/// The arguments of these commands.
struct CardQuery<'k, 'a> {
    keys: &'k [&'a [u8]],
    /// 0: none.
    limit: usize,
    is_approximate: bool,
}

impl<'k, 'a> CardQuery<'k, 'a> {
    /// Parses `numkeys key [key ...] [APPROX] [LIMIT limit]`; options may be repeated.
    fn parse(args: &'k [&'a [u8]], may_approximate: bool) -> Result<CardQuery<'k, 'a>, CommandError> {
        let key_count = match ds::num::parse_i64(args[1]) {
            Some(number) if number > 0 => number as usize,
            _ => return Err(CommandError::NUMKEYS_TOO_SMALL),
        };
        let (keys, mut options) = args[2..]
            .split_at_checked(key_count)
            .ok_or_else(|| CommandError::new("ERR Number of keys can't be greater than number of args"))?;
        let mut query = CardQuery { keys, limit: 0, is_approximate: false };
        while let [word, rest @ ..] = options {
            options = match rest {
                rest if may_approximate && keyword_is(word, "APPROX") => {
                    query.is_approximate = true;
                    rest
                }
                [value, rest @ ..] if keyword_is(word, "LIMIT") => {
                    query.limit = ds::num::parse_i64(value)
                        .and_then(|limit| usize::try_from(limit).ok())
                        .ok_or_else(|| CommandError::new("ERR LIMIT can't be negative"))?;
                    rest
                }
                _ => return Err(CommandError::SYNTAX),
            };
        }
        Ok(query)
    }
}

#[cfg(test)]
mod tests {
    use engine::Local;

    /// Sets with `count` numbers from `first` on.
    fn store(sets: &[(&str, usize, usize)]) -> Local {
        let mut local = Local::new(crate::FAMILIES);
        for (key, first, count) in sets {
            for number in *first..first + count {
                local.line(&format!("SADD {key} {number}"));
            }
        }
        local
    }

    #[test]
    fn an_estimate_is_near_and_never_above_the_limit() {
        let mut local = store(&[("a", 0, 2000), ("b", 1000, 2000), ("c", 2500, 1500)]);
        assert_eq!(local.line("SUNIONCARD 3 a b c"), ":4000\r\n");
        let estimate = local.line("SUNIONCARD 3 a b c APPROX");
        let estimate: i64 = estimate[1..].trim_end().parse().expect("a number");
        // The standard error is 0.8%.
        assert!((3800..=4200).contains(&estimate), "{estimate}");
        assert_eq!(local.line("SUNIONCARD 3 a b c APPROX LIMIT 3000"), ":3000\r\n");
        assert_eq!(local.line("SUNIONCARD 2 a b APPROX"), ":3000\r\n", "two are counted exactly");
    }

    #[test]
    fn differences_are_counted_alike_in_both_ways() {
        let mut local = store(&[("a", 0, 100), ("b", 50, 10), ("c", 55, 10), ("d", 90, 5)]);
        for line in ["SDIFFCARD 4 a b c d", "SDIFFCARD 9 a b c d b b b b c"] {
            assert_eq!(local.line(line), ":80\r\n", "{line}");
            assert_eq!(local.line(&format!("{line} LIMIT 7")), ":7\r\n", "{line}");
        }
    }
}
