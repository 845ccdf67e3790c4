//! The databases of one shard.
//!
//! A [`Db`] maps keys to [`Record`]s: a value of one of the types, its time of expiry and its access clock.
//! It does not know about threads, clients or clocks: the time is an argument, and the caller holds the
//! shard's baton. Look-ups also return expired records; `engine::Store` hides or deletes these.
//!
//! # A new type of value
//!
//! A `match` on types has no catch-all arm, so the compiler finds what is missing. Beside its structure (`ds`) and its
//! commands (`commands/<family>`), a type is named in `ds/kind.rs`; `value.rs` here, and `changing.rs` if the value may be
//! stored in its record; `engine/store/storing.rs`; `engine/dump.rs`, both ways; `rdb/format.rs`, `decode.rs` and `skip.rs`; and
//! the commands on any type that look inside values: `keys/digest.rs`, `rebuild.rs`, `sort.rs` and `zset/sources.rs`. The
//! compiler does not check the group and ACL category of its commands (`engine/entry.rs`), its events and their letter
//! (`events.rs`, `config/settings/special.rs`), and the values that random tests give it (`blackbox/values.rs`).
//!
//! A new encoding of a type concerns only its structure. It has a name there, which `OBJECT ENCODING` answers. Files have
//! it as an existing encoding, or as a new `ValueType` of `rdb`.
//!
//! Not here: waiters, watched keys (crate `shard`), effects (crate `effectlog`), the commands (crate `commands`).

pub mod access;
mod changing;
pub mod compression;
mod current_config;
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
pub use current_config::CurrentConfig;
pub use cut::{Taken, Witness};
pub use data_config::{Config, HashCompression, JobSettings, UnixMs};
pub use db::Db;
pub use dbs::{Dbs, Tallies};
pub use ds::Kind;
pub use ds::figure::Figure;
pub use events::Class;
pub use marks::Marks;
pub use queue::List;
pub use record::{Record, RecordMut, RecordRef};
pub use string::{SHARED_BYTES_MIN, Str, StrRef};
pub use tally::Tally;
pub use value::{Creatable, InPlace, Packable, Type, Value, ValueRef};
