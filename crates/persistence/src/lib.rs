//! Saves snapshots, and loads snapshots, Redis' append-only files and journals.
//!
//! The caller passes in everything that is needed: the settings at the start of a save ([`Settings`], which
//! `configured.rs` makes) or of a load ([`Load`]), the disk (in [`Names`]), and the clock. For a save it also
//! passes the databases of the shards, which it has entered. This crate knows no threads of a server and
//! sends no messages.
//!
//! ```text
//!   Snapshots::save   all shards are held       databases ─────────────────────────────▶ Output ──▶ files
//!   Snapshots::begin  only for the cut          databases ── Scribe ── Chunk ──▶ Writer ──▶ Output ──▶ files
//!   Snapshots::begin_spool  only for the cut    databases ── Scribe ── Chunk ──▶ Writer ──▶ Output ──▶ file ──▶ Spool, read meanwhile
//!   Load::snapshot    no shard has them         databases ◀── load/ ────────────────────── files
//!   Load::append_only no shard has them         databases ◀── import/replay.rs ─────────── files
//!   Load::journal     no shard has them         databases ◀── load/, then recover/ ─────── base, slices
//! ```
//!
//! Invariant: until a new snapshot is durable and has its name, the previous one stays, whatever fails
//! (`output.rs`).
//!
//! A load reads into databases that no shard has yet, and returns all of them or none ([`Loaded`]). `import/`
//! finds Redis' append-only files, decides whether to load them or the snapshot, and runs their commands.
//! `recover/` applies the slices of the journal to its base.
//!
//! Not here: the bytes of values (`engine/dump.rs`) and of snapshots (`rdb`), the time of a save, and how a
//! server takes over the loaded data.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_types, reason = "the threads of a save or of a load share state behind locks")]

mod configured;
mod error;
mod import;
mod load;
mod names;
mod output;
mod points;
mod progress;
mod purpose;
mod recover;
mod role;
mod runner;
mod scribe;
mod snapshots;
mod spool;
mod superseded;
mod tuning;
mod writer;

pub use configured::{MISCONF, choose, names, refuses_writes, save_settings, style};
pub use error::Error;
pub use import::aof;
pub use import::{Choice, Files, Import, Source, Wanted, Wish};
pub use load::{
    Examined, Extras, Load, Loaded, PAUSED_AUX, STREAM_DB_AUX, STREAM_ID_AUX, STREAM_OFFSET_AUX, StreamId,
    examine, on_heap_to_serve,
};
pub use names::{Names, moment, part_name};
pub use output::Form;
pub use points::{Plan, is_due};
pub use progress::{Figures, Progress};
pub use purpose::{Checkpoints, NoCheckpoint, Purpose};
pub use recover::{FoundSlice, Recovery};
pub use role::{Role, roles};
pub use scribe::{Saving, Scribe, Usage};
pub use snapshots::{Content, Saved, Settings, Snapshots};
pub use spool::{Spool, SpoolProgress, SpoolState};
pub use superseded::{STATE_AUX, VERSION_AUX, superseded_before};
pub use tuning::Tuning;
pub use writer::{Tell, Writer, WriterStep};
