//! Data structures: no I/O, no clock.
