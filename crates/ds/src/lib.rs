//! Data structures: no I/O, no clock.

mod blob;
mod blob_table;
pub mod block_log;
pub mod calendar;
pub mod compact_table;
pub mod dictionary;
pub mod element_expiry;
pub mod figure;
pub mod geohash;
pub mod glob;
pub mod hash;
mod hash_big;
pub mod hash_compressed;
pub mod hashing;
pub mod hll;
mod intset;
mod kind;
pub mod list;
mod listpack;
pub mod mover;
pub mod num;
pub mod packed;
pub mod partial_sort;
pub mod placing;
pub mod prefetch;
pub mod random;
pub mod set;
pub mod stream;
pub mod zset;

pub use kind::Kind;
