//! Queues that the server understands: keys that hold jobs, whatever job system put them there. `queue-pattern` names
//! them.
//!
//! | file | what |
//! |---|---|
//! | `beside` | which keys belong to one queue |
//! | `ends` | the end from which workers take |
//! | `jobs` | the jobs of a queue that are not in its list |
//! | `promotion` | which jobs of a sorted set join which queue when they are due |
//! | `pattern` | which elements a search looks for: by a text in them, or by their id |
//! | `id` | whether a payload is the job with a given id |
//! | `member` | changes members of a payload |
//! | `slices` | how a command works in slices of time, and lets other clients run in between |
//! | `sweep` | removes elements from a queue, or moves them to another |
//! | `transfer/` | what job systems keep beside the elements, when these are moved or removed |
//! | `commands/` | QUEUE and its subcommands |
//!
//! `keyspace`'s `Known`, which all databases share, has the patterns and the list of all figures: readers of figures enter
//! no shard. A queue is paused by a bit in its figures. Commands that take from it then find it empty
//! (`command/store/queues.rs`), and `Tx::serve_key` serves none of its waiters. Sorted sets and streams are sampled once a
//! second (`upkeep/queues.rs`).
//!
//! Not here: how a queue is recognized, and its figures. Those are in `keyspace`, beside the data, as is the row that
//! QUEUE LIST, QUEUE INFO, `/metrics` and the console show.

#![forbid(unsafe_code)]

mod beside;
mod commands;
mod ends;
mod id;
mod jobs;
mod member;
mod pattern;
mod promotion;
mod slices;
mod sweep;
mod transfer;

pub use crate::commands::ENTRIES;
pub use crate::commands::promote::publish_promotions;
pub use crate::ends::{coming_end, popping_end};
pub use crate::id::{json_member, json_text, own_id};
pub use crate::jobs::{GROUPED, count_jobs};
pub use crate::member::{in_seconds, stamped};
pub use crate::promotion::Promotion;
pub use crate::slices::Progress;
pub use ds::queue::{JobCounts, JobFigure, WAIT_BOUNDS_MS};
pub use keyspace::queue::{RecoveryFigures, Row, SHOWN_NAME_BYTES_MAX, State, System, Waits, rows};

use command::{Command, CommandId, HostFn, Keys};
use shard::ShardId;

/// What a command asks of the thread that runs it.
pub trait Door {
    /// The name and the library of a client.
    fn label(&self, client: u64) -> Label;

    /// How far the current client's command has come, if it is to run again.
    fn progress(&mut self) -> &mut Option<Box<Progress>>;

    /// Runs the current client's command again after other clients were served, with these shards entered besides those of its keys. The
    /// command returns without a reply.
    fn go_on_later(&mut self, command: CommandId, args: &[&[u8]], shards: &[ShardId]);

    /// Whether the current client, which runs this call of `command`, may also read and change these keys.
    fn may_change(&mut self, command: &Command, args: &[&[u8]], keys: Keys<'_>) -> bool;

    /// The monotonic clock, in nanoseconds.
    fn now_ns(&mut self) -> u64;
}

/// What a client said about itself: its name and its library.
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
