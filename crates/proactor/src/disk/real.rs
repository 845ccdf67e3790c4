//! The machine's disk: the kernel's calls, where the standard library has none of its own.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{Advice, FallocateFlags, OFlags};
use rustix::io::{Errno, ReadWriteFlags};

use super::{FileInfo, Open, directory_of};
use crate::sys;

/// The disk is asked for at least so much when something is not in memory: to ask takes about 0.1 ms, on the thread that must not wait.
const READ_AHEAD_BYTES: u64 = 256 * 1024;

pub(super) fn open(path: &Path, how: Open) -> io::Result<File> {
    let writes = how != Open::Read;
    let mut options = File::options();
    // What was there stays unless it is asked to go.
    options.read(true).write(writes).create(writes).truncate(how == Open::Empty);
    if how == Open::Direct {
        match options.clone().custom_flags(libc::O_DIRECT).open(path) {
            // A file system that has nothing but its cache, such as tmpfs.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            opened => return opened,
        }
    }
    options.open(path)
}

pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Ok(()) => sync_directory(directory_of(path)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

pub(super) fn lock(path: &Path) -> io::Result<File> {
    let file = open(path, Open::Write)?;
    file.try_lock()?;
    Ok(file)
}

/// Writes at `offset` and waits until these bytes are durable. (With two calls, a write and a sync, somebody else's bytes
/// would have to be waited for as well.)
pub(super) fn write_durably_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
    let write = || rustix::io::pwritev2(file, &[IoSlice::new(bytes)], offset, ReadWriteFlags::DSYNC);
    match write() {
        // The file was opened to be written past the cache, and the file system takes that back: nothing was written.
        Err(Errno::INVAL) if goes_past_the_cache(file)? => {
            rustix::fs::fcntl_setfl(file, rustix::fs::fcntl_getfl(file)? - OFlags::DIRECT)?;
            Ok(write()?)
        }
        written => Ok(written?),
    }
}

/// Reads what is in memory. If nothing of it is, asks the disk for it.
pub(super) fn read_ready_at(file: &File, offset: u64, into: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match rustix::io::preadv2(file, &mut [IoSliceMut::new(into)], offset, ReadWriteFlags::NOWAIT) {
            Ok(count) => return Ok(Some(count)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let bytes = NonZeroU64::new(READ_AHEAD_BYTES.max(into.len() as u64));
                rustix::fs::fadvise(file, offset, bytes, Advice::WillNeed)?;
                return Ok(None);
            }
            Err(Errno::OPNOTSUPP) => {
                return std::os::unix::fs::FileExt::read_at(file, into, offset).map(Some);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Takes the room for the file's first `bytes`; false if the file system does not do that.
pub(super) fn take_room(file: &File, bytes: u64) -> io::Result<bool> {
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::INTR) => {}
            Err(Errno::NOSYS | Errno::OPNOTSUPP) => return Ok(false),
            taken => return Ok(taken.map(|()| true)?),
        }
    }
}

fn goes_past_the_cache(file: &File) -> io::Result<bool> {
    Ok(rustix::fs::fcntl_getfl(file)?.contains(OFlags::DIRECT))
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

pub(super) fn forget(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
}
