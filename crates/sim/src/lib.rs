//! Runs the whole server in a deterministic simulation: the code of real threads under virtual time, on one real thread.
//!
//! [`World`] creates one or several servers, which replicate. It steps their threads in an order that the seed decides, and
//! interrupts them while they hold batons, so that others find batons taken (`stack.rs`). The network delays and cuts
//! connections, and shortens reads and writes. The disk fails, hangs, and loses what was not durable when the power fails
//! ([`World::restart`]). The checks are in `tests/`: transcripts, snapshots and crashes, serializability (`transactions.rs`,
//! `history.rs`), also across crashes of a server with a journal, queues, the account of their elements across crashes,
//! jobs with their leases and schedules, also across crashes and failovers, channels, timeouts, commands that run again, what is
//! recorded, starvation, and servers that replace each other. Each test runs a fixed number of seeds, or for `DARTER_SECONDS` from
//! `DARTER_SEED` on. A failure prints its seed; it repeats the run.
//!
//! The checks were mutation-tested. The following mistakes in the server were detected, within the default seeds unless
//! stated otherwise:
//! - by serializability: a changed key raises no watch flag; EXEC leaves out the shards of watched keys; a command on
//!   several shards, or a script, continues without a baton that it could not get; the notice to a command that waits for a
//!   shard is lost;
//! - by queues: a push does not announce that its key is ready; a waiter that needs a second shard is forgotten if that is
//!   taken; the value for a client that has gone is not put back; the wait of such a client is not ended; a value is given
//!   to a waiter that has already been served or has timed out; the backlog of a kept shard is not drained at the end of the
//!   turn;
//! - by timeouts: waiters are served last come first; timeouts are a millisecond early or late;
//! - by channels: messages are sent after their channel's shard was left; an unsubscriber does not fetch the messages that
//!   it was counted for; a thread handles its clients' input before messages from other threads;
//! - by commands that run again: what they published the first time is sent; they start in the database where they ended;
//! - by leases: an attempt that is named is not compared; the clock is read only at the beginning of a turn; leases
//!   end early; a job waits twice, or gets no record; attempts are not limited, or a released one counts; a limit or
//!   the active jobs of a group are not counted; a delayed job is lost; jobs that were due before a crash are not
//!   looked for; a replica ends leases, too; a retried job keeps its attempts, or is taken from its worker; a lock is
//!   not heeded, is not freed, or outlives its time; replies go out before all replicas have the data, or after
//!   another server has become the primary;
//! - by all: the reply to a delegated command is occasionally not sent;
//! - by starvation, in minutes: no thread gets the patience token.
//!
//! Deliberate mistakes about the journal are kept (`engine::mutant`), and tests verify that each is still detected.
//!
//! BlockingTasks (`proactor/blocking tasks.rs`), the writer of a snapshot and the two threads of the journal have stacks of their own and
//! are stepped like all other threads. `servers.rs` compares what servers have at equal offsets, checks that each is a
//! prefix of one stream, and that nothing is lost that was acknowledged with `repl-sync-replicas`. `crashes.rs` cuts the
//! power at any moment of a save: the previous or the new snapshot is loaded, and an acknowledged one is never lost. In
//! `spool.rs`, replicas of any speed read a snapshot while it is written, and a real redis-server loads what they have read.
//! `durable.rs` continues the history of all transactions across power failures and killed processes, at any operation of
//! the disk, during starts as well. With `appendfsync always` the whole history is strictly serializable; otherwise only
//! the most recent changes are lost.
//!
//! Not here: interleavings of single instructions of threads (loom, in `shard` and `proactor`).

/// Lets the server know how much memory it uses. The world's own memory is included.
#[global_allocator]
static ALLOCATOR: heap::Allocator = heap::Allocator;

mod client;
pub mod history;
mod machine;
mod seeds;
mod setup;
mod stack;
mod stage;
pub mod transactions;
mod world;

pub use client::{Client, Departure, Request, request};
pub use machine::{Death, Machine};
pub use seeds::{are_seeds_chosen, for_each_seed};
pub use setup::{ENTRIES, Entry, Journal, OFF_CORE_EVENTS_MAX, Setup, Sync};
pub use stage::{Facts, Stage, facts, follows, may_lead};
pub use world::World;
