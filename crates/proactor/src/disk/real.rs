//! The machine's disk: system calls that the standard library has no function for.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::{Advice, FallocateFlags, OFlags};
use rustix::io::{Errno, ReadWriteFlags};

use super::{FileIdentity, FileInfo, Open, directory_of, temporary_path};
use crate::{Entropy, sys};

/// At least this much is requested from the disk when data is not in memory: the request takes about 0.1 ms,
/// on a thread that must not wait.
const READ_AHEAD_BYTES: u64 = 256 * 1024;

/// The mode of new files. A file that replaces another keeps that one's mode, which may allow more.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// Most names that are tried for a temporary file. More collisions would mean an attack.
const NAME_TRIES_MAX: u32 = 16;

/// Opens a file. A file to be written is not reached through a link at the end of its path, and must be the
/// server's own: see [`check_own`].
pub(super) fn open(path: &Path, how: Open) -> io::Result<File> {
    match how {
        Open::Read => return File::open(path),
        Open::ReadRegular => return open_regular(path),
        Open::Write | Open::Empty | Open::Direct => {}
    }
    let mut options = File::options();
    // The content stays for now, because the owner has not been checked yet.
    options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
    let past_the_cache = if how == Open::Direct { libc::O_DIRECT } else { 0 };
    let mut opened = open_no_follow(path, &mut options, past_the_cache);
    // A file system that consists only of its cache, such as tmpfs.
    if how == Open::Direct && has_code(&opened, libc::EINVAL) {
        opened = open_no_follow(path, &mut options, 0);
    }
    let file = opened?;
    let metadata = file.metadata()?;
    check_own(&metadata, path)?;
    if how == Open::Empty && metadata.is_file() && metadata.len() > 0 {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Opens a file for writing, with these kernel flags. Refuses a symbolic link at the end of the path.
pub fn open_no_follow(path: &Path, options: &mut OpenOptions, flags: i32) -> io::Result<File> {
    let opened = options.custom_flags(libc::O_NOFOLLOW | flags).open(path);
    if has_code(&opened, libc::ELOOP) {
        return Err(io::Error::other("it is a symbolic link, which is not followed for writing"));
    }
    opened
}

/// Opens a regular file for reading. Does not wait for the writer of a pipe.
fn open_regular(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

fn has_code(opened: &io::Result<File>, code: i32) -> bool {
    opened.as_ref().is_err_and(|error| error.raw_os_error() == Some(code))
}

/// Refuses devices. If others may write to the folder, also refuses files of other users: they may have put
/// the file there to read what is written to it. Other names of the file (hard links) do no harm: backups use
/// them.
fn check_own(metadata: &Metadata, path: &Path) -> io::Result<()> {
    let kind = metadata.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        return Err(io::Error::other("it is a device"));
    }
    check_owner(metadata, path)
}

fn check_owner(metadata: &Metadata, path: &Path) -> io::Result<()> {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    let folder = fs::metadata(directory_of(path))?;
    let trusted = [rustix::process::geteuid().as_raw(), 0, folder.uid()];
    if folder.mode() & WRITABLE_BY_OTHERS != 0 && !trusted.contains(&metadata.uid()) {
        return Err(io::Error::other(format!(
            "it belongs to another user (id {}), who may have put it there: others may write to the folder",
            metadata.uid()
        )));
    }
    Ok(())
}

/// Creates a file beside `path`, under an unpredictable name, which only the server may read.
pub(super) fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut options = File::options();
    options.read(true).write(true).create_new(true).mode(FILE_MODE).custom_flags(libc::O_NOFOLLOW);
    let mut entropy = Entropy::from_os()?;
    let mut tries = 0;
    loop {
        let temporary = temporary_path(path, entropy.next_u64());
        match options.open(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < NAME_TRIES_MAX => {
                tries += 1
            }
            opened => return Ok((temporary, opened?)),
        }
    }
}

/// Gives the file at `temporary` the permissions of the file at `path`, if that exists.
pub(super) fn keep_permissions(temporary: &Path, path: &Path) -> io::Result<()> {
    const READ_AND_WRITE: u32 = 0o666;
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => {
            let file = File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(temporary)?;
            file.set_permissions(Permissions::from_mode(metadata.mode() & READ_AND_WRITE))
        }
        _ => Ok(()),
    }
}

pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Ok(()) => sync_directory(directory_of(path)),
        // It may be a link to another place, made by the operator.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            check_owner(&fs::symlink_metadata(path)?, path)?;
            match fs::metadata(path)?.is_dir() {
                true => Ok(()),
                false => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

pub(super) fn lock(path: &Path) -> io::Result<File> {
    let file = open(path, Open::Write)?;
    file.try_lock()?;
    Ok(file)
}

/// Writes at `offset` and waits until these bytes are durable. (A write followed by a sync would also wait
/// for other threads' bytes.)
pub(super) fn write_durably_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
    let write = || rustix::io::pwritev2(file, &[IoSlice::new(bytes)], offset, ReadWriteFlags::DSYNC);
    match write() {
        // The file was opened to bypass the cache, but the file system does not support that after all. The
        // call has written no bytes.
        Err(Errno::INVAL) if goes_past_the_cache(file)? => {
            rustix::fs::fcntl_setfl(file, rustix::fs::fcntl_getfl(file)? - OFlags::DIRECT)?;
            Ok(write()?)
        }
        written => Ok(written?),
    }
}

/// Reads the bytes that are in memory. If none are, requests them from the disk.
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

/// Allocates space for the file's first `bytes`. False if the file system does not support that.
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

pub(super) fn identity(path: &Path) -> io::Result<FileIdentity> {
    let metadata = fs::metadata(path)?;
    let born = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    Ok(FileIdentity {
        inode: metadata.ino(),
        born_ns: born.map(|born| born.as_nanos() as u64),
        directory_inode: fs::metadata(directory_of(path))?.ino(),
    })
}

pub(super) fn begin_write_out(file: &File, from: u64, to: u64) {
    // If this is not possible, the file is written out at the end.
    let _ = sys::begin_write_out(file, from, to);
}

pub(super) fn forget(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
}
