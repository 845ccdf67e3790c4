//! What these commands need from the thread that runs them.

use command::CommandError;

use crate::delivery::{Migration, Returned, Target};

/// The thread that runs MIGRATE.
pub trait Door {
    /// What the client's MIGRATE has sent so far, to be taken.
    fn take_migration(&mut self) -> Option<Box<Migration>>;

    /// Sends what is to be sent to `target` ([`Migrations::send`]), and lets the client wait: when that is done, the command runs
    /// again, with what was sent.
    fn send(&mut self, target: Target, returned: Box<Returned>) -> Result<(), CommandError>;
}
