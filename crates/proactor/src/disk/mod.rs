//! Files: what is written, and what is durable.
//!
//! A [`Disk`] is the machine's or a simulated one ([`SimDisk`]), and both promise the same and no more:
//!
//! | after | a crash leaves |
//! |---|---|
//! | [`DiskFile::write_at`], a [`DiskWriter`] | any of the sectors, each whole, old or in pieces; any length between the old and the new one |
//! | [`DiskFile::sync`], [`DiskFile::reserve`], [`DiskFile::pre_write`] | all that was written to the file before |
//! | [`DiskFile::write_durably_at`] | these bytes; nothing is known of others |
//! | creation, [`Disk::rename`], [`Disk::remove`] | the name as it was before or as it is after, each change for itself |
//! | [`Disk::sync_directory`] | all changes of names in the directory before |
//!
//! * The calls block. They are for threads that may wait, not for those that serve. The exception is
//!   [`DiskFile::read_ready_at`].
//! * **After a failed sync nothing is durable.** The kernel reports a failed write once and then forgets it, so a
//!   second sync that succeeds says nothing about what the first one lost. Once a sync of a file has failed, all later
//!   ones therefore fail.
//! * **Files are private.** New files are for the server's user alone (0600, folders 0700); a file that replaces
//!   another keeps that one's permissions. A file to be written is not reached through a symbolic link, is not a
//!   device, and, if others may write to the folder, does not belong to another user. A file to be read may be
//!   anything.
//! * A file that has to exist as a whole or not at all gets its name when its bytes are durable
//!   ([`Disk::put_in_place`], [`Disk::replace`]).
//!
//! Not here: buffers, formats, and which thread waits for what.

mod names;
mod real;
mod sectors;
mod sim;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

pub use real::open_no_follow;
pub use sim::{DiskFaults, Fault, SimDisk};

/// Zeros that are written at once when a file is written before it is used.
const PRE_WRITE_BYTES: usize = 1 << 20;

/// What memory, offset and length of a write past the system's cache are multiples of.
pub const DIRECT_BYTES: usize = 4096;
/// The longest file that is read as a whole.
pub(crate) const READ_BYTES_MAX: u64 = 256 << 20;

/// Where files are; cheap to clone.
#[derive(Clone, Debug)]
pub struct Disk(Source);

#[derive(Clone, Debug)]
enum Source {
    Real,
    Simulated(SimDisk),
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Open {
    /// To be read; it must be there.
    Read,
    /// The same; it must be an ordinary file, not a pipe or a device, of which nobody knows when it ends.
    ReadRegular,
    /// To be read and written; created if it is not there.
    Write,
    /// The same, but without what it held.
    Empty,
    /// Like `Write`, but what is written goes past the system's cache if the file system can do that. Memory, offset and
    /// length of a write have to be multiples of [`DIRECT_BYTES`].
    Direct,
}

/// What is known of a file beside its bytes.
#[derive(Clone, Debug)]
pub struct FileInfo {
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether it is an ordinary file.
    pub is_file: bool,
    /// When it was last written, if the file system knows.
    pub modified: Option<SystemTime>,
}

/// An open file.
#[derive(Debug)]
pub struct DiskFile {
    file: File,
    has_failed: AtomicBool,
}

/// A file that nobody else can lock while this is there, in this process or another.
#[derive(Debug)]
pub struct DiskLock {
    _held: Held,
}

#[derive(Debug)]
enum Held {
    Real { _file: std::fs::File },
    Simulated { _lock: sim::SimLock },
}

#[derive(Debug)]
enum File {
    Real(std::fs::File),
    Simulated(sim::SimFile),
}

impl Disk {
    /// The machine's.
    pub fn real() -> Disk {
        Disk(Source::Real)
    }

    fn simulated(disk: SimDisk) -> Disk {
        Disk(Source::Simulated(disk))
    }

    /// Opens a file. If that creates it, its name is not durable before [`sync_directory`](Self::sync_directory).
    pub fn open(&self, path: &Path, how: Open) -> io::Result<DiskFile> {
        let file = match &self.0 {
            Source::Real => File::Real(real::open(path, how)?),
            Source::Simulated(disk) => File::Simulated(disk.open(path, how)?),
        };
        Ok(DiskFile { file, has_failed: AtomicBool::new(false) })
    }

    /// Gives the file `from` the name `to` in the same directory, in place of a file that has it.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match &self.0 {
            Source::Real => std::fs::rename(from, to),
            Source::Simulated(disk) => disk.rename(from, to),
        }
    }

    /// Takes a name from a file, which goes if nobody has it open.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        match &self.0 {
            Source::Real => std::fs::remove_file(path),
            Source::Simulated(disk) => disk.remove(path),
        }
    }

    /// Makes durable which names there are in a directory, and which files they name.
    pub fn sync_directory(&self, path: &Path) -> io::Result<()> {
        match &self.0 {
            Source::Real => real::sync_directory(path),
            Source::Simulated(disk) => disk.sync_directory(path),
        }
    }

    /// Makes a directory, durably, if it is not there. (A simulated disk has all directories.)
    pub fn create_directory(&self, path: &Path) -> io::Result<()> {
        match &self.0 {
            Source::Real => real::create_directory(path),
            Source::Simulated(_) => Ok(()),
        }
    }

    /// Locks the file at `path`, which is created if it is not there, for as long as the lock and its process live. Fails with
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if somebody has locked it.
    pub fn lock(&self, path: &Path) -> io::Result<DiskLock> {
        let held = match &self.0 {
            Source::Real => Held::Real { _file: real::lock(path)? },
            Source::Simulated(disk) => Held::Simulated { _lock: disk.lock(path)? },
        };
        Ok(DiskLock { _held: held })
    }

    /// The names of everything in a directory, in no order.
    pub fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        match &self.0 {
            Source::Real => real::list(path),
            Source::Simulated(disk) => Ok(disk.list(path)),
        }
    }

    /// What is known of a file.
    pub fn info(&self, path: &Path) -> io::Result<FileInfo> {
        match &self.0 {
            Source::Real => real::info(path),
            Source::Simulated(disk) => disk.info(path),
        }
    }

    /// Whether there is something of this name, if only a link that leads nowhere.
    pub fn has(&self, path: &Path) -> bool {
        match &self.0 {
            Source::Real => path.symlink_metadata().is_ok(),
            Source::Simulated(disk) => disk.info(path).is_ok(),
        }
    }

    /// Whether there is an ordinary file of this name.
    pub fn is_file(&self, path: &Path) -> bool {
        self.info(path).is_ok_and(|info| info.is_file)
    }

    /// All of an ordinary file of at most 256 MiB.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let reader = DiskReader { file: self.open(path, Open::ReadRegular)?, offset: 0 };
        let mut bytes = Vec::new();
        reader.take(READ_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > READ_BYTES_MAX {
            return Err(io::Error::other(format!("it is longer than {READ_BYTES_MAX} bytes")));
        }
        Ok(bytes)
    }

    /// Reads a file from its beginning.
    pub fn reader(&self, path: &Path) -> io::Result<DiskReader> {
        Ok(DiskReader { file: self.open(path, Open::Read)?, offset: 0 })
    }

    /// Makes `temporary`, all of which is durable, the file at `path`, which is in the same directory. Whoever could read and write
    /// the file that was there can do so with this one.
    pub fn put_in_place(&self, temporary: &Path, path: &Path) -> io::Result<()> {
        self.keep_permissions(temporary, path)?;
        self.rename(temporary, path)?;
        self.sync_directory(directory_of(path))
    }

    /// Replaces the file at `path` as a whole, durably: after a crash there is the old one or the new one. It keeps its
    /// permissions. With an error the old one is still there, or the new one, whose name may not be durable.
    pub fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let (temporary, file) = self.create_beside(path)?;
        let write = || {
            file.write_all_at(0, bytes)?;
            self.keep_permissions(&temporary, path)?;
            file.sync()?;
            self.put_in_place(&temporary, path)
        };
        let replaced = write();
        if replaced.is_err() {
            // The error that is reported is the first one.
            let _ = self.remove(&temporary);
        }
        replaced
    }

    /// Creates an empty file in the directory of `path`, which nobody else may read, under a name that nobody can foresee.
    fn create_beside(&self, path: &Path) -> io::Result<(PathBuf, DiskFile)> {
        match &self.0 {
            Source::Real => {
                let (temporary, file) = real::create_beside(path)?;
                let file = DiskFile { file: File::Real(file), has_failed: AtomicBool::new(false) };
                Ok((temporary, file))
            }
            Source::Simulated(_) => {
                let temporary = temporary_path(path, 0);
                Ok((temporary.clone(), self.open(&temporary, Open::Empty)?))
            }
        }
    }

    fn keep_permissions(&self, temporary: &Path, path: &Path) -> io::Result<()> {
        match &self.0 {
            Source::Real => real::keep_permissions(temporary, path),
            Source::Simulated(_) => Ok(()),
        }
    }
}

/// The directory in which a file is.
fn directory_of(path: &Path) -> &Path {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    directory.unwrap_or(Path::new("."))
}

/// Where a file is written that is to take the place of the one at `path`.
fn temporary_path(path: &Path, number: u64) -> PathBuf {
    let mut temporary: OsString = path.as_os_str().to_owned();
    temporary.push(format!(".{number:016x}.tmp"));
    temporary.into()
}

impl DiskFile {
    /// Its length in bytes.
    pub fn size_bytes(&self) -> io::Result<u64> {
        match &self.file {
            File::Real(file) => Ok(file.metadata()?.len()),
            File::Simulated(file) => file.bytes(),
        }
    }

    /// Reads from `offset` on; how many bytes, none at the end of the file.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        match &self.file {
            File::Real(file) => std::os::unix::fs::FileExt::read_at(file, into, offset),
            File::Simulated(file) => file.read_at(offset, into),
        }
    }

    /// The same, for threads that must not wait: `None` if none of it is in memory. The disk was asked for it then, so it is worth trying again
    /// soon. (A file system that does not say what is in memory is waited for.)
    pub fn read_ready_at(&self, offset: u64, into: &mut [u8]) -> io::Result<Option<usize>> {
        match &self.file {
            File::Real(file) => real::read_ready_at(file, offset, into),
            File::Simulated(file) => file.read_at(offset, into).map(Some),
        }
    }

    /// Writes at `offset`; how many bytes, perhaps fewer than there are. They are not durable.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        match &self.file {
            File::Real(file) => std::os::unix::fs::FileExt::write_at(file, bytes, offset),
            File::Simulated(file) => file.write_at(offset, bytes),
        }
    }

    /// Writes all of `bytes` at `offset`. They are not durable.
    pub fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        write_all(offset, bytes, |offset, bytes| self.write_at(offset, bytes))
    }

    /// Writes all of `bytes` at `offset`, and waits until they are durable: one call to the kernel.
    pub fn write_durably_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.durably(|| {
            write_all(offset, bytes, |offset, bytes| match &self.file {
                File::Real(file) => real::write_durably_at(file, offset, bytes),
                File::Simulated(file) => file.write_durably_at(offset, bytes),
            })
        })
    }

    /// Waits until all that was written is durable, the length too.
    pub fn sync(&self) -> io::Result<()> {
        self.durably(|| match &self.file {
            File::Real(file) => file.sync_data(),
            File::Simulated(file) => file.sync(),
        })
    }

    /// Waits until all that was written is durable, and forgets what the system has in its cache, so that what is read next is what the
    /// disk has. After a sync that failed, perhaps in an earlier process, these are two things.
    pub fn sync_and_forget(&self) -> io::Result<()> {
        self.sync()?;
        match &self.file {
            File::Real(file) => real::forget(file),
            File::Simulated(file) => file.forget(),
        }
    }

    /// Takes the room for `bytes` of zeros, which the file begins with, and makes that durable: writing there later changes no length
    /// and cannot fail for want of room. Where the file system cannot do that the zeros [are written](Self::pre_write).
    pub fn reserve(&self, bytes: u64) -> io::Result<()> {
        if self.takes_room(bytes)? { self.sync() } else { self.pre_write(bytes) }
    }

    /// The same, and the zeros are written: what is written there later changes nothing but those bytes, so it is durable sooner.
    pub fn pre_write(&self, bytes: u64) -> io::Result<()> {
        // If there is no room for all of it that is known at once, and not when the disk is full.
        self.takes_room(bytes)?;
        let zeros = vec![0; PRE_WRITE_BYTES.min(bytes as usize)];
        let mut offset = 0;
        while offset < bytes {
            let count = (bytes - offset).min(PRE_WRITE_BYTES as u64);
            self.write_all_at(offset, &zeros[..count as usize])?;
            // One by one: a disk that takes all of them at once makes others, who wait for a few bytes, wait as long.
            self.sync()?;
            offset += count;
        }
        Ok(())
    }

    /// Whether the file has the room now, which is not durable; false: nobody knows.
    fn takes_room(&self, bytes: u64) -> io::Result<bool> {
        match &self.file {
            File::Real(file) => real::take_room(file, bytes),
            File::Simulated(_) => Ok(false),
        }
    }

    /// Has the system begin to write this part to the disk, so that a sync later has less to do. Nothing is durable by that.
    pub fn begin_write_out(&self, from: u64, to: u64) {
        if let File::Real(file) = &self.file {
            real::begin_write_out(file, from, to);
        }
    }

    /// Does what makes something durable, unless that has failed before.
    fn durably(&self, make: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if self.has_failed.load(Ordering::Relaxed) {
            return Err(io::Error::other("an earlier sync of this file failed, and what it lost is unknown"));
        }
        make().inspect_err(|_| self.has_failed.store(true, Ordering::Relaxed))
    }
}

/// Writes all of `bytes` at `offset`, as much at once as `write` takes.
fn write_all(
    mut offset: u64,
    mut bytes: &[u8],
    mut write: impl FnMut(u64, &[u8]) -> io::Result<usize>,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match write(offset, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                offset += count as u64;
                bytes = &bytes[count..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes a file from its beginning on, one byte after the other. It may be a pipe.
#[derive(Debug)]
pub struct DiskWriter {
    file: DiskFile,
    offset: u64,
}

impl DiskWriter {
    /// Writes `file`, which was just opened.
    pub fn new(file: DiskFile) -> DiskWriter {
        DiskWriter { file, offset: 0 }
    }

    /// What it writes to.
    pub fn file(&self) -> &DiskFile {
        &self.file
    }

    /// How many bytes were written.
    pub fn written_bytes(&self) -> u64 {
        self.offset
    }

    /// Reads what was written, from the beginning.
    pub fn into_reader(self) -> io::Result<DiskReader> {
        let mut reader = DiskReader { file: self.file, offset: 0 };
        reader.go_to(0)?;
        Ok(reader)
    }
}

impl Write for DiskWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = match &mut self.file.file {
            File::Real(file) => file.write(bytes)?,
            File::Simulated(file) => file.write_at(self.offset, bytes)?,
        };
        self.offset += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a file, one byte after the other. It may be a pipe.
#[derive(Debug)]
pub struct DiskReader {
    file: DiskFile,
    offset: u64,
}

impl DiskReader {
    /// Its length in bytes.
    pub fn size_bytes(&self) -> io::Result<u64> {
        self.file.size_bytes()
    }

    /// Goes on reading at `offset`.
    pub fn go_to(&mut self, offset: u64) -> io::Result<()> {
        if let File::Real(file) = &mut self.file.file {
            io::Seek::seek(file, io::SeekFrom::Start(offset))?;
        }
        self.offset = offset;
        Ok(())
    }
}

impl Read for DiskReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = match &mut self.file.file {
            File::Real(file) => file.read(into)?,
            File::Simulated(file) => file.read_at(self.offset, into)?,
        };
        self.offset += count as u64;
        Ok(count)
    }
}
