//! `SCAN`, `KEYS` and `RANDOMKEY`: walks over the keys of a database, or picks a random one.

use command::Flag::*;
use command::{
    Acl, CommandError, CommandResult, Ctx, Cursor, Due, Entry, Group, Route, Run, Shape, integer, keyword_is,
    parse_i64, pattern, string,
};
use ds::glob;
use shard::ShardId;

/// Keys that a call of `SCAN` visits by default.
const COUNT_DEFAULT: usize = 10;
/// Expired keys that `RANDOMKEY` meets before it gives up.
const RANDOM_TRIES_MAX: usize = 100;
/// Shards that it finds taken before it waits for one.
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
    route: Route::Global,
    run: Run::Function(keys),
    ..Entry::DEFAULT
};

fn keys(ctx: &mut Ctx) -> CommandResult {
    let (pattern, now) = (ctx.args[1], ctx.store.now());
    let mark = ctx.reply.deferred();
    let mut count = 0;
    for id in ctx.store.entered() {
        let Some(data) = ctx.store.used_db(id) else { continue };
        for record in data.iter() {
            let matches = pattern == b"*" || glob::matches(pattern, record.key(), false);
            if matches && !record.expired(now) {
                ctx.reply.bulk(record.key());
                count += 1;
            }
        }
    }
    ctx.reply.finish_array(mark, count);
    Ok(())
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

/// Continues at the cursor, through as many shards as it takes to visit `COUNT` keys: a small database is returned by
/// one call. In transactions and scripts it stops at a shard that it would have to wait for. Expired keys that match the
/// pattern are deleted.
fn scan(ctx: &mut Ctx) -> CommandResult {
    let mut cursor = Cursor::parse(ctx.args[1])?;
    let filter = Filter::parse(&ctx.args[2..])?;
    let (shard_count, now) = (ctx.store.tx.hold.shards().len(), ctx.store.now());
    let mut found: Vec<Box<[u8]>> = Vec::new();
    let mut expired: Vec<Box<[u8]>> = Vec::new();
    let mut wanted = filter.count;
    let may_begin_again = ctx.may_block();
    while usize::from(cursor.shard) < shard_count {
        let db = ctx.store.db(ShardId(cursor.shard));
        cursor.position = db.scan(cursor.position, wanted, &mut |record| {
            wanted = wanted.saturating_sub(1);
            let fits_pattern =
                filter.pattern.is_none_or(|pattern| glob::matches(pattern, record.key(), false));
            let fits_type =
                filter.type_name.is_none_or(|name| keyword_is(name, record.value().kind().name()));
            if fits_pattern && record.expired(now) {
                expired.push(record.key().into());
            } else if fits_pattern && fits_type {
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
    // Not before: a command that has written cannot begin again.
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

/// Which keys `SCAN` returns.
struct Filter<'a> {
    count: usize,
    pattern: Option<&'a [u8]>,
    type_name: Option<&'a [u8]>,
}

impl<'a> Filter<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<Filter<'a>, CommandError> {
        let mut filter = Filter { count: COUNT_DEFAULT, pattern: None, type_name: None };
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

/// Enters a random shard, unless one is held already. If the shard is taken, chooses another. `None`: there are no
/// keys.
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
    // All are busy: one that was waited for before has to do.
    let with_keys = ctx.store.entered().into_iter().find(|id| !ctx.store.db(*id).is_empty());
    if with_keys.is_none() {
        return Err(CommandError::again(wanted));
    }
    Ok(with_keys)
}
