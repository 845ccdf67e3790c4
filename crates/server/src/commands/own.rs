//! How commands that are not on data alone are declared and run.
//!
//! A command of the server has a function that gets its thread by type: [`Ctx::host`](command::Ctx::host) is a
//! [`ThreadHost`]. A command of a component gets that component's *door*, a trait which says what the component needs of the
//! thread. The table of commands knows neither. It has the same entries without their functions; running one of
//! those asks the thread ([`Host::run_own`](command::Host::run_own)), which finds the function here by the command's number.

use command::{Command, CommandResult, HostFn, OwnCall, Table};

use crate::thread::ThreadHost;

/// A call of a command of the server.
pub(crate) type Ctx<'a, 't> = command::Ctx<'a, 't, ThreadHost>;
/// The function of a command of the server.
pub(crate) type Function = HostFn<ThreadHost>;
/// The declaration of a command of the server.
pub(crate) type Entry = command::Entry<Function>;
/// What runs a command of the server.
pub(crate) type Run = command::Run<Function>;

/// Declares whose commands there are, and what these get of the thread that runs them.
macro_rules! families {
    ($($owner:ident: $host:ty;)*) => {
        /// Commands that belong together, by their owner.
        #[derive(Clone, Copy)]
        pub(crate) enum Family {
            $($owner(&'static [command::Entry<HostFn<$host>>])),*
        }

        /// The function of a command.
        #[derive(Clone, Copy)]
        enum Callee {
            $($owner(HostFn<$host>)),*
        }

        impl Family {
            /// The entries as the table of commands has them.
            pub(crate) fn of_host(self) -> Vec<command::Entry> {
                match self {
                    $(Family::$owner(entries) => entries.iter().map(command::Entry::of_host).collect()),*
                }
            }

            /// Adds the functions of the family's commands in `table`, which `find` finds by their names.
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
                    $(Callee::$owner(function) => function(&mut call.on::<$host>(host))),*
                }
            }
        }
    };
}

families! {
    Acl: dyn acl::Door;
    Scripting: dyn scripting::Door;
    Server: ThreadHost;
    Clients: dyn clients::Door;
    Cluster: dyn cluster::Door;
    Control: dyn control::Door;
    Migrate: dyn migrate::Door;
    Memcached: dyn memcached::Door;
    PubSub: dyn pubsub::Door;
    Queues: dyn queues::Door;
    Observe: dyn observe::Door;
    Replication: dyn replication::Door;
}

/// The functions of commands that are not on data alone, by the commands' numbers.
pub(crate) struct Functions(Box<[Option<Callee>]>);

impl Functions {
    /// For the commands of `table`; none has a function yet.
    pub(crate) fn none(table: &Table) -> Functions {
        Functions(vec![None; table.len()].into())
    }

    /// Adds the function of a command of which the table has made `command`, and of its subcommands.
    fn add<F: Copy>(
        &mut self,
        table: &Table,
        command: &Command,
        entry: &'static command::Entry<F>,
        callee: impl Fn(F) -> Callee + Copy,
    ) {
        if let command::Run::Function(function) = entry.run {
            self.0[usize::from(command.id.0)] = Some(callee(function));
        }
        for (sub, entry) in table.subcommands(command).zip(entry.subcommands) {
            self.add(table, sub, entry, callee);
        }
    }

    /// Whether there is a function for a command: then it is not on data alone.
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
