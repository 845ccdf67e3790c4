//! Libraries of functions: the part that all threads share.
//!
//! ```text
//! #!lua name=counting
//! redis.register_function('count', function(keys, args) return redis.call('INCR', keys[1]) end)
//! ```
//!
//! A [`Library`] never changes, and neither does a shared [`LibrarySet`]: loading or deleting a library makes
//! a new set. Each thread loads the code itself ([`crate::FunctionEngine`]), so only the code is kept.
//! Libraries are identified by address, so a library that was replaced by an equal one is loaded again.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::error::until_zero;
use crate::flags::Flags;
use crate::function_engine::FunctionEngine;
use crate::host::Host;
use crate::registry::is_valid_name;
use crate::script::{ReachSeen, ScriptError};

/// A library's code, and the functions that it registers when it is loaded.
#[derive(Debug)]
pub struct Library {
    name: Vec<u8>,
    code: Box<[u8]>,
    functions: Vec<LibraryFunction>,
}

/// A function of a library.
#[derive(Debug)]
pub struct LibraryFunction {
    /// Letters, digits and `_`. Calls ignore case.
    pub name: Vec<u8>,
    /// For human readers.
    pub description: Option<Vec<u8>>,
    /// The flags that it declares.
    pub flags: Flags,
    /// Which keys it has been seen to touch.
    pub reach: ReachSeen,
}

impl Library {
    pub(crate) fn new(name: Vec<u8>, code: &[u8], functions: Vec<LibraryFunction>) -> Library {
        Library { name, code: code.into(), functions }
    }

    /// Its name, which is case-sensitive.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The whole code, with the first line.
    #[must_use]
    pub fn code(&self) -> &[u8] {
        &self.code
    }

    /// The functions in the order in which they were registered.
    #[must_use]
    pub fn functions(&self) -> &[LibraryFunction] {
        &self.functions
    }

    fn memory_bytes(&self) -> usize {
        let text_bytes = |function: &LibraryFunction| {
            2 * function.name.len() + function.description.as_ref().map_or(0, Vec::len)
        };
        let entry_bytes = size_of::<LibraryFunction>() + size_of::<(Vec<u8>, (Arc<Library>, usize))>();
        let functions: usize = self.functions.iter().map(|function| text_bytes(function) + entry_bytes).sum();
        size_of::<Library>() + self.name.len() + self.code.len() + functions
    }
}

/// The parsed first line of a library.
pub(crate) struct Head<'a> {
    pub(crate) name: Vec<u8>,
    /// The Lua part. It starts with the newline that ends the first line, so line numbers stay right.
    pub(crate) body: &'a [u8],
}

impl Head<'_> {
    pub(crate) fn parse(code: &[u8]) -> Result<Head<'_>, ScriptError> {
        let error = |parts: &[&[u8]]| ScriptError::new(&[b"ERR ", &parts.concat()]);
        if !code.starts_with(b"#!") {
            return Err(error(&[b"Missing library metadata"]));
        }
        let invalid = || error(&[b"Invalid library metadata"]);
        let end = until_zero(code).iter().position(|byte| *byte == b'\n').ok_or_else(invalid)?;
        let parts = resp::split_args(&code[..end]).ok_or_else(invalid)?;
        let (engine, options) = parts.split_first().ok_or_else(invalid)?;
        let mut name = None;
        for option in options {
            let value = option.split_at_checked(5).filter(|(key, _)| key.eq_ignore_ascii_case(b"name="));
            let Some((_, value)) = value else {
                return Err(error(&[b"Invalid metadata value given: ", until_zero(option)]));
            };
            if name.replace(value.to_vec()).is_some() {
                return Err(error(&[b"Invalid metadata value, name argument was given multiple times"]));
            }
        }
        let name = name.ok_or_else(|| error(&[b"Library name was not given"]))?;
        if !is_valid_name(&name) {
            return Err(error(&[b"Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"]));
        }
        let engine = engine.get(2..).unwrap_or_default();
        if !engine.eq_ignore_ascii_case(b"lua") {
            return Err(error(&[b"Engine '", engine, b"' not found"]));
        }
        Ok(Head { name, body: &code[end..] })
    }
}

/// Libraries by name. No two have a function of the same name.
#[derive(Clone, Debug, Default)]
pub struct LibrarySet {
    libraries: BTreeMap<Vec<u8>, Arc<Library>>,
    /// By name in lower case: the library, and the function's index in it.
    functions: HashMap<Vec<u8>, (Arc<Library>, usize), foldhash::fast::FixedState>,
    memory_bytes: usize,
}

impl LibrarySet {
    /// The libraries, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Library>> {
        self.libraries.values()
    }

    /// Number of libraries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.libraries.len()
    }

    /// Whether there are no libraries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.libraries.is_empty()
    }

    /// Number of functions.
    #[must_use]
    pub fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// Approximate memory used by the code and the descriptions of the functions.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Whether the set has this library, not just one of the same name.
    #[must_use]
    pub fn holds(&self, library: &Arc<Library>) -> bool {
        self.libraries.get(library.name()).is_some_and(|held| Arc::ptr_eq(held, library))
    }

    /// Finds the function with this name, in any case: its library, and its index there.
    #[must_use]
    pub fn function(&self, name: &[u8]) -> Option<(&Arc<Library>, usize)> {
        let (library, index) = self.functions.get(&name.to_ascii_lowercase())?;
        Some((library, *index))
    }

    /// Loads a library and adds it. If `replaces`, it may replace one of the same name.
    ///
    /// # Errors Whatever is wrong with the library, checked in Redis' order. The set is unchanged then.
    pub fn load(
        &mut self,
        code: &[u8],
        replaces: bool,
        engine: &mut FunctionEngine,
        host: &mut dyn Host,
    ) -> Result<Arc<Library>, ScriptError> {
        let head = Head::parse(code)?;
        if !replaces && self.libraries.contains_key(&head.name) {
            return Err(ScriptError::new(&[b"ERR Library '", &head.name, b"' already exists"]));
        }
        let library = engine.load(code, host)?;
        if library.functions.is_empty() {
            return Err(ScriptError::new(&[b"ERR No functions registered"]));
        }
        let replaced = self.remove(&head.name);
        match self.check_functions(&library) {
            Ok(()) => {
                self.insert(Arc::clone(&library));
                Ok(library)
            }
            Err(error) => {
                replaced.into_iter().for_each(|library| self.insert(library));
                Err(error)
            }
        }
    }

    /// Removes a library.
    pub fn remove(&mut self, name: &[u8]) -> Option<Arc<Library>> {
        let library = self.libraries.remove(name)?;
        for function in &library.functions {
            self.functions.remove(&function.name.to_ascii_lowercase());
        }
        self.memory_bytes -= library.memory_bytes();
        Some(library)
    }

    /// This set with all libraries of `other`. If `replace`, these replace libraries of the same name.
    ///
    /// # Errors If the name of a library (without `replace`) or of a function is taken.
    pub fn join(&self, other: &LibrarySet, replace: bool) -> Result<LibrarySet, ScriptError> {
        let mut joined = self.clone();
        for library in other.iter() {
            if joined.remove(library.name()).is_some() && !replace {
                return Err(ScriptError::new(&[b"ERR Library ", library.name(), b" already exists"]));
            }
        }
        for library in other.iter() {
            joined.check_functions(library)?;
            joined.insert(Arc::clone(library));
        }
        Ok(joined)
    }

    /// Fails if another library has a function of the same name.
    fn check_functions(&self, library: &Library) -> Result<(), ScriptError> {
        let taken = library.functions.iter().find(|function| self.function(&function.name).is_some());
        taken.map_or(Ok(()), |function| {
            Err(ScriptError::new(&[b"ERR Function ", &function.name, b" already exists"]))
        })
    }

    fn insert(&mut self, library: Arc<Library>) {
        for (index, function) in library.functions.iter().enumerate() {
            self.functions.insert(function.name.to_ascii_lowercase(), (Arc::clone(&library), index));
        }
        self.memory_bytes += library.memory_bytes();
        self.libraries.insert(library.name.clone(), library);
    }
}
