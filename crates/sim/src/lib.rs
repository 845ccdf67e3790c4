//! The whole server in a deterministic simulation: real threads' code under virtual time, on one real thread.
//!
//! [`World`] makes a server, steps its threads in an order that follows from the seed, and interrupts them while they hold
//! batons, so that the others meet taken ones (`stack.rs`). The network delays, cuts and shortens. Tests in `tests/`.

mod client;
pub mod history;
mod seeds;
mod setup;
mod stack;
mod world;

pub use client::{Client, Departure, Request, request};
pub use seeds::for_each_seed;
pub use setup::{ENTRIES, Entry, Setup};
pub use world::World;
