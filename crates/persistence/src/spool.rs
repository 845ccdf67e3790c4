//! A snapshot that replicas read while it is written.
//!
//! ```text
//!   Writer ──▶ file without a name ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ bytes so far
//!                   ▲          ▲                  ▲
//!               stopped      slow             keeps up         readers, each at its own position
//! ```
//!
//! The file means that readers need not keep pace: a slow or stopped one takes neither memory nor the writer's time,
//! and any number of them share one snapshot. The file contains what a snapshot in Redis' format would, from the header
//! to the checksum, and is never synced.
//!
//! The writer publishes its progress and then wakes readers. A reader asks to be woken and then checks the progress, so
//! it misses nothing.
//!
//! * While there is a reader, the snapshot is written to its end. When all readers have dropped it, the writer notices
//!   at its next write and cancels it.
//! * The file is unlinked (`output.rs`), so its space is freed when the last reader and the writer have closed it.
//!
//! Not here: when one begins, the connections of replicas, and the stream that follows it.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use proactor::DiskFile;

/// Readers are woken when at least this much more can be read.
const WOKEN_BYTES: u64 = 64 * 1024;
/// Closing a longer file takes so long, because its blocks are freed, that a serving thread must not do it.
const CLOSED_AT_ONCE_BYTES: u64 = 16 * 1024 * 1024;

/// The state of a spool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SpoolState {
    /// More will be written.
    Writing,
    /// Everything is written.
    Complete,
    /// It remains incomplete, so there is no point in reading on. The log says why.
    Failed,
}

/// The progress of a spool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpoolProgress {
    /// How many bytes can be read; if it is complete, its length.
    pub bytes: u64,
    /// Whether more will come.
    pub state: SpoolState,
}

type Wake = Arc<dyn Fn() + Send + Sync>;

/// See the head of this file.
pub struct Spool {
    /// Set before there are bytes.
    file: OnceLock<DiskFile>,
    bytes: AtomicU64,
    state: AtomicU8,
    /// How much there was when readers were last woken; only the writer uses this.
    woken_bytes: AtomicU64,
    wakes: Mutex<Vec<Wake>>,
}

impl fmt::Debug for Spool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Spool").field("progress", &self.progress()).finish_non_exhaustive()
    }
}

impl Default for Spool {
    fn default() -> Spool {
        Spool::new()
    }
}

impl Spool {
    /// One that is being written, and has nothing yet.
    pub fn new() -> Spool {
        Spool {
            file: OnceLock::new(),
            bytes: AtomicU64::new(0),
            state: AtomicU8::new(SpoolState::Writing as u8),
            woken_bytes: AtomicU64::new(0),
            wakes: Mutex::default(),
        }
    }

    /// How far it is.
    pub fn progress(&self) -> SpoolProgress {
        const COMPLETE: u8 = SpoolState::Complete as u8;
        const FAILED: u8 = SpoolState::Failed as u8;
        // In this order: one that is complete has all its bytes.
        let state = match self.state.load(Ordering::Acquire) {
            COMPLETE => SpoolState::Complete,
            FAILED => SpoolState::Failed,
            _ => SpoolState::Writing,
        };
        SpoolProgress { bytes: self.bytes.load(Ordering::Acquire), state }
    }

    /// Reads at `position`; returns the number of bytes, possibly fewer than there are, and 0 if none can be read yet.
    /// Does not wait for the disk: `None` if it would have to. Then the disk was asked for the bytes, and the caller
    /// should try again soon.
    pub fn read_at(&self, position: u64, into: &mut [u8]) -> io::Result<Option<usize>> {
        let left = self.progress().bytes.saturating_sub(position);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(into.len());
        if count == 0 {
            return Ok(Some(0));
        }
        let file = self.file.get().expect("there are bytes, so there is a file");
        match file.read_ready_at(position, &mut into[..count])? {
            Some(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            read => Ok(read),
        }
    }

    /// Makes the writer call `wake` after every further 64 KiB, and at the end; at once if the end has come. To miss
    /// nothing, check the progress after this call. `wake` runs on the writer's thread and must not wait.
    pub fn on_progress(&self, wake: Box<dyn Fn() + Send + Sync>) {
        let wake: Wake = wake.into();
        self.wakes().push(Arc::clone(&wake));
        if self.progress().state != SpoolState::Writing {
            wake();
        }
    }

    fn wakes(&self) -> MutexGuard<'_, Vec<Wake>> {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_all(&self) {
        // Not while the lock is held: what is called may ask to be called.
        let wakes = self.wakes().clone();
        wakes.iter().for_each(|wake| wake());
    }

    /// Readers read from this file from now on.
    pub(crate) fn begin(&self, file: DiskFile) {
        assert!(self.file.set(file).is_ok(), "a spool has one file");
    }

    /// So many bytes were written.
    pub(crate) fn advance(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Release);
        if bytes - self.woken_bytes.load(Ordering::Relaxed) >= WOKEN_BYTES {
            self.woken_bytes.store(bytes, Ordering::Relaxed);
            self.wake_all();
        }
    }

    /// Nothing more will be written; the first end counts.
    pub(crate) fn end(&self, state: SpoolState) {
        if self.progress().state == SpoolState::Writing {
            self.state.store(state as u8, Ordering::Release);
            self.wake_all();
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        let bytes = self.progress().bytes;
        if let Some(file) = self.file.take()
            && bytes > CLOSED_AT_ONCE_BYTES
        {
            // Without a thread it is closed here.
            let _ = std::thread::Builder::new().name("spool".to_owned()).spawn(move || drop(file));
        }
    }
}
