//! How commands of the server are declared and run.
//!
//! An entry of these has a function that gets its thread by type: [`Ctx::host`](command::Ctx::host) is a [`ThreadHost`].
//! The table of commands knows nothing of that type. It has the same entries without their functions; running one of
//! those asks the thread ([`Host::run_own`](command::Host::run_own)), which finds the function here by the command's number.

use command::{Command, CommandResult, OwnCall, Table};

use crate::thread::ThreadHost;

/// A call of a command of the server.
pub(crate) type Ctx<'a, 't> = command::Ctx<'a, 't, ThreadHost>;
/// The function of a command of the server.
pub(crate) type Function = fn(&mut Ctx) -> CommandResult;
/// The declaration of a command of the server.
pub(crate) type Entry = command::Entry<Function>;
/// What runs a command of the server.
pub(crate) type Run = command::Run<Function>;

/// The functions of the server's commands, by the commands' numbers.
#[derive(Debug)]
pub(crate) struct Functions(Box<[Option<Function>]>);

impl Functions {
    /// For the commands of `table`; none has a function yet.
    pub(crate) fn none(table: &Table) -> Functions {
        Functions(vec![None; table.len()].into())
    }

    /// Adds the functions of `entry`, of which the table has made `command`, and of its subcommands.
    pub(crate) fn add(&mut self, table: &Table, command: &Command, entry: &'static Entry) {
        if let Run::Function(function) = entry.run {
            self.0[usize::from(command.id.0)] = Some(function);
        }
        for (sub, entry) in table.subcommands(command).zip(entry.subcommands) {
            self.add(table, sub, entry);
        }
    }

    /// Whether there is a function for a command: then it is the server's own.
    #[cfg(test)]
    pub(crate) fn has(&self, command: &Command) -> bool {
        self.0[usize::from(command.id.0)].is_some()
    }

    /// Runs a call on `host`, its thread.
    pub(crate) fn run(&self, call: OwnCall<'_, '_>, host: &mut ThreadHost) -> CommandResult {
        let function = self.0[usize::from(call.command.id.0)];
        let function = function.expect("the table of commands and this one were made of the same entries");
        function(&mut call.on(host))
    }
}
