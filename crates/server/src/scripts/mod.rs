//! Scripts and functions: those that all threads know, and how a thread runs them.
//!
//! Not here: Lua and its libraries (crate `script`), and the commands that call scripts (`commands/scripting.rs`,
//! `commands/function.rs`).

pub(crate) mod libraries;
pub(crate) mod roamed;
pub(crate) mod roaming;
pub(crate) mod running;
pub(crate) mod store;
