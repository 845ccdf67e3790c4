//! Redis' append-only files: which of them are there (`files.rs`), and whether they or the snapshot count (`choice.rs`), and
//! running their commands (`replay.rs`).
//!
//! They are only read. Darter writes none: what was imported is in its snapshots from then on.

mod choice;
mod files;
mod replay;

pub use choice::{Choice, Source, Wanted, Wish};
pub use files::Files;
pub use replay::Import;
