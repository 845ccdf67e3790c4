//! The services that these commands need from the thread that runs them.

use engine::CommandError;

use crate::migrate::delivery::{Migration, Returned, Target};

/// The thread that runs MIGRATE.
pub trait Door {
    /// Takes the state of the client's MIGRATE, if it has sent something.
    fn take_migration(&mut self) -> Option<Box<Migration>>;

    /// Sends a round to `target` with [`Migrations::send`](crate::migrate::Migrations::send); the client waits. After that the
    /// command runs again, with the new state.
    fn send(&mut self, target: Target, returned: Box<Returned>) -> Result<(), CommandError>;
}
