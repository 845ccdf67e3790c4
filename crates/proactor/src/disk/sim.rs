//! A simulated disk. It keeps everything that was made durable, and the seed decides what else a crash
//! leaves.
//!
//! [`SimDisk::crash`] is a power failure. Open files are closed; `sectors.rs` and `names.rs` say what the
//! files contain afterwards. Errors occur at given rates ([`DiskFaults`]) or as planned ([`SimDisk::plan`]):
//!
//! * EIO at a write: nothing was written. EIO at a sync: some of the data has become durable, and the disk forgets the
//!   rest, so that a second sync succeeds without making that durable.
//! * ENOSPC when files take more than there is space for, or as planned; a write takes as much as fits.
//! * short writes; and operations that take time on the simulation's clock before they have an effect.
//!
//! Before an operation, and within a durable write, the simulation may let other threads run
//! ([`SimDisk::on_operation`]). Without that, an operation that takes time moves the clock.
//!
//! Not here: creating directories, links, permissions, and errors of reading.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::names::Names;
use super::sectors::{Sectors, index};
use super::{DIRECT_BYTES, Disk, FileIdentity, FileInfo, Open, directory_of};
use crate::Entropy;

/// A fault that may occur.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A write fails with EIO.
    WriteError,
    /// A sync, of a file or a directory, or a durable write fails with EIO.
    SyncError,
    /// A write, or the creation of a file, fails with ENOSPC.
    NoRoom,
    /// A write takes only some of its bytes.
    ShortWrite,
    /// Any operation takes this many nanoseconds.
    Hang(u64),
}

/// How often faults occur by themselves: at one in this many operations; 0: never.
#[derive(Clone, Debug)]
pub struct DiskFaults {
    /// [`Fault::WriteError`]
    pub write_error_one_in: u64,
    /// [`Fault::SyncError`]
    pub sync_error_one_in: u64,
    /// [`Fault::ShortWrite`]
    pub short_write_one_in: u64,
    /// [`Fault::Hang`]
    pub hang_one_in: u64,
    /// Longest duration of those, in nanoseconds.
    pub hang_ns_max: u64,
    /// The space for all files together.
    pub room_bytes: u64,
}

impl Default for DiskFaults {
    /// A disk without faults.
    fn default() -> DiskFaults {
        DiskFaults {
            write_error_one_in: 0,
            sync_error_one_in: 0,
            short_write_one_in: 0,
            hang_one_in: 0,
            hang_ns_max: 0,
            room_bytes: u64::MAX,
        }
    }
}

/// A simulated disk; clones are the same disk.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<DiskState>>);

impl fmt::Debug for SimDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SimDisk").finish_non_exhaustive()
    }
}

/// Called before an operation with the time on the simulation's clock at which it ends, if it takes time.
/// Returns true if the operation returns no sooner.
type OnOperation = Arc<dyn Fn(Option<u64>) -> bool + Send + Sync>;

struct DiskState {
    now_ns: Arc<AtomicU64>,
    entropy: Entropy,
    faults: DiskFaults,
    /// Planned faults, each with the number of operations of its kind before it.
    planned: Vec<(u64, Fault)>,
    operations: u64,
    /// The number of crashes: files opened before the last one are closed.
    life: u64,
    names: Names,
    files: Vec<Sectors>,
    /// Locked paths, with the number of crashes when they were locked.
    locked: Vec<(PathBuf, u64)>,
    on_operation: Option<OnOperation>,
    /// The operation at which the power fails.
    power_fails_at: Option<u64>,
    has_power: bool,
}

/// A kind of operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Write,
    DurableWrite,
    Sync,
    /// A change of a name.
    Name {
        creates: bool,
    },
}

impl Fault {
    /// Whether this fault can hit such an operation.
    fn can_hit(self, operation: Operation) -> bool {
        let writes = matches!(operation, Operation::Write | Operation::DurableWrite);
        match self {
            Fault::WriteError => operation == Operation::Write,
            Fault::SyncError => matches!(operation, Operation::Sync | Operation::DurableWrite),
            Fault::NoRoom => writes || operation == Operation::Name { creates: true },
            Fault::ShortWrite => writes,
            Fault::Hang(_) => true,
        }
    }
}

fn no_room() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

/// The error of a file opened before the last crash.
fn closed() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}

fn broken() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

impl SimDisk {
    /// An empty disk on which everything follows from `seed`, with its own clock.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk::at(Arc::new(AtomicU64::new(0)), seed)
    }

    /// An empty disk with this clock.
    pub(crate) fn at(now_ns: Arc<AtomicU64>, seed: u64) -> SimDisk {
        SimDisk(Arc::new(Mutex::new(DiskState {
            now_ns,
            entropy: Entropy::from_seed(seed),
            faults: DiskFaults::default(),
            planned: Vec::new(),
            operations: 0,
            life: 0,
            names: Names::default(),
            files: Vec::new(),
            locked: Vec::new(),
            on_operation: None,
            power_fails_at: None,
            has_power: true,
        })))
    }

    /// The disk as its users see it.
    pub fn disk(&self) -> Disk {
        Disk::simulated(self.clone())
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on faults occur at these rates.
    pub fn set_faults(&self, faults: DiskFaults) {
        self.state().faults = faults;
    }

    /// Makes `fault` hit the next operation that it can hit, after `spared` others.
    pub fn plan(&self, spared: u64, fault: Fault) {
        self.state().planned.push((spared, fault));
    }

    /// From now on no faults occur.
    pub fn heal(&self) {
        let mut state = self.state();
        state.faults = DiskFaults::default();
        state.planned.clear();
    }

    /// The number of planned faults that have not occurred yet.
    pub fn planned(&self) -> usize {
        self.state().planned.len()
    }

    /// The number of operations so far that change something or make it durable.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Calls `act` before each such operation, with the time at which the operation takes effect if that is
    /// not now. True: that time has come; false: the disk advances the clock.
    pub fn on_operation(&self, act: impl Fn(Option<u64>) -> bool + Send + Sync + 'static) {
        self.state().on_operation = Some(Arc::new(act));
    }

    /// The power fails, unless it has failed already, and comes back.
    pub fn crash(&self) {
        if self.has_power() {
            self.lose_power();
        }
        let mut state = self.state();
        (state.has_power, state.power_fails_at) = (true, None);
    }

    /// Makes the power fail when the next operation after `spared` others begins. All operations then fail
    /// until [`crash`](Self::crash) restores it.
    pub fn fail_power_after(&self, spared: u64) {
        let mut state = self.state();
        state.power_fails_at = Some(state.operations + spared + 1);
    }

    /// Cancels [`fail_power_after`](Self::fail_power_after).
    pub fn keep_power(&self) {
        self.state().power_fails_at = None;
    }

    /// Whether the disk has power.
    pub fn has_power(&self) -> bool {
        self.state().has_power
    }

    /// The process that used it has ended, and the system continues: files are closed, and their bytes can
    /// still be read.
    pub fn end_process(&self) {
        let mut state = self.state();
        state.life += 1;
        state.locked.clear();
    }

    fn lose_power(&self) {
        let mut state = self.state();
        state.has_power = false;
        let DiskState { names, files, entropy, .. } = &mut *state;
        names.crash(entropy);
        files.iter_mut().for_each(|file| file.crash(entropy));
        let named: Vec<usize> = names.files().collect();
        for (number, file) in files.iter_mut().enumerate() {
            if !named.contains(&number) {
                *file = Sectors::default();
            }
        }
        state.life += 1;
        state.locked.clear();
    }

    pub(super) fn lock(&self, path: &Path) -> io::Result<SimLock> {
        self.open(path, Open::Write)?;
        let mut state = self.state();
        if state.locked.iter().any(|(locked, _)| locked == path) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let locked = (path.to_owned(), state.life);
        state.locked.push(locked.clone());
        Ok(SimLock { disk: self.clone(), locked })
    }

    /// Begins an operation. Returns its fault, if any. Fails if the power fails meanwhile.
    fn begin(&self, operation: Operation) -> io::Result<Option<Fault>> {
        let mut state = self.state();
        state.operations += 1;
        if state.has_power && state.power_fails_at.is_some_and(|at| state.operations >= at) {
            drop(state);
            self.lose_power();
            return Err(closed());
        }
        if !state.has_power {
            return Err(closed());
        }
        let fault = state.fault_of(operation);
        let begun_ns = state.now_ns.load(Ordering::Relaxed);
        let until_ns = if let Some(Fault::Hang(ns)) = fault { Some(begun_ns + ns) } else { None };
        let (now_ns, act, life) = (Arc::clone(&state.now_ns), state.on_operation.clone(), state.life);
        drop(state);
        if !act.is_some_and(|act| act(until_ns)) {
            now_ns.fetch_max(until_ns.unwrap_or(begun_ns), Ordering::Relaxed);
        }
        if self.state().life == life { Ok(fault) } else { Err(closed()) }
    }

    /// In the middle of a durable write: the power may fail after the data was written and before it is
    /// durable.
    fn pass(&self) {
        let act = self.state().on_operation.clone();
        if let Some(act) = act {
            act(None);
        }
    }

    pub(super) fn open(&self, path: &Path, how: Open) -> io::Result<SimFile> {
        if !self.has_power() {
            return Err(closed());
        }
        let number = self.state().names.get(path);
        let number = match (number, how) {
            (None, Open::Read | Open::ReadRegular) => return Err(io::ErrorKind::NotFound.into()),
            (Some(number), Open::Read | Open::ReadRegular | Open::Write | Open::Direct) => number,
            (Some(number), Open::Empty) => {
                self.begin(Operation::Name { creates: false })?;
                self.state().files[number].clear();
                number
            }
            (None, _) => {
                if self.begin(Operation::Name { creates: true })? == Some(Fault::NoRoom) {
                    return Err(no_room());
                }
                let mut state = self.state();
                state.files.push(Sectors::default());
                let number = state.files.len() - 1;
                state.names.create(path, number);
                number
            }
        };
        Ok(SimFile { disk: self.clone(), life: self.state().life, number, is_direct: how == Open::Direct })
    }

    /// The number of the file at `path`.
    fn number(&self, path: &Path) -> io::Result<usize> {
        if !self.has_power() {
            return Err(closed());
        }
        self.state().names.get(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        assert_eq!(directory_of(from), directory_of(to), "files stay in their directories here");
        self.number(from)?;
        self.begin(Operation::Name { creates: false })?;
        // Another thread may have been here meanwhile.
        self.number(from)?;
        self.state().names.rename(from, to);
        Ok(())
    }

    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        self.number(path)?;
        self.begin(Operation::Name { creates: false })?;
        self.number(path)?;
        self.state().names.remove(path);
        Ok(())
    }

    pub(super) fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let fault = self.begin(Operation::Sync)?;
        let mut state = self.state();
        let DiskState { names, entropy, .. } = &mut *state;
        if fault == Some(Fault::SyncError) {
            names.fail_to_sync(path, entropy);
            return Err(broken());
        }
        names.sync(path);
        Ok(())
    }

    pub(super) fn list(&self, path: &Path) -> Vec<OsString> {
        self.state().names.list(path)
    }

    pub(super) fn info(&self, path: &Path) -> io::Result<FileInfo> {
        let number = self.number(path)?;
        let state = self.state();
        let modified = SystemTime::UNIX_EPOCH + Duration::from_nanos(state.now_ns.load(Ordering::Relaxed));
        Ok(FileInfo { bytes: state.files[number].len() as u64, is_file: true, modified: Some(modified) })
    }

    pub(super) fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        Ok(FileIdentity { inode: self.number(path)? as u64, born_ns: None, directory_inode: 0 })
    }
}

impl DiskState {
    /// The fault of this operation, if any. Planned faults have priority.
    fn fault_of(&mut self, operation: Operation) -> Option<Fault> {
        let mut hit = None;
        self.planned.retain_mut(|(spared, fault)| {
            if hit.is_some() || !fault.can_hit(operation) {
                return true;
            }
            if *spared > 0 {
                *spared -= 1;
                return true;
            }
            hit = Some(*fault);
            false
        });
        hit.or_else(|| {
            let faults = self.faults.clone();
            let hang_ns = 1 + self.entropy.below(faults.hang_ns_max.max(1));
            let possible = [
                (faults.write_error_one_in, Fault::WriteError),
                (faults.sync_error_one_in, Fault::SyncError),
                (faults.short_write_one_in, Fault::ShortWrite),
                (faults.hang_one_in, Fault::Hang(hang_ns)),
            ];
            let mut hits = |(one_in, fault): &(u64, Fault)| {
                *one_in > 0 && fault.can_hit(operation) && self.entropy.one_in(*one_in)
            };
            possible.into_iter().find(|possible| hits(possible)).map(|(_, fault)| fault)
        })
    }

    /// For how many of the bytes from `offset` on there is space.
    fn room_for(&self, number: usize, offset: usize, len: usize) -> usize {
        let taken: u64 = self.names.files().map(|file| self.files[file].taken_bytes()).sum();
        let free = self.faults.room_bytes.saturating_sub(taken);
        if self.files[number].growth(offset + len) <= free {
            return len;
        }
        let fits = self.files[number].taken_bytes().saturating_add(free) as usize;
        fits.saturating_sub(offset).min(len)
    }
}

/// See [`Disk::lock`].
#[derive(Debug)]
pub(super) struct SimLock {
    disk: SimDisk,
    locked: (PathBuf, u64),
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.state().locked.retain(|locked| *locked != self.locked);
    }
}

/// An open file on a simulated disk.
#[derive(Debug)]
pub(super) struct SimFile {
    disk: SimDisk,
    life: u64,
    number: usize,
    /// Whether writes bypass the cache.
    is_direct: bool,
}

impl SimFile {
    /// The disk, unless it has crashed since the file was opened.
    fn state(&self) -> io::Result<MutexGuard<'_, DiskState>> {
        let state = self.disk.state();
        if state.life == self.life { Ok(state) } else { Err(closed()) }
    }

    pub(super) fn bytes(&self) -> io::Result<u64> {
        Ok(self.state()?.files[self.number].len() as u64)
    }

    pub(super) fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        Ok(self.state()?.files[self.number].read(index(offset)?, into))
    }

    pub(super) fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.write(offset, bytes, Operation::Write)
    }

    pub(super) fn write_durably_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.write(offset, bytes, Operation::DurableWrite)
    }

    fn write(&self, offset: u64, bytes: &[u8], operation: Operation) -> io::Result<usize> {
        let is_aligned = |number: usize| number.is_multiple_of(DIRECT_BYTES);
        let aligned = [bytes.as_ptr().addr(), bytes.len(), index(offset)?];
        if self.is_direct && !aligned.into_iter().all(is_aligned) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let fault = self.disk.begin(operation)?;
        let mut state = self.state()?;
        let offset = index(offset)?;
        let mut count = state.room_for(self.number, offset, bytes.len());
        match fault {
            Some(Fault::WriteError) => return Err(broken()),
            Some(Fault::NoRoom) => count = 0,
            Some(Fault::ShortWrite) if count > 1 => {
                count = 1 + state.entropy.below(count as u64 - 1) as usize
            }
            _ => {}
        }
        if self.is_direct && count < bytes.len() {
            let at_least = if fault == Some(Fault::ShortWrite) { DIRECT_BYTES } else { 0 };
            count = (count - count % DIRECT_BYTES).max(at_least);
        }
        if count == 0 && !bytes.is_empty() {
            return Err(no_room());
        }
        let DiskState { files, entropy, .. } = &mut *state;
        files[self.number].write(offset, &bytes[..count], entropy);
        if operation == Operation::DurableWrite {
            drop(state);
            self.disk.pass();
            let mut state = self.state()?;
            let DiskState { files, entropy, .. } = &mut *state;
            if fault == Some(Fault::SyncError) {
                files[self.number].fail_to_sync(entropy);
                return Err(broken());
            }
            files[self.number].sync_part(offset, count);
        }
        Ok(count)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        let fault = self.disk.begin(Operation::Sync)?;
        let mut state = self.state()?;
        let DiskState { files, entropy, .. } = &mut *state;
        if fault == Some(Fault::SyncError) {
            files[self.number].fail_to_sync(entropy);
            return Err(broken());
        }
        files[self.number].sync();
        Ok(())
    }

    pub(super) fn forget(&self) -> io::Result<()> {
        self.state()?.files[self.number].forget();
        Ok(())
    }
}
