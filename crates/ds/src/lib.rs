//! Data structures: no I/O, no clock.

pub mod glob;
pub mod hash;
pub mod hashing;
pub mod list;
pub mod listpack;
pub mod num;
pub mod random;
pub mod table;
