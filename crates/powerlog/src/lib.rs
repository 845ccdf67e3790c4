//! Records what a program does to its files, call by call, and creates what a power failure at any moment may leave of
//! them.
//!
//! ```text
//! program ──system calls──▶ Recording ──▶ events ──▶ Disk::advance(moment) ──▶ Disk::image(seed) ──▶ folder to start it on
//! ```
//!
//! * The recorder is the program's tracer (`ptrace`), and a filter (`seccomp`) stops the program only at calls that change files. So
//!   every program can be recorded as it is: it does not matter whether it calls the kernel through the C library, by itself, or from
//!   a child process, and nothing in it has to be made for this.
//! * Each event has the moment before its call began and one after it had ended, while the program still stood still. Moments come
//!   from the caller, who can take some for what it sees itself, such as a reply: whatever a reply depends on has an earlier one.
//! * A disk after a power failure has what a sync covers that had ended, and any part of the rest: each sector of 512 bytes
//!   new, old or torn, each name as before or after. [`Promise`] says which rest is possible.
//!
//! * [`Halt`] stops a single thread of a program.
//!
//! Not recorded: mapped memory, `io_uring`, `copy_file_range`. [`Disk::differences`] compares what was recorded with what lies on
//! the disk at the end, so a change that was missed is noticed.

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
