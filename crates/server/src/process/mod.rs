//! The server as a process: the system it runs on, its log, processors, signals and end.
//!
//! Not here: what a thread of the server does (`thread.rs`).

pub(crate) mod crash;
pub(crate) mod daemon;
pub(crate) mod log;
pub(crate) mod processors;
pub(crate) mod shutdown;
pub(crate) mod supervisor;
pub(crate) mod system;
