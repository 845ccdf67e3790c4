//! The client whose command runs: what CLIENT, AUTH and HELLO work with, how a client authenticates, and how a denial is
//! noted.
//!
//! Not here: whether a user may run a command (`acl`), and when that is checked (the server).

use acl::{Denial, Origin, Reason, TOO_MANY_PASSWORDS, Users, WRONG_PASSWORD};
use config::{ACLLOG_MAX_LEN, AUTH_FAILURES_MAX, MAXCLIENTS_PER_USER, Settings};
use engine::{CommandResult, Table};
use observe::ThreadStats;
use proactor::{Clock, Usage};

use crate::Registry;
use crate::commands::line;
use crate::session::{Aside, Finish, RequestSize, Session, Subject};

/// State of all clients that the threads share.
#[derive(Clone, Copy)]
pub struct Server {
    /// All users.
    pub users: &'static Users,
    /// The current settings.
    pub settings: &'static Settings,
    /// All commands.
    pub table: &'static Table,
    /// The thread and connection of each client.
    pub registry: &'static Registry,
    /// Patterns with their subscribers, and the number of clients that track keys.
    pub directory: &'static pubsub::Directory,
    /// What clients are told about handovers.
    pub notices: &'static replication::Notices,
    /// The version of Redis that the server reports to clients.
    pub redis_version: &'static str,
}

/// The client whose command runs, on its thread.
pub struct Caller<'h> {
    /// The client. A script's commands have a session of their own.
    pub session: &'h mut Session,
    /// The sessions that are put aside while a script runs.
    pub aside: &'h Aside,
    /// What the threads share.
    pub server: Server,
    /// The counters of its thread.
    pub stats: &'h ThreadStats,
    /// The clock.
    pub clock: &'h Clock,
    /// The last reading of the monotonic clock.
    pub now_ms: u64,
    /// Set by a command that has no reply yet: what all threads are to be asked on behalf of the client. When they have
    /// answered, the function writes the reply.
    pub question: Option<(Subject, Finish)>,
}

impl Caller<'_> {
    /// Authenticates the client, whose command is `args`. A failure is counted and logged.
    pub fn authenticate(&mut self, name: &[u8], password: &[u8], args: &[&[u8]]) -> CommandResult {
        let Server { users, settings, .. } = self.server;
        let failures_max = settings.number(AUTH_FAILURES_MAX) as u64;
        let from = (failures_max > 0).then(|| Origin::of_peer(&self.session.peer));
        if from.is_some_and(|from| !users.throttle().admits(from, self.now_ms, failures_max)) {
            self.session.close_after_reply = true;
            self.stats.rejected_connections.add(1);
            return Err(TOO_MANY_PASSWORDS);
        }
        let Some(access) = users.authenticate(name, password) else {
            if let Some(from) = from {
                users.throttle().note_failure(from, self.now_ms);
            }
            let context = self.session.context();
            self.note_denial(&Denial { reason: Reason::Auth, context, object: args[0], user: name }, args);
            return Err(WRONG_PASSWORD);
        };
        let seats_max = settings.number(MAXCLIENTS_PER_USER) as u64;
        if let Err(error) = access.take_seat(&mut self.session.seat, seats_max) {
            self.stats.rejected_connections.add(1);
            return Err(error);
        }
        self.session.access = access;
        self.session.client.reads_all_keys = true;
        Ok(())
    }

    /// Counts and logs a denial for the client, whose command is `args`.
    pub fn note_denial(&self, denial: &Denial, args: &[&[u8]]) {
        let what = match denial.reason {
            Reason::Database => observe::Denial::Database,
            Reason::Auth => observe::Denial::Auth,
            Reason::Command => observe::Denial::Command,
            Reason::Key => observe::Denial::Key,
            Reason::Channel => observe::Denial::Channel,
        };
        self.stats.denied[what as usize].add(1);
        let len_max = self.server.settings.number(ACLLOG_MAX_LEN) as usize;
        self.server.users.log().add(denial, self.line(args), self.clock.now_ms(), len_max);
    }

    /// The line of `CLIENT INFO` about the client. `args`: the arguments of its command, or of the one that its script
    /// runs.
    pub(crate) fn line(&self, args: &[&[u8]]) -> String {
        let RequestSize { bytes, argument_bytes } = RequestSize::of(args);
        // Its buffers are taken out. They contain at least this command.
        let usage = Usage { input_bytes: bytes, input_capacity_bytes: bytes, ..Usage::default() };
        let client = self.aside.caller(self.session);
        line(client, usage, argument_bytes, self.now_ms, self.server.table)
    }

    /// Asks all threads on behalf of the client, as soon as its command has returned.
    pub(crate) fn ask(&mut self, subject: Subject, finish: Finish) {
        self.question = Some((subject, finish));
    }

    /// Notes that the client has changed its name or library.
    pub(crate) fn note_label(&self) {
        self.server.registry.note_label(self.session);
    }
}
