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

use engine::CommandResult;

pub use crate::broadcasts::{Broadcasts, Keys, memory_bytes};
pub use crate::caching::{Caching, ClientTracking, TrackingRequest, Way};
pub use crate::commands::{ENTRIES, leave_all};
pub use crate::delivery::{Encodings, is_for, split_by_thread, take_for, take_for_thread, write_message};
pub use crate::directory::Directory;
pub use crate::news::{write_broken_redirect, write_news};
pub use crate::subscriptions::Subscriptions;
pub use crate::unread::UnreadNews;

/// What the commands of this crate work with.
#[derive(Debug)]
pub struct Subscribing<'h> {
    /// The subscriptions of the client whose command runs. A command that travels, such as PUBLISH, has none.
    pub subscriptions: Option<&'h mut Subscriptions>,
    /// The subscribers that all threads know.
    pub directory: &'h Directory,
    /// Whether published messages are sent to replicas.
    pub tells_replicas: bool,
}

impl Subscribing<'_> {
    /// The subscriptions of the client.
    fn own(&mut self) -> &mut Subscriptions {
        self.subscriptions.as_deref_mut().expect("commands that subscribe stay on their client's thread")
    }
}

/// A call of a command of this crate.
pub type Ctx<'a, 't, 'h> = engine::Ctx<'a, 't, Subscribing<'h>>;
/// The function of a command of this crate.
pub type Function = fn(&mut Ctx<'_, '_, '_>) -> CommandResult;
/// The declaration of a command of this crate.
pub type Entry = engine::Entry<Function>;
/// The way a command of this crate runs.
type Run = engine::Run<Function>;
