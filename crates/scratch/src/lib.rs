//! Reserves folders and ports for one test, so that it can share the machine with other tests of this program, other
//! programs, other checkouts, and other containers with the same `/tmp`.
//!
//! A process id does not tell them apart: containers that share a folder may have the same, and the kernel gives it out again while
//! the folder of a killed test is still there. A port that the kernel calls free is free only until the next program asks.
//!
//! Not here: servers (`blackbox`). Only tests use this crate.

#![forbid(unsafe_code)]

mod folder;
mod ports;

use std::hash::{BuildHasher, RandomState};

pub use folder::Scratch;
pub use ports::free_port;

/// A number that no other process has, most likely. Nothing that a test checks depends on it.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}
