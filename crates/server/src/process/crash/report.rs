//! The report of a crash: what the handler noted, with names. See `crash/mod.rs`.

use std::cell::Cell;
use std::fmt::Write;
use std::sync::atomic::Ordering;

use settings::PORT;

use super::{NOTES, PANIC, SHARED, note_reported, wait_for_crash, write_to_log};
use crate::process::system;
use crate::shared::Shared;
use crate::version::{ALLOCATOR, BUILD_ID, DARTER_VERSION, GIT_DIRTY, GIT_SHA, REDIS_VERSION};

thread_local! {
    static IS_REPORTER: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread writes the report.
pub(super) fn is_reporter() -> bool {
    IS_REPORTER.get()
}

/// The reporter's whole life.
pub(super) fn wait() {
    IS_REPORTER.set(true);
    if !wait_for_crash() {
        return;
    }
    // Piece by piece: if something goes wrong, what came before is there.
    write_to_log(&head());
    write_to_log(&cause());
    backtrace();
    write_to_log(&SHARED.get().map(|shared| facts(shared)).unwrap_or_default());
    write_to_log("=== DARTER BUG REPORT END. Make sure to include from START to END. ===\n\n");
    note_reported();
}

fn head() -> String {
    format!(
        "\n\n=== DARTER BUG REPORT START: Cut & paste starting from here ===\n\
         Darter {DARTER_VERSION} (sha={GIT_SHA}:{GIT_DIRTY}, build={BUILD_ID}, as Redis {REDIS_VERSION}) crashed by signal: {}, si_code: {}\n",
        NOTES.signal.load(Ordering::Relaxed),
        NOTES.code.load(Ordering::Relaxed)
    )
}

fn cause() -> String {
    let mut text = String::new();
    match NOTES.code.load(Ordering::Relaxed) {
        1.. => {
            let _ = writeln!(text, "Accessing address: {:#x}", NOTES.address.load(Ordering::Relaxed));
        }
        _ => {
            let _ = writeln!(text, "Sent by process: {}", NOTES.sender.load(Ordering::Relaxed));
        }
    }
    if let Ok(panic) = PANIC.try_lock()
        && !panic.is_empty()
    {
        let _ = writeln!(text, "{panic}");
    }
    let name: Vec<u8> =
        NOTES.thread_name.iter().flat_map(|part| part.load(Ordering::Relaxed).to_ne_bytes()).collect();
    let name = String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
    let _ = writeln!(text, "Thread: {name}");
    let (command, thread) = (NOTES.command.load(Ordering::Relaxed), NOTES.thread.load(Ordering::Relaxed));
    let table = SHARED.get().map(|shared| &shared.table);
    match (u16::try_from(command), table) {
        (Ok(command), Some(table)) if usize::from(command) < table.len() => {
            let name = &table.get(command::CommandId(command)).full_name;
            let (client, db) = (NOTES.client.load(Ordering::Relaxed), NOTES.db.load(Ordering::Relaxed));
            let _ = writeln!(
                text,
                "Current command: {name} (its arguments are not shown), client id={client} db={db}"
            );
        }
        _ if thread >= 0 => text.push_str("Current command: none of a client of this thread\n"),
        _ => {}
    }
    text
}

/// The frames, each written as soon as it has a name.
fn backtrace() {
    let count = NOTES.frame_count.load(Ordering::Acquire);
    write_to_log("\n------ STACK TRACE ------\n");
    for (number, address) in
        NOTES.frames[..count].iter().map(|frame| frame.load(Ordering::Relaxed)).enumerate()
    {
        let mut line = String::new();
        backtrace::resolve(address as *mut _, |symbol| {
            let _ = write!(line, "{number:3}: {address:#018x} ");
            match symbol.name() {
                Some(name) => {
                    let _ = write!(line, "{name:#}");
                }
                None => line.push('?'),
            }
            if let (Some(file), Some(row)) = (symbol.filename(), symbol.lineno()) {
                let _ = write!(line, " at {}:{row}", file.display());
            }
            line.push('\n');
        });
        if line.is_empty() {
            let _ = writeln!(line, "{number:3}: {address:#018x}");
        }
        write_to_log(&line);
    }
    if count == 0 {
        write_to_log("not available: the thread has no stack for it\n");
    }
}

/// What `INFO` has and can be told without entering a shard.
fn facts(shared: &Shared) -> String {
    let now_ms = proactor::Clock::real().now_ms();
    let sum = |counter: fn(&observe::ThreadStats) -> u64| -> u64 {
        shared.observed.threads().iter().map(counter).sum()
    };
    let snapshots = &shared.snapshots;
    let mut text = String::from("\n------ INFO OUTPUT ------\n# Server\n");
    let mut field = |name: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(text, "{name}:{value}");
    };
    field("redis_version", &REDIS_VERSION);
    field("redis_git_sha1", &GIT_SHA);
    field("redis_git_dirty", &GIT_DIRTY);
    field("redis_build_id", &BUILD_ID);
    field("darter_version", &DARTER_VERSION);
    field("os", &system::name());
    field("multiplexing_api", &shared.driver_name);
    field("process_id", &std::process::id());
    field("run_id", &shared.run_id);
    field("tcp_port", &shared.settings.number(PORT));
    field("uptime_in_seconds", &(now_ms.saturating_sub(shared.started_ms) / 1000));
    field("threads", &shared.threads.len());
    field("shards", &shared.shards.len());
    field("connected_clients", &shared.connected_clients.load(Ordering::Relaxed));
    field("blocked_clients", &sum(|stats| stats.blocked_clients.get()));
    field("used_memory", &heap::allocated_bytes());
    field("used_memory_rss", &system::resident_bytes());
    field("total_system_memory", &system::machine_bytes());
    field("mem_allocator", &ALLOCATOR);
    field("loading", &u8::from(snapshots.progress.is_loading()));
    field("rdb_bgsave_in_progress", &u8::from(snapshots.is_cutting()));
    field("rdb_last_save_time", &snapshots.last_save_seconds());
    field("rdb_saves", &snapshots.save_count.load(Ordering::Relaxed));
    field("total_connections_received", &sum(|stats| stats.connections_received.get()));
    field("total_commands_processed", &sum(|stats| stats.commands_processed.get()));
    text.push('\n');
    text
}
