//! Messages to subscribed clients: those of channels and patterns, and invalidations of keys that clients have cached.
//!
//! ```text
//!   a client       Subscriptions, ClientTracking   what it asked for                     (its session)
//!   a shard        shard::Subscribers, Tracking    who is told of its channels and keys  (under its baton)
//!   all threads    Directory                       patterns, events: what has no shard   (a lock; a number while empty)
//!   a thread       Broadcasts                      what it still has to tell of prefixes (its own)
//! ```
//!
//! Three words: *subscribers* get what is published on channels, *tracking* is started by `CLIENT TRACKING` (which keys
//! a client caches), and *watches* are those of `WATCH`, which this crate does not handle.
//!
//! A command publishes by naming the receivers (`Published`). The server sends the message to the receivers' threads while
//! the shards are held, and from there to their outputs.
//!
//! Not here: the connections. The receivers are returned as values (`Published`, [`Way`]) and the messages as bytes;
//! the server delivers them to the connections of its threads. The subcommands of CLIENT are the server's; what they do
//! is in `caching.rs`.

#![forbid(unsafe_code)]

mod broadcasts;
mod caching;
mod commands;
mod delivery;
mod directory;
mod news;
mod overview;
mod patterns;
mod subscriptions;
#[cfg(test)]
mod tests;
mod unread;

use engine::HostFn;
use resp::Reply;

pub use crate::broadcasts::{Broadcasts, Keys, memory_bytes};
pub use crate::caching::{Caching, ClientTracking, Request, Way};
pub use crate::commands::{ENTRIES, leave_all};
pub use crate::delivery::{Encodings, is_for, split_by_thread, take_for, take_for_thread, write_message};
pub use crate::directory::Directory;
pub use crate::news::{write_broken_redirect, write_news};
pub use crate::subscriptions::Subscriptions;
pub use crate::unread::UnreadNews;

/// The services that a command needs from the thread that runs it.
pub trait Door {
    /// The subscriptions of the client whose command runs.
    fn subscriptions(&mut self) -> &mut Subscriptions;
    /// The subscribers that all threads know.
    fn directory(&self) -> &Directory;
    /// Whether published messages are sent to replicas.
    fn tells_replicas(&self) -> bool;
    /// Writes the messages that have arrived for this client and are not delivered yet, before its reply.
    fn deliver_before_reply(&mut self, reply: &mut Reply);
}

/// A call of a command of this crate.
pub type Ctx<'a, 't> = engine::Ctx<'a, 't, dyn Door>;
/// The declaration of a command of this crate.
pub type Entry = engine::Entry<HostFn<dyn Door>>;
/// The function that runs a command of this crate.
type Run = engine::Run<HostFn<dyn Door>>;
