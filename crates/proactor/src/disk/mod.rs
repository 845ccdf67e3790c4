//! Files: how they are written, and when that is durable.
//!
//! A [`Disk`] is the machine's or a simulated one ([`SimDisk`]). Both guarantee the same:
//!
//! | after | a crash leaves |
//! |---|---|
//! | [`DiskFile::write_at`], a [`DiskWriter`] | any of the sectors, each whole, old or in pieces; any length between the old and the new one |
//! | [`DiskFile::sync`], [`DiskFile::reserve`], [`DiskFile::pre_write`] | everything written to the file before |
//! | [`DiskFile::write_durably_at`] | these bytes; nothing is guaranteed for others |
//! | creation, [`Disk::rename`], [`Disk::remove`] | the name as it was before or as it is after, each change independently |
//! | [`Disk::sync_directory`] | all previous changes of names in the directory |
//!
//! * The calls block. They are for threads that may wait, not for those that serve. The exception is
//!   [`DiskFile::read_ready_at`].
//! * **After a failed sync nothing is durable.** The kernel reports a failed write once and then forgets it, so a
//!   second sync that succeeds says nothing about what the first one lost. Therefore, once a sync of a file has
//!   failed, all later ones fail.
//! * **Files are private.** New files are only for the server's user (0600, folders 0700). A file that replaces
//!   another keeps that one's permissions. A file is not opened for writing through a symbolic link, if it is a
//!   device, or if it belongs to another user and others may write to the folder. Anything may be opened for reading.
//! * A file that has to exist completely or not at all gets its name when its bytes are durable
//!   ([`Disk::put_in_place`], [`Disk::replace`]).
//!
//! Not here: buffers, formats, and which thread waits for which call.

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

/// Size of the zeros that are written at once when a file is written in advance.
const PRE_WRITE_BYTES: usize = 1 << 20;

/// Memory, offset and length of writes that bypass the cache must be multiples of this.
pub const DIRECT_BYTES: usize = 4096;
/// The longest file that is read at once.
pub(crate) const READ_BYTES_MAX: u64 = 256 << 20;

/// A file system; cheap to clone.
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
    /// For reading; it must exist.
    Read,
    /// For reading; it must exist and be a regular file, because a pipe or a device may never end.
    ReadRegular,
    /// For reading and writing; created if it does not exist.
    Write,
    /// For reading and writing, truncated; created if it does not exist.
    Empty,
    /// Like `Write`, but writes bypass the system's cache if the file system supports that. Memory, offset
    /// and length of a write must be multiples of [`DIRECT_BYTES`].
    Direct,
}

/// The metadata of a file.
#[derive(Clone, Debug)]
pub struct FileInfo {
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether it is a regular file.
    pub is_file: bool,
    /// When it was last written, if the file system reports that.
    pub modified: Option<SystemTime>,
}

/// Tells a file from its copies: a copy, one that was restored from a backup included, has another identity. (A copy of
/// the whole file system has not.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileIdentity {
    /// The number of the file in its file system.
    pub inode: u64,
    /// When the file was created, in nanoseconds since 1970, if the file system reports that.
    pub born_ns: Option<u64>,
    /// The number of its directory.
    pub directory_inode: u64,
}

/// An open file.
#[derive(Debug)]
pub struct DiskFile {
    file: File,
    has_failed: AtomicBool,
}

/// A lock of a file. No other owner, in this process or another, can lock the file while this exists.
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
    /// The machine's disk.
    pub fn real() -> Disk {
        Disk(Source::Real)
    }

    fn simulated(disk: SimDisk) -> Disk {
        Disk(Source::Simulated(disk))
    }

    /// Opens a file. If that creates it, its name is only durable after
    /// [`sync_directory`](Self::sync_directory).
    pub fn open(&self, path: &Path, how: Open) -> io::Result<DiskFile> {
        let file = match &self.0 {
            Source::Real => File::Real(real::open(path, how)?),
            Source::Simulated(disk) => File::Simulated(disk.open(path, how)?),
        };
        Ok(DiskFile { file, has_failed: AtomicBool::new(false) })
    }

    /// Renames the file `from` to `to` in the same directory. Replaces a file with that name.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match &self.0 {
            Source::Real => std::fs::rename(from, to),
            Source::Simulated(disk) => disk.rename(from, to),
        }
    }

    /// Removes a name of a file. The file is deleted when it has no name left and no process has it open.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        match &self.0 {
            Source::Real => std::fs::remove_file(path),
            Source::Simulated(disk) => disk.remove(path),
        }
    }

    /// Makes the names in a directory durable, and which files they name.
    pub fn sync_directory(&self, path: &Path) -> io::Result<()> {
        match &self.0 {
            Source::Real => real::sync_directory(path),
            Source::Simulated(disk) => disk.sync_directory(path),
        }
    }

    /// Creates a directory durably, if it does not exist. (A simulated disk has all directories.)
    pub fn create_directory(&self, path: &Path) -> io::Result<()> {
        match &self.0 {
            Source::Real => real::create_directory(path),
            Source::Simulated(_) => Ok(()),
        }
    }

    /// Locks the file at `path`, for as long as the lock and its process live. Creates it if it does not
    /// exist. Fails with [`WouldBlock`](io::ErrorKind::WouldBlock) if the file is locked already.
    pub fn lock(&self, path: &Path) -> io::Result<DiskLock> {
        let held = match &self.0 {
            Source::Real => Held::Real { _file: real::lock(path)? },
            Source::Simulated(disk) => Held::Simulated { _lock: disk.lock(path)? },
        };
        Ok(DiskLock { _held: held })
    }

    /// The names of everything in a directory, in any order.
    pub fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        match &self.0 {
            Source::Real => real::list(path),
            Source::Simulated(disk) => Ok(disk.list(path)),
        }
    }

    /// The metadata of a file.
    pub fn info(&self, path: &Path) -> io::Result<FileInfo> {
        match &self.0 {
            Source::Real => real::info(path),
            Source::Simulated(disk) => disk.info(path),
        }
    }

    /// The identity of a file.
    pub fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        match &self.0 {
            Source::Real => real::identity(path),
            Source::Simulated(disk) => disk.identity(path),
        }
    }

    /// Whether the name exists, even if only as a dangling link.
    pub fn has(&self, path: &Path) -> bool {
        match &self.0 {
            Source::Real => path.symlink_metadata().is_ok(),
            Source::Simulated(disk) => disk.info(path).is_ok(),
        }
    }

    /// Whether a regular file with this name exists.
    pub fn is_file(&self, path: &Path) -> bool {
        self.info(path).is_ok_and(|info| info.is_file)
    }

    /// Reads all of a regular file. Fails if it is longer than 256 MiB.
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

    /// Renames `temporary`, whose content is durable, to `path` in the same directory, durably. It gets the
    /// permissions of the file that it replaces.
    pub fn put_in_place(&self, temporary: &Path, path: &Path) -> io::Result<()> {
        self.keep_permissions(temporary, path)?;
        self.rename(temporary, path)?;
        self.sync_directory(directory_of(path))
    }

    /// Replaces the file at `path` atomically and durably: after a crash it is the old file or the new one.
    /// It keeps its permissions. After an error it is the old file, or the new one, whose name may not be
    /// durable.
    pub fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.replace_marked(path, |_| bytes.to_vec())
    }

    /// Like [`replace`](Self::replace), with a content that may contain the identity of the new file.
    pub fn replace_marked(
        &self,
        path: &Path,
        content: impl FnOnce(FileIdentity) -> Vec<u8>,
    ) -> io::Result<()> {
        let (temporary, file) = self.create_beside(path)?;
        let write = || {
            file.write_all_at(0, &content(self.identity(&temporary)?))?;
            self.keep_permissions(&temporary, path)?;
            file.sync()?;
            self.put_in_place(&temporary, path)
        };
        let replaced = write();
        if replaced.is_err() {
            // The first error is reported.
            let _ = self.remove(&temporary);
        }
        replaced
    }

    /// Creates an empty file in the directory of `path`, which only the server may read, under an
    /// unpredictable name.
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

/// The directory that contains a file.
fn directory_of(path: &Path) -> &Path {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    directory.unwrap_or(Path::new("."))
}

/// A name for a file that is going to replace the one at `path`.
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

    /// Reads from `offset`. Returns the number of bytes, 0 at the end of the file.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        match &self.file {
            File::Real(file) => std::os::unix::fs::FileExt::read_at(file, into, offset),
            File::Simulated(file) => file.read_at(offset, into),
        }
    }

    /// Reads from `offset` without waiting: `None` if none of it is in memory. The disk was then asked for
    /// it, so it is worth trying again soon. (If the file system does not report which bytes are in memory,
    /// this waits.)
    pub fn read_ready_at(&self, offset: u64, into: &mut [u8]) -> io::Result<Option<usize>> {
        match &self.file {
            File::Real(file) => real::read_ready_at(file, offset, into),
            File::Simulated(file) => file.read_at(offset, into).map(Some),
        }
    }

    /// Writes at `offset`. Returns the number of bytes written, perhaps fewer than given. They are not
    /// durable.
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

    /// Writes all of `bytes` at `offset`, and waits until they are durable, in one system call if the system
    /// accepts all bytes at once.
    pub fn write_durably_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.durably(|| {
            write_all(offset, bytes, |offset, bytes| match &self.file {
                File::Real(file) => real::write_durably_at(file, offset, bytes),
                File::Simulated(file) => file.write_durably_at(offset, bytes),
            })
        })
    }

    /// Waits until everything written is durable, including the length.
    pub fn sync(&self) -> io::Result<()> {
        self.durably(|| match &self.file {
            File::Real(file) => file.sync_data(),
            File::Simulated(file) => file.sync(),
        })
    }

    /// Waits until everything written is durable, and drops it from the system's cache, so that later reads
    /// return the bytes on the disk. After a failed sync, perhaps in an earlier process, the two may differ.
    pub fn sync_and_forget(&self) -> io::Result<()> {
        self.sync()?;
        match &self.file {
            File::Real(file) => real::forget(file),
            File::Simulated(file) => file.forget(),
        }
    }

    /// Allocates space for `bytes` zeros at the beginning of the file, durably. Later writes there do not
    /// change the length, and cannot fail for lack of space. If the file system does not support that, the
    /// zeros [are written](Self::pre_write).
    pub fn reserve(&self, bytes: u64) -> io::Result<()> {
        if self.takes_room(bytes)? { self.sync() } else { self.pre_write(bytes) }
    }

    /// Allocates the same space and writes the zeros. Later writes there change nothing but these bytes, so
    /// they are durable sooner.
    pub fn pre_write(&self, bytes: u64) -> io::Result<()> {
        // Fails at once if there is not enough space, rather than when the disk is full.
        self.takes_room(bytes)?;
        let zeros = vec![0; PRE_WRITE_BYTES.min(bytes as usize)];
        let mut offset = 0;
        while offset < bytes {
            let count = (bytes - offset).min(PRE_WRITE_BYTES as u64);
            self.write_all_at(offset, &zeros[..count as usize])?;
            // Sync piece by piece: if the disk gets everything at once, other threads that sync a few bytes
            // wait for all of it.
            self.sync()?;
            offset += count;
        }
        Ok(())
    }

    /// Allocates the space, not durably. False if the file system does not support that.
    fn takes_room(&self, bytes: u64) -> io::Result<bool> {
        match &self.file {
            File::Real(file) => real::take_room(file, bytes),
            File::Simulated(_) => Ok(false),
        }
    }

    /// Makes the system begin to write this part to the disk, so that a later sync has less to do. This makes
    /// nothing durable.
    pub fn begin_write_out(&self, from: u64, to: u64) {
        if let File::Real(file) = &self.file {
            real::begin_write_out(file, from, to);
        }
    }

    /// Runs `make`, which makes something durable. Fails if that has failed before.
    fn durably(&self, make: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if self.has_failed.load(Ordering::Relaxed) {
            return Err(io::Error::other("an earlier sync of this file failed, and what it lost is unknown"));
        }
        make().inspect_err(|_| self.has_failed.store(true, Ordering::Relaxed))
    }
}

/// Writes all of `bytes` at `offset`, in as many calls of `write` as needed.
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

/// Writes a file sequentially from its beginning. It may be a pipe.
#[derive(Debug)]
pub struct DiskWriter {
    file: DiskFile,
    offset: u64,
}

impl DiskWriter {
    /// Writes `file`, which must have just been opened.
    pub fn new(file: DiskFile) -> DiskWriter {
        DiskWriter { file, offset: 0 }
    }

    /// The file that it writes to.
    pub fn file(&self) -> &DiskFile {
        &self.file
    }

    /// Number of bytes written.
    pub fn written_bytes(&self) -> u64 {
        self.offset
    }

    /// Turns it into a reader, from the beginning of the file.
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

/// Reads a file sequentially. It may be a pipe.
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

    /// Continues reading at `offset`.
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
