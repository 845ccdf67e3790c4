//! What a running command may ask of the thread that runs it.

use resp::Reply;
use shard::Hold;

use crate::ctx::Ctx;
use crate::error::{CommandError, CommandResult};
use crate::store::Store;
use crate::table::{Command, CommandId};
use crate::task::{Task, Wait};

/// The thread that runs a command. Data commands need next to nothing of it. Commands of the server itself (sessions,
/// configuration, statistics, scripts) are run by it, and so have it by type.
pub trait Host {
    /// Runs a command whose function only the host knows ([`Entry::of_host`](crate::Entry::of_host)).
    fn run_own(&mut self, call: OwnCall<'_, '_>) -> CommandResult;

    /// All keys of all databases were deleted; all shards are entered.
    fn flushed_all(&mut self, _hold: &Hold<'_, Task, Wait>) {}

    /// The wait of this blocking command ended with an error, when it was served.
    fn wait_failed(&mut self, _command: CommandId, _error: &CommandError) {}
}

/// No thread: for commands that are run in process, by tests.
impl Host for () {
    fn run_own(&mut self, _call: OwnCall<'_, '_>) -> CommandResult {
        Err(CommandError::new("ERR this command needs a server"))
    }
}

/// A call of a command that belongs to the host: a [`Ctx`] but for the host.
pub struct OwnCall<'a, 't> {
    /// The command that runs.
    pub command: &'t Command,
    /// Its arguments, the name first.
    pub args: &'a [&'a [u8]],
    /// Where its reply goes.
    pub reply: Reply<'a>,
    /// The keyspace, as far as it was entered.
    pub store: Store<'a, 't>,
}

impl<'a, 't> OwnCall<'a, 't> {
    /// What the command's function works with.
    pub fn on<H: ?Sized>(self, host: &'a mut H) -> Ctx<'a, 't, H> {
        let OwnCall { command, args, reply, store } = self;
        Ctx { command, args, reply, store, host }
    }
}
