//! Collects the parts of files that are not keys: libraries of functions, and the names of scripts that have
//! roamed.

use engine::Command;
use lua::{FunctionEngine, LibrarySet};
use persistence::Extras;
use proactor::Clock;

use crate::commands::change_of;
use crate::libraries::Loading;
use crate::roamed::ROAMED_AUX;
use crate::scripts::Scripts;

/// The libraries found so far.
pub struct FoundLibraries<'a> {
    clock: &'a Clock,
    scripts: &'a Scripts,
    /// Memory limit for libraries while they are loaded.
    memory_bytes_max: usize,
    /// The version of Redis that they see.
    redis_version: u32,
    /// The libraries.
    pub libraries: LibrarySet,
    /// Loads libraries. Each thread then loads them again in its own engine.
    functions: Option<FunctionEngine>,
}

impl<'a> FoundLibraries<'a> {
    /// Starts without libraries. They may use this much memory while they are loaded, and see this version of Redis.
    pub fn new(
        clock: &'a Clock,
        scripts: &'a Scripts,
        memory_bytes_max: usize,
        redis_version: u32,
    ) -> FoundLibraries<'a> {
        let libraries = LibrarySet::default();
        FoundLibraries { clock, scripts, memory_bytes_max, redis_version, libraries, functions: None }
    }

    /// Lets `change` change the libraries. Loading has no time limit, because they have been loaded before.
    fn change<R>(
        &mut self,
        change: impl FnOnce(&mut LibrarySet, &mut FunctionEngine, &mut Loading) -> R,
    ) -> R {
        let new = || FunctionEngine::new(self.memory_bytes_max, self.redis_version);
        let functions = self.functions.get_or_insert_with(new);
        let mut loading = Loading::unlimited(self.clock, self.scripts);
        change(&mut self.libraries, functions, &mut loading)
    }
}

impl Extras for FoundLibraries<'_> {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        if name == ROAMED_AUX.as_bytes() {
            self.scripts.roamed.restore(value);
        }
    }

    fn library(&mut self, code: &[u8]) -> Result<(), String> {
        let loaded = self.change(|set, functions, loading| set.load(code, false, functions, loading));
        loaded.map(|_| ()).map_err(|error| error.to_string())
    }

    fn change_libraries(&mut self, command: &Command, args: &[&[u8]]) -> Result<(), String> {
        let change =
            change_of(&command.full_name).expect("only commands that change libraries have this role");
        let changed = self.change(|set, functions, loading| change(args, set, functions, loading));
        changed.map(|_| ()).map_err(|failure| failure.to_string())
    }
}
