//! Data structures: no I/O, no clock.

pub mod hash;
pub mod hashing;
pub mod intset;
pub mod listpack;
pub mod random;
pub mod set;
pub mod table;
