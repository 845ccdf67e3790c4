//! Tells what a call may do, and where it may run. The command's entry declares that, unless a script or
//! function declares flags (`no-writes` and the like). EXEC may do whatever its queued commands may.
//!
//! Code that refuses or delays a call because of what it may do asks here, and not the entry.

use engine::{Command, Flag, Route};

use crate::states::States;

/// The effects that a call may have, and the states of the server in which it may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demands {
    /// It reads data.
    pub reads: bool,
    /// It changes data.
    pub writes: bool,
    /// Its reply may depend on data.
    pub shows_data: bool,
    /// It sends something to replicas: a change, or a message.
    pub replicates: bool,
    /// It may need memory.
    pub needs_room: bool,
    /// It runs on a replica whose data are stale.
    pub bears_stale: bool,
    /// It runs while data are being loaded.
    pub bears_loading: bool,
}

impl Demands {
    /// The demands that the command's entry declares for a call with these arguments.
    fn declared(command: &Command, args: &[&[u8]]) -> Demands {
        let writes = command.writes(args);
        Demands {
            reads: command.has(Flag::ReadOnly),
            writes,
            shows_data: command.is_write()
                || command.has(Flag::ReadOnly)
                || matches!(command.entry.route, Route::Script(_)),
            replicates: writes || command.has(Flag::MayReplicate),
            needs_room: command.has(Flag::DenyOom),
            bears_stale: command.has(Flag::Stale),
            bears_loading: command.has(Flag::Loading),
        }
    }

    /// Replaces the demands about which a script declares something by its flags.
    fn of_script(self, flags: lua::Flags) -> Demands {
        Demands {
            writes: !flags.no_writes,
            shows_data: !flags.allow_stale,
            replicates: !flags.no_writes,
            needs_room: !flags.no_writes && !flags.allow_oom,
            bears_stale: flags.allow_stale,
            ..self
        }
    }

    /// The demands of a call, including its script or function; for EXEC see [`and`](Self::and).
    pub fn of(lua: &mut States, command: &Command, args: &[&[u8]]) -> Demands {
        let declared = Demands::declared(command, args);
        if let Route::Script(callee) = command.entry.route
            && let Some(program) = lua.called(args, callee)
            && program.flags().is_declared
        {
            return declared.of_script(program.flags());
        }
        declared
    }

    /// The demands of two calls together.
    #[must_use]
    pub fn and(self, other: Demands) -> Demands {
        Demands {
            reads: self.reads || other.reads,
            writes: self.writes || other.writes,
            shows_data: self.shows_data || other.shows_data,
            replicates: self.replicates || other.replicates,
            needs_room: self.needs_room || other.needs_room,
            bears_stale: self.bears_stale && other.bears_stale,
            bears_loading: self.bears_loading && other.bears_loading,
        }
    }
}
