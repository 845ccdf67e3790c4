//! The rank of values and the values of ranks: `TDIGEST.RANK`, `TDIGEST.REVRANK`, `TDIGEST.BYRANK`, `TDIGEST.BYREVRANK`.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, double, integer, key,
    parse_f64, parse_i64,
};
use sketches::TDigest;

use super::{read, steps, values};

const NOT_A_VALUE: CommandError = CommandError::fixed("ERR T-Digest: error parsing value");
const NOT_A_RANK: CommandError = CommandError::fixed("ERR T-Digest: error parsing rank");
const NEGATIVE_RANK: CommandError = CommandError::fixed("ERR T-Digest: rank needs to be non negative");
/// The rank of any value in a digest without numbers.
const RANK_IN_NOTHING: i64 = -2;
/// The rank of a value below all numbers, or above them if ranks are counted from the largest.
const RANK_BEFORE_ALL: i64 = -1;

pub(super) const TDIGEST_RANK: Entry = Entry {
    name: "tdigest.rank",
    summary: "Returns how many numbers of a t-digest are below values, about.",
    complexity: "O(N) where N is the number of values specified.",
    since: "2.4.0",
    group: Group::TDigest,
    arity: -3,
    flags: &[ReadOnly],
    acl: &[Acl::TDigest],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), double("value").multiple()],
    reply: Shape::Array(&Shape::Int),
    run: Run::Function(rank),
    ..Entry::DEFAULT
};

fn rank(ctx: &mut Ctx) -> CommandResult {
    ranks(ctx, |digest, value| {
        let size = digest.count();
        match value {
            _ if size == 0 => RANK_IN_NOTHING,
            value if value < digest.min() => RANK_BEFORE_ALL,
            value if value > digest.max() => size,
            value => half_rounded_down(digest.share_below(value) * size as f64),
        }
    })
}

pub(super) const TDIGEST_REVRANK: Entry = Entry {
    name: "tdigest.revrank",
    summary: "Returns how many numbers of a t-digest are above values, about.",
    run: Run::Function(revrank),
    ..TDIGEST_RANK
};

fn revrank(ctx: &mut Ctx) -> CommandResult {
    ranks(ctx, |digest, value| {
        let size = digest.count();
        match value {
            _ if size == 0 => RANK_IN_NOTHING,
            value if value < digest.min() => size,
            value if value > digest.max() => RANK_BEFORE_ALL,
            value => (size as f64 - (digest.share_below(value) * size as f64).round()).round() as i64,
        }
    })
}

/// Rounds to the nearest whole number, a half towards zero.
fn half_rounded_down(number: f64) -> i64 {
    let whole = number.trunc();
    (if (number - whole).abs() <= 0.5 { whole } else { whole + number.signum() }) as i64
}

fn ranks(ctx: &mut Ctx, rank: impl Fn(&TDigest, f64) -> i64) -> CommandResult {
    read(&mut ctx.store, ctx.args[1])?;
    let values = values(ctx, |arg| parse_f64(arg).map_err(|_| NOT_A_VALUE))?;
    let digest = read(&mut ctx.store, ctx.args[1])?.merged();
    let mut pace = Pace::new(ctx.host);
    ctx.reply.array(values.len());
    for value in values {
        pace.steps(steps(&digest));
        ctx.reply.int(rank(&digest, value));
    }
    Ok(())
}

pub(super) const TDIGEST_BYRANK: Entry = Entry {
    name: "tdigest.byrank",
    summary: "Returns the values that have these ranks in a t-digest, about.",
    complexity: "O(N) where N is the number of ranks specified",
    args: &[key("key", 0), integer("rank").multiple()],
    reply: Shape::Array(&Shape::Double),
    run: Run::Function(byrank),
    ..TDIGEST_RANK
};

fn byrank(ctx: &mut Ctx) -> CommandResult {
    by_ranks(ctx, |digest, rank| {
        let size = digest.count() as f64;
        match rank {
            _ if size == 0.0 => f64::NAN,
            0.0 => digest.min(),
            rank if rank >= size => f64::INFINITY,
            rank => digest.quantile(rank / size),
        }
    })
}

pub(super) const TDIGEST_BYREVRANK: Entry = Entry {
    name: "tdigest.byrevrank",
    summary: "Returns the values that have these ranks in a t-digest, about, counted from the largest.",
    run: Run::Function(byrevrank),
    ..TDIGEST_BYRANK
};

fn byrevrank(ctx: &mut Ctx) -> CommandResult {
    by_ranks(ctx, |digest, rank| {
        let size = digest.count() as f64;
        match rank {
            _ if size == 0.0 => f64::NAN,
            0.0 => digest.max(),
            rank if rank >= size => f64::NEG_INFINITY,
            rank => digest.quantile((size - rank - 1.0) / size),
        }
    })
}

fn by_ranks(ctx: &mut Ctx, value: impl Fn(&TDigest, f64) -> f64) -> CommandResult {
    read(&mut ctx.store, ctx.args[1])?;
    let ranks = values(ctx, |arg| match parse_i64(arg).map_err(|_| NOT_A_RANK)? {
        rank @ 0.. => Ok(rank as f64),
        _ => Err(NEGATIVE_RANK),
    })?;
    let digest = read(&mut ctx.store, ctx.args[1])?.merged();
    let mut pace = Pace::new(ctx.host);
    ctx.reply.array(ranks.len());
    for rank in ranks {
        pace.steps(steps(&digest));
        ctx.reply.double(value(&digest, rank));
    }
    Ok(())
}
