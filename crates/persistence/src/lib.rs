//! Snapshots on disk: how they are saved, and what is known of them.
//!
//! What it needs is passed in: the settings as they are when a save begins ([`Settings`]), the disk (in [`Names`]), the clock, and the
//! databases of the shards, which whoever calls has entered. It knows no threads of a server and sends no messages.
//!
//! ```text
//!   Snapshots::save   all shards are held       databases ─────────────────────────────▶ Output ──▶ files
//!   Snapshots::begin  only for the cut          databases ── Scribe ── Chunk ──▶ Writer ──▶ Output ──▶ files
//! ```
//!
//! Invariant: until a new snapshot is durable and has its name, the one before is there, and whatever goes wrong leaves it (`output.rs`).
//!
//! `import/` finds Redis' append-only files, and decides whether they or the snapshot count.
//!
//! Not here: the bytes of values (`encoded`) and of files (`rdb`, `aof`), and who saves when.

#![forbid(unsafe_code)]

mod error;
mod import;
mod names;
mod output;
mod progress;
mod scribe;
mod snapshots;
mod superseded;
mod writer;

pub use error::Error;
pub use import::{Choice, Files, Import, Source, Wish, shown};
pub use names::{Names, moment, part_name};
pub use output::Form;
pub use progress::{Figures, Progress};
pub use scribe::{Saving, Scribe, Usage};
pub use snapshots::{Content, Saved, Settings, Snapshots};
pub use superseded::{STATE_AUX, superseded_before};
pub use writer::{Tell, Writer, WriterStep};
