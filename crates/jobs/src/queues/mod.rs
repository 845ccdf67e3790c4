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

use engine::{Command, CommandResult, Keys};
use shard::ShardId;

/// Whether a client that runs a call of a command may also read and change these keys.
pub type MayChange<'h> = dyn Fn(&Command, &[&[u8]], Keys<'_>) -> bool + 'h;

/// What a command of this crate works with.
pub struct QueueWork<'h> {
    /// The place for the progress of the client's command, which has one if it is to run again. A command that
    /// travels has no such place.
    pub progress: Option<&'h mut Option<Box<Progress>>>,
    /// Set by a command that returns without a reply: it has to run again after other clients were served, and
    /// enters these shards in addition to those of its keys.
    pub goes_on_with: Option<Vec<ShardId>>,
    /// The name and the library of a client.
    pub label: &'h dyn Fn(u64) -> Label,
    /// Whether the client, which runs this call of a command, may also read and change these keys.
    pub may_change: &'h MayChange<'h>,
    /// Reads the monotonic clock, in nanoseconds.
    pub now_ns: &'h mut dyn FnMut() -> u64,
}

impl QueueWork<'_> {
    /// The progress of the client's command, if it is to run again.
    fn progress(&mut self) -> &mut Option<Box<Progress>> {
        self.progress.as_deref_mut().expect("commands that run in slices stay on their client's thread")
    }
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
pub type Ctx<'a, 't, 'h> = engine::Ctx<'a, 't, QueueWork<'h>>;
/// The function of a command of this crate.
pub type Function = fn(&mut Ctx<'_, '_, '_>) -> CommandResult;
/// The declaration of a command of this crate.
pub type Entry = engine::Entry<Function>;
/// The way a command of this crate runs.
type Run = engine::Run<Function>;
