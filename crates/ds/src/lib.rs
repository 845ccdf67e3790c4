//! Data structures: no I/O, no clock.

pub mod glob;
pub mod hash;
pub mod hashing;
pub mod intset;
pub mod list;
pub mod listpack;
pub mod num;
pub mod random;
pub mod set;
pub mod stream;
pub mod table;
pub mod zset;
