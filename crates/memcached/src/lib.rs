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

use engine::{CommandResult, Store};
use keyspace::UnixMs;
use resp::memcached::Verb;

pub use crate::credentials::reply_to_stranger;
pub use crate::items::entry as item_entry;
pub use crate::later_flush::LaterFlush;
pub use crate::service::{StatsFigures, StatsSettings};

/// What the commands about the server work with.
pub struct Service<'h> {
    /// Does something for the client.
    pub carry_out: &'h mut dyn FnMut(&mut Store, ServiceTask) -> CommandResult,
    /// Collects the figures of `stats`.
    pub figures: &'h dyn Fn() -> StatsFigures,
    /// Collects the figures of `stats settings`.
    pub limits: &'h dyn Fn() -> StatsSettings,
}

/// Something that the thread does for a command about the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServiceTask {
    /// End the client's connection after its replies are sent.
    Close,
    /// Set `maxmemory` to this number of bytes, unless the value is refused.
    LimitMemory(u64),
    /// Empty the selected database now (`None`), with all shards entered, or plan to empty database 0. In both cases a
    /// flush planned before is cancelled.
    Flush(Option<UnixMs>),
    /// Reset all statistics, if the client may do that.
    ResetFigures,
}

/// A call of a command about the server.
type Ctx<'a, 't, 'h> = engine::Ctx<'a, 't, Service<'h>>;
/// The function of one.
pub type Function = fn(&mut Ctx<'_, '_, '_>) -> CommandResult;
/// The declaration of one.
pub type Entry = engine::Entry<Function>;
/// The way one runs.
type Run = engine::Run<Function>;

/// The entry of a verb about the server. Verbs about items have an [`item_entry`] instead.
pub fn service_entry(verb: Verb) -> Option<&'static Entry> {
    item_entry(verb).is_none().then(|| service::entry(verb))
}
