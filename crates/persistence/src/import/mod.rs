//! Imports Redis' append-only files: finds them (`files.rs`), decides whether they or the snapshot are loaded
//! (`choice.rs`), and runs their commands (`replay.rs`). `aof/` is the format, a pure codec.
//!
//! They are only read. Darter writes no such files: its snapshots contain the imported data.

#[deny(clippy::disallowed_types, reason = "a codec: no I/O, no clock, no lock")]
pub mod aof;
mod choice;
mod files;
mod replay;

pub use choice::{Choice, Source, Wanted, Wish};
pub use files::Files;
pub use replay::Import;
