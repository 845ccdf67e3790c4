//! A thread's Lua state for functions, separate from that of scripts, and the libraries loaded in it.
//!
//! The code of a library runs once, when it is loaded, and can only call `redis.register_function` and
//! `redis.log`. Its functions see the same globals as scripts except `KEYS` and `ARGV`, which they get as
//! arguments. A library's local variables keep their values, separately on each thread, until the library is
//! replaced or deleted.

use std::sync::Arc;

use hashbrown::HashMap;
use resp::Reply;

use crate::engine::{MEMORY_BYTES_MAX, Outcome, install_libraries, write_error};
use crate::flags::Flags;
use crate::host::Host;
use crate::library::{Head, Library, LibraryFunction, LibrarySet};
use crate::raw::{Ending, Function, LoadFailure, LuaState, Stack};
use crate::registry::Registered;
use crate::script::{ReachSeen, ScriptError};
use crate::{answer, api};

/// A library as it is loaded in this engine.
struct Loaded {
    library: Arc<Library>,
    /// In the order of the library's functions.
    callbacks: Vec<Function>,
}

/// A Lua state and the libraries that are loaded in it. Belongs to one thread.
pub struct FunctionEngine {
    state: LuaState,
    /// Keyed by address: see the head of `library`.
    loaded: HashMap<*const Library, Loaded, foldhash::fast::FixedState>,
}

impl FunctionEngine {
    /// An engine whose libraries and functions may use `memory_bytes_max`, at most [`MEMORY_BYTES_MAX`], and see this
    /// version of Redis, which has a byte for each part.
    #[must_use]
    pub fn new(memory_bytes_max: usize, version: u32) -> FunctionEngine {
        let install_for_loading = |stack: &mut Stack<'_>| {
            api::install_for_loading(stack, version).expect("the libraries fit into an empty state");
        };
        let install = |stack: &mut Stack<'_>| install_libraries(stack, version);
        let memory_bytes_max = memory_bytes_max.min(MEMORY_BYTES_MAX);
        let state = LuaState::for_functions(memory_bytes_max, install, install_for_loading);
        FunctionEngine { state, loaded: HashMap::default() }
    }

    /// Loads a new library. `host` can interrupt it if it takes too long.
    pub(crate) fn load(&mut self, code: &[u8], host: &mut dyn Host) -> Result<Arc<Library>, ScriptError> {
        let head = Head::parse(code)?;
        let (functions, callbacks) = self
            .register(head.body, host)?
            .into_iter()
            .map(|Registered { name, description, flags, callback }| {
                let flags = Flags { is_declared: true, ..flags };
                (LibraryFunction { name, description, flags, reach: ReachSeen::default() }, callback)
            })
            .unzip();
        let library = Arc::new(Library::new(head.name, code, functions));
        self.loaded.insert(Arc::as_ptr(&library), Loaded { library: Arc::clone(&library), callbacks });
        Ok(library)
    }

    /// Loads a library that another engine has already loaded, unless it is loaded here, too.
    ///
    /// # Errors If there is not enough memory for it, or `host` interrupts it.
    pub fn load_again(&mut self, library: &Arc<Library>, host: &mut dyn Host) -> Result<(), ScriptError> {
        if self.loaded.contains_key(&Arc::as_ptr(library)) {
            return Ok(());
        }
        let registered = self.register(Head::parse(library.code())?.body, host)?;
        // The code is the same, and while loading it has no access to randomness or time.
        let is_same =
            registered.iter().map(|function| &function.name).eq(library.functions().iter().map(|f| &f.name));
        assert!(is_same, "a library registers the same functions whenever it is loaded");
        let callbacks = registered.into_iter().map(|function| function.callback).collect();
        self.loaded.insert(Arc::as_ptr(library), Loaded { library: Arc::clone(library), callbacks });
        Ok(())
    }

    fn register(&mut self, body: &[u8], host: &mut dyn Host) -> Result<Vec<Registered>, ScriptError> {
        self.state.load(body, host).map_err(|failure| match failure {
            LoadFailure::Compiling(text) => ScriptError::new(&[b"ERR Error compiling function: ", &text]),
            LoadFailure::Running(text) => ScriptError::new(&[b"ERR Error registering functions: ", &text]),
        })
    }

    /// Runs a function of a library and writes its reply. [`Outcome::Missing`] if the library is not loaded
    /// here.
    pub fn call(
        &mut self,
        library: &Arc<Library>,
        index: usize,
        keys: &[&[u8]],
        args: &[&[u8]],
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Outcome {
        let Some(loaded) = self.loaded.get(&Arc::as_ptr(library)) else { return Outcome::Missing };
        let name = &library.functions()[index].name;
        let finish = |stack: &mut Stack<'_>, ending| match ending {
            Ending::Returned => Outcome::Returned(answer::write(stack, reply)),
            Ending::Raised => write_error(stack, name, reply),
        };
        self.state.run(&loaded.callbacks[index], keys, args, host, finish).unwrap_or(Outcome::Retry)
    }

    /// Unloads all libraries that are not in `set`.
    pub fn keep_only(&mut self, set: &LibrarySet) {
        let gone: Vec<Loaded> = self
            .loaded
            .extract_if(|_, loaded| !set.holds(&loaded.library))
            .map(|(_, loaded)| loaded)
            .collect();
        if gone.is_empty() {
            return;
        }
        for callback in gone.into_iter().flat_map(|loaded| loaded.callbacks) {
            self.state.forget(callback);
        }
        self.state.collect_garbage();
    }

    /// Memory held by the Lua state.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.state.memory_bytes()
    }

    /// Number of libraries loaded here.
    #[must_use]
    pub fn loaded_count(&self) -> usize {
        self.loaded.len()
    }
}
