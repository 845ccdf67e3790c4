//! The functions of commands that use more than the data: only their host knows them ([`Entry::of_host`]).
//!
//! The function of such a command gets, as [`Ctx::host`](crate::Ctx::host), the host itself or a struct that its
//! family works with. For each family the host has one function that makes the struct, runs the command with it, and
//! does what the command has left to the host.
//!
//! [`Entry::of_host`]: crate::Entry::of_host

use crate::ctx::OwnCall;
use crate::entry::{Entry, Run};
use crate::error::CommandResult;
use crate::table::{Command, Table};

/// Runs a call on its host.
type Callee<H> = Box<dyn Fn(&mut H, OwnCall<'_, '_>) -> CommandResult + Send + Sync>;

/// The functions of all families on a host `H`, by the commands' numbers.
pub struct OwnFunctions<H>(Box<[Option<Callee<H>>]>);

impl<H: 'static> OwnFunctions<H> {
    /// Creates an empty place for each command of `table`.
    pub fn none(table: &Table) -> OwnFunctions<H> {
        OwnFunctions((0..table.len()).map(|_| None).collect())
    }

    /// Adds a family, whose functions are of type `F`: its commands are in `table`, where `find` finds one by its
    /// name, and `run` runs one of its functions.
    pub fn add_family<'t, F: Copy + Send + Sync>(
        &mut self,
        table: &'t Table,
        find: impl Fn(&str) -> &'t Command,
        entries: &'static [Entry<F>],
        run: fn(&mut H, F, OwnCall<'_, '_>) -> CommandResult,
    ) {
        for entry in entries {
            self.add(table, find(entry.name), entry, run);
        }
    }

    /// Adds the functions of `command`, which the table made from `entry`, and of its subcommands.
    fn add<F: Copy + Send + Sync>(
        &mut self,
        table: &Table,
        command: &Command,
        entry: &'static Entry<F>,
        run: fn(&mut H, F, OwnCall<'_, '_>) -> CommandResult,
    ) {
        if let Run::Function(function) = entry.run {
            self.0[usize::from(command.id.0)] = Some(Box::new(move |host, call| run(host, function, call)));
        }
        for (sub, entry) in table.subcommands(command).zip(entry.subcommands) {
            self.add(table, sub, entry, run);
        }
    }

    /// Whether a command has a function here, and so uses more than the data.
    pub fn has(&self, command: &Command) -> bool {
        self.0[usize::from(command.id.0)].is_some()
    }

    /// Runs a call on its host.
    #[inline]
    pub fn run(&self, host: &mut H, call: OwnCall<'_, '_>) -> CommandResult {
        let callee = self.0[usize::from(call.command.id.0)].as_ref();
        callee.expect("the table of commands and this one were made of the same entries")(host, call)
    }
}
