//! Counts and logs each command that a thread runs: statistics, command logs, latency monitor.
//!
//! Not here: the client, which is asked for only if its command is logged.

use engine::{Blocked, Command, CommandError, CommandId, Flag, Outcome, Table};
use proactor::Clock;
use resp::{Mark, Output};

use crate::command_log::{Caller, LogKind, LoggedCommand, request_bytes, shortened};
use crate::observed::Observed;
use crate::stats::ThreadStats;

/// Counts and times the commands of one thread.
#[derive(Debug)]
pub struct Accounting {
    stats: &'static ThreadStats,
    observed: &'static Observed,
    /// When the next command begins, in ticks of the clock: when the last one ended, or when the client's turn began.
    lap: u64,
    /// When the turn of the current client is over, in ticks of the clock.
    time_over: u64,
    /// Whether the next commands may have large requests: their client has sent that much, or that is not known.
    has_large_input: bool,
}

/// A command that ran.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The command.
    pub command: &'a Command,
    /// The arguments, with the name first.
    pub args: &'a [&'a [u8]],
    /// When it began, in ticks of the clock.
    pub started: u64,
    /// Where its reply begins in `out`.
    pub mark: Mark,
    /// The output that ends with its reply.
    pub out: &'a Output,
    /// Where its request is from.
    pub source: RequestSource,
}

/// Where the request of a command is from, which says whether it may be large.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestSource {
    /// From what the current client sent, in this turn or before.
    Turn,
    /// From a transaction, or from a client of another thread.
    Kept,
    /// From a script or a primary, whose requests are never logged as large.
    Within,
}

impl Accounting {
    /// For the thread with these counters.
    pub fn new(stats: &'static ThreadStats, observed: &'static Observed) -> Accounting {
        Accounting { stats, observed, lap: 0, time_over: 0, has_large_input: false }
    }

    /// The thread's counters.
    #[inline]
    pub fn stats(&self) -> &'static ThreadStats {
        self.stats
    }

    /// The next command begins now. It was sent in an earlier turn.
    #[inline]
    pub fn begin_lap(&mut self, clock: &Clock) {
        self.has_large_input = true;
        self.lap = clock.ticks();
    }

    /// Begins a client's turn and its next command. The turn may take `ticks_max` ticks of the clock. `input_bytes`: what
    /// the client has sent and was not served yet.
    #[inline]
    pub fn begin_serving(&mut self, clock: &Clock, ticks_max: u64, input_bytes: usize) {
        self.has_large_input = input_bytes as u64 >= self.observed.settings.large_request_bytes();
        self.lap = clock.ticks();
        self.time_over = self.lap.saturating_add(ticks_max);
    }

    /// Whether the commands of the current client have used up its turn.
    #[inline]
    pub fn is_time_over(&self) -> bool {
        self.lap >= self.time_over
    }

    /// When the next command begins or began, in ticks of the clock.
    #[inline]
    pub fn lap(&self) -> u64 {
        self.lap
    }

    /// Adds an event to the latency monitor, if it took long enough.
    pub fn note_event(&self, event: &'static str, ns: u64, clock: &Clock) {
        if ns >= self.observed.settings.noteworthy_ns() && self.observed.settings.all().is_slow_event(ns) {
            self.observed.latency.note(event, ns, clock);
        }
    }

    /// Counts a command that was rejected before it ran.
    pub fn count_rejection(&self, command: Option<CommandId>, error: &CommandError) {
        if let Some(id) = command {
            self.stats.own_command(id).rejected.add(1);
        }
        self.stats.count_error(&error.code());
    }

    /// Counts a script or function that returned errors. `errors`: the codes that were not counted when a command
    /// failed, each with its number.
    #[cold]
    pub fn count_errors_of_script<'a>(
        &self,
        command: CommandId,
        errors: impl IntoIterator<Item = (&'a [u8], u64)>,
    ) {
        self.stats.own_command(command).failed.add(1);
        for (code, count) in errors {
            self.stats.count_errors(&String::from_utf8_lossy(code), count);
        }
    }

    /// Counts the error that ended the wait of a blocking command.
    #[cold]
    pub fn count_failed_wait(&self, command: Option<CommandId>, error: &CommandError) {
        if let Some(id) = command {
            self.stats.own_command(id).failed.add(1);
        }
        self.stats.count_error(&error.code());
    }

    /// Counts a command that ends now, unless it will run again. `caller` is called only if the command is logged.
    #[inline]
    pub fn count(
        &mut self,
        call: &Call,
        outcome: &mut Outcome,
        clock: &Clock,
        caller: impl FnOnce() -> Caller,
    ) {
        if let Outcome::Again(_) = outcome {
            return;
        }
        let ended = clock.ticks();
        let ns = clock.ticks_to_ns(call.started, ended);
        self.lap = ended;
        let stats = self.stats.own_command(call.command.id);
        self.stats.commands_processed.add(1);
        stats.calls.add(1);
        stats.ns.add(ns);
        let settings = &self.observed.settings;
        if settings.tracks_durations() {
            stats.duration_of(ns).add(1);
        }
        if let Outcome::Failed = outcome {
            stats.failed.add(1);
            self.stats.count_error(&error_code(call.out, call.mark));
        }
        let may_be_large = match call.source {
            RequestSource::Turn => self.has_large_input,
            RequestSource::Kept => true,
            RequestSource::Within => false,
        };
        // The reply is the end of the output.
        if ns >= settings.noteworthy_ns()
            || may_be_large && request_bytes(call.args) as u64 >= settings.large_request_bytes()
            || call.out.len() as u64 >= settings.large_reply_bytes()
        {
            self.note(call, outcome, ns, clock, caller);
        }
        if let Outcome::Blocked(blocked) = outcome {
            blocked.ran_ns = ns;
        }
    }

    /// Called when a blocking command is over. Adds it to the slow log if it ran for long, as its client sent it.
    /// `caller` returns `None` if the client is gone.
    #[inline]
    pub fn note_unblocked(
        &self,
        blocked: &Blocked,
        table: &Table,
        clock: &Clock,
        caller: impl FnOnce() -> Option<Caller>,
    ) {
        if blocked.ran_ns >= self.observed.settings.noteworthy_ns() {
            self.note_slow_wait(blocked, table, clock, caller);
        }
    }

    #[cold]
    fn note_slow_wait(
        &self,
        blocked: &Blocked,
        table: &Table,
        clock: &Clock,
        caller: impl FnOnce() -> Option<Caller>,
    ) {
        let settings = self.observed.settings.all();
        let us = blocked.ran_ns / 1000;
        if !settings.takes(LogKind::Slow, us) {
            return;
        }
        let args = blocked.said.as_ref().unwrap_or(&blocked.waiter.wait.args).slices();
        if let Ok(command) = table.resolve(&args)
            && !command.has(Flag::SkipSlowlog)
            && let Some(caller) = caller()
        {
            let entry = entry(command, &args, caller, clock);
            let entry = LoggedCommand { figure: us, ..entry };
            self.observed.command_log(LogKind::Slow).add(entry, settings.len_max(LogKind::Slow));
        }
    }

    /// Adds a command that took long or was large to the logs that it belongs into, or to the latency monitor.
    #[cold]
    fn note(&self, call: &Call, outcome: &Outcome, ns: u64, clock: &Clock, caller: impl FnOnce() -> Caller) {
        let settings = self.observed.settings.all();
        if self.observed.settings.notes_everything() {
            self.track_keys(call, ns, clock);
        }
        if settings.is_slow_event(ns) {
            let event = if call.command.has(Flag::Fast) { "fast-command" } else { "command" };
            self.observed.latency.note(event, ns, clock);
        }
        // A command that blocks has not ended.
        if matches!(outcome, Outcome::Blocked(_)) || call.command.has(Flag::SkipSlowlog) {
            return;
        }
        let sent_bytes =
            if call.source == RequestSource::Within { 0 } else { request_bytes(call.args) as u64 };
        let figures = [ns / 1000, sent_bytes, call.out.end() - call.mark.end()];
        let logged = LogKind::ALL.into_iter().zip(figures).filter(|(kind, figure)| {
            // There is no request that was not sent.
            settings.takes(*kind, *figure)
                && !(*kind == LogKind::LargeRequest && call.source == RequestSource::Within)
        });
        let mut logged = logged.peekable();
        if logged.peek().is_none() {
            return;
        }
        let entry = entry(call.command, call.args, caller(), clock);
        for (kind, figure) in logged {
            let entry = LoggedCommand { figure, ..entry.clone() };
            self.observed.command_log(kind).add(entry, settings.len_max(kind));
        }
    }

    /// Adds a command to its keys, while hot keys are searched for.
    fn track_keys(&self, call: &Call, ns: u64, clock: &Clock) {
        if call.source == RequestSource::Within {
            return;
        }
        let mut session = self.observed.hot_keys.session();
        match session.as_mut().filter(|session| session.is_active(clock.now_ms())) {
            None => self.observed.settings.note_everything(false),
            Some(session) => {
                let uses = call.command.all_key_uses(call.args);
                let keys: Vec<&[u8]> = uses.iter().map(|key| call.args[key.index]).collect();
                let bytes = request_bytes(call.args) as u64 + call.out.end() - call.mark.end();
                session.add(&keys, ns / 1000, bytes);
            }
        }
    }
}

/// The entry of a log for a command, still without a figure.
fn entry(command: &Command, args: &[&[u8]], caller: Caller, clock: &Clock) -> LoggedCommand {
    let args = shortened(&command.without_secrets(args));
    LoggedCommand { id: 0, unix_seconds: clock.now_ms() / 1000, figure: 0, args, caller }
}

/// The code of the error that was written from `mark` on.
#[cold]
fn error_code(out: &Output, mark: Mark) -> String {
    let text = out.slices_since(mark).next().unwrap_or_default();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let word = text.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
    String::from_utf8_lossy(word).into_owned()
}
