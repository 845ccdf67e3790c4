//! DEBUG: for tests of clients and of the server itself.
//!
//! All shards are entered, so DEBUG SLEEP stops the whole store, as in Redis.
//!
//! Not here: subcommands that look into data structures or files that differ from Redis' (`HTSTATS`, `LISTPACK` …).

use std::sync::atomic::Ordering;
use std::time::Duration;

use commands::keys::digest;
use commands::keys::populate::Population;
use config::ENABLE_DEBUG_COMMAND;
use ds::dictionary::PackingFigures;
use engine::Flag::*;
use engine::{
    CommandError, CommandResult, Group, Mode, Route, Shape, keyword_is, parse_count, parse_i64,
    subcommand_error,
};
use keyspace::ValueRef;
use process::{crash, system};

use crate::{Ctx, Entry, OperatorTask, Run, Server, not_allowed};

/// DEBUG, whose subcommands are words among its arguments.
pub(crate) const DEBUG: Entry = Entry {
    name: "debug",
    is_system: true,
    summary: "A container for debugging commands.",
    complexity: "Depends on subcommand.",
    since: "1.0.0",
    group: Group::Server,
    arity: -2,
    flags: &[Admin, NoScript, Loading, Stale],
    route: Route::Global,
    mode: Mode::Session,
    reply: Shape::Any,
    run: Run::Function(debug),
    ..Entry::DEFAULT
};

/// The longest sleep. More must be a mistake.
const SLEEP_SECONDS_MAX: f64 = 3600.0;

fn debug(ctx: &mut Ctx) -> CommandResult {
    if !ctx.host.allows(ENABLE_DEBUG_COMMAND) {
        return Err(not_allowed("DEBUG", "enable-debug-command"));
    }
    let Server { snapshots, active_expire, .. } = ctx.host.server;
    let word = ctx.args[1].to_ascii_lowercase();
    match (&*word, &ctx.args[2..]) {
        (b"loadaof" | b"populate" | b"reload", _) if snapshots.progress.is_loading() => {
            Err(CommandError::LOADING)
        }
        (b"assert" | b"oom" | b"panic" | b"segfault", []) => crash(&word),
        (b"change-repl-id", []) => {
            ctx.host.carry_out(ctx.store.tx, OperatorTask::RenameStream)?;
            ok(ctx)
        }
        (b"compress-hashes", []) => compress_hashes(ctx),
        (b"digest", []) => {
            let digest = digest::digest(&ctx.store);
            reply_digest(ctx, &digest);
            Ok(())
        }
        (b"digest-value", keys) => {
            ctx.reply.array(keys.len());
            for key in keys {
                let digest = digest::digest_value(&ctx.store, key);
                reply_digest(ctx, &digest);
            }
            Ok(())
        }
        (b"error", [text]) => Err(CommandError::new(*text)),
        (b"help", []) => help(ctx),
        (b"loadaof", []) => load_journal(ctx),
        (b"log", [text]) => {
            tracing::warn!("DEBUG LOG: {}", process::log::one_line(text));
            ok(ctx)
        }
        (b"move-client", [id, thread]) => move_client(ctx, id, thread),
        (b"object", [key, ..]) => object(ctx, key),
        (b"populate", words @ [_] | words @ [_, _] | words @ [_, _, _]) => populate(ctx, words),
        (b"protocol", [kind]) => protocol(ctx, kind),
        (
            b"dict-resizing"
            | b"pause-cron"
            | b"quicklist-packed-threshold"
            | b"set-skip-checksum-validation",
            [_],
        ) => ok(ctx),
        (b"reload", options) => reload(ctx, options),
        (b"set-active-expire", [switch]) => {
            let is_on = parse_i64(switch).unwrap_or(0) != 0;
            active_expire.store(is_on, Ordering::Relaxed);
            ok(ctx)
        }
        (b"sleep", [seconds]) => sleep(ctx, seconds),
        (b"stringmatch-len", [length, pattern]) => stringmatch(ctx, length, pattern),
        _ => Err(subcommand_error(ctx.args)),
    }
}

/// Crashes the server on purpose, for tests of the crash report.
fn crash(word: &[u8]) -> ! {
    match word {
        b"assert" => panic!("assertion failed: called by DEBUG ASSERT"),
        b"oom" => std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u8; 1 << 46]>()),
        b"segfault" => crash::write_where_nobody_may(),
        _ => {}
    }
    panic!("called by DEBUG PANIC")
}

fn ok(ctx: &mut Ctx) -> CommandResult {
    ctx.reply.ok();
    Ok(())
}

fn reply_digest(ctx: &mut Ctx, digest: &digest::Digest) {
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    ctx.reply.simple(&hex);
}

/// Puts the thread to sleep with all shards entered, as intended.
#[expect(clippy::disallowed_methods, reason = "the command asks for it")]
fn sleep(ctx: &mut Ctx, seconds: &[u8]) -> CommandResult {
    let seconds = ds::num::parse_f64(seconds).unwrap_or(0.0).clamp(0.0, SLEEP_SECONDS_MAX);
    std::thread::sleep(Duration::from_secs_f64(seconds));
    ok(ctx)
}

fn object(ctx: &mut Ctx, key: &[u8]) -> CommandResult {
    let now = ctx.store.now();
    let record = ctx.store.peek(key).ok_or(CommandError::NO_SUCH_KEY)?;
    let idle_seconds = record.idle_seconds(keyspace::access::lru_clock(now));
    let mut text = format!(
        "Value at:{:p} refcount:1 encoding:{} serializedlength:{} lru:{} lru_seconds_idle:{idle_seconds}",
        record.key().as_ptr(),
        record.value().encoding(),
        record.memory_bytes(),
        record.access() & 0xff_ffff,
    );
    if let ValueRef::Compressed(hash) = record.value() {
        let (bytes, dictionary_bytes) = (hash.bytes.len(), hash.dictionary.memory_bytes());
        text.push_str(&format!(" hash_compressed_bytes:{bytes} hash_dictionary_bytes:{dictionary_bytes}"));
    }
    let packing = match record.value() {
        ValueRef::ZSet(zset) => zset.packing().map(|figures| ("zs", figures)),
        ValueRef::Hash(hash) => hash.packing().map(|figures| ("hash", figures)),
        _ => None,
    };
    if let Some((name, PackingFigures { packed_count, dictionary_bytes })) = packing {
        text.push_str(&format!(" {name}_packed:{packed_count} {name}_dictionary_bytes:{dictionary_bytes}"));
    }
    ctx.reply.simple(&text);
    Ok(())
}

/// Passes over all databases, until there is nothing to do any more.
fn compress_hashes(ctx: &mut Ctx) -> CommandResult {
    let now = ctx.store.now();
    let mut config = ctx.store.config().clone();
    config.hash_compression.idle_seconds = 0;
    let ids: Vec<_> = ctx.store.tx.hold.entered().to_vec();
    let mut compressed = 0;
    for id in ids {
        for (_, db) in ctx.store.tx.hold.shard_mut(id).dbs.iter_mut() {
            compressed += db.compress_all_hashes(&config, now);
        }
    }
    ctx.reply.int(compressed as i64);
    Ok(())
}

/// Moves a client to the thread of this number.
fn move_client(ctx: &mut Ctx, id: &[u8], thread: &[u8]) -> CommandResult {
    let (id, thread) = (parse_count(id)? as u64, parse_count(thread)?);
    let thread = u16::try_from(thread).map_err(|_| CommandError::OUT_OF_RANGE)?;
    ctx.host.carry_out(ctx.store.tx, OperatorTask::MoveClient { id, thread })
}

fn populate(ctx: &mut Ctx, words: &[&[u8]]) -> CommandResult {
    let prefix: &[u8] = words.get(1).copied().unwrap_or(b"key");
    let value_bytes = words.get(2).map(|word| parse_count(word)).transpose()?;
    if value_bytes.is_some_and(|bytes| bytes as u64 > ctx.store.config().string_bytes_max) {
        return Err(CommandError::STRING_TOO_LONG);
    }
    let count = parse_count(words[0])? as u64;
    let bytes_max = match ctx.host.server.settings.memory_bytes_max() {
        0 => system::machine_bytes(),
        limit => limit,
    };
    let population = Population::new(ctx.store.client.db, prefix, count, value_bytes, bytes_max)?;
    if ctx.store.client.deny_blocking {
        let ids: Vec<_> = ctx.store.tx.hold.shards().ids().collect();
        population.fill(ctx.store.tx, &ids)?;
        return ok(ctx);
    }
    ctx.host.carry_out(ctx.store.tx, OperatorTask::Populate(population))
}

const BEHIND_THE_JOURNAL: &str = "ERR the snapshot may be older than the journal, which goes on from what is there now: CONFIG SET appendonly no first";

/// Saves, and loads what was saved. With NOSAVE, loads the existing snapshot.
fn reload(ctx: &mut Ctx, options: &[&[u8]]) -> CommandResult {
    if !options.iter().all(|word| keyword_is(word, "NOSAVE")) {
        return Err(CommandError::SYNTAX);
    }
    let saves = options.is_empty();
    if !saves && ctx.host.has_journal {
        return Err(CommandError::fixed(BEHIND_THE_JOURNAL));
    }
    ctx.host.carry_out(ctx.store.tx, OperatorTask::Reload { saves })?;
    ok(ctx)
}

/// Replaces the data by that of the journal, which is the same.
fn load_journal(ctx: &mut Ctx) -> CommandResult {
    ctx.host.carry_out(ctx.store.tx, OperatorTask::ReloadJournal)?;
    ok(ctx)
}

fn stringmatch(ctx: &mut Ctx, length: &[u8], pattern: &[u8]) -> CommandResult {
    let length = usize::try_from(parse_i64(length)?).map_err(|_| CommandError::OUT_OF_RANGE_POSITIVE)?;
    if length as u64 > ctx.store.config().string_bytes_max {
        return Err(CommandError::STRING_TOO_LONG);
    }
    let is_match = ds::glob::matches(pattern, &vec![b'a'; length], false);
    ctx.reply.int(i64::from(is_match));
    Ok(())
}

#[expect(clippy::approx_constant, reason = "the value that Redis answers")]
fn protocol(ctx: &mut Ctx, kind: &[u8]) -> CommandResult {
    let reply = &mut ctx.reply;
    match &*kind.to_ascii_lowercase() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.int(12345),
        b"double" => reply.double(3.141),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.int(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.int(number));
        }
        b"map" => {
            reply.map(3);
            for number in 0..3 {
                reply.int(number);
                reply.bool(number == 1);
            }
        }
        b"push" if reply.proto() == resp::Proto::Resp3 => {
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.int(42);
        }
        b"push" => return Err(CommandError::new("ERR RESP2 is not supported by this command")),
        b"true" => reply.bool(true),
        b"false" => reply.bool(false),
        b"verbatim" => reply.verbatim("txt", b"This is a verbatim\nstring"),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        _ => {
            let text = "ERR Wrong protocol type name. Please use one of the following: string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false";
            return Err(CommandError::new(text));
        }
    }
    Ok(())
}

fn help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(&[
        "ASSERT, OOM, PANIC, SEGFAULT",
        "    Crash the server.",
        "CHANGE-REPL-ID",
        "    Change the replication id, so that every replica needs a full copy.",
        "COMPRESS-HASHES",
        "    Compress at once what `hash-compress-bytes-min` allows, however long it was in",
        "    use. Return how many hashes that were.",
        "DICT-RESIZING <0|1>",
        "    Does nothing.",
        "DIGEST",
        "    Output a hex signature representing the current DB content.",
        "DIGEST-VALUE <key> [<key> ...]",
        "    Output a hex signature of the values of all the specified keys.",
        "ERROR <string>",
        "    Return a Redis protocol error with <string> as message. Useful for clients",
        "    unit tests to simulate Redis errors.",
        "LOADAOF",
        "    Wait until everything is in the journal, and load it.",
        "LOG <message>",
        "    Write <message> to the server log.",
        "MOVE-CLIENT <id> <thread>",
        "    Move a client to another thread, counted from 0.",
        "OBJECT <key>",
        "    Show low level info about `key` and associated value.",
        "PAUSE-CRON <0|1>",
        "    Does nothing.",
        "POPULATE <count> [<prefix>] [<size>]",
        "    Create <count> string keys named key:<num>. If <prefix> is specified then",
        "    it is used instead of the 'key' prefix.",
        "PROTOCOL <type>",
        "    Reply with a test value of the specified type. <type> can be: string,",
        "    integer, double, bignum, null, array, set, map, push, verbatim,",
        "    true, false.",
        "QUICKLIST-PACKED-THRESHOLD <size>",
        "    Does nothing.",
        "RELOAD [NOSAVE]",
        "    Save the snapshot and load it again, or only load it. Nothing changes if",
        "    that fails.",
        "SET-ACTIVE-EXPIRE <0|1>",
        "    Setting it to 0 disables expiring keys in background when they are not",
        "    accessed (otherwise the Redis behavior). Setting it to 1 reenables back the",
        "    default.",
        "SLEEP <seconds>",
        "    Stop the server for <seconds>. Decimals allowed.",
        "STRINGMATCH-LEN <length> <pattern>",
        "    Match <pattern> against a string of <length> letters.",
    ])
}
