//! Writes and reads the files of the journal: slices of the effect stream, written so that everything reported durable
//! survives a crash.
//!
//! ```text
//!   appendonlydir/journal.manifest            what belongs together          manifest.rs
//!   appendonlydir/journal-<id>-<number>.seg   frames, one behind the other   segment.rs, frame.rs
//!   appendonlydir/journal-<id>.durable        up to which slice it was durable         mark.rs
//!   appendonlydir/base-<id>-….rdb             what the slices are applied to
//! ```
//!
//! Two threads write it. The log thread (`log_thread.rs`) closes slices and writes them. The disk thread
//! (`disk_thread.rs`) does the work that may take longer. All other threads see their progress (`progress.rs`).
//!
//! The files are on a disk that is passed in ([`proactor::Disk`]), real or simulated; its calls block.
//!
//! `check.rs` reports, `repair.rs` repairs and `copy.rs` copies a journal; `cli` has the commands for operators. Both
//! threads are state machines, which a simulation runs as well.
//!
//! Not here: commands, shards, the threads that commit, the meaning of a slice, and writing or reading a base.

#![forbid(unsafe_code)]

mod buffer;
mod check;
mod checksum;
mod copy;
mod disk_thread;
mod error;
mod folder;
mod frame;
mod intake;
mod journal;
mod life;
mod log_thread;
mod manifest;
mod mark;
mod mutant;
mod pressure;
mod progress;
mod read_back;
mod reader;
mod reading;
mod repair;
mod scan;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

pub use check::{Report, check, content, time};
pub use copy::{Copied, Copying};
pub use disk_thread::{DiskOrders, DiskThread, DiskWork, OnBase, OnFailure};
pub use error::{Error, ErrorKind, Trouble};
pub use folder::{Contents, Folder, LockedFolder};
pub use frame::{BLOCK_BYTES, Frame, HEAD_BYTES, Head, NoFrame, PAYLOAD_BYTES_MAX, padded_bytes};
pub use intake::Intake;
pub use journal::{Facts, Journal};
pub use life::{Beginning, Data};
pub use log_thread::{LogThread, Order, Step};
pub use manifest::{Base, MANIFEST_BYTES_MAX, Manifest, NotAManifest, Stream, StreamId};
pub use pressure::Pressure;
pub use progress::{Counts, Progress, Refusal, Wake};
pub use read_back::ReadBack;
pub use reading::Reading;
pub use repair::Repair;
pub use scan::{End, Rest, Scan, Scanned, Skipped, Verdict};
pub use segment::{Place, SegmentName, SegmentStart, Tuning};
pub use writer::{Policy, Writer};
