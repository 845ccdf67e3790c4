//! What administrators watch and order on one thread: pauses, monitors.

use command::Command;

use crate::admit::Admission;
use crate::session::Session;
use crate::thread::{Thread, ThreadHost};

/// Administration state of one thread.
#[derive(Debug, Default)]
pub(crate) struct Admin {
    monitors: usize,
}

impl Admin {
    /// Whether commands need a look before they run (a pause, say).
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        false
    }

    /// Whether somebody wants to know of every command.
    #[inline]
    pub(crate) fn watches_commands(&self) -> bool {
        self.monitors > 0
    }

    /// A session ends that may have been a monitor.
    pub(crate) fn forget_monitor(&mut self, session: &Session) {
        self.monitors -= usize::from(session.monitor);
    }
}

impl ThreadHost {
    /// Notes a command for the monitors.
    #[cold]
    pub(crate) fn note_command(&mut self, _command: &Command, _args: &[&[u8]], _started: u64, _ended: u64) {}
}

impl Thread {
    /// Whether a command must wait or be refused because of a pause or a busy script.
    pub(crate) fn admit_busy(&mut self, command: &'static Command, args: &[&[u8]]) -> Admission {
        if self.host.shared.scripts.is_busy() && self.host.is_refused_for_busy(command, args) {
            return Admission::Refused(command::CommandError::BUSY);
        }
        Admission::Run
    }

    /// Refuses a connection over `maxclients` or against protected mode.
    pub(crate) fn check_new_connection(&mut self, _conn: proactor::ConnId) {}

    /// What is looked at every second: idle clients, output buffers.
    pub(crate) fn each_second(&mut self) {}
}
