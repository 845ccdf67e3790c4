//! Declares and runs commands that use more than the data.
//!
//! The function of a command of the server gets its thread by type: [`Ctx::host`](engine::Ctx::host) is a
//! [`ThreadHost`]. A command of a component gets what that component's commands work with: a struct of references, in
//! which the function also leaves what its thread has to do afterwards. For each component, a function of the server
//! makes the struct, runs the command with it, and then does that.
//!
//! The table of commands knows none of these types. It has the same entries without their functions. To run one of
//! these, it asks the thread ([`Host::run_own`](engine::Host::run_own)), which finds the function here by the command's
//! number.

use engine::{Command, CommandResult, HostFn, OwnCall, Table};

use crate::commands::{cluster, migrate, queues};
use crate::connections::caller;
use crate::thread::ThreadHost;
use crate::{replication, reports, scripts, subscribers, users};

/// A call of a command of the server.
pub(crate) type Ctx<'a, 't> = engine::Ctx<'a, 't, ThreadHost>;
/// The function of a command of the server.
pub(crate) type Function = HostFn<ThreadHost>;
/// The declaration of a command of the server.
pub(crate) type Entry = engine::Entry<Function>;
/// The implementation of a command of the server.
pub(crate) type Run = engine::Run<Function>;

/// Declares the families: the type of the functions of each, and how one of them is run for the current client.
macro_rules! families {
    ($($owner:ident: $function:ty => $run:expr;)*) => {
        /// A family of commands, named after its owner.
        #[derive(Clone, Copy)]
        pub(crate) enum Family {
            $($owner(&'static [engine::Entry<$function>])),*
        }

        /// The function of a command.
        #[derive(Clone, Copy)]
        enum Callee {
            $($owner($function)),*
        }

        impl Family {
            /// The entries for the table of commands.
            pub(crate) fn of_host(self) -> Vec<engine::Entry> {
                match self {
                    $(Family::$owner(entries) => entries.iter().map(engine::Entry::of_host).collect()),*
                }
            }

            /// Adds the functions of the family's commands in `table`. `find` finds a command by its name.
            pub(crate) fn add_to<'t>(
                self,
                functions: &mut Functions,
                table: &'t Table,
                find: impl Fn(&str) -> &'t Command,
            ) {
                match self {
                    $(Family::$owner(entries) => {
                        for entry in entries {
                            functions.add(table, find(entry.name), entry, Callee::$owner);
                        }
                    })*
                }
            }
        }

        impl Callee {
            fn run(self, call: OwnCall<'_, '_>, host: &mut ThreadHost) -> CommandResult {
                match self {
                    $(Callee::$owner(function) => $run(function, call, host)),*
                }
            }
        }
    };
}

/// Runs a command whose function gets its thread as a trait object, or as it is.
macro_rules! on_host {
    ($host:ty) => {
        (|function: HostFn<$host>, call: OwnCall<'_, '_>, host: &mut ThreadHost| {
            function(&mut call.on::<$host>(host))
        })
    };
}

families! {
    Acl: acl::Function => users::run;
    Scripting: scripting::Function => scripts::run;
    Server: Function => on_host!(ThreadHost);
    Clients: clients::Function => caller::run;
    Cluster: ops::cluster::Function => cluster::run;
    Ops: ops::Function => crate::ops::run;
    Migrate: ops::migrate::Function => migrate::run;
    Memcached: memcached::Function => crate::memcached::run;
    PubSub: pubsub::Function => subscribers::run;
    Queues: jobs::queues::Function => queues::run;
    Observe: observe::Function => reports::run;
    Replication: ::replication::Function => replication::run;
}

/// The functions of commands that use more than the data, by the commands' numbers.
pub(crate) struct Functions(Box<[Option<Callee>]>);

impl Functions {
    /// Creates an empty place for each command of `table`.
    pub(crate) fn none(table: &Table) -> Functions {
        Functions(vec![None; table.len()].into())
    }

    /// Adds the functions of `command`, which the table made from an entry, and of its subcommands.
    fn add<F: Copy>(
        &mut self,
        table: &Table,
        command: &Command,
        entry: &'static engine::Entry<F>,
        callee: impl Fn(F) -> Callee + Copy,
    ) {
        if let engine::Run::Function(function) = entry.run {
            self.0[usize::from(command.id.0)] = Some(callee(function));
        }
        for (sub, entry) in table.subcommands(command).zip(entry.subcommands) {
            self.add(table, sub, entry, callee);
        }
    }

    /// Whether a command has a function here, and so uses more than the data.
    #[cfg(test)]
    pub(crate) fn has(&self, command: &Command) -> bool {
        self.0[usize::from(command.id.0)].is_some()
    }

    /// Runs a call on `host`, its thread.
    pub(crate) fn run(&self, call: OwnCall<'_, '_>, host: &mut ThreadHost) -> CommandResult {
        let callee = self.0[usize::from(call.command.id.0)];
        callee.expect("the table of commands and this one were made of the same entries").run(call, host)
    }
}
