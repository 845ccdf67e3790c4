//! Implements what a command may ask of its thread.

use effectlog::Lsn;
use engine::{CommandError, CommandId, CommandResult, Host, OwnCall, Task};
use shard::{Delegated, Hold};

use crate::life::giving_way::{give_way_if_due, send_task_on};
use crate::thread::ThreadHost;

impl Host for ThreadHost {
    fn run_own(&mut self, call: OwnCall<'_, '_>) -> CommandResult {
        self.functions.run(self, call)
    }

    fn flushed_all(&mut self, hold: &Hold<'_, Task, engine::Wait>) {
        self.shared.save_nothing(hold);
    }

    fn newest_slice(&mut self) -> Lsn {
        self.shared.journal.newest()
    }

    fn breathe(&mut self) {
        give_way_if_due(self);
    }

    fn send_on(&mut self, task: Box<Delegated<Task>>) {
        send_task_on(&mut self.net.messages, self.shared, task);
    }

    fn wait_failed(&mut self, command: CommandId, error: &CommandError) {
        self.reports.accounting.count_failed_wait(Some(command), error);
    }
}
