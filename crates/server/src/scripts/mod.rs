//! Owns what a thread needs to run scripts and functions.

mod running;

pub(crate) use running::run;

use clients::session::Aside;
use proactor::Clock;
use scripting::States;

use crate::shared::Shared;

/// See the head of this file.
pub(crate) struct ThreadScripts {
    /// Their Lua states.
    pub(crate) lua: States,
    /// Sessions that are put aside while a script runs.
    pub(crate) aside: Aside,
    /// Whether the client that called the running script was killed meanwhile.
    pub(crate) is_caller_killed: bool,
}

impl ThreadScripts {
    /// The scripts of thread number `id`.
    pub(crate) fn new(id: u16, shared: &'static Shared, clock: Clock) -> ThreadScripts {
        let settings = &shared.settings;
        let (bytes_max, version) = (settings.script_memory_bytes_max(), settings.redis_version_number());
        let lua = States::new(&shared.scripts, usize::from(id), clock, bytes_max, version);
        ThreadScripts { lua, aside: Aside::default(), is_caller_killed: false }
    }
}
