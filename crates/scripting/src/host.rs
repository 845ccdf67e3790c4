//! What scripts and their commands work with, and what they ask of the thread that runs them.

use engine::{Client, Command, CommandError, CommandId, CommandResult, Outcome, Tx};
use process::shutdown::Shutdown;
use resp::{Output, Proto, Reply};

use crate::states::States;

/// The settings that concern scripts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScriptSettings {
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
pub trait ScriptHost: engine::Host {
    /// Lends the thread's Lua states.
    fn lend_states(&mut self) -> &mut States;

    /// A script begins. Its commands come from `client`, which has the rights of the client that called the
    /// script.
    fn enter_script(&mut self, client: &Client);

    /// Whether the client that called the running script was killed meanwhile, as far as this thread knows.
    fn is_caller_killed(&self) -> bool;

    /// The script has ended, and has lent this many shards. From now on, commands are its caller's again.
    fn leave_script(&mut self, was_slow: bool, lent_count: usize);

    /// Whether the running script may run the command. If not, returns the error for the script. A refusal is
    /// logged if the script was about to run the command.
    fn permit(&mut self, command: &Command, args: &[&[u8]], is_about_to_run: bool) -> CommandResult;

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

    /// Serves other clients while a script is slow.
    fn serve_others(&mut self, tx: &mut Tx<'_>);
}

/// What the commands of this crate work with.
pub struct ScriptThread<'h> {
    /// The thread.
    pub thread: &'h mut dyn ScriptHost,
    /// The shutdown, if one is under way. It may end scripts.
    pub shutdown: &'static Shutdown<Client>,
    /// Reads the settings, which may change while a script runs.
    pub settings: &'h dyn Fn() -> ScriptSettings,
    /// The refusals that follow from this server's role: it is a replica, or its data may be undone. `None`:
    /// it refuses nothing.
    pub standing: &'h dyn Fn() -> Option<Standing>,
    /// The error for all writes, if data must not be changed now.
    pub refuses_writes: &'h dyn Fn() -> Option<CommandError>,
    /// Whether memory was short when the client's command arrived.
    pub lacks_room: bool,
    /// Set by a command that called a script: the script's errors, which have to be counted.
    pub errors: Option<lua::Errors>,
    /// Set by a command that has no reply yet: it has to be answered when every script that runs now, on any
    /// thread, has ended or is slow.
    pub answer: Option<Answer>,
}

impl ScriptThread<'_> {
    /// The thread's Lua states.
    pub(crate) fn states(&mut self) -> &mut States {
        self.thread.lend_states()
    }
}
