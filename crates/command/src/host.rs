//! What a running command may ask of the thread that runs it.

use std::any::Any;

/// The thread that runs a command. Commands of the server itself (sessions, configuration, statistics, scripts)
/// know its real type and ask for it; data commands need none of it.
pub trait Host {
    /// The thread's own type, for the commands that belong to it.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// No thread: for commands that are run in process, by tests.
impl Host for () {
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
