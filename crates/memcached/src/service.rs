//! The commands about the server rather than an item.

use std::fmt::Display;

use engine::{Acl, CommandResult, Flag, Group, Mode, Route};
use keyspace::UnixMs;
use resp::memcached::number::{parse_i32, parse_u32};
use resp::memcached::{Verb, has_noreply};

use crate::{Ctx, Entry, Run, ServiceTask};

/// The version of memcached whose protocol this is, for clients that ask.
const MEMCACHED_VERSION: &str = "1.6.18";
/// The most slab classes in memcached.
const SLAB_CLASSES_MAX: u32 = 64;
/// Larger times are points in time.
const RELATIVE_S_MAX: i32 = 60 * 60 * 24 * 30;

/// The entry of a verb.
///
/// # Panics
/// If the verb is about items.
pub(crate) fn entry(verb: Verb) -> &'static Entry {
    match verb {
        Verb::FlushAll => &FLUSH_ALL,
        Verb::Stats => &STATS,
        Verb::Version => &VERSION,
        Verb::Verbosity => &VERBOSITY,
        Verb::CacheMemlimit => &CACHE_MEMLIMIT,
        Verb::Quit => &QUIT,
        _ => unreachable!("{verb:?} has its entry among those on items"),
    }
}

/// The base of the commands of this file.
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
    (ctx.host.carry_out)(&mut ctx.store, ServiceTask::Close)
}

const VERBOSITY: Entry = Entry { name: "verbosity", run: Run::Function(verbosity), ..PLAIN };

/// Accepted without effect. In memcached it sets how much is written to standard error.
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
            let task = ServiceTask::LimitMemory(u64::from(mib) << 20);
            if (ctx.host.carry_out)(&mut ctx.store, task).is_ok() {
                "OK"
            } else {
                "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust"
            }
        }
    };
    line_unless_noreply(ctx, text);
    Ok(())
}

const FLUSH_ALL: Entry = Entry {
    name: "flush_all",
    flags: &[Flag::Write],
    acl: &[Acl::Keyspace, Acl::Dangerous],
    route: Route::Global,
    run: Run::Function(flush_all),
    ..PLAIN
};

/// Empties the database, now or later.
fn flush_all(ctx: &mut Ctx) -> CommandResult {
    let is_bare = ctx.args.len() == if has_noreply(ctx.args) { 2 } else { 1 };
    let exptime = if is_bare { Some(0) } else { parse_i32(ctx.args[1]) };
    let Some(exptime) = exptime else {
        line_unless_noreply(ctx, "CLIENT_ERROR invalid exptime argument");
        return Ok(());
    };
    let (now, ms) = (ctx.store.now(), UnixMs::from(exptime) * 1000);
    let at = if exptime > RELATIVE_S_MAX { ms } else { now + ms };
    (ctx.host.carry_out)(&mut ctx.store, ServiceTask::Flush((at > now).then_some(at)))?;
    line_unless_noreply(ctx, "OK");
    Ok(())
}

const STATS: Entry = Entry { name: "stats", run: Run::Function(stats), ..PLAIN };

fn stats(ctx: &mut Ctx) -> CommandResult {
    match ctx.args.get(1..).unwrap_or_default() {
        [] => general(ctx),
        [b"settings", ..] => settings(ctx),
        // Darter has no slabs, and does not count sizes or prefixes.
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
            let text = match (ctx.host.carry_out)(&mut ctx.store, ServiceTask::ResetFigures) {
                Ok(()) => "RESET".to_owned(),
                Err(error) => format!("SERVER_ERROR {error}"),
            };
            line(ctx, &text);
        }
        [b"detail", b"on" | b"off", ..] => line(ctx, "OK"),
        [b"detail", b"dump", ..] => line(ctx, "END"),
        [b"detail", ..] => line(ctx, "CLIENT_ERROR usage: stats detail on|off|dump"),
        _ => line(ctx, "ERROR"),
    }
    Ok(())
}

/// The figures of `stats`. Counters begin at the start or at the last reset.
#[derive(Clone, Debug, Default)]
pub struct StatsFigures {
    /// The id of the process.
    pub pid: u32,
    /// For how many seconds the server has run.
    pub uptime_s: u64,
    /// The current time, in seconds since 1970.
    pub now_s: u64,
    /// The server's version.
    pub version: &'static str,
    /// The most clients that may be connected.
    pub connections_max: i64,
    /// The current number of clients.
    pub connections: u64,
    /// Clients that were accepted.
    pub connections_received: u64,
    /// Clients that were rejected.
    pub connections_rejected: u64,
    /// Keys that were found.
    pub hits: u64,
    /// Keys that were not found.
    pub misses: u64,
    /// Keys that expired.
    pub expired: u64,
    /// Bytes received from clients.
    pub input_bytes: u64,
    /// Bytes sent to clients.
    pub output_bytes: u64,
    /// The limit of memory; 0: none.
    pub memory_bytes_max: i64,
    /// The number of threads that serve clients.
    pub threads: usize,
    /// Allocated bytes.
    pub allocated_bytes: u64,
    /// Physical memory of the process.
    pub resident_bytes: u64,
    /// The number of items in database 0.
    pub items: u64,
    /// Keys that were evicted.
    pub evicted: u64,
    /// How often commands with each verb were called, by the verb's number.
    pub calls: Vec<u64>,
}

/// The figures of `stats settings`.
#[derive(Clone, Debug, Default)]
pub struct StatsSettings {
    /// The limit of memory; 0: none.
    pub memory_bytes_max: i64,
    /// The most clients that may be connected.
    pub connections_max: i64,
    /// The port of memcached's protocol; 0: none.
    pub port: i64,
    /// The Unix socket of memcached's protocol; empty: none.
    pub unix_socket: String,
    /// The largest item.
    pub item_bytes_max: i64,
    /// The number of threads that serve clients.
    pub threads: usize,
    /// Whether clients need a password.
    pub asks_password: bool,
}

fn general(ctx: &mut Ctx) {
    let figures = (ctx.host.figures)();
    let calls = |verbs: &[Verb]| -> u64 { verbs.iter().map(|verb| figures.calls[*verb as usize]).sum() };
    let writes =
        calls(&[Verb::Set, Verb::Add, Verb::Replace, Verb::Append, Verb::Prepend, Verb::Cas, Verb::MetaSet]);
    let reads = calls(&[Verb::Get, Verb::Gets, Verb::MetaGet]);
    let (flushes, touches) = (calls(&[Verb::FlushAll]), calls(&[Verb::Touch, Verb::Gat, Verb::Gats]));
    let debugs = calls(&[Verb::MetaDebug]);
    stat(ctx, "pid", figures.pid);
    stat(ctx, "uptime", figures.uptime_s);
    stat(ctx, "time", figures.now_s);
    stat(ctx, "version", MEMCACHED_VERSION);
    stat(ctx, "darter_version", figures.version);
    stat(ctx, "pointer_size", usize::BITS);
    stat(ctx, "max_connections", figures.connections_max);
    stat(ctx, "curr_connections", figures.connections);
    stat(ctx, "total_connections", figures.connections_received);
    stat(ctx, "rejected_connections", figures.connections_rejected);
    stat(ctx, "cmd_get", reads);
    stat(ctx, "cmd_set", writes);
    stat(ctx, "cmd_flush", flushes);
    stat(ctx, "cmd_touch", touches);
    stat(ctx, "cmd_meta", debugs);
    stat(ctx, "get_hits", figures.hits);
    stat(ctx, "get_misses", figures.misses);
    stat(ctx, "get_expired", figures.expired);
    stat(ctx, "bytes_read", figures.input_bytes);
    stat(ctx, "bytes_written", figures.output_bytes);
    stat(ctx, "limit_maxbytes", figures.memory_bytes_max);
    stat(ctx, "accepting_conns", 1);
    stat(ctx, "threads", figures.threads);
    stat(ctx, "bytes", figures.allocated_bytes);
    stat(ctx, "rss", figures.resident_bytes);
    stat(ctx, "curr_items", figures.items);
    stat(ctx, "evictions", figures.evicted);
    line(ctx, "END");
}

fn settings(ctx: &mut Ctx) {
    let limits = (ctx.host.limits)();
    let yes = |is_so: bool| if is_so { "yes" } else { "no" };
    stat(ctx, "maxbytes", limits.memory_bytes_max);
    stat(ctx, "maxconns", limits.connections_max);
    stat(ctx, "tcpport", limits.port);
    stat(ctx, "udpport", 0);
    stat(ctx, "domain_socket", limits.unix_socket);
    stat(ctx, "item_size_max", limits.item_bytes_max);
    stat(ctx, "num_threads", limits.threads);
    stat(ctx, "cas_enabled", yes(true));
    stat(ctx, "auth_enabled_ascii", yes(limits.asks_password));
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

#[cfg(test)]
mod tests {
    use engine::{Client, CommandError, Host, Local, OwnCall};
    use resp::{Output, Proto};

    use super::*;
    use crate::{Service, item_entry, service_entry};

    /// The time at which commands run.
    const NOW: UnixMs = 1_700_000_000_000;

    /// A thread that notes what it was asked to do.
    #[derive(Default)]
    struct Thread {
        asked: Vec<ServiceTask>,
    }

    impl Host for Thread {
        fn run_own(&mut self, call: OwnCall<'_, '_>) -> CommandResult {
            let mut service = Service {
                carry_out: &mut |_, task| {
                    self.asked.push(task);
                    match task {
                        ServiceTask::LimitMemory(1_099_511_627_776..) => Err(CommandError::SYNTAX),
                        _ => Ok(()),
                    }
                },
                figures: &|| {
                    let calls = |verb: &Verb| if *verb == Verb::Get { 5 } else { 1 };
                    StatsFigures {
                        items: 3,
                        calls: Verb::ALL.iter().map(calls).collect(),
                        ..StatsFigures::default()
                    }
                },
                limits: &|| StatsSettings { asks_password: true, ..StatsSettings::default() },
            };
            let mut entries = Verb::ALL.iter().filter_map(|verb| service_entry(*verb));
            match entries
                .find(|entry| entry.name == call.command.entry.name)
                .expect("it is about the server")
                .run
            {
                Run::Function(function) => function(&mut call.on(&mut service)),
                Run::Container => unreachable!("there is none"),
            }
        }
    }

    /// The replies to the words of a request, and what the thread was asked to do.
    fn ask(verb: Verb, line: &str) -> (String, Vec<ServiceTask>) {
        let entries = Verb::ALL.iter().map(|verb| match service_entry(*verb) {
            Some(entry) => &*Box::leak(Box::new(entry.of_host())),
            None => item_entry(*verb).expect("it is about items"),
        });
        let mut store = Local::new(&[]).with_protocol(entries);
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let (mut thread, mut out) = (Thread::default(), Output::new());
        let id = store.table().of_protocol(verb as usize).id;
        store.run_command(id, Client::internal(0, Proto::Resp2), &words, &mut thread, &mut out);
        (String::from_utf8_lossy(&out.to_vec()).into_owned(), thread.asked)
    }

    #[test]
    fn what_is_asked_for_is_done() {
        for (verb, line, reply, asked) in [
            (Verb::Version, "version", "VERSION 1.6.18\r\n", None),
            (Verb::Quit, "quit", "", Some(ServiceTask::Close)),
            (Verb::FlushAll, "flush_all", "OK\r\n", Some(ServiceTask::Flush(None))),
            (Verb::FlushAll, "flush_all 10", "OK\r\n", Some(ServiceTask::Flush(Some(NOW + 10_000)))),
            (Verb::FlushAll, "flush_all noreply", "", Some(ServiceTask::Flush(None))),
            (Verb::FlushAll, "flush_all x", "CLIENT_ERROR invalid exptime argument\r\n", None),
            (Verb::CacheMemlimit, "cache_memlimit 8", "OK\r\n", Some(ServiceTask::LimitMemory(8 << 20))),
            (
                Verb::CacheMemlimit,
                "cache_memlimit 7",
                "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n",
                None,
            ),
            (
                Verb::CacheMemlimit,
                "cache_memlimit 2000000",
                "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n",
                Some(ServiceTask::LimitMemory(2_000_000 << 20)),
            ),
            (Verb::Stats, "stats reset", "RESET\r\n", Some(ServiceTask::ResetFigures)),
            (Verb::Stats, "stats cachedump 64 1", "CLIENT_ERROR Illegal slab id\r\n", None),
        ] {
            assert_eq!(ask(verb, line), (reply.to_owned(), asked.into_iter().collect()), "{line}");
        }
    }

    #[test]
    fn statistics_are_those_of_the_thread() {
        let (reply, _) = ask(Verb::Stats, "stats");
        for line in ["STAT cmd_get 7", "STAT cmd_set 7", "STAT curr_items 3", "STAT limit_maxbytes 0", "END"]
        {
            assert!(reply.lines().any(|told| told == line), "{line}: {reply}");
        }
        assert!(ask(Verb::Stats, "stats settings").0.contains("STAT auth_enabled_ascii yes\r\n"));
    }
}
