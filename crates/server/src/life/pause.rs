//! `CLIENT PAUSE`: for a time, commands of clients wait.
//!
//! Every thread knows the pause and when it ends. A command that must wait is kept as arguments in its session, and
//! nothing more is read from its client; at the end, or at `CLIENT UNPAUSE`, the commands run in the order in which
//! they came to the thread, and each pipeline goes on. Blocked clients time out as ever, and keys do not expire
//! actively.
//!
//! Not here: what runs at the end of a pause (`homecoming.rs`).

use command::{Command, Flag, OwnedArgs, Route};
use session::Postponed;

use crate::thread::ThreadHost;

/// A pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pause {
    /// When it ends, on the monotonic clock.
    pub(crate) until_ms: u64,
    /// Whether all commands wait, or only those that write.
    pub(crate) all: bool,
}

/// The pause of one thread.
#[derive(Debug, Default)]
pub(crate) struct Pausing {
    pause: Option<Pause>,
    /// Commands postponed so far.
    postponed_count: u64,
}

impl Pausing {
    /// Whether there is a pause.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.pause.is_some()
    }

    /// Commands run again.
    pub(crate) fn end(&mut self) {
        self.pause = None;
    }
}

impl ThreadHost {
    /// Keeps the current client's command for later, if it must wait.
    pub(crate) fn postpone(&mut self, command: &Command, args: &[&[u8]]) -> bool {
        let Some(pause) = self.pausing.pause else { return false };
        if !pause.all && !self.may_write(command) {
            return false;
        }
        self.pausing.postponed_count += 1;
        let number = self.pausing.postponed_count;
        let postponed = Postponed { command: command.id, args: OwnedArgs::new(args), number };
        self.session().state.postpone(postponed);
        // As in Redis, where this is one way to be blocked.
        self.accounting.stats().blocked_clients.add(1);
        true
    }

    fn may_write(&mut self, command: &Command) -> bool {
        self.runs(command, |command| command.is_write() || command.has(Flag::MayReplicate))
    }

    /// Whether a command of the current client is such a one, or EXEC that runs one.
    pub(crate) fn runs(&mut self, command: &Command, is_such: fn(&Command) -> bool) -> bool {
        let table = &self.shared.table;
        let queued = self.session().multi.as_ref().filter(|_| command.entry.route == Route::Queued);
        is_such(command)
            || queued.is_some_and(|multi| multi.queued.iter().any(|(id, _)| is_such(table.get(*id))))
    }

    /// Begins a pause of `pause_ms`, or extends the one that is on: the later end and the stricter kind count.
    pub(crate) fn begin_pause(&mut self, pause_ms: u64, all: bool) {
        let until_ms = self.driver.clock().monotonic_ms().saturating_add(pause_ms);
        let pause = match self.pausing.pause {
            Some(old) => Pause { until_ms: until_ms.max(old.until_ms), all: all || old.all },
            None => Pause { until_ms, all },
        };
        self.pausing.pause = Some(pause);
        self.timers.pause_end_ms = Some(pause.until_ms);
    }
}
