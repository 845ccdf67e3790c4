//! Queues that the server understands: the keys that hold jobs, as `queue-pattern` names them, whatever system put them there.
//!
//! | file | what |
//! |---|---|
//! | `row` | what is known of one queue: the line that QUEUE LIST, `/metrics` and the console show |
//! | `commands/` | QUEUE and its subcommands |
//!
//! Not here: how a queue is recognized and what is counted of it while elements come and go. That is in `keyspace`, beside the data.

#![forbid(unsafe_code)]

mod commands;
mod row;

pub use crate::commands::ENTRIES;
pub use crate::row::{Row, State, WAIT_BOUNDS_MS, Waits};

use command::HostFn;

/// What a command asks of the thread that runs it.
pub trait Door {}

/// A call of a command of this crate.
pub type Ctx<'a, 't> = command::Ctx<'a, 't, dyn Door>;
/// The declaration of a command of this crate.
pub type Entry = command::Entry<HostFn<dyn Door>>;
/// What runs a command of this crate.
type Run = command::Run<HostFn<dyn Door>>;
