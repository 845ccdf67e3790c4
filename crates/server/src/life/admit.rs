//! Decides whether a command that its client may run can run now (MULTI, subscriptions, pauses), and what the client is
//! told otherwise.

use clients::session::{ReplyMode, Session};
use clients::{HandoverFate, REDIRECT};
use engine::{Command, CommandError, CommandId, Route, Rule, Shape, Table};
use journal::Refusal;
use proactor::CloseMode;
use replication::Standing;
use resp::{Output, Proto, Reply};
use scripting::States;

use crate::shared::Shared;
use crate::thread::{ThreadHost, running};

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
    /// It does not run, and its client, which was told to go to another server, is disconnected without a reply.
    Gone,
}

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
    pub(crate) fn admit(&mut self, command: &Command, args: &[&[u8]], out: &mut Output) -> Admission {
        let (shared, lua, session) = (self.shared, &mut self.scripts.lua, running(&mut self.current));
        let is_ready = !shared.quorum.is_lacking() && !shared.standing().is_in_doubt;
        let at = (&shared.following, is_ready, self.net.now_ms);
        match clients::fate_at_handover(session, lua, shared.judge(), at, (command, args)) {
            Some(HandoverFate::Waits) => {
                self.waits.postpone(session, self.net.stats, command, args);
                return Admission::Later;
            }
            Some(HandoverFate::Redirected(error)) => return Admission::Refused(error),
            None => {}
        }
        if let Some(error) = refuses_to_write(session, lua, shared, command, args) {
            return Admission::Refused(error);
        }
        let refused = refusal_of_replica(session, lua, shared, command, args);
        if refused.is_some() && session.is_told_to_go(&shared.settings, self.net.now_ms, out) {
            return Admission::Gone;
        }
        if refused == Some(Standing::READ_ONLY) {
            return Admission::Refused(Standing::READ_ONLY);
        }
        if let Some(error) = session.refusal_of_subscriber(command).or(refused) {
            return Admission::Refused(error);
        }
        if shared.snapshots.progress.is_loading()
            && !shared.judge().demands(session, lua, command, args).bears_loading
        {
            return Admission::Refused(CommandError::LOADING);
        }
        if session.follows() {
            // A pause does not stop it.
            let asked = shared.judge().demands(session, lua, command, args);
            if asked.reads || asked.replicates {
                let error = CommandError::fixed("ERR Replica can't interact with the keyspace");
                return Admission::Refused(error);
            }
        } else if self.waits.postpones(session, lua, (self.net.stats, shared.judge()), command, args) {
            return Admission::Later;
        }
        let is_queued = session.multi.is_some();
        let is_local = || session.is_local();
        if is_queued && let Some(error) = ops::refuses_to_queue(&shared.settings, command, is_local) {
            return Admission::Refused(error);
        }
        let session = self.session();
        if let Some(multi) = &mut session.multi
            && !command.entry.is_under(Rule::RunsInMulti)
        {
            return multi.queue(command, args).map_or_else(Admission::Refused, |()| Admission::Queued);
        }
        if shared.scripts.is_busy() {
            let session = running(&mut self.current);
            let asks_all = session.runs(&shared.table, command, asks_threads);
            let needs = shared.judge().needs(session, &mut self.scripts.lua, command, args);
            if asks_all || shared.judge().is_held(&needs) {
                return Admission::Refused(shared.scripts.busy_error());
            }
        }
        Admission::Run
    }

    /// Replies with an error without running anything.
    #[cold]
    pub(crate) fn refuse(&mut self, command: Option<&Command>, error: &CommandError, out: &mut Output) {
        let (session, table) = (running(&mut self.current), &self.shared.table);
        let proto = session.client.proto;
        let id = command.map(|command| command.id);
        session.last_command = id.or(session.last_command);
        if command.is_some_and(|command| command.entry.route == Route::Queued) {
            // This is done even if there is no transaction.
            session.multi = None;
            session.end_watches(&mut self.background.stale_watches);
            let is_redirect = error.text().starts_with(REDIRECT.as_bytes());
            let error = if is_redirect { error.clone() } else { CommandError::aborting(error) };
            self.reports.accounting.count_rejection(id, &error);
            return write_error(table, id, proto, error.text(), out);
        }
        if let Some(multi) = &mut session.multi {
            multi.refused = true;
        }
        self.reports.accounting.count_rejection(id, error);
        write_error(table, id, proto, error.text(), out);
    }

    /// Replies with an error to a command that ends here, unless its client wants no reply.
    #[cold]
    pub(crate) fn turn_away(&mut self, command: Option<&Command>, error: &CommandError, out: &mut Output) {
        let (mode, mark) = (self.session().reply_mode, out.mark());
        self.refuse(command, error, out);
        suppress_reply(self.session(), command, mode, mark, out);
    }

    /// Replies with an error to a request that does not call a command correctly.
    #[cold]
    pub(crate) fn turn_away_malformed(&mut self, args: &[&[u8]], error: &CommandError, out: &mut Output) {
        if args.first().is_some_and(|name| resp::is_http(name)) {
            let now_s = self.net.driver.clock().now_ms() / 1000;
            let log = &self.shared.attack_log;
            return log.end(self.session(), now_s, CloseMode::Now);
        }
        let command = self.shared.table.named(args).ok();
        self.turn_away(command, error, out);
    }
}

/// Writes an error in the protocol of its command.
pub(crate) fn write_error(
    table: &Table,
    command: Option<CommandId>,
    proto: Proto,
    text: &[u8],
    out: &mut Output,
) {
    if command.is_some_and(|id| table.is_of_protocol(id)) {
        out.extend_from_slice(&[b"SERVER_ERROR ", text, b"\r\n"].concat());
    } else {
        Reply::new(out, proto).error(text);
    }
}

/// Removes the output of a command, from `mark` on, if its client, in `mode` when the command arrived, wants no reply.
/// The messages of (un)subscribing are not replies.
pub(crate) fn suppress_reply(
    session: &mut Session,
    command: Option<&Command>,
    mode: ReplyMode,
    mark: resp::Mark,
    out: &mut Output,
) {
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

/// The error if the command would write and its client may not write now.
fn refuses_to_write(
    session: &Session,
    lua: &mut States,
    shared: &Shared,
    command: &Command,
    args: &[&[u8]],
) -> Option<CommandError> {
    let tells = command.entry.is_under(Rule::TellsOfFailedSaves);
    if tells && shared.journal.progress.refusal() == Refusal::Stalled {
        return Some(journal_error(shared));
    }
    let error = refuses_all_writes(shared)?;
    let writes = shared.judge().demands(session, lua, command, args).writes;
    if writes { Some(error) } else { refuses_writes(shared).filter(|_| tells) }
}

/// The error if a replica, or a server that is in doubt, refuses the command of a client.
#[cold]
pub(crate) fn refusal_of_replica(
    session: &Session,
    lua: &mut States,
    shared: &Shared,
    command: &Command,
    args: &[&[u8]],
) -> Option<CommandError> {
    let standing = shared.standing();
    let group = &shared.journal.synced.group;
    if group.is_on() {
        let asked = shared.judge().demands(session, lua, command, args);
        let now_ms = shared.machine.clock.boot_ms();
        return group.refusal(asked.writes, asked.shows_data, session.reads_here, now_ms);
    }
    if standing == Standing::default() {
        return None;
    }
    match shared.judge().demands(session, lua, command, args) {
        asked if asked.writes && standing.is_read_only => Some(Standing::READ_ONLY),
        // Other commands must run, such as those of a replica that connects.
        asked if asked.shows_data && standing.is_in_doubt => standing.refuses_reads(),
        asked if !asked.bears_stale && standing.is_stale => Some(Standing::STALE),
        _ => None,
    }
}
