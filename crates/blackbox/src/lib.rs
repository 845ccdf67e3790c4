//! Checks of the running server from outside.
//!
//! The tests of this crate start the real `darter` and, as the oracle, Debian's `redis-server` 7.0.15:
//! - `transcripts` plays `tests/transcripts/` over sockets, with every kind of driver and several numbers of threads;
//! - `differential` sends random commands, made from the declarations of the command table, to both, and compares
//!   everything that they return.
//!
//! `crash` and `leases` kill servers, and compare the data with the replies that clients got.
//!
//! In the first two, every reply of Darter is checked against the shape that its command declares. The binary is the one that
//! the environment variable `DARTER` names, or the last one built (`cargo build -p server`).
//!
//! The server's own tests also start it with [`Server`] and connect to it with [`Client`].
//!
//! Not here: faults, crashes and clocks (the simulation), and speed.

#![forbid(unsafe_code)]

pub mod account;
mod client;
mod compare;
pub mod crash;
mod differences;
mod flag;
mod functions;
mod generate;
pub mod leases;
mod lines;
mod pair;
pub mod replication;
mod samples;
mod server;
mod shapes;
mod values;
mod witness;

pub use client::{Client, PATIENCE, check, eventually, text};
pub use differences::{KNOWN, Known, Rule};
pub use flag::SetAtEnd;
pub use functions::FUNCTION_REQUESTS;
pub use generate::{Batch, Generator, Request, is_callable, is_known_to_oracle, words};
pub use lines::{is_elsewhere, is_word_elsewhere};
pub use pair::{Answered, COMPRESSES_HASHES, HASHES_COMPRESSED, Mismatch, Pair};
pub use rustix::process::Signal;
pub use samples::{sample_keys, samples, stream_state};
pub use scratch::{Scratch, free_port};
pub use server::{Server, StartError, binary, on_each_server, oracle, run};
pub use shapes::Shapes;
pub use witness::Witness;

/// Factor by which tests with a scale do more than usual (`DARTER_SCALE`; 1 unless set).
pub fn scale() -> usize {
    std::env::var("DARTER_SCALE").map_or(1, |scale| scale.parse().expect("DARTER_SCALE is a number"))
}
