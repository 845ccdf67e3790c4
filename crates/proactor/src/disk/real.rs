//! The machine's disk: the kernel's calls, where the standard library has none of its own.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::path::Path;

use rustix::io::ReadWriteFlags;

use super::{FileInfo, Open};
use crate::sys;

pub(super) fn open(path: &Path, how: Open) -> io::Result<File> {
    let writes = how != Open::Read;
    // What was there stays unless it is asked to go.
    File::options().read(true).write(writes).create(writes).truncate(how == Open::Empty).open(path)
}

/// Writes at `offset` and waits until these bytes are durable. (With two calls, a write and a sync, somebody else's bytes
/// would have to be waited for as well.)
pub(super) fn write_durably_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::pwritev2(file, &[IoSlice::new(bytes)], offset, ReadWriteFlags::DSYNC)?)
}

pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

pub(super) fn list(path: &Path) -> io::Result<Vec<OsString>> {
    fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect()
}

pub(super) fn info(path: &Path) -> io::Result<FileInfo> {
    let metadata = fs::metadata(path)?;
    Ok(FileInfo { bytes: metadata.len(), is_file: metadata.is_file(), modified: metadata.modified().ok() })
}

pub(super) fn begin_write_out(file: &File, from: u64, to: u64) {
    // Where that is not possible, the file is written out at the end.
    let _ = sys::begin_write_out(file, from, to);
}
