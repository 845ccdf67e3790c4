//! `PFDEBUG` and `PFSELFTEST`: inspect and test HyperLogLogs.

use ds::hll::{self, REGISTERS, Registers};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, key, keyword_is, string,
};
use keyspace::Str;

use super::{check, corrupt};

pub(super) const PFDEBUG: Entry = Entry {
    name: "pfdebug",
    summary: "Internal commands for debugging HyperLogLog values.",
    complexity: "N/A",
    since: "2.8.9",
    group: Group::HyperLogLog,
    arity: 3,
    flags: &[Write, DenyOom, Admin],
    acl: &[Acl::HyperLogLog],
    keys: &[KeySpec::one(2, &[RW, Access])],
    args: &[string("subcommand"), key("key", 0)],
    is_system: true,
    reply: Shape::OneOf(&[Shape::Int, Shape::Bulk, Shape::AnyStatus, Shape::Array(&Shape::Int)]),
    run: Run::Function(pfdebug),
    ..Entry::DEFAULT
};

fn pfdebug(ctx: &mut Ctx) -> CommandResult {
    let (word, key) = (ctx.args[1], ctx.args[2]);
    let Some(string) = ctx.store.write_as::<Str>(key)? else {
        return Err(CommandError::fixed("ERR The specified key does not exist"));
    };
    check(string.lend())?;
    let hll = string.make_mut();
    if keyword_is(word, "getreg") {
        let was_sparse = hll::make_dense(hll).map_err(corrupt)?;
        let mut registers = Registers::default();
        registers.merge(hll).map_err(corrupt)?;
        ctx.reply.array(REGISTERS);
        registers.values().iter().for_each(|&value| ctx.reply.int(i64::from(value)));
        note_dense(ctx, key, was_sparse);
    } else if keyword_is(word, "decode") {
        if !hll::is_sparse(hll) {
            return Err(CommandError::fixed("ERR HLL encoding is not sparse"));
        }
        ctx.reply.bulk(hll::decode(hll).as_bytes());
    } else if keyword_is(word, "encoding") {
        ctx.reply.simple(if hll::is_sparse(hll) { "sparse" } else { "dense" });
    } else if keyword_is(word, "todense") {
        let was_sparse = hll::make_dense(hll).map_err(corrupt)?;
        ctx.reply.int(i64::from(was_sparse));
        note_dense(ctx, key, was_sparse);
    } else {
        return Err(CommandError::quoting("ERR Unknown PFDEBUG subcommand '", word, "'"));
    }
    Ok(())
}

/// Counts the conversion of a HyperLogLog to the dense form. Clients that watch the key are not told, because
/// the value stays the same.
fn note_dense(ctx: &mut Ctx, key: &[u8], was_sparse: bool) {
    if was_sparse {
        ctx.store.changed(key, Change::UNNAMED.untold(), &[b"PFDEBUG", b"TODENSE", key]);
    }
}

pub(super) const PFSELFTEST: Entry = Entry {
    name: "pfselftest",
    summary: "An internal command for testing HyperLogLog values.",
    complexity: "N/A",
    since: "2.8.9",
    group: Group::HyperLogLog,
    arity: 1,
    flags: &[Admin],
    acl: &[Acl::HyperLogLog],
    is_system: true,
    reply: Shape::OK,
    run: Run::Function(pfselftest),
    ..Entry::DEFAULT
};

/// Elements that `PFSELFTEST` adds.
const TESTED_ELEMENTS: u64 = 100_000;
/// The largest error allowed for an estimate: six standard errors.
const ERROR_MAX: f64 = 6.0 * 1.04 / 128.0;

fn pfselftest(ctx: &mut Ctx) -> CommandResult {
    let sparse_bytes_max = ctx.store.config().hll_sparse_bytes_max;
    let (mut usual, mut dense) = (hll::new(), hll::new());
    hll::make_dense(&mut dense).map_err(corrupt)?;
    for element in 1..=TESTED_ELEMENTS {
        for hll in [&mut usual, &mut dense] {
            hll::add(hll, &element.to_le_bytes(), sparse_bytes_max).map_err(corrupt)?;
        }
        if element.is_power_of_two() || element == TESTED_ELEMENTS {
            let count = hll::count(&mut dense).map_err(corrupt)?;
            if hll::count(&mut usual).map_err(corrupt)? != count {
                return Err(CommandError::fixed("TESTFAILED dense/sparse disagree"));
            }
            let error = count.abs_diff(element) as f64 / element as f64;
            if error > ERROR_MAX {
                let text = format!("TESTFAILED Too big error. card:{element} error:{error}");
                return Err(CommandError::new(text));
            }
        }
    }
    ctx.reply.ok();
    Ok(())
}
