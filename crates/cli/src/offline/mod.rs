//! Work on a journal's folder without running a server.
//!
//! `check.rs` reports and repairs, `copy.rs` makes a copy, `export.rs` writes files for Redis. A server may be using
//! the folder, except when something is changed.

mod check;
mod copy;
mod error;
mod export;
mod meter;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use config::{Export, FolderTask};
use engine::Table;
use journal::Folder;
use proactor::Disk;

pub use crate::offline::error::Error;

/// The journal's folder if `appenddirname` is not set.
const FOLDER: &str = "appendonlydir";
/// The file that a journal's folder contains.
const MANIFEST: &str = "journal.manifest";

/// The program that reads and writes the files.
pub struct Program<'p> {
    /// Its commands, by their original names.
    pub table: &'p Table,
    /// The version of Redis that it is compatible with.
    pub redis_version: &'p str,
}

/// Runs a task. Its exit status says what was found.
pub fn run(task: &FolderTask, program: &Program) -> Result<ExitCode, Error> {
    let disk = Disk::real();
    match task {
        FolderTask::Check { folder, repairs } => {
            let folder = find(&disk, folder);
            if *repairs { check::repair(&folder) } else { check::check(&folder) }
        }
        FolderTask::Copy(export) => copy::copy(&find(&disk, &export.folder), export),
        FolderTask::ExportAof(export) => export::export(&find(&disk, &export.folder), export, program),
    }
}

/// The journal's folder: `folder`, or the one in it.
fn find(disk: &Disk, folder: &Path) -> Folder {
    let has_journal = |path: &PathBuf| disk.is_file(&path.join(MANIFEST));
    let mut inner: Vec<PathBuf> =
        disk.list(folder).unwrap_or_default().iter().map(|name| folder.join(name)).collect();
    inner.sort_unstable();
    let usual = folder.join(FOLDER);
    let candidates = [folder.to_owned(), usual.clone()].into_iter().chain(inner);
    let found = candidates.into_iter().find(has_journal);
    let otherwise = || if disk.has(&usual) { usual } else { folder.to_owned() };
    Folder::new(disk.clone(), &found.unwrap_or_else(otherwise))
}

/// Runs `work` in a new folder in the target. The target must be empty, and must not lie in the folder that is read. If
/// `work` fails, the new folder is removed.
fn in_new_folder<R>(
    from: &Folder,
    export: &Export,
    work: impl FnOnce(&Path) -> Result<R, Error>,
) -> Result<R, Error> {
    let (disk, path) = (from.disk(), &*export.to);
    let target = resolved(path);
    for source in [&*export.folder, from.path()] {
        if target.starts_with(resolved(source)) {
            return Err(Error::TargetInside(path.display().to_string(), source.display().to_string()));
        }
    }
    let failed = |source| Error::Io { what: format!("cannot write to {}", path.display()), source };
    disk.create_directory(path).map_err(failed)?;
    if !disk.list(path).map_err(failed)?.is_empty() {
        return Err(Error::TargetInUse(path.display().to_string()));
    }
    let folder = path.join(FOLDER);
    disk.create_directory(&folder).map_err(failed)?;
    work(&folder).inspect_err(|_| {
        // The next try reports a folder that cannot be removed.
        let _ = std::fs::remove_dir_all(&folder);
    })
}

/// The absolute path without symbolic links, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let known = path.ancestors().find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    let Some((ancestor, found)) = known else { return path };
    match path.strip_prefix(ancestor) {
        Ok(rest) if !rest.as_os_str().is_empty() => found.join(rest),
        _ => found,
    }
}

/// Prints a line.
fn say(line: &str) -> Result<(), Error> {
    let printed = std::io::stdout().write_all(format!("{line}\n").as_bytes());
    printed.map_err(|source| Error::Io { what: "cannot write to standard output".to_owned(), source })
}

/// The part of the help about work on the folder of a journal: `dir`, or `appenddirname` in it.
pub(crate) const FOLDER_TASKS: &str = "
The folder of a journal (appendonly yes)
  --check-journal DIR          Show what is in it, and what a start would do; a server may be running. Exit status: 0: a server
                               can start from it; 2: a server refuses to start, because it is damaged; 1: it cannot be checked
  --journal-repair truncate    With --check-journal: cut the log before the damage. The cut part is kept in the folder under
                               other names. No server may be running
  --copy-journal DIR --to NEW  Create the folder NEW with a copy that a server can start from; a server may be running
  --export-aof DIR --to NEW    Create the folder NEW with an append-only file for redis-server 7.0 and later
  --journal-until MS           End the output with the last slice written at this time, in milliseconds since 1970
";
