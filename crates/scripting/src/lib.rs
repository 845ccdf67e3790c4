//! EVAL, SCRIPT, FCALL and FUNCTION: scripts and libraries that all threads share, and how a thread runs
//! them.
//!
//! ```text
//!   all threads   Scripts (scripts.rs): the cache, what roamed, the libraries (libraries.rs), what is slow (slow.rs)
//!                    ▲
//!   each thread   States (states.rs): its Lua states, what they have compiled and loaded
//!                    ▲
//!   each run      running.rs: the shards that a script touches (roaming.rs), its time limits
//!                    │
//!                    ▼
//!           ScriptHost (host.rs): rights and memory of its commands, what happens meanwhile
//! ```
//!
//! The server has one [`Scripts`], and one [`States`] for each thread. The commands ([`ENTRIES`]) work with a
//! [`ScriptThread`].
//!
//! Libraries are an immutable set with a version. A thread that runs a function compares versions and loads
//! what it lacks into a Lua state of its own. A function that holds no shard starts again if the set has
//! changed before it entered its first shard.
//!
//! Not here: Lua and its libraries (crate `lua`), and how other clients are served while a script is slow
//! (`server`).

#![forbid(unsafe_code)]

mod commands;
mod demands;
mod found;
mod host;
mod libraries;
mod program;
mod roamed;
mod roaming;
mod running;
mod scripts;
mod slow;
mod states;

pub use commands::{Change, ENTRIES, Entry, Function, change_of};
pub use demands::Demands;
pub use found::FoundLibraries;
pub use host::{Answer, ScriptHost, ScriptSettings, ScriptThread, Standing};
pub use libraries::{Libraries, Loading};
pub use program::{Failure, Program};
pub use roamed::{ROAMED_AUX, Roamed};
pub use scripts::{Log, Scripts};
pub use slow::{Slow, SlowCall, SlowKind, SlowScript};
pub use states::States;
