//! The commands of clients about themselves and each other.

mod authentication;
mod client;

use crate::Entry;

pub use client::{line, stop_tracking};

/// The commands of this crate.
pub const ENTRIES: &[Entry] =
    &[authentication::AUTH, client::CLIENT, authentication::HELLO, client::READONLY, client::READWRITE];
