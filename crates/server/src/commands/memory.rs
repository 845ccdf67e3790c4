//! MEMORY: what takes how much.

use command::Flag::*;
use command::KeyFlag::*;
use command::{
    CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Route, Run, Shape, integer, key, keyword_is,
    parse_i64,
};

use super::info::MemoryFigures;
use crate::thread::ThreadHost;

/// The family of MEMORY.
pub(crate) const ENTRIES: &[Entry] = &[Entry {
    name: "memory",
    summary: "A container for memory diagnostics commands.",
    complexity: "Depends on subcommand.",
    since: "4.0.0",
    group: Group::Server,
    arity: -2,
    subcommands: &[MEMORY_DOCTOR, MEMORY_HELP, MEMORY_MALLOC_STATS, MEMORY_PURGE, MEMORY_STATS, MEMORY_USAGE],
    ..Entry::DEFAULT
}];

const TIPS: &[&str] = &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];
/// Below this there is nothing to diagnose.
const DOCTOR_BYTES_MIN: u64 = 5 << 20;

const MEMORY_USAGE: Entry = Entry {
    name: "usage",
    summary: "Estimates the memory usage of a key.",
    complexity: "O(N) where N is the number of samples.",
    since: "4.0.0",
    group: Group::Server,
    arity: -3,
    flags: &[ReadOnly],
    keys: &[KeySpec::one(2, &[RO])],
    args: &[key("key", 0), integer("count").token("SAMPLES").optional()],
    reply: Shape::OneOf(&[Shape::Int, Shape::Null]),
    run: Run::Function(memory_usage),
    ..Entry::DEFAULT
};

/// The bytes are known exactly, so the number of samples makes no difference.
fn memory_usage(ctx: &mut Ctx) -> CommandResult {
    match &ctx.args[3..] {
        [] => {}
        [word, samples] if keyword_is(word, "samples") => {
            if parse_i64(samples)? < 0 {
                return Err(CommandError::SYNTAX);
            }
        }
        _ => return Err(CommandError::SYNTAX),
    }
    match ctx.store.peek(ctx.args[2]) {
        None => ctx.reply.null(),
        Some(record) => ctx.reply.int(record.memory_bytes() as i64),
    }
    Ok(())
}

const MEMORY_STATS: Entry = Entry {
    name: "stats",
    summary: "Returns details about memory usage.",
    since: "4.0.0",
    group: Group::Server,
    arity: 2,
    route: Route::Global,
    tips: TIPS,
    reply: Shape::Map(&Shape::Bulk, &Shape::Any),
    run: Run::Function(memory_stats),
    ..Entry::DEFAULT
};

fn memory_stats(ctx: &mut Ctx) -> CommandResult {
    let shared = ThreadHost::of(ctx.host).shared;
    let figures = MemoryFigures::take(shared, &ctx.store);
    let numbers: &[(&str, u64)] = &[
        ("peak.allocated", figures.peak_bytes),
        ("total.allocated", figures.used_bytes),
        ("startup.allocated", figures.startup_bytes),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", 0),
        ("cluster.links", 0),
        ("aof.buffer", 0),
        ("lua.caches", figures.script_bytes),
        ("functions.caches", figures.function_bytes),
        ("overhead.total", figures.overhead_bytes),
        ("keys.count", figures.key_count),
        ("keys.bytes-per-key", figures.dataset_bytes.checked_div(figures.key_count).unwrap_or(0)),
        ("dataset.bytes", figures.dataset_bytes),
    ];
    let ratios: &[(&str, f64)] = &[
        ("dataset.percentage", figures.dataset_percent()),
        ("peak.percentage", figures.peak_percent()),
        ("fragmentation", figures.fragmentation()),
    ];
    ctx.reply.map(numbers.len() + ratios.len() + 1);
    for (name, number) in numbers {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.int(*number as i64);
    }
    for (name, ratio) in ratios {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.double(*ratio);
    }
    ctx.reply.bulk(b"fragmentation.bytes");
    ctx.reply.int(figures.rss_bytes as i64 - figures.used_bytes as i64);
    Ok(())
}

const MEMORY_DOCTOR: Entry = Entry {
    name: "doctor",
    summary: "Outputs a memory problems report.",
    since: "4.0.0",
    group: Group::Server,
    arity: 2,
    route: Route::Global,
    tips: TIPS,
    reply: Shape::Verbatim,
    run: Run::Function(memory_doctor),
    ..Entry::DEFAULT
};

fn memory_doctor(ctx: &mut Ctx) -> CommandResult {
    let figures = MemoryFigures::take(ThreadHost::of(ctx.host).shared, &ctx.store);
    let text = if figures.used_bytes < DOCTOR_BYTES_MIN {
        "Hi Sam, this instance is empty or is using very little memory, my issues detector can't be used in these conditions. Please, leave for your mission on Earth and fill it with some data. The new Sam and I will be back to our programming as soon as I finished rebooting.\n"
    } else {
        "Hi Sam, I can't find any memory issue in your instance. I can only account for what occurs on this base.\n"
    };
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

const MEMORY_MALLOC_STATS: Entry = Entry {
    name: "malloc-stats",
    summary: "Returns the allocator statistics.",
    complexity: "Depends on how much memory is allocated, could be slow",
    since: "4.0.0",
    group: Group::Server,
    arity: 2,
    tips: TIPS,
    reply: Shape::Verbatim,
    run: Run::Function(memory_malloc_stats),
    ..Entry::DEFAULT
};

fn memory_malloc_stats(ctx: &mut Ctx) -> CommandResult {
    ctx.reply.verbatim("txt", b"Stats not supported for the current allocator");
    Ok(())
}

const MEMORY_PURGE: Entry = Entry {
    name: "purge",
    summary: "Asks the allocator to release memory.",
    complexity: "Depends on how much memory is allocated, could be slow",
    since: "4.0.0",
    group: Group::Server,
    arity: 2,
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    reply: Shape::OK,
    run: Run::Function(memory_purge),
    ..Entry::DEFAULT
};

/// The allocator gives unused pages back by itself.
fn memory_purge(ctx: &mut Ctx) -> CommandResult {
    ctx.reply.ok();
    Ok(())
}

const MEMORY_HELP: Entry = Entry { since: "4.0.0", run: Run::Function(memory_help), ..Entry::HELP };

fn memory_help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(&[
        "DOCTOR",
        "    Return memory problems reports.",
        "MALLOC-STATS",
        "    Return internal statistics report from the memory allocator.",
        "PURGE",
        "    Attempt to purge dirty pages for reclamation by the allocator.",
        "STATS",
        "    Return information about the memory usage of the server.",
        "USAGE <key> [SAMPLES <count>]",
        "    Return memory in bytes used by <key> and its value. Nested values are",
        "    sampled up to <count> times (default: 5, 0 means sample all).",
    ])
}
