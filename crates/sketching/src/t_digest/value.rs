//! What a t-digest says of its numbers: `TDIGEST.MIN`, `TDIGEST.MAX`, `TDIGEST.QUANTILE`, `TDIGEST.CDF`,
//! `TDIGEST.TRIMMED_MEAN`; and `TDIGEST.INFO`.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, double, key, parse_f64,
};

use super::{read, steps, values};

const NOT_A_QUANTILE: CommandError = CommandError::fixed("ERR T-Digest: error parsing quantile");
const QUANTILE_RANGE: CommandError = CommandError::fixed("ERR T-Digest: quantile should be in [0,1]");
const NOT_A_VALUE: CommandError = CommandError::fixed("ERR T-Digest: error parsing cdf");
const NOT_A_LOW_CUT: CommandError = CommandError::fixed("ERR T-Digest: error parsing low_cut_percentile");
const NOT_A_HIGH_CUT: CommandError = CommandError::fixed("ERR T-Digest: error parsing high_cut_percentile");
const CUT_RANGE: CommandError =
    CommandError::fixed("ERR T-Digest: low_cut_percentile and high_cut_percentile should be in [0,1]");
const CUTS_CROSSED: CommandError =
    CommandError::fixed("ERR T-Digest: low_cut_percentile should be lower than high_cut_percentile");

pub(super) const TDIGEST_MIN: Entry = Entry {
    name: "tdigest.min",
    summary: "Returns the smallest number of a t-digest.",
    complexity: "O(1)",
    since: "2.4.0",
    group: Group::TDigest,
    arity: 2,
    flags: &[ReadOnly],
    acl: &[Acl::TDigest],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0)],
    reply: Shape::Double,
    run: Run::Function(min),
    ..Entry::DEFAULT
};

fn min(ctx: &mut Ctx) -> CommandResult {
    let min = read(&mut ctx.store, ctx.args[1])?.min();
    ctx.reply.double(min);
    Ok(())
}

pub(super) const TDIGEST_MAX: Entry = Entry {
    name: "tdigest.max",
    summary: "Returns the largest number of a t-digest.",
    run: Run::Function(max),
    ..TDIGEST_MIN
};

fn max(ctx: &mut Ctx) -> CommandResult {
    let max = read(&mut ctx.store, ctx.args[1])?.max();
    ctx.reply.double(max);
    Ok(())
}

pub(super) const TDIGEST_QUANTILE: Entry = Entry {
    name: "tdigest.quantile",
    summary: "Returns the values below which these shares of a t-digest's numbers are, about.",
    complexity: "O(N) where N is the number of quantiles specified.",
    arity: -3,
    args: &[key("key", 0), double("quantile").multiple()],
    reply: Shape::Array(&Shape::Double),
    run: Run::Function(quantile),
    ..TDIGEST_MIN
};

fn quantile(ctx: &mut Ctx) -> CommandResult {
    read(&mut ctx.store, ctx.args[1])?;
    let shares = values(ctx, |arg| {
        let share = parse_f64(arg).map_err(|_| NOT_A_QUANTILE)?;
        if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(QUANTILE_RANGE) }
    })?;
    let digest = read(&mut ctx.store, ctx.args[1])?.merged();
    let mut pace = Pace::new(ctx.host);
    ctx.reply.array(shares.len());
    for share in shares {
        pace.steps(steps(&digest));
        ctx.reply.double(digest.quantile(share));
    }
    Ok(())
}

pub(super) const TDIGEST_CDF: Entry = Entry {
    name: "tdigest.cdf",
    summary: "Returns which shares of a t-digest's numbers are below values, about.",
    complexity: "O(N) where N is the number of values specified.",
    args: &[key("key", 0), double("value").multiple()],
    run: Run::Function(cdf),
    ..TDIGEST_QUANTILE
};

fn cdf(ctx: &mut Ctx) -> CommandResult {
    read(&mut ctx.store, ctx.args[1])?;
    let values = values(ctx, |arg| parse_f64(arg).map_err(|_| NOT_A_VALUE))?;
    let digest = read(&mut ctx.store, ctx.args[1])?.merged();
    let mut pace = Pace::new(ctx.host);
    ctx.reply.array(values.len());
    for value in values {
        pace.steps(steps(&digest));
        ctx.reply.double(digest.share_below(value));
    }
    Ok(())
}

pub(super) const TDIGEST_TRIMMED_MEAN: Entry = Entry {
    name: "tdigest.trimmed_mean",
    summary: "Returns the mean of a t-digest's numbers between two shares, about.",
    complexity: "O(N) where N is the number of centroids",
    arity: 4,
    // It looks at all centroids.
    acl: &[Acl::TDigest],
    args: &[key("key", 0), double("low_cut_percentile"), double("high_cut_percentile")],
    run: Run::Function(trimmed_mean),
    ..TDIGEST_MIN
};

fn trimmed_mean(ctx: &mut Ctx) -> CommandResult {
    let [_, key, low, high] = *ctx.args else { unreachable!("the arity says so") };
    let digest = read(&mut ctx.store, key)?;
    let low = parse_f64(low).map_err(|_| NOT_A_LOW_CUT)?;
    let high = parse_f64(high).map_err(|_| NOT_A_HIGH_CUT)?;
    if ![low, high].iter().all(|cut| (0.0..=1.0).contains(cut)) {
        return Err(CUT_RANGE);
    }
    if low >= high {
        return Err(CUTS_CROSSED);
    }
    Pace::new(ctx.host).steps(steps(digest));
    ctx.reply.double(digest.merged().trimmed_mean(low, high));
    Ok(())
}

pub(super) const TDIGEST_INFO: Entry = Entry {
    name: "tdigest.info",
    summary: "Returns information about a t-digest.",
    reply: Shape::Map(&Shape::AnyStatus, &Shape::Int),
    run: Run::Function(info),
    ..TDIGEST_MIN
};

fn info(ctx: &mut Ctx) -> CommandResult {
    let digest = read(&mut ctx.store, ctx.args[1])?;
    let values = [
        ("Compression", digest.compression() as i64),
        ("Capacity", digest.capacity() as i64),
        ("Merged nodes", digest.merged_count() as i64),
        ("Unmerged nodes", digest.unmerged_count() as i64),
        ("Merged weight", digest.merged_weight()),
        ("Unmerged weight", digest.unmerged_weight()),
        ("Observations", digest.count()),
        ("Total compressions", digest.merge_count()),
        ("Memory usage", digest.reported_bytes() as i64),
    ];
    ctx.reply.map(values.len());
    for (name, value) in values {
        ctx.reply.simple(name);
        ctx.reply.int(value);
    }
    Ok(())
}
