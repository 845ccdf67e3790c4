//! What scripts and their commands need of the thread that runs them.

use command::{Client, Command, CommandError, CommandId, CommandResult, Outcome, Tx};
use resp::{Output, Proto, Reply};

use crate::states::States;

/// What the settings say about scripts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// For how long a script runs before it is slow, in milliseconds (`busy-reply-threshold`); the greatest number: it never is.
    pub slow_after_ms: u64,
    /// For how long one that has written nothing may run, in milliseconds (`script-time-max`); the greatest number: for ever.
    pub time_max_ms: u64,
    /// After how many runs within its declared keys a script is trusted to keep to them.
    pub trusted_after: u32,
}

/// What a replica does not do for scripts of its clients.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// Why it does not write.
    pub read_only: Option<CommandError>,
    /// Why it does not show what it has, which is old.
    pub stale: Option<CommandError>,
}

/// An answer to a client that waits for it.
pub type Answer = Box<dyn FnOnce(&mut Reply<'_>) -> CommandResult + Send>;

/// A thread on which scripts run, for its clients.
pub trait Door {
    /// The thread's Lua states.
    fn states(&mut self) -> &mut States;

    /// The settings as they are now.
    fn settings(&self) -> Settings;

    /// Whether there was no room when the command of `client` came.
    fn lacked_room(&self, client: &Client) -> bool;

    /// A script begins. Its commands come from `client`, which may do what the client that called the script may do.
    fn enter_script(&mut self, client: &Client);

    /// It has ended; its caller's commands run again.
    fn leave_script(&mut self, was_slow: bool);

    /// Whether the script that runs may run the command; the error is what it gets if not, and that is told.
    fn permit(&mut self, command: &Command, args: &[&[u8]]) -> CommandResult;

    /// Whether the script that runs may run the command. Nobody is told if not.
    fn is_permitted(&mut self, command: &Command, args: &[&[u8]]) -> bool;

    /// Why no data may be changed now, if it is so.
    fn refuses_writes(&self) -> Option<CommandError>;

    /// Whether this is a replica; if not, nothing is said by [`standing`](Self::standing).
    fn is_replica(&self) -> bool;

    /// What is not to be done here because this is a replica.
    fn standing(&self) -> Standing;

    /// Runs a command of the script that runs, and writes the reply in `proto`. Its shards are entered; unless the outcome is that it wants others, all is
    /// counted and monitored.
    fn run<'t>(
        &mut self,
        tx: &mut Tx<'t>,
        command: &'t Command,
        args: &[&[u8]],
        proto: Proto,
        out: &mut Output,
    ) -> Outcome;

    /// A command of the script that runs was refused; it is known, or not.
    fn note_refusal(&mut self, command: Option<CommandId>, error: &CommandError);

    /// Counts a script that has ended with errors, which it was called by `command`.
    fn note_errors(&mut self, command: &Command, errors: &script::Errors);

    /// The script has lent so many shards.
    fn note_lent(&mut self, count: usize);

    /// The script that runs comes by: whether it has to end, because the server ends.
    fn has_to_end(&mut self, has_written: bool) -> bool;

    /// Looks after other clients, while a script is slow.
    fn serve_others(&mut self, tx: &mut Tx<'_>);

    /// The current client gets its answer when what runs now on all threads has ended, or is slow.
    fn answer_once_scripts_passed(&mut self, answer: Answer);
}
