//! What the commands of this crate work with, and what they leave to their thread.

use engine::CommandResult;

use crate::facts::Facts;

/// What the commands of this crate work with.
pub struct Observing<'h> {
    /// The server's figures.
    pub facts: &'h dyn Facts,
    /// The current time, in microseconds since 1970.
    pub now_us: u64,
    /// Whether the client is a monitor; set by the command if it becomes one.
    pub is_monitor: bool,
    /// Set by the command: every thread has to free what waits to be freed, and return unused memory to the system.
    /// After that the client gets the reply `OK`.
    pub purges: bool,
}

/// A call of a command of this crate.
pub type Ctx<'a, 't, 'h> = engine::Ctx<'a, 't, Observing<'h>>;
/// The function of a command of this crate.
pub type Function = fn(&mut Ctx<'_, '_, '_>) -> CommandResult;
/// The declaration of a command of this crate.
pub type Entry = engine::Entry<Function>;
/// The way a command of this crate runs.
pub(crate) type Run = engine::Run<Function>;
