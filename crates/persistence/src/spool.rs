//! Lets replicas read a snapshot while it is written.
//!
//! ```text
//!   Writer ──▶ file without a name ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ bytes so far
//!                   ▲          ▲                  ▲
//!               stopped      slow             keeps up         readers, each at its own position
//! ```
//!
//! Readers of the file need not keep pace. A slow or stopped reader takes neither memory nor the writer's
//! time, and any number of readers share one snapshot. The file has the same content as a snapshot in Redis'
//! format, from the header to the checksum. It is never synced.
//!
//! The writer publishes its progress and then wakes readers. A reader asks to be woken and then checks the
//! progress, so it misses nothing.
//!
//! * While there is a reader, the snapshot is written to its end. When all readers have dropped it, the writer notices
//!   at its next write and cancels it.
//! * The file is unlinked (`output.rs`), so its space is freed when the last reader and the writer have closed it.
//!
//! Not here: when a spool begins, the connections of replicas, and the stream that follows it.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use proactor::DiskFile;

/// The number of new bytes at which readers are woken.
const WOKEN_BYTES: u64 = 64 * 1024;
/// A serving thread must not close a file longer than this: freeing its blocks takes too long.
const CLOSED_AT_ONCE_BYTES: u64 = 16 * 1024 * 1024;

/// The state of a spool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SpoolState {
    /// More will be written.
    Writing,
    /// Everything is written.
    Complete,
    /// It remains incomplete, and readers should stop. The log says why.
    Failed,
}

/// The progress of a spool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpoolProgress {
    /// The number of bytes that can be read. If it is complete, its length.
    pub bytes: u64,
    /// Whether more will follow.
    pub state: SpoolState,
}

type Wake = Arc<dyn Fn() + Send + Sync>;

/// See the head of this file.
pub struct Spool {
    /// Set before there are bytes.
    file: OnceLock<DiskFile>,
    bytes: AtomicU64,
    state: AtomicU8,
    /// The number of bytes when readers were last woken. Only the writer uses this.
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
    /// Creates a spool that is being written and has no bytes yet.
    pub fn new() -> Spool {
        Spool {
            file: OnceLock::new(),
            bytes: AtomicU64::new(0),
            state: AtomicU8::new(SpoolState::Writing as u8),
            woken_bytes: AtomicU64::new(0),
            wakes: Mutex::default(),
        }
    }

    /// Its progress.
    pub fn progress(&self) -> SpoolProgress {
        const COMPLETE: u8 = SpoolState::Complete as u8;
        const FAILED: u8 = SpoolState::Failed as u8;
        // The order matters: a complete spool has all its bytes.
        let state = match self.state.load(Ordering::Acquire) {
            COMPLETE => SpoolState::Complete,
            FAILED => SpoolState::Failed,
            _ => SpoolState::Writing,
        };
        SpoolProgress { bytes: self.bytes.load(Ordering::Acquire), state }
    }

    /// Reads at `offset`. Returns the number of bytes, possibly fewer than there are, or 0 if none can be
    /// read yet. Does not wait for the disk: returns `None` if it would have to. The disk was then asked for
    /// the bytes, and the caller should try again soon.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<Option<usize>> {
        let left = self.progress().bytes.saturating_sub(offset);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(into.len());
        if count == 0 {
            return Ok(Some(0));
        }
        let file = self.file.get().expect("there are bytes, so there is a file");
        match file.read_ready_at(offset, &mut into[..count])? {
            Some(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            read => Ok(read),
        }
    }

    /// Makes the writer call `wake` after every further 64 KiB and at the end; at once if the end has come.
    /// To miss nothing, check the progress after this call. `wake` runs on the writer's thread and must not
    /// wait.
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
        // The lock must not be held here, because `wake` may call `on_progress`.
        let wakes = self.wakes().clone();
        wakes.iter().for_each(|wake| wake());
    }

    /// Makes readers read from this file.
    pub(crate) fn begin(&self, file: DiskFile) {
        assert!(self.file.set(file).is_ok(), "a spool has one file");
    }

    /// Notes that this many bytes were written.
    pub(crate) fn advance(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Release);
        if bytes - self.woken_bytes.load(Ordering::Relaxed) >= WOKEN_BYTES {
            self.woken_bytes.store(bytes, Ordering::Relaxed);
            self.wake_all();
        }
    }

    /// Notes that nothing more will be written. The first end counts.
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
            // If there is no thread, the file is closed here.
            let _ = std::thread::Builder::new().name("spool".to_owned()).spawn(move || drop(file));
        }
    }
}
