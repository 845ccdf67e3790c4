//! Delivering published messages.

use crate::message::Delivery;
use crate::thread::{Thread, ThreadHost};

impl ThreadHost {
    /// Writes a message to its subscribers on this thread.
    pub(crate) fn deliver(&mut self, _delivery: &Delivery) {}
}

impl Thread {
    /// Publishes a keyspace event.
    pub(crate) fn publish_event(&mut self, _channel: &[u8], _message: &[u8]) {}
}
