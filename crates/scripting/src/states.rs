//! A thread's Lua states: which of the shared scripts and libraries they have compiled and loaded.
//!
//! Not here: running them (`running.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use engine::{Callee, CommandError, Needs, Shards, parse_i64};
use heap::{Exempt, Exemption};
use lua::{Engine, FunctionEngine, LibrarySet, Origin, Reach, Script, ScriptError, Sha1Hex};
use proactor::Clock;
use shard::Placement;

use crate::libraries::Loading;
use crate::program::{Failure, Program, Wanted};
use crate::scripts::Scripts;

/// The Lua states of a thread.
pub struct States {
    pub(crate) scripts: &'static Scripts,
    /// The thread's number.
    pub(crate) thread: usize,
    pub(crate) clock: Clock,
    memory_bytes_max: usize,
    /// The version of Redis that scripts see.
    redis_version: u32,
    /// The state for scripts. Created for the first script, and lent while one runs.
    engine: Option<Box<Engine>>,
    /// The state for functions. Created and lent in the same way.
    functions: Option<Box<FunctionEngine>>,
    /// The libraries of `libraries_version`, which may have been replaced since.
    libraries: Arc<LibrarySet>,
    libraries_version: u64,
    /// The last script or function that was asked for. One request asks several times, and the next request
    /// often asks for the same.
    recent: Option<Program>,
    is_running: bool,
    /// The memory of both states: as in Redis it does not count against `maxmemory`, since
    /// `script-memory-bytes-max` limits it.
    memory: Exemption,
}

/// The states while a script runs in one of them.
pub(crate) struct Running {
    pub(crate) engine: Option<Box<Engine>>,
    pub(crate) functions: Option<Box<FunctionEngine>>,
    /// The version of the libraries that the functions belong to.
    pub(crate) libraries_version: u64,
}

impl States {
    /// Without states yet, for the thread with this number. Each state may use this much memory, and sees this version of
    /// Redis.
    pub fn new(
        scripts: &'static Scripts,
        thread: usize,
        clock: Clock,
        memory_bytes_max: usize,
        redis_version: u32,
    ) -> States {
        States {
            scripts,
            thread,
            clock,
            memory_bytes_max,
            redis_version,
            engine: None,
            functions: None,
            libraries: Arc::default(),
            libraries_version: 0,
            recent: None,
            is_running: false,
            memory: Exemption::none(Exempt::Scripts),
        }
    }

    fn engine(&mut self) -> &mut Engine {
        let (memory_bytes_max, version) = (self.memory_bytes_max, self.redis_version);
        self.engine.get_or_insert_with(|| Box::new(Engine::new(memory_bytes_max, version)))
    }

    fn functions(&mut self) -> &mut FunctionEngine {
        let (memory_bytes_max, version) = (self.memory_bytes_max, self.redis_version);
        self.functions.get_or_insert_with(|| Box::new(FunctionEngine::new(memory_bytes_max, version)))
    }

    /// The script that a client wants, compiled on this thread. A source is hashed at most once.
    pub(crate) fn script(&mut self, wanted: &Wanted) -> Result<&Arc<Script>, Failure> {
        if !self.recent_script().is_some_and(|script| wanted.is(script)) {
            self.recent = Some(Program::Script(self.find_script(wanted)?));
        }
        Ok(self.recent_script().expect("it was found just now, and stays while nobody flushes"))
    }

    #[inline]
    fn recent_script(&self) -> Option<&Arc<Script>> {
        match &self.recent {
            Some(Program::Script(script)) => Some(script),
            Some(Program::Function(..)) | None => None,
        }
    }

    fn find_script(&mut self, wanted: &Wanted) -> Result<Arc<Script>, Failure> {
        let sha = match wanted {
            Wanted::Source(source) => Sha1Hex::of(source),
            Wanted::Named(name) => Sha1Hex::parse(name).ok_or(CommandError::NO_SCRIPT)?,
        };
        if let Some(script) = self.engine().script(&sha) {
            return Ok(script.clone());
        }
        let known = self.scripts.cache().get(&sha);
        let script = match (known, wanted) {
            (Some(script), _) => script,
            (None, Wanted::Named(_)) => return Err(CommandError::NO_SCRIPT.into()),
            (None, Wanted::Source(source)) => {
                let script = Arc::new(Script::of_name(sha, source)?);
                self.engine().compile(&script)?;
                if self.scripts.roamed.has(sha.as_str().as_bytes()) {
                    script.reach().note(Reach::Roaming, 0);
                }
                // If another thread was faster, its script is used, so that all threads forget the same one.
                self.scripts.cache().insert(script, Origin::Eval)
            }
        };
        self.engine().compile(&script)?;
        Ok(script)
    }

    /// The function with this name, in the libraries as of their last renewal.
    fn function(&mut self, name: &[u8]) -> Option<&Program> {
        let is_recent = match &self.recent {
            Some(Program::Function(library, index)) => library.functions()[*index].name == name,
            Some(Program::Script(_)) | None => false,
        };
        if !is_recent {
            let (library, index) = self.libraries.function(name)?;
            self.recent = Some(Program::Function(library.clone(), index));
        }
        self.recent.as_ref()
    }

    /// Takes out the script for a call. The caller gives it back after the call by [`keep`](Self::keep).
    pub(crate) fn take(&mut self, wanted: &Wanted) -> Result<Program, Failure> {
        self.script(wanted)?;
        Ok(self.recent.take().expect("it is what was asked for last"))
    }

    /// Takes out the function with this name. The caller gives it back, as for [`take`](Self::take).
    pub(crate) fn take_function(&mut self, name: &[u8]) -> Option<Program> {
        self.function(name)?;
        self.recent.take()
    }

    /// Gives back what [`take`](Self::take) took, for the next call.
    pub(crate) fn keep(&mut self, program: Program) {
        self.recent = Some(program);
    }

    /// Renews the libraries if they have been replaced, unless a script is running.
    #[inline]
    pub fn renew_libraries(&mut self) {
        let is_new = self.scripts.libraries.version() != self.libraries_version;
        if is_new && !self.is_running {
            self.keep_libraries();
        }
    }

    /// Renews the libraries and unloads the old ones on this thread.
    #[cold]
    fn keep_libraries(&mut self) {
        (self.libraries_version, self.libraries) = self.scripts.libraries.get();
        self.recent = None;
        let all = self.libraries.iter().flat_map(|library| library.functions());
        for function in all.filter(|function| self.scripts.roamed.has(&function.name)) {
            function.reach.note(Reach::Roaming, 0);
        }
        if let Some(functions) = &mut self.functions {
            functions.keep_only(&self.libraries);
        }
        self.note_bytes();
    }

    /// Loads a function's library on this thread, unless it is loaded already.
    pub(crate) fn load_library_of(&mut self, program: &Program) -> Result<(), ScriptError> {
        let Program::Function(library, _) = program else { return Ok(()) };
        let (clock, scripts) = (self.clock.clone(), self.scripts);
        self.functions().load_again(library, &mut Loading::unlimited(&clock, scripts))
    }

    /// Changes the libraries of all threads by `change`, which may load some here. All shards have to be
    /// entered.
    pub(crate) fn change_libraries<R>(
        &mut self,
        change: impl FnOnce(&mut LibrarySet, &mut FunctionEngine, &mut Loading) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let (clock, scripts) = (self.clock.clone(), self.scripts);
        let mut set = LibrarySet::clone(&scripts.libraries.get().1);
        let mut result = change(&mut set, self.functions(), &mut Loading::limited(&clock, scripts));
        if set.memory_bytes() > self.memory_bytes_max {
            result = result.and(Err(CommandError::LIBRARIES_TOO_LARGE.into()));
        }
        if result.is_ok() {
            scripts.libraries.set(set);
        }
        self.keep_libraries();
        result
    }

    /// The script or function that a call runs; `None` if the call will be refused.
    pub fn called(&mut self, args: &[&[u8]], callee: Callee) -> Option<&Program> {
        let &what = args.get(1)?;
        if self.is_running {
            // The engine is lent.
            return None;
        }
        let wanted = match callee {
            Callee::Source => Wanted::Source(what),
            Callee::Sha1 => Wanted::Named(what),
            Callee::Function => {
                self.renew_libraries();
                return self.function(what);
            }
        };
        self.script(&wanted).ok()?;
        self.recent.as_ref()
    }

    /// The shards that a call needs besides those of its keys: the roaming shard, unless the script has kept
    /// to its keys `trusted_after` times. Once is enough if the names of its declared keys colocate them,
    /// because that also applies to the names that it builds.
    pub fn needs(&mut self, args: &[&[u8]], callee: Callee, trusted_after: u32, shards: &Shards) -> Needs {
        let (may_roam, may_roam_if_colocated) = match self.called(args, callee) {
            Some(program) => {
                let reach = program.reach();
                (reach.may_roam(trusted_after), reach.may_roam(trusted_after.min(1)))
            }
            // A script that is unknown now may be known when its turn comes.
            None => (true, true),
        };
        let is_trusted = !may_roam || !may_roam_if_colocated && are_colocated(args, shards.placement());
        if is_trusted || shards.len() <= 1 { Needs::Nothing } else { Needs::One(shards.roaming()) }
    }

    /// Lends the states to a script that begins.
    pub(crate) fn begin(&mut self) -> Running {
        self.is_running = true;
        self.scripts.thread(self.thread).note_running(true);
        let (engine, functions) = (self.engine.take(), self.functions.take());
        Running { engine, functions, libraries_version: self.libraries_version }
    }

    /// Takes the states back.
    pub(crate) fn end(&mut self, running: Running) {
        self.is_running = false;
        self.scripts.thread(self.thread).note_running(false);
        (self.engine, self.functions) = (running.engine, running.functions);
        self.note_bytes();
    }

    /// Publishes how much memory the states use.
    fn note_bytes(&mut self) {
        let script_bytes = self.engine.as_ref().map_or(0, |engine| engine.memory_bytes());
        let function_bytes = self.functions.as_ref().map_or(0, |functions| functions.memory_bytes());
        self.memory.resize(script_bytes + function_bytes);
        let seen = self.scripts.thread(self.thread);
        seen.script_bytes.store(script_bytes as u64, Ordering::Relaxed);
        seen.function_bytes.store(function_bytes as u64, Ordering::Relaxed);
    }
}

/// Whether all declared keys of a call have the same hash tag, or the same part by a colocation rule.
fn are_colocated(args: &[&[u8]], placement: &Placement) -> bool {
    let key_count = args.get(2).and_then(|count| parse_i64(count).ok()).unwrap_or(0) as usize;
    let Some((&first, others)) = args.get(3..).and_then(|keys| keys.get(..key_count)?.split_first()) else {
        return false;
    };
    let part = placement.placing_part(first);
    part.len() < first.len() && others.iter().all(|key| placement.placing_part(key) == part)
}
