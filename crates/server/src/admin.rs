//! What administrators watch on one thread: errors, the slow log.

use command::Command;

use crate::admit::Admission;
use crate::thread::{Thread, ThreadHost};

/// Administration state of one thread.
#[derive(Debug, Default)]
pub(crate) struct Admin {
    errors: std::collections::BTreeMap<String, u64>,
}

impl Admin {
    /// Whether somebody wants to know of every command.
    #[inline]
    pub(crate) fn watches_commands(&self) -> bool {
        false
    }

    /// Counts an error reply by its code word.
    pub(crate) fn count_error(&mut self, code: &str) {
        *self.errors.entry(code.to_owned()).or_default() += 1;
    }
}

impl ThreadHost {
    /// Notes a command for the slow log.
    #[cold]
    pub(crate) fn note_command(&mut self, _command: &Command, _args: &[&[u8]], _started: u64, _ended: u64) {}
}

impl Thread {
    /// Whether a command must be refused because of a busy script.
    pub(crate) fn admit_busy(&mut self, command: &'static Command, args: &[&[u8]]) -> Admission {
        if self.host.shared.scripts.is_busy() && self.host.is_refused_for_busy(command, args) {
            return Admission::Refused(command::CommandError::BUSY);
        }
        Admission::Run
    }
}
