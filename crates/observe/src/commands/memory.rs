//! MEMORY: shows how memory is used.

use std::fmt::Write;

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{CommandError, CommandResult, Group, KeySpec, Shape, integer, key, keyword_is, parse_i64};

use crate::memory::Memory;
use crate::observing::{Ctx, Entry, Run};

/// MEMORY and its subcommands.
pub(super) const MEMORY: Entry = Entry {
    name: "memory",
    summary: "A container for memory diagnostics commands.",
    complexity: "Depends on subcommand.",
    since: "4.0.0",
    group: Group::Server,
    arity: -2,
    subcommands: &[MEMORY_DOCTOR, MEMORY_HELP, MEMORY_MALLOC_STATS, MEMORY_PURGE, MEMORY_STATS, MEMORY_USAGE],
    ..Entry::DEFAULT
};

const TIPS: &[&str] = &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];
/// With less data, MEMORY DOCTOR has nothing to diagnose.
const DOCTOR_BYTES_MIN: u64 = 4 << 20;
/// Up to here, wasted memory is no issue.
const DOCTOR_WASTE_BYTES_MAX: u64 = 10 << 20;
/// Up to here, the mean memory of a client is no issue.
const DOCTOR_CLIENT_BYTES_MAX: u64 = 200 << 10;
/// Up to here, the number of scripts is no issue.
const DOCTOR_SCRIPTS_MAX: usize = 1000;

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

/// The number of samples is ignored, because the size is known exactly.
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
    tips: TIPS,
    reply: Shape::Map(&Shape::Bulk, &Shape::Any),
    run: Run::Function(memory_stats),
    ..Entry::DEFAULT
};

fn memory_stats(ctx: &mut Ctx) -> CommandResult {
    let figures = ctx.host.facts.memory();
    let numbers: &[(&str, u64)] = &[
        ("peak.allocated", figures.peak_bytes),
        ("total.allocated", figures.used_bytes),
        ("startup.allocated", figures.startup_bytes),
        ("replication.backlog", figures.backlog_bytes()),
        ("clients.slaves", figures.replica_bytes()),
        ("clients.normal", figures.client_bytes),
        ("cluster.links", 0),
        ("aof.buffer", figures.journal_bytes),
        ("lua.caches", figures.script_bytes),
        ("functions.caches", figures.function_bytes),
    ];
    let more_numbers: &[(&str, u64)] = &[
        ("overhead.total", figures.overhead_bytes()),
        ("keys.count", figures.key_count),
        ("keys.bytes-per-key", figures.dataset_bytes().checked_div(figures.key_count).unwrap_or(0)),
        ("dataset.bytes", figures.dataset_bytes()),
    ];
    let ratios: &[(&str, f64)] = &[
        ("dataset.percentage", figures.dataset_percent()),
        ("peak.percentage", figures.peak_percent()),
        ("fragmentation", figures.fragmentation()),
    ];
    let tables: Vec<_> = (0..).zip(&figures.table_bytes).filter(|(_, bytes)| **bytes > 0).collect();
    ctx.reply.map(numbers.len() + tables.len() + more_numbers.len() + ratios.len() + 1);
    let int = |ctx: &mut Ctx, (name, number): (&str, i64)| {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.int(number);
    };
    numbers.iter().for_each(|(name, number)| int(ctx, (name, *number as i64)));
    for (db, &bytes) in tables {
        ctx.reply.bulk(format!("db.{db}").as_bytes());
        ctx.reply.map(3);
        int(ctx, ("overhead.hashtable.main", bytes as i64));
        int(ctx, ("overhead.hashtable.expires", 0));
        int(ctx, ("overhead.hashtable.slot-to-keys", 0));
    }
    more_numbers.iter().for_each(|(name, number)| int(ctx, (name, *number as i64)));
    for (name, ratio) in ratios {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.double(*ratio);
    }
    int(ctx, ("fragmentation.bytes", figures.rss_bytes as i64 - figures.used_bytes as i64));
    Ok(())
}

const MEMORY_DOCTOR: Entry = Entry {
    name: "doctor",
    summary: "Outputs a memory problems report.",
    since: "4.0.0",
    group: Group::Server,
    arity: 2,
    tips: TIPS,
    reply: Shape::Verbatim,
    run: Run::Function(memory_doctor),
    ..Entry::DEFAULT
};

fn memory_doctor(ctx: &mut Ctx) -> CommandResult {
    let facts = ctx.host.facts;
    let text = diagnosis(&facts.memory(), facts.clients().connected);
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// The diagnosis, in Redis' words.
fn diagnosis(figures: &Memory, client_count: u64) -> String {
    let is_small = figures.is_limit_too_small();
    if !is_small && figures.used_bytes.saturating_sub(figures.startup_bytes) < DOCTOR_BYTES_MIN {
        return "Hi Sam, this instance is empty or is using very little memory, my issues detector can't be used in these conditions. Please, leave for your mission on Earth and fill it with some data. The new Sam and I will be back to our programming as soon as I finished rebooting.\n"
            .to_owned();
    }
    let waste_bytes = figures.rss_bytes.saturating_sub(figures.used_bytes);
    let issues = [
        (figures.peak_bytes > figures.used_bytes / 2 * 3, BIG_PEAK),
        (figures.fragmentation() > 1.4 && waste_bytes > DOCTOR_WASTE_BYTES_MAX, HIGH_RSS),
        (figures.client_bytes > DOCTOR_CLIENT_BYTES_MAX * client_count.max(1), BIG_CLIENTS),
        (figures.script_count > DOCTOR_SCRIPTS_MAX, MANY_SCRIPTS),
    ];
    let mut found: String = issues.iter().filter(|(is_one, _)| *is_one).map(|(_, text)| *text).collect();
    if is_small {
        found += &small_limit(figures);
    }
    if found.is_empty() {
        return "Hi Sam, I can't find any memory issue in your instance. I can only account for what occurs on this base.\n"
            .to_owned();
    }
    format!(
        "Sam, I detected a few issues in this Redis instance memory implants:\n\n{found}I'm here to keep you safe, Sam. I want to help you.\n"
    )
}

/// Advice for a limit that leaves little for data.
fn small_limit(figures: &Memory) -> String {
    format!(
        " * Small maxmemory: maxmemory is {} bytes, and {} bytes of it are used by clients and other memory that is not data. The server itself needs another {} bytes, which are not counted against maxmemory. With a larger maxmemory, or with fewer threads (proactor-threads), more of the memory is used for data.\n\n",
        figures.limit_bytes,
        figures.counted_bytes.saturating_sub(figures.dataset_bytes()),
        figures.startup_bytes,
    )
}

const BIG_PEAK: &str = " * Peak memory: In the past this instance used more than 150% the memory that is currently using. The allocator is normally not able to release memory after a peak, so you can expect to see a big fragmentation ratio, however this is actually harmless and is only due to the memory peak, and if the Redis instance Resident Set Size (RSS) is currently bigger than expected, the memory will be used as soon as you fill the Redis instance with more data. If the memory peak was only occasional and you want to try to reclaim memory, please try the MEMORY PURGE command, otherwise the only other option is to shutdown and restart the instance.\n\n";
const HIGH_RSS: &str = " * High total RSS: This instance has a memory fragmentation and RSS overhead greater than 1.4 (this means that the Resident Set Size of the Redis process is much larger than the sum of the logical allocations Redis performed). This problem is usually due either to a large peak memory (check if there is a peak memory entry above in the report) or may result from a workload that causes the allocator to fragment memory a lot. If the problem is a large peak memory, then there is no issue. Otherwise, make sure you are using the Jemalloc allocator and not the default libc malloc. Note: The currently used allocator is \"mimalloc\".\n\n";
const BIG_CLIENTS: &str = " * Big client buffers: The clients output buffers in this instance are greater than 200K per client (on average). This may result from different causes, like Pub/Sub clients subscribed to channels bot not receiving data fast enough, so that data piles on the Redis instance output buffer, or clients sending commands with large replies or very large sequences of commands in the same pipeline. Please use the CLIENT LIST command in order to investigate the issue if it causes problems in your instance, or to understand better why certain clients are using a big amount of memory.\n\n";
const MANY_SCRIPTS: &str = " * Many scripts: There seem to be many cached scripts in this instance (more than 1000). This may be because scripts are generated and `EVAL`ed, instead of being parameterized (with KEYS and ARGV), `SCRIPT LOAD`ed and `EVALSHA`ed. Unless `SCRIPT FLUSH` is called periodically, the scripts' caches may end up consuming most of your memory.\n\n";

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
    let (sizes, empty_bytes) = heap::survey();
    let mut text = String::from("Blocks up to 8 KiB, by size\n");
    _ = writeln!(
        text,
        "{:>6} {:>10} {:>9} {:>9} {:>6} {:>11}",
        "bytes", "blocks", "16K slabs", "64K slabs", "heaps", "unused KiB"
    );
    for size in sizes {
        let (bytes, blocks, unused) = (size.block_bytes, size.blocks, size.unused_bytes() / 1024);
        let (small, large, heaps) = (size.small_slabs, size.large_slabs, size.heaps());
        _ = writeln!(text, "{bytes:>6} {blocks:>10} {small:>9} {large:>9} {heaps:>6} {unused:>11}");
    }
    _ = writeln!(text, "Slabs without blocks that threads keep: {} KiB", empty_bytes / 1024);
    ctx.reply.verbatim("txt", text.as_bytes());
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

/// Lets every thread free what waits to be freed, and return unused memory to the system.
fn memory_purge(ctx: &mut Ctx) -> CommandResult {
    if ctx.store.client.deny_blocking {
        // The thread that runs this cannot wait for the others: they purge on their own.
        heap::purge_at_once();
        ctx.reply.ok();
        return Ok(());
    }
    ctx.host.purges = true;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_doctor_finds_what_is_wrong() {
        const MIB: u64 = 1 << 20;
        let well = || Memory {
            used_bytes: 100 * MIB,
            counted_bytes: 90 * MIB,
            peak_bytes: 140 * MIB,
            startup_bytes: 5 * MIB,
            rss_bytes: 130 * MIB,
            client_bytes: MIB,
            script_count: 1000,
            ..Memory::default()
        };
        let check = |figures: Memory, words: &[&str]| {
            let text = diagnosis(&figures, 10);
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
            let count = text.matches("\n * ").count();
            assert_eq!(count, words.iter().filter(|word| word.starts_with('*')).count(), "{text}");
        };
        check(well(), &["can't find any memory issue"]);
        check(Memory { used_bytes: 8 * MIB, ..well() }, &["very little memory"]);
        check(Memory { peak_bytes: 151 * MIB, ..well() }, &["* Peak memory"]);
        check(Memory { rss_bytes: 145 * MIB, ..well() }, &["* High total RSS"]);
        check(Memory { client_bytes: 3 * MIB, ..well() }, &["* Big client buffers"]);
        let limited = |limit_bytes: u64| Memory { limit_bytes, ..well() };
        check(limited(20 * MIB), &["can't find any memory issue"]);
        check(
            limited(9 * MIB),
            &["* Small maxmemory", "of it are used", "5242880 bytes, which are not counted"],
        );
        check(
            Memory { used_bytes: 6 * MIB, ..limited(9 * MIB) },
            &["* Small maxmemory", "* Peak memory", "* High total RSS"],
        );
        check(
            Memory { client_bytes: 16 * MIB, ..limited(20 * MIB) },
            &["* Small maxmemory", "* Big client buffers"],
        );
        let bad = Memory { rss_bytes: 145 * MIB, script_count: 1001, ..well() };
        check(bad, &["* High total RSS", "* Many scripts", "I want to help you"]);
    }
}
