//! `SCAN`, `KEYS` and `RANDOMKEY`: walks over the keys of a database, or picks a random one.

use ds::glob;
use engine::Flag::*;
use engine::{
    Acl, CommandError, CommandResult, Ctx, Cursor, Due, Entry, Group, Pace, Route, Run, Shape, Work, integer,
    keyword_is, parse_i64, pattern, string,
};
use shard::ShardId;

/// The most keys of a database that `KEYS` shows as it is at one moment; reading them takes about a
/// millisecond.
const AT_ONCE_KEYS_MAX: u64 = 10_000;
/// How often `KEYS` tries to enter a shard before it starts again once the shard is free.
const TAKEN_ROUNDS_MAX: usize = 50;
/// Keys that a call of `SCAN` visits by default.
const COUNT_DEFAULT: usize = 10;
/// The most expired keys that `RANDOMKEY` meets before it gives up.
const RANDOM_TRIES_MAX: usize = 100;
/// The most taken shards that it meets before it waits for one.
const TAKEN_SHARDS_MAX: usize = 8;

pub(super) const KEYS: Entry = Entry {
    name: "keys",
    summary: "Returns all key names that match a pattern.",
    complexity: "O(N) with N being the number of keys in the database, under the assumption that the key names in the database and the given pattern have limited length.",
    since: "1.0.0",
    group: Group::Generic,
    arity: 2,
    flags: &[ReadOnly],
    acl: &[Acl::Dangerous, Acl::Keyspace],
    args: &[pattern("pattern")],
    tips: &["request_policy:all_shards", "nondeterministic_output_order"],
    reply: Shape::BULKS,
    route: Route::Walk,
    run: Run::Function(keys),
    ..Entry::DEFAULT
};

/// Shows a small database as it is at one moment. In a large one, other clients wait at most for the shard
/// that is being read: the reply has all keys that existed throughout, and none twice.
fn keys(ctx: &mut Ctx) -> CommandResult {
    let (mark, db) = (ctx.reply.deferred(), ctx.store.client.db);
    let mut rest: Vec<ShardId> = ctx.store.tx.hold.shards().ids().collect();
    let has_all = rest.iter().all(|id| ctx.store.tx.hold.has(*id));
    if !has_all && ctx.store.tx.hold.shards().key_count(db) <= AT_ONCE_KEYS_MAX {
        return Err(CommandError::again(rest));
    }
    let mut count = 0;
    for _ in 0..TAKEN_ROUNDS_MAX {
        rest.retain(|id| {
            let is_entered = ctx.store.tx.hold.try_enter(*id) || ctx.store.tx.hold.wait(*id, false);
            if is_entered {
                count += keys_of_shard(ctx, *id);
            }
            if is_entered && !has_all {
                leave(ctx, *id);
            }
            !is_entered
        });
        if rest.is_empty() {
            break;
        }
        ctx.host.breathe();
    }
    if !rest.is_empty() {
        // Long commands hold these shards. The next run enters them first, once they are free.
        return Err(CommandError::again(rest));
    }
    ctx.reply.finish_array(mark, count);
    Ok(())
}

/// Writes the keys of an entered shard that match; returns their number.
fn keys_of_shard(ctx: &mut Ctx, id: ShardId) -> usize {
    let (pattern, now, mut count) = (ctx.args[1], ctx.store.now(), 0);
    let Some(db) = ctx.store.tx.hold.shard(id).dbs.used(ctx.store.client.db as usize) else { return 0 };
    let mut pace = Pace::new(ctx.host);
    for record in db.iter() {
        let matches = pattern == b"*" || glob::matches(pattern, record.key(), false);
        if matches && !record.expired(now) {
            ctx.reply.bulk(record.key());
            count += 1;
        }
        pace.step();
    }
    count
}

/// Leaves a shard before the command ends. Tasks that were delegated to it in the meantime run elsewhere, or
/// afterwards.
fn leave(ctx: &mut Ctx, id: ShardId) {
    ctx.store.tx.commit();
    while let Some(node) = ctx.store.tx.hold.next_task_or_leave(id) {
        match node.task.work {
            Work::HandOver(to) => return ctx.store.tx.hold.hand_over(id, to),
            _ => ctx.host.send_on(node),
        }
    }
}

pub(super) const SCAN: Entry = Entry {
    name: "scan",
    summary: "Iterates over the key names in the database.",
    complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
    since: "2.8.0",
    group: Group::Generic,
    arity: -2,
    flags: &[ReadOnly],
    acl: &[Acl::Keyspace],
    args: &[
        integer("cursor"),
        pattern("pattern").token("MATCH").optional(),
        integer("count").token("COUNT").optional(),
        string("type").token("TYPE").optional().since("6.0.0"),
    ],
    history: &[("6.0.0", "Added the `TYPE` subcommand.")],
    tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
    reply: Shape::Tuple(&[Shape::Bulk, Shape::BULKS]),
    route: Route::Cursor(1),
    run: Run::Function(scan),
    ..Entry::DEFAULT
};

/// Continues at the cursor, through as many shards as it takes to visit `COUNT` keys: one call returns a
/// small database. In transactions and scripts it stops at a shard that it would have to wait for. Expired
/// keys that match the pattern are deleted.
fn scan(ctx: &mut Ctx) -> CommandResult {
    let cursor = Cursor::parse(ctx.args[1])?;
    let filter = Filter::parse(&ctx.args[2..])?;
    scan_for(ctx, cursor, &filter)
}

/// Continues at `cursor` with the keys that `filter` selects.
pub(super) fn scan_for(ctx: &mut Ctx, mut cursor: Cursor, filter: &Filter) -> CommandResult {
    let (shard_count, now) = (ctx.store.tx.hold.shards().len(), ctx.store.now());
    let mut found: Vec<Box<[u8]>> = Vec::new();
    let mut expired: Vec<Box<[u8]>> = Vec::new();
    let mut wanted = filter.count;
    let may_begin_again = ctx.may_block();
    let mut pace = Pace::new(ctx.host);
    while usize::from(cursor.shard) < shard_count {
        let db = ctx.store.db(ShardId(cursor.shard));
        cursor.position = db.scan(cursor.position, wanted, &mut |record| {
            wanted = wanted.saturating_sub(1);
            pace.step();
            let fits_pattern =
                filter.pattern.is_none_or(|pattern| glob::matches(pattern, record.key(), false));
            let fits_type =
                filter.type_name.is_none_or(|name| keyword_is(name, record.value().kind().name()));
            if fits_pattern && record.expired(now) {
                expired.push(record.key().into());
            } else if fits_pattern && fits_type && (!filter.is_blessed || record.marks().is_blessed) {
                found.push(record.key().into());
            }
        });
        if cursor.position != 0 {
            break;
        }
        cursor.shard += 1;
        let next = ShardId(cursor.shard);
        let hold = &mut ctx.store.tx.hold;
        if wanted == 0 || next.index() >= shard_count {
            break;
        }
        if !hold.try_enter(next) && !hold.wait(next, false) {
            if !may_begin_again {
                break;
            }
            return Err(CommandError::again(hold.entered().iter().copied().chain([next])));
        }
    }
    // Only now, because a command that has written cannot be run again.
    if ctx.store.tx.due() == Due::Delete {
        expired.iter().for_each(|key| ctx.store.delete_expired(key));
    }
    let at_end = usize::from(cursor.shard) >= shard_count;
    let mut text = itoa::Buffer::new();
    ctx.reply.array(2);
    ctx.reply.bulk(text.format(if at_end { 0 } else { cursor.number() }).as_bytes());
    ctx.reply.array(found.len());
    for key in found {
        ctx.reply.bulk(&key);
    }
    Ok(())
}

/// The keys that a scan returns.
pub(super) struct Filter<'a> {
    pub(super) count: usize,
    pub(super) pattern: Option<&'a [u8]>,
    pub(super) type_name: Option<&'a [u8]>,
    /// Only keys that are protected from eviction.
    pub(super) is_blessed: bool,
}

impl<'a> Filter<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<Filter<'a>, CommandError> {
        Filter { count: COUNT_DEFAULT, pattern: None, type_name: None, is_blessed: false }.with(args)
    }

    /// The filter with these options.
    pub(super) fn with(self, args: &[&'a [u8]]) -> Result<Filter<'a>, CommandError> {
        let mut filter = self;
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            let value = *rest.next().ok_or(CommandError::SYNTAX)?;
            if keyword_is(word, "COUNT") {
                let count = parse_i64(value)?;
                filter.count =
                    usize::try_from(count).ok().filter(|&count| count > 0).ok_or(CommandError::SYNTAX)?;
            } else if keyword_is(word, "MATCH") {
                filter.pattern = (value != b"*").then_some(value);
            } else if keyword_is(word, "TYPE") {
                filter.type_name = Some(value);
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(filter)
    }
}

pub(super) const RANDOMKEY: Entry = Entry {
    name: "randomkey",
    summary: "Returns a random key name from the database.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Generic,
    arity: 1,
    flags: &[ReadOnly],
    acl: &[Acl::Keyspace],
    tips: &["request_policy:all_shards", "response_policy:special", "nondeterministic_output"],
    reply: Shape::BULK_OR_NULL,
    route: Route::Chance,
    run: Run::Function(randomkey),
    ..Entry::DEFAULT
};

/// Chooses a shard with a probability proportional to its keys, and a random key in it. On a replica expired keys stay,
/// so after many of them it returns one.
fn randomkey(ctx: &mut Ctx) -> CommandResult {
    for tries in 1..=RANDOM_TRIES_MAX {
        let Some(id) = enter_by_chance(ctx)? else { break };
        let random = &mut ctx.store.tx.hold.shard_mut(id).random;
        let (one, two) = (random.next_u64(), random.next_u64());
        let Some(record) = ctx.store.db(id).random(one, two) else { continue };
        let deletes = ctx.store.tx.due() == Due::Delete;
        if !record.expired(ctx.store.now()) || !deletes && tries == RANDOM_TRIES_MAX {
            ctx.reply.bulk(record.key());
            return Ok(());
        }
        if deletes {
            let key = record.key().to_vec();
            ctx.store.delete_expired(&key);
        }
    }
    ctx.reply.null();
    Ok(())
}

/// Enters a random shard, unless one is already held. If the shard is taken, chooses another. `None` if there
/// are no keys.
fn enter_by_chance(ctx: &mut Ctx) -> Result<Option<ShardId>, CommandError> {
    let db = ctx.store.client.db;
    let hold = &mut ctx.store.tx.hold;
    let mut wanted = None;
    for _ in 0..TAKEN_SHARDS_MAX {
        let Some(id) = hold.shards().any_with_keys(db) else { return Ok(None) };
        if hold.try_enter(id) || hold.wait(id, false) {
            return Ok(Some(id));
        }
        wanted = Some(id);
    }
    // All others are busy: use a shard that this command has already waited for.
    let with_keys = ctx.store.entered().into_iter().find(|id| !ctx.store.db(*id).is_empty());
    if with_keys.is_none() {
        return Err(CommandError::again(wanted));
    }
    Ok(with_keys)
}
