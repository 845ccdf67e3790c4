//! The server as a process: the system that it runs on, its log, its processors, its signals, and crash reports.
//!
//! ```text
//!   start   daemon ─▶ log ─▶ processors ─▶ supervisor (ready)
//!   serving log (followed, opened again), supervisor (how far something is), system (limits, usage), pid_file
//!   end     system (signals), shutdown, supervisor; crash report, if the exit was unexpected
//! ```
//!
//! A thread of its own waits for signals. In a crash, the signal handler only stores numbers; a thread that has waited for
//! them since the start writes the report (`crash/`).
//!
//! Not here: threads that serve, and how the server ends them (`server`, `shutdown.rs`).

pub mod arguments;
pub mod crash;
pub mod daemon;
mod error;
pub mod log;
mod pid_file;
pub mod processors;
pub mod shutdown;
pub mod supervisor;
pub mod system;

pub use error::Error;
pub use pid_file::PidFile;
