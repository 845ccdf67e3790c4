//! Those commands of memcached's protocol that are about the server rather than an item.

use std::fmt::Display;
use std::sync::atomic::Ordering;

use command::{Client, CommandResult, Flag, Group, Mode, Route};
use keyspace::UnixMs;
use process::system;
use resp::memcached::number::{parse_i32, parse_u32};
use resp::memcached::{Verb, has_noreply};
use resp::{Output, Proto};
use settings::{MAXCLIENTS, MAXMEMORY, MEMCACHED_ITEM_SIZE_MAX, MEMCACHED_PORT, MEMCACHED_UNIXSOCKET};

use crate::commands::own::{Ctx, Entry, Run};
use crate::thread::Thread;
use heap::allocated_bytes;

/// The version that the protocol is spoken in, for clients that ask.
const MEMCACHED_VERSION: &str = "1.6.18";
/// Slab classes that memcached may have.
const SLAB_CLASSES_MAX: u32 = 64;
/// Times that are larger are points in time.
const RELATIVE_S_MAX: i32 = 60 * 60 * 24 * 30;

/// The entry of a verb.
///
/// # Panics
/// If it is one that needs data only.
pub(super) fn entry(verb: Verb) -> &'static Entry {
    match verb {
        Verb::FlushAll => &FLUSH_ALL,
        Verb::Stats => &STATS,
        Verb::Version => &VERSION,
        Verb::Verbosity => &VERBOSITY,
        Verb::CacheMemlimit => &CACHE_MEMLIMIT,
        Verb::Quit => &QUIT,
        _ => unreachable!("{verb:?} has its entry in the crate of data commands"),
    }
}

/// For `..PLAIN`.
const PLAIN: Entry = Entry {
    summary: "memcached",
    since: "1.6.18",
    group: Group::Server,
    flags: &[Flag::Fast],
    ..Entry::DEFAULT
};

const VERSION: Entry = Entry { name: "version", run: Run::Function(version), ..PLAIN };

fn version(ctx: &mut Ctx) -> CommandResult {
    line(ctx, &format!("VERSION {MEMCACHED_VERSION}"));
    Ok(())
}

const QUIT: Entry = Entry { name: "quit", mode: Mode::Session, run: Run::Function(quit), ..PLAIN };

fn quit(ctx: &mut Ctx) -> CommandResult {
    ctx.host.session().state.close(proactor::CloseMode::AfterFlush);
    Ok(())
}

const VERBOSITY: Entry = Entry { name: "verbosity", run: Run::Function(verbosity), ..PLAIN };

/// What memcached writes to its standard error is not written here.
fn verbosity(ctx: &mut Ctx) -> CommandResult {
    let text = if parse_u32(ctx.args[1]).is_some() { "OK" } else { "CLIENT_ERROR bad command line format" };
    line_unless_noreply(ctx, text);
    Ok(())
}

const CACHE_MEMLIMIT: Entry = Entry {
    name: "cache_memlimit",
    flags: &[Flag::Admin],
    mode: Mode::Session,
    run: Run::Function(cache_memlimit),
    ..PLAIN
};

/// Sets `maxmemory`, in MiB.
fn cache_memlimit(ctx: &mut Ctx) -> CommandResult {
    let text = match parse_u32(ctx.args[1]) {
        None => "ERROR",
        Some(..8) => "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m",
        Some(1_000_000_001..) => "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes",
        Some(mib) => {
            let bytes = (u64::from(mib) << 20).to_string();
            match super::config::change(ctx, &[("maxmemory", &bytes)], false) {
                Ok(()) => "OK",
                Err(_) => "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust",
            }
        }
    };
    line_unless_noreply(ctx, text);
    Ok(())
}

const FLUSH_ALL: Entry = Entry {
    name: "flush_all",
    flags: &[Flag::Write],
    route: Route::Global,
    run: Run::Function(flush_all),
    ..PLAIN
};

/// Empties the database, now or at a time.
fn flush_all(ctx: &mut Ctx) -> CommandResult {
    let is_bare = ctx.args.len() == if has_noreply(ctx.args) { 2 } else { 1 };
    let exptime = if is_bare { Some(0) } else { parse_i32(ctx.args[1]) };
    let Some(exptime) = exptime else {
        line_unless_noreply(ctx, "CLIENT_ERROR invalid exptime argument");
        return Ok(());
    };
    let (now, ms) = (ctx.store.now(), UnixMs::from(exptime) * 1000);
    let at = if exptime > RELATIVE_S_MAX { ms } else { now + ms };
    if at <= now {
        commands::keys::flush_selected(&mut ctx.store);
    }
    let flush_at = if at <= now { UnixMs::MAX } else { at };
    ctx.host.shared.flush_at.store(flush_at, Ordering::Relaxed);
    line_unless_noreply(ctx, "OK");
    Ok(())
}

impl Thread {
    /// Empties database 0 if a `flush_all` wanted that by now; where shards are taken for long, at the next try.
    pub(crate) fn flush_if_due(&mut self) {
        let shared = self.host.shared;
        if shared.flush_at.load(Ordering::Relaxed) > self.tx.now {
            return;
        }
        if self.enters_all() {
            shared.flush_at.store(UnixMs::MAX, Ordering::Relaxed);
            let command = shared.table.declared(b"flushdb").expect("there is such a command");
            let (client, mut out) = (Client::internal(0, Proto::Resp2), Output::new());
            self.tx.run(command, &[b"flushdb"], &client, &mut self.host, &mut out);
            self.tx.finish(&mut self.host);
        }
        self.leave_all();
        self.post_all();
    }
}

const STATS: Entry = Entry { name: "stats", run: Run::Function(stats), ..PLAIN };

fn stats(ctx: &mut Ctx) -> CommandResult {
    match ctx.args.get(1..).unwrap_or_default() {
        [] => general(ctx),
        [b"settings", ..] => settings(ctx),
        // There are no slabs, and nobody counts sizes or prefixes.
        [b"items" | b"slabs", ..] => line(ctx, "END"),
        [b"cachedump", id, limit, ..] => {
            let text = match (parse_u32(id), parse_u32(limit)) {
                (Some(..SLAB_CLASSES_MAX), Some(_)) => "END",
                (Some(_), Some(_)) => "CLIENT_ERROR Illegal slab id",
                _ => "CLIENT_ERROR bad command line format",
            };
            line(ctx, text);
        }
        [b"cachedump", ..] => line(ctx, "CLIENT_ERROR bad command line"),
        [b"sizes", ..] => {
            stat(ctx, "sizes_status", "disabled");
            line(ctx, "END");
        }
        [b"reset", ..] => {
            ctx.host.shared.reset_stats();
            line(ctx, "RESET");
        }
        [b"detail", b"on" | b"off", ..] => line(ctx, "OK"),
        [b"detail", b"dump", ..] => line(ctx, "END"),
        [b"detail", ..] => line(ctx, "CLIENT_ERROR usage: stats detail on|off|dump"),
        _ => line(ctx, "ERROR"),
    }
    Ok(())
}

fn general(ctx: &mut Ctx) {
    let host = &mut *ctx.host;
    let shared = host.shared;
    let now_ms = host.driver.clock().now_ms();
    let calls = |verbs: &[Verb]| -> u64 {
        let ids = verbs.iter().map(|verb| shared.table.of_protocol(*verb as usize).id);
        ids.map(|id| shared.observed.sum(|stats| &stats.command(id).calls)).sum()
    };
    let writes = [Verb::Set, Verb::Add, Verb::Replace, Verb::Append, Verb::Prepend, Verb::Cas, Verb::MetaSet];
    let reads = [Verb::Get, Verb::Gets, Verb::MetaGet];
    let hits = shared.observed.over_shards(&shared.shards, |figures| &figures.keyspace_hits);
    let misses = shared.observed.over_shards(&shared.shards, |figures| &figures.keyspace_misses);
    let items: u64 = shared.shards.tallies(0).map(|tally| tally.keys.get()).sum();
    let evictions = shared.observed.over_shards(&shared.shards, |figures| &figures.evicted_keys);
    let expired = shared.observed.over_shards(&shared.shards, |figures| &figures.expired_keys);
    stat(ctx, "pid", std::process::id());
    stat(ctx, "uptime", now_ms.saturating_sub(shared.started_ms) / 1000);
    stat(ctx, "time", now_ms / 1000);
    stat(ctx, "version", MEMCACHED_VERSION);
    stat(ctx, "darter_version", crate::version::DARTER_VERSION);
    stat(ctx, "pointer_size", usize::BITS);
    stat(ctx, "max_connections", shared.settings.number(MAXCLIENTS));
    stat(ctx, "curr_connections", shared.connected_clients.load(Ordering::Relaxed));
    stat(ctx, "total_connections", shared.observed.sum(|stats| &stats.connections_received));
    stat(ctx, "rejected_connections", shared.observed.sum(|stats| &stats.rejected_connections));
    stat(ctx, "cmd_get", calls(&reads));
    stat(ctx, "cmd_set", calls(&writes));
    stat(ctx, "cmd_flush", calls(&[Verb::FlushAll]));
    stat(ctx, "cmd_touch", calls(&[Verb::Touch, Verb::Gat, Verb::Gats]));
    stat(ctx, "cmd_meta", calls(&[Verb::MetaDebug]));
    stat(ctx, "get_hits", hits);
    stat(ctx, "get_misses", misses);
    stat(ctx, "get_expired", expired);
    stat(ctx, "bytes_read", shared.observed.sum(|stats| &stats.net_input_bytes));
    stat(ctx, "bytes_written", shared.observed.sum(|stats| &stats.net_output_bytes));
    stat(ctx, "limit_maxbytes", shared.settings.number(MAXMEMORY));
    stat(ctx, "accepting_conns", 1);
    stat(ctx, "threads", shared.threads.len());
    stat(ctx, "bytes", allocated_bytes());
    stat(ctx, "rss", system::resident_bytes());
    stat(ctx, "curr_items", items);
    stat(ctx, "evictions", evictions);
    line(ctx, "END");
}

fn settings(ctx: &mut Ctx) {
    let shared = ctx.host.shared;
    let settings = &shared.settings;
    let yes = |is_so: bool| if is_so { "yes" } else { "no" };
    stat(ctx, "maxbytes", settings.number(MAXMEMORY));
    stat(ctx, "maxconns", settings.number(MAXCLIENTS));
    stat(ctx, "tcpport", settings.number(MEMCACHED_PORT));
    stat(ctx, "udpport", 0);
    stat(ctx, "domain_socket", settings.text(MEMCACHED_UNIXSOCKET));
    stat(ctx, "item_size_max", settings.number(MEMCACHED_ITEM_SIZE_MAX));
    stat(ctx, "num_threads", ctx.host.shared.threads.len());
    stat(ctx, "cas_enabled", yes(true));
    stat(ctx, "auth_enabled_ascii", yes(!shared.users.default_account().user.is_open()));
    stat(ctx, "flush_enabled", yes(true));
    stat(ctx, "binding_protocol", "ascii");
    line(ctx, "END");
}

fn stat(ctx: &mut Ctx, name: &str, value: impl Display) {
    line(ctx, &format!("STAT {name} {value}"));
}

fn line(ctx: &mut Ctx, text: &str) {
    let out = ctx.reply.out();
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn line_unless_noreply(ctx: &mut Ctx, text: &str) {
    if !has_noreply(ctx.args) {
        line(ctx, text);
    }
}
