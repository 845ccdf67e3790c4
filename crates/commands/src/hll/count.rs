//! `PFADD`, `PFCOUNT` and `PFMERGE`.

use ds::hll::{self, Registers};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandResult, Ctx, Entry, Group, KeySpec, Mode, Pace, Run, Shape, key, string,
};
use keyspace::{Str, Value};

use super::{check, corrupt};
use crate::keys::rebuild;

pub(super) const PFADD: Entry = Entry {
    name: "pfadd",
    summary: "Adds elements to a HyperLogLog key. Creates the key if it doesn't exist.",
    complexity: "O(1) to add every element.",
    since: "2.8.9",
    group: Group::HyperLogLog,
    arity: -2,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::HyperLogLog],
    keys: &[KeySpec::one(1, &[RW, Insert])],
    args: &[key("key", 0), string("element").optional().multiple()],
    reply: Shape::Int,
    run: Run::Function(pfadd),
    ..Entry::DEFAULT
};

fn pfadd(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let is_new = make(ctx, key)?;
    let sparse_bytes_max = ctx.store.config().hll_sparse_bytes_max;
    let hll = ctx.store.upsert::<Str>(key)?.make_mut();
    let added = ctx.args[2..].iter().try_fold(usize::from(is_new), |count, element| {
        Ok(count + usize::from(hll::add(hll, element, sparse_bytes_max)?))
    });
    if added.map_or(true, |count| count > 0) {
        hll::set_stale(hll);
    }
    match added {
        Ok(0) => {}
        Ok(count) => {
            ctx.changed(key, Change::new(Class::String, "pfadd").times(count));
        }
        Err(_) => {
            // Elements before the one that met the corrupt part have been added.
            let change = Change::UNNAMED.times(0);
            ctx.store.changed_with(key, change, |store| rebuild::record(store, key));
        }
    }
    ctx.reply.int(i64::from(added.map_err(corrupt)? > 0));
    Ok(())
}

/// Checks the HyperLogLog at `key`, or creates one; returns whether it is new.
fn make(ctx: &mut Ctx, key: &[u8]) -> Result<bool, engine::CommandError> {
    match ctx.store.write_as::<Str>(key)? {
        Some(string) => check(string.lend()).map(|()| false),
        None => {
            ctx.store.set(key, Value::Str(Str::from(hll::new())));
            Ok(true)
        }
    }
}

pub(super) const PFCOUNT: Entry = Entry {
    name: "pfcount",
    summary: "Returns the approximated cardinality of the set(s) observed by the HyperLogLog key(s).",
    complexity: "O(1) with a very small average constant time when called with a single key. O(N) with N being the number of keys, and much bigger constant times, when called with multiple keys.",
    since: "2.8.9",
    group: Group::HyperLogLog,
    arity: -2,
    flags: &[ReadOnly, MayReplicate],
    acl: &[Acl::HyperLogLog],
    keys: &[KeySpec::range(1, -1, 1, &[RW, Access])
        .notes("RW because it may change the internal representation of the key, and propagate to replicas")],
    args: &[key("key", 0).multiple()],
    reply: Shape::Int,
    run: Run::Function(pfcount),
    ..Entry::DEFAULT
};

fn pfcount(ctx: &mut Ctx) -> CommandResult {
    let &[_, key] = ctx.args else {
        let count = merge(ctx)?.0.count();
        ctx.reply.int(count as i64);
        return Ok(());
    };
    let Some(string) = ctx.store.read_as::<Str>(key)? else {
        ctx.reply.int(0);
        return Ok(());
    };
    check(string)?;
    let cached = hll::cached_count(&string.bytes());
    let hll = ctx.store.upsert::<Str>(key)?.make_mut();
    let count = match cached {
        Some(count) => count,
        None => {
            let count = hll::count(hll).map_err(corrupt)?;
            ctx.changed(key, Change::UNNAMED);
            count
        }
    };
    ctx.reply.int(count as i64);
    Ok(())
}

/// Merging the registers of a key takes about as long as this many usual steps.
const STEPS_PER_KEY: usize = 64;

/// The merged registers of all keys of the command, and whether one of them is dense.
fn merge(ctx: &mut Ctx) -> Result<(Registers, bool), engine::CommandError> {
    let (mut merged, mut any_dense, mut pace) = (Registers::default(), false, Pace::new(ctx.host));
    for key in &ctx.args[1..] {
        pace.steps(STEPS_PER_KEY);
        let Some(string) = ctx.store.read_as::<Str>(key)? else { continue };
        check(string)?;
        let bytes = string.bytes();
        any_dense |= !hll::is_sparse(&bytes);
        merged.merge(&bytes).map_err(corrupt)?;
    }
    Ok((merged, any_dense))
}

pub(super) const PFMERGE: Entry = Entry {
    name: "pfmerge",
    summary: "Merges one or more HyperLogLog values into a single key.",
    complexity: "O(N) to merge N HyperLogLogs, but with high constant times.",
    since: "2.8.9",
    group: Group::HyperLogLog,
    arity: -2,
    flags: &[Write, DenyOom],
    acl: &[Acl::HyperLogLog],
    keys: &[KeySpec::one(1, &[RW, Access, Insert]), KeySpec::range(2, -1, 1, &[RO, Access])],
    args: &[key("destkey", 0), key("sourcekey", 1).optional().multiple()],
    reply: Shape::OK,
    mode: Mode::Heavy,
    run: Run::Function(pfmerge),
    ..Entry::DEFAULT
};

fn pfmerge(ctx: &mut Ctx) -> CommandResult {
    let target = ctx.args[1];
    let (merged, any_dense) = merge(ctx)?;
    make(ctx, target)?;
    let sparse_bytes_max = ctx.store.config().hll_sparse_bytes_max;
    let hll = ctx.store.upsert::<Str>(target)?.make_mut();
    if any_dense {
        hll::make_dense(hll).map_err(corrupt)?;
    }
    merged.write(hll, sparse_bytes_max).map_err(corrupt)?;
    ctx.changed(target, Change::new(Class::String, "pfadd"));
    ctx.reply.ok();
    Ok(())
}
