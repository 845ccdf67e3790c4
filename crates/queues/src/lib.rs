//! Queues that the server understands: the keys that hold jobs, as `queue-pattern` names them, whatever system put them there.
//!
//! | file | what |
//! |---|---|
//! | `row` | what is known of one queue: the line that QUEUE LIST, `/metrics` and the console show |
//! | `ends` | from which end of a queue workers take |
//! | `pattern` | which elements are searched for: by a text in them, or by their id |
//! | `id` | whether a payload is the job of an id |
//! | `slices` | how a command works a little at a time, and lets other clients in between |
//! | `sweep` | taking elements out of a queue, for good or into another |
//! | `commands/` | QUEUE and its subcommands |
//!
//! Not here: how a queue is recognized and what is counted of it while elements come and go. That is in `keyspace`, beside the data.

#![forbid(unsafe_code)]

mod commands;
mod ends;
mod id;
mod pattern;
mod row;
mod slices;
mod sweep;

pub use crate::commands::ENTRIES;
pub use crate::row::{Row, State, WAIT_BOUNDS_MS, Waits};
pub use crate::slices::Progress;

use command::{CommandId, HostFn};

/// What a command asks of the thread that runs it.
pub trait Door {
    /// How far the running command of the current client has come, if it has run before.
    fn take_progress(&mut self) -> Option<Box<Progress>>;

    /// Has the command of the current client, which returns without a reply, run again when other clients were served.
    fn go_on_later(&mut self, command: CommandId, args: &[&[u8]], progress: Box<Progress>);

    /// The monotonic clock, in nanoseconds.
    fn now_ns(&mut self) -> u64;
}

/// A call of a command of this crate.
pub type Ctx<'a, 't> = command::Ctx<'a, 't, dyn Door>;
/// The declaration of a command of this crate.
pub type Entry = command::Entry<HostFn<dyn Door>>;
/// What runs a command of this crate.
type Run = command::Run<HostFn<dyn Door>>;
