//! What the program does without serving clients.
//!
//! `remote/` asks a running server: `--queues`, `--check-health`. `offline/` works on a journal's folder:
//! `--check-journal`, `--copy-journal`, `--export-aof`.

#![forbid(unsafe_code)]

pub mod offline;
pub mod remote;
