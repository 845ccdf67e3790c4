//! Adds members and changes their scores.
//!
//! The effect of `ZADD … INCR` and `ZINCRBY` contains the resulting score. Every other `ZADD` has the same result when
//! it is replayed on the same set.

use ds::zset::{ZSet, ZSetLimits};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape,
    are_any_promoted, block, double, integer, key, keyword_is, note_promoted, oneof, parse_f64, string,
    token,
};
use resp::DoubleBuffer;
use smallvec::SmallVec;

const NX_AND_XX: &str = "ERR XX and NX options at the same time are not compatible";
const GT_LT_AND_NX: &str = "ERR GT, LT, and/or NX options at the same time are not compatible";
const INCR_OF_SEVERAL: &str = "ERR INCR option supports a single increment-element pair";
const NOT_A_NUMBER: &str = "ERR resulting score is not a number (NaN)";

/// The options of `ZADD`.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct AddOptions {
    /// Whether only new members are added.
    pub(crate) new_only: bool,
    /// Whether only existing members are changed.
    pub(crate) existing_only: bool,
    /// Whether existing members only get greater scores.
    greater_only: bool,
    /// Whether existing members only get lesser scores.
    less_only: bool,
    /// Whether the reply is the number of changed members rather than of new ones.
    pub(crate) count_changed: bool,
    /// Whether to add to the score, and reply with the sum.
    increment: bool,
}

/// The result for a member, with its new score.
enum Placing {
    /// An option forbade it.
    Refused,
    Unchanged(f64),
    Added(f64),
    Updated(f64),
}

impl AddOptions {
    /// Reads options; returns the rest of `args`: pairs of score and member.
    fn parse<'a>(mut args: &'a [&'a [u8]]) -> Result<(AddOptions, &'a [&'a [u8]]), CommandError> {
        let mut options = AddOptions::default();
        while let [word, rest @ ..] = args {
            match word {
                word if keyword_is(word, "nx") => options.new_only = true,
                word if keyword_is(word, "xx") => options.existing_only = true,
                word if keyword_is(word, "gt") => options.greater_only = true,
                word if keyword_is(word, "lt") => options.less_only = true,
                word if keyword_is(word, "ch") => options.count_changed = true,
                word if keyword_is(word, "incr") => options.increment = true,
                _ => break,
            }
            args = rest;
        }
        if args.is_empty() || !args.len().is_multiple_of(2) {
            return Err(CommandError::SYNTAX);
        }
        let AddOptions { new_only, existing_only, greater_only, less_only, .. } = options;
        if new_only && existing_only {
            return Err(CommandError::new(NX_AND_XX));
        }
        if usize::from(new_only) + usize::from(greater_only) + usize::from(less_only) > 1 {
            return Err(CommandError::new(GT_LT_AND_NX));
        }
        if options.increment && args.len() > 2 {
            return Err(CommandError::new(INCR_OF_SEVERAL));
        }
        Ok((options, args))
    }

    /// Sets the score of `member`, or adds to it.
    fn apply(
        self,
        zset: &mut ZSet,
        member: &[u8],
        score: f64,
        limits: &ZSetLimits,
    ) -> Result<Placing, CommandError> {
        let asks =
            self.increment || self.new_only || self.existing_only || self.greater_only || self.less_only;
        if !asks {
            return Ok(match zset.insert(member, score, limits) {
                None => Placing::Added(score),
                Some(old) if old == score => Placing::Unchanged(score),
                Some(_) => Placing::Updated(score),
            });
        }
        let Some(old) = zset.lend().score(member) else {
            if self.existing_only {
                return Ok(Placing::Refused);
            }
            zset.insert(member, score, limits);
            return Ok(Placing::Added(score));
        };
        if self.new_only {
            return Ok(Placing::Refused);
        }
        let score = if self.increment { old + score } else { score };
        if score.is_nan() {
            return Err(CommandError::new(NOT_A_NUMBER));
        }
        if (self.greater_only && score <= old) || (self.less_only && score >= old) {
            return Ok(Placing::Refused);
        }
        if score == old {
            return Ok(Placing::Unchanged(score));
        }
        zset.insert(member, score, limits);
        Ok(Placing::Updated(score))
    }
}

pub(super) const ZADD: Entry = Entry {
    name: "zadd",
    summary: "Adds one or more members to a sorted set, or updates their scores. Creates the key if it \
            doesn't exist.",
    complexity: "O(log(N)) for each item added, where N is the number of elements in the sorted set.",
    since: "1.2.0",
    group: Group::SortedSet,
    arity: -4,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[
        key("key", 0),
        oneof("condition", &[token("nx", "NX"), token("xx", "XX")]).optional().since("3.0.2"),
        oneof("comparison", &[token("gt", "GT"), token("lt", "LT")]).optional().since("6.2.0"),
        token("change", "CH").optional().since("3.0.2"),
        token("increment", "INCR").optional().since("3.0.2"),
        block("data", &[double("score"), string("member")]).multiple(),
    ],
    history: &[
        ("2.4.0", "Accepts multiple elements."),
        ("3.0.2", "Added the `XX`, `NX`, `CH` and `INCR` options."),
        ("6.2.0", "Added the `GT` and `LT` options."),
    ],
    reply: Shape::OneOf(&[Shape::Int, Shape::Double, Shape::Null]),
    run: Run::Function(zadd),
    ..Entry::DEFAULT
};

fn zadd(ctx: &mut Ctx) -> CommandResult {
    let (options, pairs) = AddOptions::parse(&ctx.args[2..])?;
    add(ctx, options, pairs)
}

pub(super) const ZINCRBY: Entry = Entry {
    name: "zincrby",
    summary: "Increments the score of a member in a sorted set.",
    complexity: "O(log(N)) where N is the number of elements in the sorted set.",
    since: "1.2.0",
    group: Group::SortedSet,
    arity: 4,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[RW, Access, Update])],
    args: &[key("key", 0), integer("increment"), string("member")],
    reply: Shape::Double,
    run: Run::Function(zincrby),
    ..Entry::DEFAULT
};

fn zincrby(ctx: &mut Ctx) -> CommandResult {
    add(ctx, AddOptions { increment: true, ..AddOptions::default() }, &ctx.args[2..])
}

/// Adds pairs of score and member to the set at argument 1, and replies.
pub(crate) fn add(ctx: &mut Ctx, options: AddOptions, pairs: &[&[u8]]) -> CommandResult {
    let key = ctx.args[1];
    let scores = pairs.iter().step_by(2).map(|text| parse_f64(text));
    let scores: SmallVec<[f64; 8]> = scores.collect::<Result<_, _>>()?;
    let limits = ctx.store.config().zset;
    let mut zset = if options.existing_only {
        ctx.store.write_as::<ZSet>(key)?
    } else {
        Some(ctx.store.upsert::<ZSet>(key)?)
    };
    let (mut added, mut updated, mut last, mut pace) = (0, 0, None, Pace::new(ctx.host));
    if let Some(zset) = &mut zset {
        for (pair, score) in pairs.chunks_exact(2).zip(scores) {
            // Only a sum for an existing member can fail, and a sum is the only pair of its command, so
            // nothing is half done.
            last = match options.apply(zset, pair[1], score, &limits)? {
                Placing::Refused => None,
                Placing::Unchanged(score) => Some(score),
                Placing::Added(score) => {
                    added += 1;
                    Some(score)
                }
                Placing::Updated(score) => {
                    updated += 1;
                    Some(score)
                }
            };
            pace.step();
        }
    }
    drop(zset);
    if added + updated > 0 {
        if options.existing_only {
            ctx.note_grown(key);
        }
        match last {
            Some(sum) if options.increment => {
                ctx.store.changed_with(key, Change::new(Class::ZSet, "zincr"), |store| {
                    store.effect(&[b"ZADD", key, DoubleBuffer::new().format(sum).as_bytes(), pairs[1]]);
                });
            }
            _ => {
                ctx.changed(key, Change::new(Class::ZSet, "zadd").times(added + updated));
            }
        }
        if are_any_promoted(&ctx.store) {
            note_promoted(&mut ctx.store, key);
        }
    }
    match last {
        Some(sum) if options.increment => ctx.reply.double(sum),
        None if options.increment => ctx.reply.null(),
        _ if options.count_changed => ctx.reply.int((added + updated) as i64),
        _ => ctx.reply.int(added as i64),
    }
    Ok(())
}
