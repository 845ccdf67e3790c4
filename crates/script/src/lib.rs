//! Lua scripts and libraries of functions as Redis 7.2 runs them.
//!
//! A script is a [`Script`] (source, name, flags), kept for all threads in a [`ScriptCache`]. Every thread has an
//! [`Engine`], one Lua 5.1 state, that compiles scripts and runs them. A script reaches the server through a [`Host`].
//!
//! ```text
//! EVALSHA: engine.flags(sha) ── known ──> checks of the caller ──> engine.eval(sha, keys, args, host, reply)
//!              │ None                                                ^
//!              └─> cache.get(sha) ── Some(script) ──> engine.compile(script)        None: NOSCRIPT
//! EVAL, SCRIPT LOAD: Script::new(source) ──> engine.compile ──> cache.insert
//! ```
//!
//! Invariants:
//! - no script makes this crate panic or the process crash, and its memory has a limit;
//! - a script leaves nothing behind for the next one (except settings of `cjson` and the state of `math.random`, as in Redis);
//! - an [`Interrupt`] ends a script whatever it tries.
//!
//! Functions are the same with a state of their own: a [`Library`] is code, kept for all threads in a [`LibrarySet`], and every
//! thread has a [`FunctionEngine`] that loads libraries and runs their functions.
//!
//! Not here: which commands a script may use, time limits, replication, the debugger. Calls of native functions that can take
//! long count what they do (`steps`) and are interrupted like loops; the compiler is not.

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

/// How many Lua instructions run between two calls of [`Host::tick`]: some ten microseconds' worth.
pub const TICK_INSTRUCTION_COUNT: i32 = 4096;
