//! What all threads know of the primary that this server follows, if it follows one.
//!
//! One thread has the link and says how far it is; all others read it here. Whether there is a primary at all is one relaxed load, because every
//! command that writes asks. Who changes the role holds all shards, so nobody asks in the middle of a transaction.

#![expect(
    clippy::disallowed_types,
    reason = "nothing of this is on the way of a command but whether there is a primary"
)]

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::link::LinkState;

/// Where a primary is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// Its name or address, as it was given.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// See the head of this file.
#[derive(Default)]
pub struct Following {
    is_replica: AtomicBool,
    primary: Mutex<Option<Address>>,
    state: AtomicU8,
    /// When the stream broke, or was first wanted, on the monotonic clock.
    down_since_ms: AtomicU64,
    /// When something last came, on the monotonic clock.
    heard_ms: AtomicU64,
    offset: AtomicU64,
    /// Of the snapshot that is being received: bytes in all (0: not known), and those that have come.
    snapshot_bytes: AtomicU64,
    received_bytes: AtomicU64,
}

impl Following {
    /// Whether this server follows a primary, connected or not.
    #[inline]
    pub fn is_replica(&self) -> bool {
        // Relaxed: who changes it holds the shards that are held now.
        self.is_replica.load(Ordering::Relaxed)
    }

    /// Whether the stream flows.
    pub fn is_link_up(&self) -> bool {
        self.state() == LinkState::Connected
    }

    /// How far the link is.
    pub fn state(&self) -> LinkState {
        LinkState::of_number(self.state.load(Ordering::Relaxed))
    }

    /// The primary that is followed.
    pub fn primary(&self) -> Option<Address> {
        self.primary.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// When the stream broke, or was first wanted, on the monotonic clock.
    pub fn down_since_ms(&self) -> u64 {
        self.down_since_ms.load(Ordering::Relaxed)
    }

    /// When something last came, on the monotonic clock.
    pub fn heard_ms(&self) -> u64 {
        self.heard_ms.load(Ordering::Relaxed)
    }

    /// How much of the stream has come and is applied.
    pub fn offset(&self) -> u64 {
        self.offset.load(Ordering::Relaxed)
    }

    /// Of the snapshot that is being received: bytes in all (0: not known), and those that have come.
    pub fn snapshot_progress(&self) -> (u64, u64) {
        (self.snapshot_bytes.load(Ordering::Relaxed), self.received_bytes.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_first_there_is_no_primary() {
        let following = Following::default();
        assert!(!following.is_replica() && !following.is_link_up());
        assert_eq!((following.primary(), following.state()), (None, LinkState::None));
    }
}
