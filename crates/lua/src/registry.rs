//! The functions that a library has registered so far while it is loaded, and the rules for names.
//!
//! Not here: the arguments and errors of `redis.register_function` (`register.rs`).

use hashbrown::HashSet;

use crate::flags::Flags;
use crate::raw::Function;

/// Approximate memory of a registered function without its texts.
const FUNCTION_BYTES: usize = 200;

/// The functions that a library has registered so far.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) functions: Vec<Registered>,
    /// In lower case, because calls ignore case.
    names: HashSet<Vec<u8>, foldhash::fast::FixedState>,
    /// Memory of all functions, which counts as the library's while it is loaded.
    bytes: usize,
}

/// A function that a library has registered.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) name: Vec<u8>,
    pub(crate) description: Option<Vec<u8>>,
    pub(crate) flags: Flags,
    pub(crate) callback: Function,
}

impl Registry {
    /// Adds the memory of a function. Returns the sum for all functions, in bytes.
    pub(crate) fn add_bytes_of(&mut self, name: &[u8], description: Option<&[u8]>) -> usize {
        self.bytes += FUNCTION_BYTES + 2 * name.len() + description.map_or(0, <[u8]>::len);
        self.bytes
    }

    /// Claims a name. False if another function has it.
    pub(crate) fn take_name(&mut self, name: &[u8]) -> bool {
        self.names.insert(name.to_ascii_lowercase())
    }
}

/// Whether a library or a function may have this name.
pub(crate) fn is_valid_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
