//! The databases of one shard.
//!
//! A [`Db`] maps keys to [`Record`]s: a value of one of the types, its time of expiry and its access clock.
//! It does not know about threads, clients or clocks: the time is an argument, and the caller holds the
//! shard's baton. Look-ups also return expired records; `command::Store` hides or deletes these.
//!
//! Not here: waiters, watched keys (crate `shard`), effects (crate `effectlog`), the commands (crate `commands`).

pub mod access;
mod changing;
pub mod compression;
mod cut;
mod data_config;
mod db;
mod dbs;
mod events;
pub mod eviction;
mod marks;
pub mod queue;
mod record;
mod string;
mod tally;
mod value;

pub use access::Lfu;
pub use changing::Changing;
pub use cut::{Taken, Witness};
pub use data_config::{Config, HashCompression, JobSettings, UnixMs};
pub use db::Db;
pub use dbs::{Dbs, Tallies};
pub use ds::Kind;
pub use ds::figure::Figure;
pub use events::Class;
pub use marks::Marks;
pub use record::{Record, RecordMut, RecordRef};
pub use string::{SHARED_BYTES_MIN, Str, StrRef};
pub use tally::Tally;
pub use value::{InPlace, Packable, Type, Value, ValueRef};
