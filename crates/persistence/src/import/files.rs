//! Finds the append-only files in the directory.
//!
//! ```text
//! Redis 7 and later:  appenddirname/appendfilename.manifest, which names files beside it
//! before:             appendfilename
//! ```
//!
//! If both exist, the folder counts, as in Redis.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::import::aof::{MANIFEST_BYTES_MAX, Manifest};
use proactor::Disk;
use rdb::Checksum;

use super::choice::Wish;
use crate::error::Error;
use crate::names::{Names, moment};

/// Bytes at the end of each file that identify it: a snapshot ends with its checksum, other files with their
/// latest commands.
const KNOWN_BYTES: u64 = 4096;

/// A set of append-only files.
#[derive(Debug)]
pub struct Files {
    /// The folder, or the file.
    path: PathBuf,
    /// The files in the order of reading, with their lengths.
    pub(super) files: Vec<(PathBuf, u64)>,
    /// An identification of their state: built from their names, lengths and ends.
    pub(super) state: String,
    /// The time of the last write to any of them.
    changed: Option<SystemTime>,
}

impl Files {
    /// The append-only files in the directory, if they contain anything.
    pub(super) fn find(wish: &Wish, names: &Names) -> Result<Option<Files>, Error> {
        let (folder, single) = (names.path(&wish.folder), names.path(&wish.file));
        let disk = names.disk();
        let (path, parts) = match parts_of(disk, &folder, &wish.file, &single)? {
            Some(parts) => (folder, parts),
            None if disk.is_file(&single) => (single.clone(), vec![single]),
            None => return Ok(None),
        };
        let mut files = Vec::new();
        let mut changed = None;
        for part in parts {
            let info = disk.info(&part).map_err(|cause| refusal(&path, named_but(&part, &cause)))?;
            if !info.is_file {
                return Err(refusal(&path, format!("{} is no file", part.display())));
            }
            changed = changed.max(info.modified);
            files.push((part, info.bytes));
        }
        if files.iter().all(|(_, length)| *length == 0) {
            return Ok(None);
        }
        let state = state_of(disk, &files)?;
        Ok(Some(Files { path, files, state, changed }))
    }

    /// Their total size.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, length)| length).sum()
    }

    /// Their name in messages.
    pub fn name(&self) -> String {
        shown(&self.path)
    }

    /// The time of the last write to any of them.
    pub(super) fn changed(&self) -> String {
        self.changed.map_or_else(|| "some time ago".to_owned(), moment)
    }
}

/// A path in messages: absolute.
pub(super) fn shown(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

fn refusal(path: &Path, why: String) -> Error {
    let why = format!(
        "{why}. To start without it, from the snapshot if there is one, move it elsewhere or pass --import-aof no"
    );
    Error::AppendOnlyFiles { name: shown(path), why }
}

fn named_but(part: &Path, cause: &std::io::Error) -> String {
    let name = part.file_name().unwrap_or_default().display();
    match cause.kind() {
        ErrorKind::NotFound => format!("its manifest names {name}, which is missing"),
        _ => format!("{name}: {cause}"),
    }
}

/// The files named in the manifest in `folder`, if there is one.
fn parts_of(disk: &Disk, folder: &Path, name: &str, single: &Path) -> Result<Option<Vec<PathBuf>>, Error> {
    let path = folder.join(format!("{name}.manifest"));
    let mut text = Vec::new();
    let read =
        disk.reader(&path).and_then(|file| file.take(MANIFEST_BYTES_MAX as u64 + 1).read_to_end(&mut text));
    match read {
        Ok(_) => {}
        Err(cause) if matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return match stray_part(disk, folder, name) {
                // In this case Redis takes the single file.
                Some(part) if disk.info(single).is_err() => {
                    let why = format!("{part} exists, but no {name}.manifest names it");
                    Err(refusal(folder, why))
                }
                _ => Ok(None),
            };
        }
        Err(source) => return Err(Error::Io { what: format!("cannot read {}", shown(&path)), source }),
    }
    if text.len() > MANIFEST_BYTES_MAX {
        return Err(refusal(&path, "it is too long for a manifest".to_owned()));
    }
    let manifest = Manifest::decode(&text).map_err(|error| refusal(&path, error.to_string()))?;
    let mut parts: Vec<PathBuf> = manifest.files().map(|file| folder.join(file)).collect();
    // Redis was stopped while it moved the file of an older version into the folder.
    if let [only] = &mut parts[..]
        && *only == folder.join(name)
        && disk.info(only).is_err()
        && disk.is_file(single)
    {
        *only = single.to_owned();
    }
    Ok((!parts.is_empty()).then_some(parts))
}

/// A file that looks like a part, in a folder without a manifest.
fn stray_part(disk: &Disk, folder: &Path, name: &str) -> Option<String> {
    let files = disk.list(folder).ok()?.into_iter().filter_map(|file| file.into_string().ok());
    let mut parts = files.filter(|file| {
        let rest = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
        rest.is_some_and(|rest| rest.ends_with(".aof") || rest.ends_with(".rdb"))
    });
    parts.next()
}

fn state_of(disk: &Disk, files: &[(PathBuf, u64)]) -> Result<String, Error> {
    let mut known = Checksum::default();
    for (path, length) in files {
        let mut bytes = Vec::new();
        let read = disk.reader(path).and_then(|mut file| {
            file.go_to(length.saturating_sub(KNOWN_BYTES))?;
            file.take(KNOWN_BYTES.min(*length)).read_to_end(&mut bytes)
        });
        read.map_err(|source| Error::Io { what: format!("cannot read {}", shown(path)), source })?;
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        known = known.then(Checksum::of(name)).then(Checksum::of(&length.to_le_bytes()));
        known = known.then(Checksum::of(&bytes));
    }
    Ok(format!("{:016x}", known.value()))
}
