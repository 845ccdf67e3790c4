//! Data structures: no I/O, no clock.
pub mod glob;
pub mod num;
