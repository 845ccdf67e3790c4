//! The interface through which scripts and their commands use the thread that runs them.

use engine::{Client, Command, CommandError, CommandId, CommandResult, Outcome, Tx};
use resp::{Output, Proto, Reply};

use crate::states::States;

/// The settings that concern scripts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Time in milliseconds after which a running script is slow (`busy-reply-threshold`). `u64::MAX`: never.
    pub slow_after_ms: u64,
    /// Time in milliseconds after which a script that has written nothing is ended (`script-time-max`).
    /// `u64::MAX`: never.
    pub time_max_ms: u64,
    /// A script is trusted to keep to its declared keys after this many runs that did.
    pub trusted_after: u32,
}

/// The errors with which this server refuses commands of its clients' scripts because of its role.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// The error for writes, if they are refused.
    pub read_only: Option<CommandError>,
    /// The error for commands that would show stale data, if they are refused.
    pub stale: Option<CommandError>,
}

/// Writes the reply to a client that is waiting for it.
pub type Answer = Box<dyn FnOnce(&mut Reply<'_>) -> CommandResult + Send>;

/// A thread that runs scripts for its clients.
pub trait Door {
    /// The thread's Lua states.
    fn states(&mut self) -> &mut States;

    /// The current settings.
    fn settings(&self) -> Settings;

    /// Whether memory was short when the command of `client` arrived.
    fn lacked_room(&self, client: &Client) -> bool;

    /// A script begins. Its commands come from `client`, which has the rights of the client that called the
    /// script.
    fn enter_script(&mut self, client: &Client);

    /// The script has ended. From now on, commands are its caller's again.
    fn leave_script(&mut self, was_slow: bool);

    /// Whether the running script may run the command. If not, returns the error for the script and logs the
    /// refusal.
    fn permit(&mut self, command: &Command, args: &[&[u8]]) -> CommandResult;

    /// Whether the running script may run the command. A refusal is not logged.
    fn is_permitted(&mut self, command: &Command, args: &[&[u8]]) -> bool;

    /// The error for all writes, if data must not be changed now.
    fn refuses_writes(&self) -> Option<CommandError>;

    /// Whether this server refuses anything because of its role. If not, [`standing`](Self::standing) is
    /// empty.
    fn has_standing(&self) -> bool;

    /// The refusals that follow from this server's role: it is a replica, or its data may be undone.
    fn standing(&self) -> Standing;

    /// Runs a command of the running script and writes the reply in `proto`. The command's shards are
    /// entered. Unless the outcome is that it needs other shards, the command is counted and shown to
    /// monitors.
    fn run<'t>(
        &mut self,
        tx: &mut Tx<'t>,
        command: &'t Command,
        args: &[&[u8]],
        proto: Proto,
        out: &mut Output,
    ) -> Outcome;

    /// A command of the running script was refused. `None`: the command is unknown.
    fn note_refusal(&mut self, command: Option<CommandId>, error: &CommandError);

    /// Counts the errors of a script that was called by `command` and has ended.
    fn note_errors(&mut self, command: &Command, errors: &lua::Errors);

    /// The script has lent this many shards.
    fn note_lent(&mut self, count: usize);

    /// Called regularly by the running script. Whether it has to end because the server is shutting down.
    fn has_to_end(&mut self, has_written: bool) -> bool;

    /// Called regularly by the running script: the thread may look after its other clients.
    fn breathe(&mut self);

    /// Serves other clients while a script is slow.
    fn serve_others(&mut self, tx: &mut Tx<'_>);

    /// Answers the current client when every script that runs now, on any thread, has ended or is slow.
    fn answer_once_scripts_passed(&mut self, answer: Answer);
}
