//! Data structures: no I/O, no clock.

pub mod hash;
pub mod hashing;
pub mod listpack;
pub mod random;
pub mod table;
pub mod glob;
pub mod list;
pub mod num;
