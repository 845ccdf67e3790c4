//! Data structures: no I/O, no clock.

pub mod hashing;
pub mod random;
pub mod table;
