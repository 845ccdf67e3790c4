//! Queues that the server understands: keys that hold jobs, regardless of the job system that put them there.
//! `queue-pattern` names them.
//!
//! | file | content |
//! |---|---|
//! | `beside` | finds the keys that belong to one queue |
//! | `ends` | finds the end from which workers take |
//! | `counts` | the jobs of a queue that are not in its list |
//! | `look` | updates figures each second, and finds queues that were not known yet |
//! | `promotion` | the rules by which due jobs of a sorted set join queues |
//! | `pattern` | the elements that a search looks for: by a text in them, or by their id |
//! | `id` | checks whether a payload is the job with a given id |
//! | `member` | changes members of a payload |
//! | `slices` | lets a command work in slices of time, while other clients run in between |
//! | `sweep` | removes elements from a queue, or moves them to another |
//! | `transfer/` | the keys of job systems beside elements that are moved or removed |
//! | `commands/` | QUEUE and its subcommands |
//!
//! `keyspace`'s `Known`, which all databases share, has the patterns and the list of all figures: readers of
//! figures enter no shard. A queue is paused by a bit in its figures. Commands that take from it then find it
//! empty (`engine/store/queues/taking.rs`), and `Tx::serve_key` serves none of its waiters. Sorted sets and
//! streams are sampled once a second (`look`).
//!
//! Not here: how a queue is recognized, and its statistics. Both are in `keyspace`, beside the data, and so
//! is the row that QUEUE LIST, QUEUE INFO, `/metrics` and the console show.

mod beside;
mod commands;
mod counts;
mod ends;
mod id;
mod look;
mod member;
mod pattern;
mod promotion;
mod slices;
mod sweep;
mod transfer;

pub use crate::queues::commands::ENTRIES;
pub use crate::queues::commands::promote::publish_promotions;
pub use crate::queues::counts::{GROUPED, count_jobs};
pub use crate::queues::ends::{coming_end, popping_end};
pub use crate::queues::id::{json_member, json_text, own_id};
pub use crate::queues::look::QueueUpkeep;
pub use crate::queues::member::{in_seconds, stamped};
pub use crate::queues::promotion::Promotion;
pub use crate::queues::slices::Progress;
pub use keyspace::queue::{JobCounts, JobFigure, WAIT_BOUNDS_MS};
pub use keyspace::queue::{RecoveryFigures, Row, SHOWN_NAME_BYTES_MAX, State, System, Waits, rows};

use engine::{Command, CommandId, HostFn, Keys};
use shard::ShardId;

/// The requests of a command to the thread that runs it.
pub trait Door {
    /// The name and the library of a client.
    fn label(&self, client: u64) -> Label;

    /// The progress of the current client's command, if it is to run again.
    fn progress(&mut self) -> &mut Option<Box<Progress>>;

    /// Runs the current client's command again after other clients were served, and enters these shards in
    /// addition to those of its keys. The command returns without a reply.
    fn go_on_later(&mut self, command: CommandId, args: &[&[u8]], shards: &[ShardId]);

    /// Whether the current client, which runs this call of `command`, may also read and change these keys.
    fn may_change(&mut self, command: &Command, args: &[&[u8]], keys: Keys<'_>) -> bool;

    /// The monotonic clock, in nanoseconds.
    fn now_ns(&mut self) -> u64;
}

/// A client's own name and library, as it set them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Label {
    /// Its name.
    pub name: Box<[u8]>,
    /// The name and the version of the library.
    pub library: Box<[u8]>,
}

/// A call of a command of this crate.
pub type Ctx<'a, 't> = engine::Ctx<'a, 't, dyn Door>;
/// The declaration of a command of this crate.
pub type Entry = engine::Entry<HostFn<dyn Door>>;
/// The way a command of this crate runs.
type Run = engine::Run<HostFn<dyn Door>>;
