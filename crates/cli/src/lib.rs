//! The tasks of the program other than serving clients.
//!
//! `remote/` asks a running server: `--queues`, `--check-health`. `offline/` works on a journal's folder:
//! `--check-journal`, `--copy-journal`, `--export-aof`. `cluster/` shows and changes groups in their store: `--cluster`.

#![forbid(unsafe_code)]

pub mod cluster;
pub mod offline;
pub mod remote;

use std::process::ExitCode;

/// Runs the command line after the program's name; `None` if it has no flag of `remote`, of `cluster`, or of the process that
/// watches a server.
pub fn run(args: &[String]) -> Option<ExitCode> {
    [agent::watch, cluster::run, remote::run].iter().find_map(|run| run(args))
}

/// The part of the help about all of this.
pub fn help() -> String {
    [offline::FOLDER_TASKS, remote::HELP, cluster::HELP].concat()
}
