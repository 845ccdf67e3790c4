//! What a running command may ask of the thread that runs it.

use std::any::Any;

use shard::Hold;

use crate::error::CommandError;
use crate::table::CommandId;
use crate::task::{Task, Wait};

/// The thread that runs a command. Commands of the server itself (sessions, configuration, statistics, scripts)
/// know its real type and ask for it; data commands need none of it.
pub trait Host {
    /// The thread's own type, for the commands that belong to it.
    fn as_any_mut(&mut self) -> &mut dyn Any;

    /// All keys of all databases were deleted; all shards are entered.
    fn flushed_all(&mut self, _hold: &Hold<'_, Task, Wait>) {}

    /// The wait of this blocking command ended with an error, when it was served.
    fn wait_failed(&mut self, _command: CommandId, _error: &CommandError) {}
}

/// No thread: for commands that are run in process, by tests.
impl Host for () {
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
