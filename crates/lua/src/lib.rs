//! Lua scripts and libraries of functions as Redis 7.2 runs them.
//!
//! A script is a [`Script`] (source, name, flags). All threads share the scripts in a [`ScriptCache`]. Each
//! thread has an [`Engine`], a Lua 5.1 state that compiles and runs scripts. A script accesses the server
//! through a [`Host`].
//!
//! ```text
//! EVALSHA: engine.flags(sha) ── known ──> checks of the caller ──> engine.eval(sha, keys, args, host, reply)
//!              │ None                                                ^
//!              └─> cache.get(sha) ── Some(script) ──> engine.compile(script)        None: NOSCRIPT
//! EVAL, SCRIPT LOAD: Script::new(source) ──> engine.compile ──> cache.insert
//! ```
//!
//! Invariants:
//! - no script can make this crate panic or the process crash, and its memory is limited;
//! - a script leaves nothing behind for the next one (except settings of `cjson` and the state of `math.random`, as in Redis);
//! - an [`Interrupt`] ends a script, no matter what the script tries.
//!
//! Functions work the same way with a state of their own: a [`Library`] is code, all threads share a
//! [`LibrarySet`], and each thread has a [`FunctionEngine`] that loads libraries and runs their functions.
//!
//! Not here: which commands a script may use, time limits, replication, the debugger. Native functions that
//! can take long count their work (`steps`) and can be interrupted like loops. The compiler cannot.

mod answer;
mod api;
mod bit;
mod cache;
mod cjson;
mod cmsgpack;
mod engine;
mod error;
mod flags;
mod function_engine;
mod host;
mod library;
mod pattern;
mod random;
mod raw;
mod register;
mod registry;
mod script;
mod steps;
mod structure;
mod value;

pub use answer::Errors;
pub use cache::{EVAL_SCRIPT_COUNT_MAX, Origin, ScriptCache};
pub use engine::{Engine, MEMORY_BYTES_DEFAULT, MEMORY_BYTES_MAX, Outcome};
pub use flags::Flags;
pub use function_engine::FunctionEngine;
pub use host::{Host, Interrupt};
pub use library::{Library, LibraryFunction, LibrarySet};
pub use script::{Reach, ReachSeen, Script, ScriptError, Sha1Hex};

/// Lua instructions between two calls of [`Host::tick`]: about ten microseconds.
pub const TICK_INSTRUCTION_COUNT: i32 = 4096;
