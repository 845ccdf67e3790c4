//! What is counted and noted about each command as it runs: statistics, slow log, monitors.

use command::{Command, CommandError, CommandId, Outcome};
use resp::{Mark, Output};

use crate::stats::{EntryType, ThreadStats};
use crate::thread::ThreadHost;

impl ThreadHost {
    /// This thread's counters.
    #[inline]
    pub(crate) fn stats(&self) -> &'static ThreadStats {
        &self.shared.threads[usize::from(self.id)].stats
    }

    /// Counts how a command came to its shards.
    #[inline]
    pub(crate) fn count_entry(&self, entry_type: EntryType, width: usize) {
        self.stats().count_entry(entry_type, width);
    }

    /// Counts a transaction that could not have its shards.
    pub(crate) fn count_retry(&self) {
        self.stats().retries.add(1);
    }

    /// Counts a command that was refused before it ran.
    pub(crate) fn count_rejection(&mut self, command: Option<CommandId>, error: &CommandError) {
        if let Some(id) = command {
            self.stats().command(id).rejected.add(1);
        }
        self.count_error(error.code());
    }

    /// Counts an error reply by its code word.
    pub(crate) fn count_error(&mut self, code: &str) {
        self.stats().error_replies.add(1);
        self.admin.count_error(code);
    }

    /// Counts a command that ran, `started` ticks ago, with its reply from `mark` on.
    #[inline]
    pub(crate) fn count_command(
        &mut self,
        command: &Command,
        args: &[&[u8]],
        started: u64,
        outcome: &Outcome,
        _mark: Mark,
        _out: &Output,
    ) {
        let ended = self.driver.clock().ticks();
        let stats = self.stats().command(command.id);
        stats.calls.add(1);
        stats.ticks.add(ended.wrapping_sub(started));
        if let Outcome::Failed = outcome {
            stats.failed.add(1);
        }
        if self.admin.watches_commands() {
            self.note_command(command, args, started, ended);
        }
    }
}
