//! The commands of memcached's text and meta protocol: those on items (`items/`), and those about the server
//! (`service.rs`). `credentials.rs` answers clients that have not authenticated, and `later_flush.rs` is a delayed
//! `flush_all`.
//!
//! The commands have entries like the others, but no names that a Redis client could call: a connection of
//! memcached's protocol finds them by their [`Verb`]. Each command writes its replies in the protocol's form, errors
//! included, and checks whether the client wants a reply.
//!
//! Apart from its parser, a connection of this protocol is treated like any other: its commands enter shards, and are put
//! off, delegated and counted. Their entries are at the end of the table of commands.
//!
//! Not here: the wire (`resp::memcached`), what items carry beside their value (`keyspace::Marks`), and how a connection's input
//! becomes commands (`server/memcached.rs`).

#![forbid(unsafe_code)]

mod credentials;
mod items;
mod later_flush;
mod service;

use engine::{CommandResult, HostFn, Store};
use keyspace::UnixMs;
use resp::memcached::Verb;

pub use crate::credentials::reply_to_stranger;
pub use crate::items::entry as item_entry;
pub use crate::later_flush::LaterFlush;
pub use crate::service::{Figures, Limits};

/// The thread that runs a command about the server.
pub trait Door {
    /// Ends the client's connection after its replies are sent.
    fn close_after_replies(&mut self);
    /// Sets `maxmemory`; false if the value is refused.
    fn set_memory_bytes_max(&mut self, store: &mut Store, bytes: u64) -> bool;
    /// Empties the selected database now (`None`), with all shards entered, or plans to empty database 0. In both cases
    /// a flush planned before is cancelled.
    fn flush(&mut self, store: &mut Store, at: Option<UnixMs>);
    /// Resets all statistics, if the client may do that.
    fn reset_figures(&mut self) -> CommandResult;
    /// How often commands with this verb were called.
    fn calls(&self, verb: Verb) -> u64;
    /// The other figures of `stats`.
    fn figures(&mut self) -> Figures;
    /// The figures of `stats settings`.
    fn limits(&self) -> Limits;
}

/// The declaration of a command about the server.
pub type Entry = engine::Entry<HostFn<dyn Door>>;
/// A call of one.
type Ctx<'a, 't> = engine::Ctx<'a, 't, dyn Door>;
/// The function that runs a command of this crate.
type Run = engine::Run<HostFn<dyn Door>>;

/// The entry of a verb about the server. Verbs about items have an [`item_entry`] instead.
pub fn service_entry(verb: Verb) -> Option<&'static Entry> {
    item_entry(verb).is_none().then(|| service::entry(verb))
}
