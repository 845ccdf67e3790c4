//! Records the changes that a program makes to its files, call by call, and creates the states in which a
//! power failure at any moment may leave them.
//!
//! ```text
//! program ──system calls──▶ Recording ──▶ events ──▶ Disk::advance(moment) ──▶ Disk::image(seed) ──▶ folder to start it on
//! ```
//!
//! * The recorder is the program's tracer (`ptrace`), and a filter (`seccomp`) stops the program only at
//!   calls that change files. So every program can be recorded as it is: the program needs no preparation,
//!   and may call the kernel through the C library, by itself, or from a child process.
//! * Each event has a moment before its call began and one after it had ended, while the program still stood
//!   still. Moments come from the caller, which can take further ones for its own observations, such as a
//!   reply: every event on which a reply depends has an earlier moment.
//! * A disk after a power failure has every change covered by a sync that had ended, and any part of the
//!   rest: each sector of 512 bytes is new, old or torn, and each name is as before or after. [`Promise`]
//!   says which rest is possible.
//!
//! * [`Halt`] stops a single thread of a program.
//!
//! Not recorded: mapped memory, `io_uring`, `copy_file_range`. [`Disk::differences`] compares the recording
//! with the files on the disk at the end, so a change that was missed is noticed.

mod calls;
mod disk;
mod event;
mod file;
mod halt;
mod tracer;

pub use disk::{Disk, Promise};
pub use event::{Bytes, Event, FileId, What};
pub use halt::Halt;
pub use tracer::Recording;
