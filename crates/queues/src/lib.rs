//! Queues that the server understands: the keys that hold jobs, as `queue-pattern` names them, whatever system put them there.
//!
//! | file | what |
//! |---|---|
//! | `beside` | which queues belong together |
//! | `row` | what is known of one queue: the line that QUEUE LIST, `/metrics` and the console show |
//! | `commands/` | QUEUE and its subcommands |
//!
//! Not here: how a queue is recognized and what is counted of it while elements come and go. That is in `keyspace`, beside the data.

#![forbid(unsafe_code)]

mod beside;
mod commands;
mod row;

pub use crate::commands::ENTRIES;
pub use crate::row::{Row, Waits, rows};
pub use ds::queue::WAIT_BOUNDS_MS;
pub use keyspace::queue::State;

use command::HostFn;

/// What a command asks of the thread that runs it.
pub trait Door {
    /// How a client calls itself.
    fn label(&self, client: u64) -> Label;
}

/// How a client calls itself, and the library that it uses, as far as it said so.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Label {
    /// Its name.
    pub name: Box<[u8]>,
    /// The name and the version of the library.
    pub library: Box<[u8]>,
}

/// A call of a command of this crate.
pub type Ctx<'a, 't> = command::Ctx<'a, 't, dyn Door>;
/// The declaration of a command of this crate.
pub type Entry = command::Entry<HostFn<dyn Door>>;
/// What runs a command of this crate.
type Run = command::Run<HostFn<dyn Door>>;
