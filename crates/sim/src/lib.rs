//! The whole server in a deterministic simulation: real threads' code under virtual time, on one real thread.
//!
//! [`World`] makes a server, or several that replicate, steps their threads in an order that follows from the seed, and interrupts them while they hold
//! batons, so that the others meet taken ones (`stack.rs`). The network delays, cuts and shortens. The disk fails, hangs, and
//! loses what was not made durable when the power fails ([`World::restart`]). What is checked stands
//! in `tests/`: transcripts, snapshots and crashes, serializability (`transactions.rs`, `history.rs`), also over crashes of a server with a journal,
//! queues, the account of their elements over crashes, channels, timeouts, commands that run again, what is recorded, starvation, servers that replace each other. Each
//! runs a fixed number of seeds, or for `DARTER_SECONDS` from `DARTER_SEED` on; a failure prints its seed, and the same
//! seed gives the same run.
//!
//! The checks were tried on servers that were broken on purpose. Noticed within the default seeds, if nothing else is said:
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
//! Of the journal such mistakes are kept (`command::mutant`), and tests see that each still shows.
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
