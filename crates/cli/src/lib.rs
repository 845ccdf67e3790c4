//! What the program does without serving clients.
//!
//! `remote/` asks a running server: `--queues`, `--check-health`. `offline/` works on a journal's folder:
//! `--check-journal`, `--copy-journal`, `--export-aof`. `cluster/` shows and changes groups in their store: `--cluster`.

#![forbid(unsafe_code)]

pub mod cluster;
pub mod offline;
pub mod remote;
