//! Queues that the server understands: the keys that hold jobs, as `queue-pattern` names them, whatever system put them there.
//!
//! | file | what |
//! |---|---|
//! | `beside` | which queues belong together |
//! | `ends` | from which end of a queue workers take |
//! | `pattern` | which elements are searched for: by a text in them, or by their id |
//! | `id` | whether a payload is the job of an id |
//! | `slices` | how a command works a little at a time, and lets other clients in between |
//! | `sweep` | taking elements out of a queue, for good or into another |
//! | `commands/` | QUEUE and its subcommands |
//!
//! Not here: how a queue is recognized, and its figures. They are in `keyspace`, beside the data, and so is the row
//! that QUEUE LIST, INFO, `/metrics` and the console show.

#![forbid(unsafe_code)]

mod beside;
mod commands;
mod ends;
mod id;
mod pattern;
mod slices;
mod sweep;

pub use crate::commands::ENTRIES;
pub use crate::ends::{opposite, popping_end};
pub use crate::id::{json_member, json_text, own_id};
pub use crate::slices::Progress;
pub use ds::queue::WAIT_BOUNDS_MS;
pub use keyspace::queue::{Row, SHOWN_NAME_BYTES_MAX, State, System, Waits, rows};

use command::{CommandId, HostFn};

/// What a command asks of the thread that runs it.
pub trait Door {
    /// How a client calls itself.
    fn label(&self, client: u64) -> Label;

    /// How far the running command of the current client has come, if it has run before.
    fn take_progress(&mut self) -> Option<Box<Progress>>;

    /// Has the command of the current client, which returns without a reply, run again when other clients were served.
    fn go_on_later(&mut self, command: CommandId, args: &[&[u8]], progress: Box<Progress>);

    /// The monotonic clock, in nanoseconds.
    fn now_ns(&mut self) -> u64;
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
