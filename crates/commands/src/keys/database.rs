//! Whole databases: counts, empties and swaps them.
//!
//! A flushed database is taken out whole, and freed after the shards were left.

use engine::Flag::*;
use engine::{
    Acl, CommandError, CommandResult, Ctx, Databases, Entry, Garbage, Group, Mode, Route, Run, Shape, Store,
    TxMessage, content, has_stream, integer, keyword_is, oneof, ready_after, token,
};
use shard::{Content, Ready, ShardId};

use super::parse_db;

pub(super) const DBSIZE: Entry = Entry {
    name: "dbsize",
    summary: "Returns the number of keys in the database.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Server,
    arity: 1,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Keyspace],
    tips: &["request_policy:all_shards", "response_policy:agg_sum"],
    reply: Shape::Int,
    run: Run::Function(dbsize),
    ..Entry::DEFAULT
};

/// Holds no shard. The count includes the client's own changes, even those of the current transaction. If
/// replies wait for the changes they show, this one waits for all changes that were committed before.
fn dbsize(ctx: &mut Ctx) -> CommandResult {
    let tallies = ctx.store.tx.hold.shards().tallies(ctx.store.client.db);
    let count: u64 = tallies.map(|tally| tally.keys.get()).sum();
    if ctx.store.tx.holds_replies {
        // Read this after counting: counted changes were committed before, except for those in progress right
        // now.
        let newest = ctx.host.newest_slice();
        ctx.store.tx.seen = ctx.store.tx.seen.max(newest);
    }
    ctx.reply.int(count as i64);
    Ok(())
}

pub(super) const FLUSHDB: Entry = Entry {
    name: "flushdb",
    summary: "Remove all keys from the current database.",
    complexity: "O(N) where N is the number of keys in the selected database",
    since: "1.0.0",
    group: Group::Server,
    arity: -1,
    flags: &[Write],
    acl: &[Acl::Dangerous, Acl::Keyspace],
    args: &[oneof(
        "flush-type",
        &[token("async", "ASYNC").since("4.0.0"), token("sync", "SYNC").since("6.2.0")],
    )
    .optional()],
    history: &[
        ("4.0.0", "Added the `ASYNC` flushing mode modifier."),
        ("6.2.0", "Added the `SYNC` flushing mode modifier."),
    ],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    reply: Shape::OK,
    route: Route::Global,
    mode: Mode::Heavy,
    run: Run::Function(flushdb),
    ..Entry::DEFAULT
};

fn flushdb(ctx: &mut Ctx) -> CommandResult {
    check_flush_option(ctx)?;
    flush_selected(&mut ctx.store);
    ctx.reply.ok();
    Ok(())
}

/// Empties the selected database. All shards must be entered, because this is one change.
pub fn flush_selected(store: &mut Store) {
    for id in store.entered() {
        flush(store, id, store.client.db);
    }
    store.effect_everywhere(&[b"FLUSHDB"]);
    store.flushed();
}

pub(super) const FLUSHALL: Entry = Entry {
    name: "flushall",
    summary: "Removes all keys from all databases.",
    complexity: "O(N) where N is the total number of keys in all databases",
    databases: Databases::All,
    run: Run::Function(flushall),
    ..FLUSHDB
};

fn flushall(ctx: &mut Ctx) -> CommandResult {
    check_flush_option(ctx)?;
    for id in ctx.store.entered() {
        for db in 0..ctx.store.db_count() {
            flush(&mut ctx.store, id, db);
        }
    }
    ctx.store.effect_everywhere(&[b"FLUSHALL"]);
    ctx.host.flushed_all(&ctx.store.tx.hold);
    ctx.store.flushed();
    ctx.reply.ok();
    Ok(())
}

/// `SYNC` and `ASYNC` are the same here.
fn check_flush_option(ctx: &Ctx) -> Result<(), CommandError> {
    match ctx.args[1..] {
        [] => Ok(()),
        [option] if keyword_is(option, "SYNC") || keyword_is(option, "ASYNC") => Ok(()),
        _ => Err(CommandError::SYNTAX),
    }
}

/// Empties database `db` on shard `id`.
fn flush(store: &mut Store, id: ShardId, db: u32) {
    let tx = &mut *store.tx;
    // Looking into an unused shard would create it.
    if !tx.hold.shards().is_used(id) {
        return;
    }
    let (placement, now) = (tx.hold.shards().placement(), tx.now);
    let shard = tx.hold.shard_mut(id);
    // Leave an empty database in place: a snapshot of it may still be running.
    let Some(data) = shard.dbs.used(db as usize) else { return };
    if data.is_empty() && data.queues().is_empty() {
        return;
    }
    let taken = shard.dbs[db as usize].take();
    shard.stats.changes.add(taken.len() as u64);
    shard.watches.replaced(db, |key| (content(placement, &taken, key, now), Content::Nothing));
    let lost = shard.waiters.keys(db).filter(|key| has_stream(placement, &taken, key));
    shard.ready.extend(lost.map(|key| Ready { db, key: key.into(), was_lost: true, has_more: false }));
    let has_ready = !shard.ready.is_empty();
    tx.note_ready(has_ready);
    tx.wrote = true;
    tx.outbox.push(TxMessage::Free(Garbage::Db(Box::new(taken))));
}

pub(super) const SWAPDB: Entry = Entry {
    name: "swapdb",
    summary: "Swaps two Redis databases.",
    complexity: "O(N) where N is the count of clients watching or blocking on keys from both databases.",
    since: "4.0.0",
    group: Group::Server,
    arity: 3,
    flags: &[Write, Fast],
    acl: &[Acl::Dangerous, Acl::Keyspace],
    args: &[integer("index1"), integer("index2")],
    databases: Databases::Numbered(&[1, 2]),
    reply: Shape::OK,
    route: Route::Global,
    run: Run::Function(swapdb),
    ..Entry::DEFAULT
};

fn swapdb(ctx: &mut Ctx) -> CommandResult {
    let index = |arg, ordinal: &str| {
        parse_db(ctx, arg).map_err(|_| CommandError::new(format!("ERR invalid {ordinal} DB index")))
    };
    let (one, other) = (index(ctx.args[1], "first")?, index(ctx.args[2], "second")?);
    let (Some(one), Some(other)) = (one, other) else { return Err(CommandError::DB_OUT_OF_RANGE) };
    let ids = ctx.store.entered();
    // The whole swap counts as one change, even that of a database with itself.
    ctx.store.tx.hold.shard_mut(ids[0]).stats.changes.add(1);
    if one != other {
        for id in ids {
            swap(ctx, id, one, other);
        }
        ctx.store.effect_everywhere(ctx.args);
    }
    ctx.reply.ok();
    Ok(())
}

/// Swaps two databases on shard `id`. Tells clients that watch a key in either, and serves clients that wait
/// in one of them for data that it now has, or for the end of a stream.
fn swap(ctx: &mut Ctx, id: ShardId, one: u32, other: u32) {
    let tx = &mut *ctx.store.tx;
    let (placement, now) = (tx.hold.shards().placement(), tx.now);
    let shard = tx.hold.shard_mut(id);
    shard.dbs.swap(one as usize, other as usize);
    tx.wrote = true;
    for (db, before) in [(one, other), (other, one)] {
        let of = |db: u32, key: &[u8]| content(placement, &shard.dbs[db as usize], key, now);
        shard.watches.replaced(db, |key| (of(before, key), of(db, key)));
        let dbs = (&shard.dbs[before as usize], &shard.dbs[db as usize]);
        shard.ready.extend(shard.waiters.keys(db).filter_map(|key| ready_after(placement, db, key, dbs)));
    }
    let has_ready = !shard.ready.is_empty();
    tx.note_ready(has_ready);
}
