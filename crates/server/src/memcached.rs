//! Serves connections that speak memcached's protocol: turns input into commands, and runs the commands about the
//! server.
//!
//! It replaces `life/pipeline.rs` for this protocol. It has no windows.

use acl::Lack;
use config::{MAXCLIENTS, MAXMEMORY, MEMCACHED_ITEM_SIZE_MAX, MEMCACHED_PORT, MEMCACHED_UNIXSOCKET};
use engine::{Client, CommandResult, OwnCall, Store};
use heap::allocated_bytes;
use memcached::{Function, Service, ServiceTask, StatsFigures, StatsSettings, reply_to_stranger};
use proactor::{CloseMode, ConnId};
use process::system;
use resp::memcached::{ItemLimits, MemcachedParser, Parsed, Verb, Words};
use resp::{Output, Proto};

use crate::connections::bounds::has_had_its_turn;
use crate::life::pipeline::{ROUNDS_PER_TURN, leave_rest};
use crate::ops::obey;
use crate::shared::Shared;
use crate::thread::{Thread, ThreadHost};

/// The largest item that a client may send with its user name and password.
const CREDENTIALS_BYTES_MAX: usize = 1024;

impl Thread {
    /// Runs the commands at the front of `input`. Returns their length in bytes.
    pub(crate) fn serve_memcached(
        &mut self,
        parser: &mut MemcachedParser,
        input: &[u8],
        out: &mut Output,
        conn: ConnId,
    ) -> usize {
        let mut consumed = 0;
        for _ in 0..ROUNDS_PER_TURN {
            match self.serve_item_request(parser, &input[consumed..], out) {
                Some(bytes) => consumed += bytes,
                None => return consumed,
            }
            if self.stops_reading() || has_had_its_turn(&self.host, out) {
                break;
            }
        }
        leave_rest(&mut self.host, conn);
        consumed
    }

    /// Runs the request at the front of `input`. Returns its length in bytes, or `None` if it is incomplete.
    #[inline]
    fn serve_item_request(
        &mut self,
        parser: &mut MemcachedParser,
        input: &[u8],
        out: &mut Output,
    ) -> Option<usize> {
        let is_known = self.host.session().access.is_authenticated();
        let limits = if is_known {
            let item_bytes_max = self.host.shared.settings.number(MEMCACHED_ITEM_SIZE_MAX) as usize;
            ItemLimits { item_bytes_max, takes_long_lines: true }
        } else {
            ItemLimits { item_bytes_max: CREDENTIALS_BYTES_MAX, takes_long_lines: false }
        };
        let mut words = Words::new();
        match parser.parse(input, limits, &mut words) {
            Parsed::Request { verb, consumed, skipped } => {
                if is_known {
                    if let Some(key) = parser.binary_key() {
                        words[1] = key;
                    }
                    let command = self.host.shared.table.of_protocol(verb as usize);
                    self.call(command, &words, None, out);
                } else {
                    self.take_credentials(verb, &words, out);
                }
                drop(words);
                if self.host.session().state.is_put_off() {
                    return Some(0);
                }
                parser.skip(skipped);
                Some(consumed)
            }
            Parsed::Refused { reply, consumed, skipped } => {
                if !reply.is_empty() {
                    self.host
                        .reports
                        .accounting
                        .stats()
                        .count_error(reply.split(' ').next().unwrap_or_default());
                    out.extend_from_slice(reply.as_bytes());
                    out.extend_from_slice(b"\r\n");
                }
                parser.skip(skipped);
                Some(consumed)
            }
            Parsed::Skipped { consumed } => Some(consumed),
            Parsed::Incomplete => None,
            Parsed::Broken => {
                self.host.session().state.close(CloseMode::AfterFlush);
                Some(input.len())
            }
            Parsed::Http => {
                // memcached would continue here, which lets a web page write to it.
                out.extend_from_slice(b"ERROR\r\n");
                self.host.abort_http(CloseMode::AfterFlush);
                Some(input.len())
            }
        }
    }

    /// Handles a request of a client that has not sent its password. Nothing but the password is accepted.
    #[cold]
    fn take_credentials(&mut self, verb: Verb, words: &[&[u8]], out: &mut Output) {
        let admits = |user: &[u8], password: &[u8]| self.host.caller().authenticate(user, password, words);
        match reply_to_stranger(verb, words, admits) {
            Some(reply) => out.extend_from_slice(&reply),
            None => self.host.session().state.close(CloseMode::AfterFlush),
        }
    }

    /// Empties database 0 when the time of a delayed `flush_all` has come. If shards stay taken, the next call tries
    /// again.
    pub(crate) fn flush_if_due(&mut self) {
        let shared = self.host.shared;
        if !shared.later_flush.is_due(self.tx.now) || shared.following.is_replica() {
            return;
        }
        if self.enters_all() && shared.later_flush.take_due(self.tx.now) {
            let command = shared.table.declared(b"flushdb").expect("there is such a command");
            let (client, mut out) = (Client::internal(0, Proto::Resp2), Output::new());
            self.tx.run(command, &[b"flushdb"], &client, &mut self.host, &mut out);
            self.tx.finish(&mut self.host);
        }
        self.leave_all();
        self.post_all();
    }
}

/// Runs a command about the server.
pub(crate) fn run(host: &mut ThreadHost, function: Function, call: OwnCall<'_, '_>) -> CommandResult {
    let (shared, now_ms) = (host.shared, host.net.driver.clock().now_ms());
    let mut service = Service {
        carry_out: &mut |store, task| carry_out(host, store, task),
        figures: &|| figures(shared, now_ms),
        limits: &|| limits(shared),
    };
    function(&mut call.on(&mut service))
}

fn carry_out(host: &mut ThreadHost, store: &mut Store, task: ServiceTask) -> CommandResult {
    let shared = host.shared;
    match task {
        ServiceTask::Close => host.session().state.close(CloseMode::AfterFlush),
        ServiceTask::LimitMemory(bytes) => {
            let used_bytes = heap::counted_bytes();
            if used_bytes > bytes {
                // As in memcached, existing items stay: only items that are stored later make room for themselves.
                shared.lowered.begin(bytes, used_bytes);
            }
            let pairs: [(&str, &str); 1] = [("maxmemory", &bytes.to_string())];
            ops::change(&shared.settings, &pairs, false, |changed| obey(shared, store, changed))?;
        }
        ServiceTask::Flush(at) => {
            if at.is_none() {
                commands::keys::flush_selected(store);
            }
            shared.later_flush.set(at);
        }
        ServiceTask::ResetFigures => {
            let args: [&[u8]; 2] = [b"config", b"resetstat"];
            let command = shared.table.declared_full(b"config|resetstat").expect("there is such a command");
            if let Err(Lack::Permission(denied)) = host.permit(command, &args) {
                return Err(denied.refusal(host.session().access.user(), command));
            }
            shared.reset_stats();
        }
    }
    Ok(())
}

fn figures(shared: &Shared, now_ms: u64) -> StatsFigures {
    let calls = |verb: &Verb| {
        let id = shared.table.of_protocol(*verb as usize).id;
        shared.observed.sum(|stats| &stats.command(id).calls)
    };
    StatsFigures {
        pid: std::process::id(),
        uptime_s: now_ms.saturating_sub(shared.started_ms) / 1000,
        now_s: now_ms / 1000,
        version: crate::version::DARTER_VERSION,
        connections_max: shared.settings.number(MAXCLIENTS),
        connections: shared.registry.client_count(),
        connections_received: shared.observed.sum(|stats| &stats.connections_received),
        connections_rejected: shared.observed.sum(|stats| &stats.rejected_connections),
        hits: shared.observed.over_shards(&shared.shards, |figures| &figures.keyspace_hits),
        misses: shared.observed.over_shards(&shared.shards, |figures| &figures.keyspace_misses),
        expired: shared.observed.over_shards(&shared.shards, |figures| &figures.expired_keys),
        input_bytes: shared.observed.sum(|stats| &stats.net_input_bytes),
        output_bytes: shared.observed.sum(|stats| &stats.net_output_bytes),
        memory_bytes_max: shared.settings.number(MAXMEMORY),
        threads: shared.threads.len(),
        allocated_bytes: allocated_bytes(),
        resident_bytes: system::resident_bytes(),
        items: shared.shards.tallies(0).map(|tally| tally.keys.get()).sum(),
        evicted: shared.observed.over_shards(&shared.shards, |figures| &figures.evicted_keys),
        calls: Verb::ALL.iter().map(calls).collect(),
    }
}

fn limits(shared: &Shared) -> StatsSettings {
    let settings = &shared.settings;
    StatsSettings {
        memory_bytes_max: settings.number(MAXMEMORY),
        connections_max: settings.number(MAXCLIENTS),
        port: settings.number(MEMCACHED_PORT),
        unix_socket: settings.text(MEMCACHED_UNIXSOCKET).to_string(),
        item_bytes_max: settings.number(MEMCACHED_ITEM_SIZE_MAX),
        threads: shared.threads.len(),
        asks_password: !shared.users.access_by_name().is_authenticated(),
    }
}
