//! What a call may do, and where it may run. Its command's entry says so, with two exceptions: a script or function that
//! declares flags (`no-writes` and the like) says it itself, and EXEC does what the queued commands do.
//!
//! Everything that refuses or delays a call because of what it may do asks here, and not the entry.

use command::{Command, Flag, Route};

use crate::thread::ThreadHost;

/// What a call may do, and where it may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Demands {
    /// It reads data.
    pub(crate) reads: bool,
    /// It changes data.
    pub(crate) writes: bool,
    /// It sends something to replicas: a change, or a message.
    pub(crate) replicates: bool,
    /// It may need memory.
    pub(crate) needs_room: bool,
    /// It runs on a replica whose data are stale.
    pub(crate) bears_stale: bool,
    /// It runs while data are being loaded.
    pub(crate) bears_loading: bool,
}

impl Demands {
    /// What the entry of a command says of a call with these arguments.
    fn declared(command: &Command, args: &[&[u8]]) -> Demands {
        let writes = command.writes(args);
        Demands {
            reads: command.has(Flag::ReadOnly),
            writes,
            replicates: writes || command.has(Flag::MayReplicate),
            needs_room: command.has(Flag::DenyOom),
            bears_stale: command.has(Flag::Stale),
            bears_loading: command.has(Flag::Loading),
        }
    }

    /// What a script with these flags says.
    fn of_script(self, flags: script::Flags) -> Demands {
        Demands {
            writes: !flags.no_writes,
            replicates: !flags.no_writes,
            needs_room: !flags.no_writes && !flags.allow_oom,
            bears_stale: flags.allow_stale,
            ..self
        }
    }

    /// What two calls together demand.
    fn and(self, other: Demands) -> Demands {
        Demands {
            reads: self.reads || other.reads,
            writes: self.writes || other.writes,
            replicates: self.replicates || other.replicates,
            needs_room: self.needs_room || other.needs_room,
            bears_stale: self.bears_stale && other.bears_stale,
            bears_loading: self.bears_loading && other.bears_loading,
        }
    }
}

/// What a call of the current client demands.
pub(crate) fn demands(host: &mut ThreadHost, command: &Command, args: &[&[u8]]) -> Demands {
    if command.entry.route != Route::Queued {
        return demands_of_one(host, command, args);
    }
    let mut all = Demands::declared(command, args);
    let Some(multi) = host.session().multi.take() else { return all };
    for (id, args) in &multi.queued {
        all = all.and(demands_of_one(host, host.shared.table.get(*id), &args.slices()));
    }
    host.session().multi = Some(multi);
    all
}

/// What a call that is not EXEC demands, whoever its client is.
pub(crate) fn demands_of_one(host: &mut ThreadHost, command: &Command, args: &[&[u8]]) -> Demands {
    let declared = Demands::declared(command, args);
    if let Route::Script(callee) = command.entry.route
        && let Some(program) = host.lua.called(args, callee)
        && program.flags().is_declared
    {
        return declared.of_script(program.flags());
    }
    declared
}
