//! The whole server in a deterministic simulation: the code of real threads under virtual time, on one real thread.
//!
//! [`World`] creates one or several servers that replicate, steps their threads in an order that the seed decides, and
//! interrupts them while they hold batons, so that the others meet taken ones (`stack.rs`). The network delays and cuts
//! connections, and shortens reads and writes. The disk fails, hangs, and loses what was not durable when the power
//! fails ([`World::restart`]). The checks are in `tests/`: transcripts, snapshots and crashes, serializability
//! (`transactions.rs`, `history.rs`), also across crashes of a server with a journal, queues, the account of their
//! elements across crashes, jobs with their leases and schedules (`jobs`, `cron`), channels, timeouts, commands that run
//! again, what is recorded, starvation, servers that replace each other. Each test runs a fixed number of seeds, or for
//! `DARTER_SECONDS` from `DARTER_SEED` on. A failure prints its seed, and the same seed gives the same run.
//!
//! The checks were tried on servers with deliberate mistakes. These were noticed, within the default seeds unless
//! stated otherwise:
//! - by serializability: a changed key raises no watch flag; EXEC leaves out the shards of watched keys; a command on
//!   several shards, or a script, goes on without a baton that it could not have; the notice to a command that waits for a
//!   shard is dropped;
//! - by queues: a push does not tell that its key is ready; a waiter that needs a second shard is forgotten when that is
//!   taken; the value of a client that has gone is not put back; the wait of such a client is not ended; a value is given to
//!   a waiter that is served already, or that has timed out; the backlog of a kept shard is not drained when the turn ends;
//! - by timeouts: waiters are served last come first; timeouts are a millisecond early or late;
//! - by channels: messages are sent after their channel's shard was left, or an unsubscriber does not look for what it was
//!   counted for; a thread looks at what its clients sent before what other threads sent it;
//! - by commands that run again: what they published the first time is sent; they begin in the database where they ended;
//! - by all: a delegated reply is now and then not sent;
//! - by starvation, in minutes: nobody gets the patience token.
//!
//! Deliberate mistakes about the journal are kept (`command::mutant`), and tests verify that each is still noticed.
//!
//! Not here: what happens between two instructions of one thread and another (loom, in `shard` and `proactor`).

/// So that the server knows how much memory it uses; the world's is part of it.
#[global_allocator]
static ALLOCATOR: heap::Allocator = heap::Allocator;

mod client;
pub mod history;
mod machine;
mod seeds;
mod setup;
mod stack;
pub mod transactions;
mod world;

pub use client::{Client, Departure, Request, request};
pub use machine::{Death, Machine};
pub use seeds::for_each_seed;
pub use setup::{ENTRIES, Entry, Journal, OFF_CORE_EVENTS_MAX, Setup, Sync};
pub use world::World;
