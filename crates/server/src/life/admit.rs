//! Decides whether a command that its client may run can run now (MULTI, subscriptions, pauses), and what the client is
//! told otherwise.

use clients::session::ReplyMode;
use engine::{Command, CommandError, CommandId, Flag, OwnedArgs, Route, Rule, Shape};
use journal::Refusal;
use proactor::CloseMode;
use replication::Standing;
use resp::{Output, Proto, Reply};
use scripting::Demands;

use crate::shared::Shared;
use crate::thread::ThreadHost;

/// The decision about a command before it runs.
pub(crate) enum Admission {
    /// It runs.
    Run,
    /// It was queued for EXEC.
    Queued,
    /// It runs later, and has no reply yet.
    Later,
    /// It does not run.
    Refused(CommandError),
}

/// Limit of the bytes of arguments that MULTI queues.
const MULTI_BYTES_MAX: usize = 1 << 30;

/// The error for commands that write, if they are refused because their changes could not be kept.
pub(crate) fn refuses_writes(shared: &Shared) -> Option<CommandError> {
    if !matches!(shared.journal.progress.refusal(), Refusal::None | Refusal::Stalled) {
        return Some(journal_error(shared));
    }
    persistence::refuses_writes(&shared.snapshots, &shared.settings)
        .then(|| CommandError::fixed(persistence::MISCONF))
}

/// The error for all commands that write, if they are refused now: their changes could not be kept, or too few replicas
/// follow.
pub(crate) fn refuses_all_writes(shared: &Shared) -> Option<CommandError> {
    refuses_writes(shared).or_else(|| shared.quorum.error())
}

fn journal_error(shared: &Shared) -> CommandError {
    CommandError::new(format!("MISCONF Errors writing to the AOF file: {}", shared.journal.progress.why()))
}

/// Whether a command waits for the answers of all threads.
pub(crate) fn asks_threads(command: &Command) -> bool {
    command.entry.is_under(Rule::AsksThreads)
}

impl ThreadHost {
    pub(crate) fn admit(&mut self, command: &Command, args: &[&[u8]]) -> Admission {
        if let Some(error) = refuses_to_write(self, command, args) {
            return Admission::Refused(error);
        }
        let refused = refusal_of_replica(self, command, args);
        if refused == Some(Standing::READ_ONLY) {
            return Admission::Refused(Standing::READ_ONLY);
        }
        let session = self.session();
        if session.client.proto == Proto::Resp2
            && session.is_subscriber()
            && !command.entry.is_under(Rule::ForSubscribers)
        {
            return Admission::Refused(CommandError::new(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
                command.full_name
            )));
        }
        if let Some(error) = refused {
            return Admission::Refused(error);
        }
        if self.shared.snapshots.progress.is_loading() && !demands(self, command, args).bears_loading {
            return Admission::Refused(CommandError::LOADING);
        }
        if let Some(admission) = stopped(self, command, args) {
            return admission;
        }
        let is_queued = self.session().multi.is_some();
        let settings = &self.shared.settings;
        if is_queued
            && let Some(error) = ops::refuses_to_queue(settings, command, || self.session().is_local())
        {
            return Admission::Refused(error);
        }
        let session = self.session();
        if let Some(multi) = &mut session.multi
            && !command.entry.is_under(Rule::RunsInMulti)
        {
            if command.has(Flag::NoMulti) {
                return Admission::Refused(CommandError::new("ERR Command not allowed inside a transaction"));
            }
            let args = OwnedArgs::new(args);
            multi.memory_bytes += args.memory_bytes();
            if multi.memory_bytes > MULTI_BYTES_MAX {
                return Admission::Refused(CommandError::new(
                    "ERR transaction exceeds the memory limit of queued commands",
                ));
            }
            multi.queued.push((command.id, args));
            return Admission::Queued;
        }
        if self.shared.scripts.is_busy() {
            let table = &self.shared.table;
            let asks_all = self.session().runs(table, command, asks_threads);
            let needs = self.needs(command, args);
            if asks_all || self.is_kept_waiting(&needs) {
                return Admission::Refused(self.shared.scripts.busy_error());
            }
        }
        Admission::Run
    }

    /// Keeps a command of the current client until the end of the pause, if there is a pause that applies to it.
    pub(crate) fn postpones(&mut self, command: &Command, args: &[&[u8]]) -> bool {
        if !self.waits.pausing.is_on() {
            return false;
        }
        let asked = demands(self, command, args);
        if !self.waits.pausing.stops(asked.replicates) {
            return false;
        }
        let session = self.current.as_deref_mut().expect("a command runs for a client");
        self.waits.pausing.postpone(session, command, args);
        // As in Redis, a paused client counts as blocked.
        self.reports.accounting.stats().blocked_clients.add(1);
        true
    }

    /// Replies with an error without running anything.
    #[cold]
    pub(crate) fn refuse(&mut self, command: Option<&Command>, error: &CommandError, out: &mut Output) {
        let session = self.session();
        let proto = session.client.proto;
        let id = command.map(|command| command.id);
        session.last_command = id.or(session.last_command);
        if command.is_some_and(|command| command.entry.route == Route::Queued) {
            // This is done even if there is no transaction.
            session.multi = None;
            self.unwatch();
            let error = CommandError::aborting(error);
            self.reports.accounting.count_rejection(id, &error);
            return self.write_error(id, proto, error.text(), out);
        }
        if let Some(multi) = &mut session.multi {
            multi.refused = true;
        }
        self.reports.accounting.count_rejection(id, error);
        self.write_error(id, proto, error.text(), out);
    }

    /// Replies with an error to a command that ends here, unless its client wants no reply.
    #[cold]
    pub(crate) fn turn_away(&mut self, command: Option<&Command>, error: &CommandError, out: &mut Output) {
        let (mode, mark) = (self.session().reply_mode, out.mark());
        self.refuse(command, error, out);
        self.suppress_reply(command, mode, mark, out);
    }

    /// Replies with an error to a request that does not call a command correctly.
    #[cold]
    pub(crate) fn turn_away_malformed(&mut self, args: &[&[u8]], error: &CommandError, out: &mut Output) {
        if args.first().is_some_and(|name| resp::is_http(name)) {
            return self.abort_http(CloseMode::Now);
        }
        let command = self.shared.table.named(args).ok();
        self.turn_away(command, error, out);
    }

    /// Writes an error in the protocol of its command.
    pub(crate) fn write_error(
        &self,
        command: Option<CommandId>,
        proto: Proto,
        text: &[u8],
        out: &mut Output,
    ) {
        if command.is_some_and(|id| self.shared.table.is_of_protocol(id)) {
            out.extend_from_slice(&[b"SERVER_ERROR ", text, b"\r\n"].concat());
        } else {
            Reply::new(out, proto).error(text);
        }
    }

    /// Removes the output of a command, from `mark` on, if its client, in `mode` when the command arrived, wants no
    /// reply. The messages of (un)subscribing are not replies.
    pub(crate) fn suppress_reply(
        &mut self,
        command: Option<&Command>,
        mode: ReplyMode,
        mark: resp::Mark,
        out: &mut Output,
    ) {
        let session = self.session();
        if mode == ReplyMode::On || session.reply_mode == ReplyMode::On {
            return;
        }
        if command.is_none_or(|command| command.entry.reply != Shape::Push) {
            out.truncate(mark);
        }
        let is_about_replies = command.is_some_and(|command| command.entry.is_under(Rule::SetsReplyMode));
        if session.state.is_ready() && session.reply_mode == ReplyMode::Skip && !is_about_replies {
            session.reply_mode = ReplyMode::On;
        }
    }
}

/// What a call of the current client may do. For EXEC, what the queued commands may do.
pub(crate) fn demands(host: &mut ThreadHost, command: &Command, args: &[&[u8]]) -> Demands {
    let mut all = Demands::of(&mut host.scripts.lua, command, args);
    let queued = host.current.as_deref().and_then(|session| session.multi.as_ref());
    for (id, args) in
        queued.filter(|_| command.entry.route == Route::Queued).iter().flat_map(|multi| &multi.queued)
    {
        all = all.and(Demands::of(&mut host.scripts.lua, host.shared.table.get(*id), &args.slices()));
    }
    all
}

/// The decision about a call that does not run because its client is a replica, or because of a pause.
fn stopped(host: &mut ThreadHost, command: &Command, args: &[&[u8]]) -> Option<Admission> {
    if !host.session().follows() {
        return host.postpones(command, args).then_some(Admission::Later);
    }
    // A pause does not stop it.
    let asked = demands(host, command, args);
    let error = CommandError::fixed("ERR Replica can't interact with the keyspace");
    (asked.reads || asked.replicates).then_some(Admission::Refused(error))
}

/// The error if the command would write and the current client may not write now.
fn refuses_to_write(host: &mut ThreadHost, command: &Command, args: &[&[u8]]) -> Option<CommandError> {
    let shared = host.shared;
    let tells = command.entry.is_under(Rule::TellsOfFailedSaves);
    if tells && shared.journal.progress.refusal() == Refusal::Stalled {
        return Some(journal_error(shared));
    }
    let error = refuses_all_writes(shared)?;
    if demands(host, command, args).writes { Some(error) } else { refuses_writes(shared).filter(|_| tells) }
}

/// The error if a replica, or a server that is in doubt, refuses the command of the current client.
#[cold]
pub(crate) fn refusal_of_replica(
    host: &mut ThreadHost,
    command: &Command,
    args: &[&[u8]],
) -> Option<CommandError> {
    let standing = host.shared.standing();
    if standing == Standing::default() {
        return None;
    }
    match demands(host, command, args) {
        asked if asked.writes && standing.is_read_only => Some(Standing::READ_ONLY),
        // Other commands must run, such as those of a replica that connects.
        asked if asked.shows_data && standing.is_in_doubt => standing.refuses_reads(),
        asked if !asked.bears_stale && standing.is_stale => Some(Standing::STALE),
        _ => None,
    }
}
