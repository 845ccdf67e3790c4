//! What is counted and noted about each command as it runs: statistics, slow log, latency monitor.

use command::{Blocked, Client, Command, CommandError, CommandId, Flag, Outcome};
use proactor::ConnId;
use resp::{Mark, Output};
use settings::{LATENCY_MONITOR_THRESHOLD, LATENCY_TRACKING, SLOWLOG_LOG_SLOWER_THAN, SLOWLOG_MAX_LEN};

use crate::observe::monitors::without_secrets;
use crate::observe::slow_log::{SlowCommand, shortened};
use crate::observe::stats::{EntryType, ThreadStats};
use crate::thread::ThreadHost;

impl ThreadHost {
    /// This thread's counters.
    #[inline]
    pub(crate) fn stats(&self) -> &'static ThreadStats {
        &self.shared.threads[usize::from(self.id)].stats
    }

    /// Notes an event that took so long for the latency monitor.
    #[inline]
    pub(crate) fn note_latency(&mut self, event: &'static str, ns: u64) {
        let threshold_ms = self.shared.settings.number(LATENCY_MONITOR_THRESHOLD) as u64;
        self.shared.observed.latency.note(event, ns, threshold_ms, self.driver.clock());
    }

    /// Counts how a command came to its shards.
    #[inline]
    pub(crate) fn count_entry(&self, entry_type: EntryType, width: usize) {
        self.stats().count_entry(entry_type, width);
    }

    /// Counts a transaction that could not have its shards.
    pub(crate) fn count_retry(&self) {
        self.stats().retries.add(1);
    }

    /// Counts a command that was refused before it ran.
    pub(crate) fn count_rejection(&mut self, command: Option<CommandId>, error: &CommandError) {
        if let Some(id) = command {
            self.stats().command(id).rejected.add(1);
        }
        self.count_error(&error.code());
    }

    /// Counts an error reply by its code word.
    pub(crate) fn count_error(&mut self, code: &str) {
        self.stats().count_error(code);
    }

    /// Counts a script or function that answered these errors.
    #[cold]
    pub(crate) fn count_errors_of_script(&mut self, command: &Command, errors: &script::Errors) {
        self.stats().command(command.id).failed.add(1);
        for (code, count) in &errors.uncounted {
            self.stats().count_errors(&String::from_utf8_lossy(code), *count);
        }
    }

    /// Counts an error with which the wait of a blocking command ended.
    #[cold]
    pub(crate) fn count_failed_wait(&mut self, command: Option<CommandId>, error: &CommandError) {
        if let Some(id) = command {
            self.stats().command(id).failed.add(1);
        }
        self.count_error(&error.code());
    }

    /// Counts a command of `client` that ran, `started` ticks ago, with its reply from `mark` on; not one that will run
    /// again.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "all of it is at hand where a command ran")]
    pub(crate) fn count_command(
        &mut self,
        command: &Command,
        args: &[&[u8]],
        client: &Client,
        started: u64,
        outcome: &mut Outcome,
        mark: Mark,
        out: &Output,
    ) {
        if let Outcome::Again(_) = outcome {
            return;
        }
        let clock = self.driver.clock();
        let ended = clock.ticks();
        let ns = clock.ticks_to_ns(started, ended);
        self.lap = ended;
        let all = self.stats();
        let stats = all.command(command.id);
        all.commands_processed.add(1);
        stats.calls.add(1);
        stats.ns.add(ns);
        let settings = &self.shared.settings;
        if settings.is_on(LATENCY_TRACKING) {
            stats.duration_of(ns).add(1);
        }
        if let Outcome::Failed = outcome {
            stats.failed.add(1);
            all.count_error(&error_code(out, mark));
        }
        // A negative number becomes a threshold that nothing reaches.
        let slow_us = settings.number(SLOWLOG_LOG_SLOWER_THAN) as u64;
        if ns >= slow_us.saturating_mul(1000) {
            match outcome {
                // It is not over.
                Outcome::Blocked(_) => {}
                _ => self.note_slow(command, args, client, ns),
            }
        }
        if let Outcome::Blocked(blocked) = outcome {
            blocked.ran_ns = ns;
        }
        let event = if command.has(Flag::Fast) { "fast-command" } else { "command" };
        self.note_latency(event, ns);
    }

    /// The same for a command that waited and is over now, however its wait ended: it belongs into the slow log if it
    /// ran for long, as its client said it.
    pub(crate) fn note_unblocked(&mut self, conn: ConnId, blocked: &Blocked) {
        let slow_us = self.shared.settings.number(SLOWLOG_LOG_SLOWER_THAN) as u64;
        if blocked.ran_ns < slow_us.saturating_mul(1000) {
            return;
        }
        let args = blocked.said.as_ref().unwrap_or(&blocked.waiter.wait.args).slices();
        let Ok(command) = self.shared.table.resolve(&args) else { return };
        let Some(session) = self.connections.session(conn) else { return };
        let (peer, name) = (session.peer.clone(), session.name.clone());
        self.log_slow(command, &args, peer, name, blocked.ran_ns);
    }

    /// Puts a command into the slow log.
    #[cold]
    fn note_slow(&mut self, command: &Command, args: &[&[u8]], client: &Client, ns: u64) {
        // Of a delegated command only the number of the client is known here.
        let session = self.current.as_deref().filter(|session| session.client.id == client.id);
        let (peer, name) =
            session.map(|session| (session.peer.clone(), session.name.clone())).unwrap_or_default();
        self.log_slow(command, args, peer, name, ns);
    }

    fn log_slow(&mut self, command: &Command, args: &[&[u8]], peer: String, name: Vec<u8>, ns: u64) {
        if command.has(Flag::SkipSlowlog) {
            return;
        }
        let len_max = self.shared.settings.number(SLOWLOG_MAX_LEN) as usize;
        let command = SlowCommand {
            id: 0,
            unix_seconds: self.driver.clock().now_ms() / 1000,
            duration_us: ns / 1000,
            args: shortened(&without_secrets(command.top_name(), args)),
            peer,
            name,
        };
        self.shared.observed.slow_log().add(command, len_max);
    }
}

/// The code word of the error that was written from `mark` on.
#[cold]
fn error_code(out: &Output, mark: Mark) -> String {
    let text = out.slices_since(mark).next().unwrap_or_default();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let word = text.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
    String::from_utf8_lossy(word).into_owned()
}
