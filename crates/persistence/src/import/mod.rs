//! Redis' append-only files: which of them are there (`files.rs`), and whether they or the snapshot count (`choice.rs`).
//!
//! They are only read. Darter writes none: what was imported is in its snapshots from then on.

mod choice;
mod files;

pub use choice::{Choice, Import, Source, Wish};
pub use files::{Files, shown};
