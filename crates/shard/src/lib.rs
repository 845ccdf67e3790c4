//! Shards, and how threads enter them.
//!
//! A shard belongs to the thread that holds its *baton*. A thread that has a command takes the baton of the key's
//! shard, runs the command as plain single-threaded code, and puts the baton back. If the baton is taken, it leaves the
//! command in the shard's *mailbox*, and the holder runs it before letting go.
//!
//! ```text
//!   thread A ── enter ──▶ [baton │ dbs, waiters, watches, channels] ◀── delegate ── thread B
//!                  run own command, then the tasks in the mailbox (at most DRAIN_MAX), leave
//! ```
//!
//! Invariants: shard data is touched only under the baton; a thread that holds one waits for another only in ascending
//! order and well under a millisecond, and does not sleep. A script that has written is the exception: it waits as long as
//! it must, and sleeps between checks (see `hold.rs`).
//!
//! Not here: what a task is (the type parameter `T`), threads, sockets.

mod baton;
mod cached_keys;
mod db_key;
mod figures;
mod handover;
mod hold;
mod interrupt;
mod placement;
mod shard;
mod shards;
mod subscribers;
mod sync;
mod waiters;
mod watches;

pub use baton::{Baton, Delegated, Fifo};
pub use cached_keys::{Prefixes, Told, Tracker, Tracking};
pub use figures::Figures;
pub use handover::{Answer, Asked, Given, HandOver};
pub use hold::{Hold, Lent, PATIENCE_AFTER, Patience};
#[cfg(feature = "simulation")]
pub use interrupt::on_interrupt;
pub use interrupt::{interrupt, pause};
pub use placement::{Placement, ShardId};
pub use shard::{Ready, Shard};
pub use shards::{Backlog, Shards};
pub use subscribers::{Scope, Subscriber, Subscribers};
pub use waiters::{Claim, Waiter, Waiters};
pub use watches::{Content, WatchFlag, Watches};
