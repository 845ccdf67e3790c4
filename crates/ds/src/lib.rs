//! Data structures: no I/O, no clock.
pub mod glob;
pub mod list;
pub mod num;
