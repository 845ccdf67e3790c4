//! The snapshot: the file `dbfilename` in `dir`, in Redis' dump format, or in Darter's own, with the parts that it names.
//!
//! `save.rs` writes it while all shards are held, `background.rs` while clients are served, when `points.rs` or somebody
//! wants it, and `load.rs` reads it before commands that need data are served. Here is what is known of them, and what happens at the
//! end of the server.

pub(crate) mod aof;
mod background;
mod load;
mod names;
mod output;
mod parts;
mod pieces;
mod points;
mod progress;
mod save;
mod saving;
pub(crate) mod schedule;
mod writer;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use proactor::Disk;
use rdb::Style;

pub(crate) use background::Share;
pub(crate) use load::Loaded;
use names::Names;
use progress::Progress;
use saving::{Chunk, Saving};
pub(crate) use writer::Writer;
pub use writer::WriterStep;

use crate::process::processors;
use crate::settings::{RDB_VERSION, RDBCOMPRESSION, SAVE, STOP_WRITES_ON_BGSAVE_ERROR, Settings};
use crate::shared::Shared;

/// How long a save waits for the room of one that it overtakes.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);

/// What is known of snapshots.
pub(crate) struct Snapshots {
    /// In seconds since 1970: of the last save, or of the start.
    last_save_seconds: AtomicU64,
    /// How many changes there had been at the last save, or when the snapshot was loaded.
    changes_saved: AtomicU64,
    pub(crate) save_count: AtomicU64,
    pub(crate) last_failed: AtomicBool,
    pub(crate) loaded_key_count: AtomicU64,
    pub(crate) expired_key_count: AtomicU64,
    /// Of the loading at the start.
    pub(crate) progress: Progress,
    /// Keys that a save while all wait has written, and all there are; 0 of 0 if there is no such save.
    keys_written: AtomicU64,
    keys_to_write: AtomicU64,
    /// The one that is being saved in the background.
    current: Mutex<Option<Arc<Saving>>>,
    is_cutting: AtomicBool,
    /// The thread of the writer that was started last.
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Writers do not get threads, but are taken by the simulation, which lets them run.
    is_simulated: bool,
    simulated_writer: Mutex<Option<Writer>>,
    /// The state of the append-only file that snapshots supersede.
    superseded_aof: Mutex<Option<String>>,
    /// Held while a file becomes the snapshot, so that none does that was given up.
    renaming: Mutex<()>,
    /// Somebody wants a save in the background as soon as possible.
    pub(crate) is_scheduled: AtomicBool,
    /// When the last one began, and when it was last looked whether one is due.
    last_try_seconds: AtomicU64,
    looked_at_seconds: AtomicU64,
    /// How long the last one took; -1 if there was none.
    pub(crate) last_took_seconds: AtomicI64,
    /// The most that waited in memory to be written in the last one.
    pub(crate) last_peak_bytes: AtomicU64,
}

impl Snapshots {
    /// None so far.
    pub(crate) fn new(now_ms: u64, is_simulated: bool) -> Snapshots {
        Snapshots {
            last_save_seconds: AtomicU64::new(now_ms / 1000),
            changes_saved: AtomicU64::new(0),
            save_count: AtomicU64::new(0),
            last_failed: AtomicBool::new(false),
            loaded_key_count: AtomicU64::new(0),
            expired_key_count: AtomicU64::new(0),
            progress: Progress::default(),
            keys_written: AtomicU64::new(0),
            keys_to_write: AtomicU64::new(0),
            current: Mutex::default(),
            is_cutting: AtomicBool::new(false),
            writer: Mutex::default(),
            is_simulated,
            simulated_writer: Mutex::default(),
            superseded_aof: Mutex::default(),
            renaming: Mutex::default(),
            is_scheduled: AtomicBool::new(false),
            last_try_seconds: AtomicU64::new(0),
            looked_at_seconds: AtomicU64::new(0),
            last_took_seconds: AtomicI64::new(-1),
            last_peak_bytes: AtomicU64::new(0),
        }
    }

    /// The one that is being saved in the background.
    pub(crate) fn current(&self) -> Option<Arc<Saving>> {
        lock(&self.current).clone()
    }

    fn set_current(&self, saving: Option<Arc<Saving>>) {
        self.is_cutting.store(saving.is_some(), Ordering::Relaxed);
        *lock(&self.current) = saving;
    }

    /// Whether there may be a record that has to be saved before it changes. Who holds a shard knows it for certain.
    #[inline]
    pub(crate) fn is_cutting(&self) -> bool {
        self.is_cutting.load(Ordering::Relaxed)
    }

    fn run_writer(&self, settings: &'static Settings, writer: Writer) -> io::Result<()> {
        if self.is_simulated {
            *lock(&self.simulated_writer) = Some(writer);
            return Ok(());
        }
        let work = move || {
            processors::place_writer(settings);
            writer.run();
        };
        let started = std::thread::Builder::new().name("snapshot".to_owned()).spawn(work)?;
        *lock(&self.writer) = Some(started);
        Ok(())
    }

    /// A writer that was begun, for the simulation.
    pub(crate) fn take_simulated_writer(&self) -> Option<Writer> {
        lock(&self.simulated_writer).take()
    }

    /// Has the snapshot stay as it is for so long. That may be long: somebody may be writing to the disk.
    fn lock_renaming(&self) -> MutexGuard<'_, ()> {
        loop {
            match self.renaming.try_lock() {
                Ok(renaming) => return renaming,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                // All simulated threads are one: whoever has the lock must run.
                Err(TryLockError::WouldBlock) if self.is_simulated => shard::pause(),
                Err(TryLockError::WouldBlock) => return lock(&self.renaming),
            }
        }
    }

    /// The last save failed, for this reason.
    fn note_failure(&self, why: &str) {
        tracing::warn!("Background saving error: {why}");
        self.last_failed.store(true, Ordering::Relaxed);
    }

    /// Gives up what is being saved in the background: from here on it does not become the snapshot.
    pub(crate) fn give_up(&self, why: &str) {
        let _nobody_renames = self.lock_renaming();
        if let Some(saving) = self.current() {
            saving.fail(why.to_owned(), true);
        }
    }

    /// Waits, though not for ever, until what was given up takes no room on the disk any more.
    fn await_room(&self) {
        if let Some(saving) = self.current() {
            let (waiting, is_gone) = std::sync::mpsc::channel();
            saving.send(Chunk::GivenUp(waiting));
            // Nothing is ever sent: it is over when the writer drops its end.
            let _ = is_gone.recv_timeout(ROOM_PATIENCE);
        }
    }

    /// Ends the writer, whose threads have ended.
    fn end_writer(&self) {
        self.give_up("the server ends");
        self.current().into_iter().for_each(|saving| saving.abandon());
        if let Some(writer) = lock(&self.writer).take() {
            // If it panicked, it said so.
            let _ = writer.join();
        }
    }

    /// The state of the append-only file that snapshots supersede.
    fn superseded_aof(&self) -> Option<String> {
        lock(&self.superseded_aof).clone()
    }

    /// When the last save was done, in seconds since 1970; when the server started before there was one.
    pub(crate) fn last_save_seconds(&self) -> u64 {
        self.last_save_seconds.load(Ordering::Relaxed)
    }

    /// How many of `changes` in all came after the last save, or none if they were counted before it.
    pub(crate) fn changes_since(&self, changes: u64) -> u64 {
        changes.saturating_sub(self.changes_saved.load(Ordering::Relaxed))
    }

    /// Takes note that all of `changes` are on disk.
    fn note_saved(&self, changes: u64) {
        self.changes_saved.store(changes, Ordering::Relaxed);
    }

    /// How many percent of the keys a save while all wait has written, if there is one.
    pub(crate) fn save_percent(&self) -> Option<f64> {
        let all = self.keys_to_write.load(Ordering::Relaxed);
        (all > 0).then(|| self.keys_written.load(Ordering::Relaxed) as f64 * 100.0 / all as f64)
    }

    /// Removes the files of saves that come to no end.
    pub(crate) fn remove_leftovers(&self, settings: &Settings, disk: &Disk) {
        Names::of(settings, disk).remove_leftovers();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Where snapshots are, and how they are called.
    pub(in crate::snapshot) fn snapshot_names(&self) -> Names {
        Names::of(&self.settings, &self.machine.disk)
    }

    /// How snapshots are encoded.
    fn snapshot_style(&self) -> Style {
        Style {
            compresses: self.settings.is_on(RDBCOMPRESSION),
            version: self.settings.number(RDB_VERSION) as u32,
        }
    }

    /// Whether commands that write are refused, because the last save failed.
    pub(crate) fn refuses_writes(&self) -> bool {
        self.snapshots.last_failed.load(Ordering::Relaxed)
            && self.has_save_points()
            && self.settings.is_on(STOP_WRITES_ON_BGSAVE_ERROR)
    }

    /// Makes `temporary` the snapshot of this name, unless `saving` was given up.
    fn make_snapshot(
        &self,
        names: &Names,
        temporary: &Path,
        name: &str,
        saving: Option<&Saving>,
    ) -> io::Result<()> {
        let _nobody_else = self.snapshots.lock_renaming();
        if let Some(why) = saving.and_then(Saving::failure) {
            return Err(io::Error::other(why));
        }
        names.rename(temporary, name)?;
        if let Some(state) = self.snapshots.superseded_aof() {
            aof::note_superseding(names, &state);
        }
        Ok(())
    }

    /// A save in the background is over: its length and name, or why it came to nothing.
    fn end_background_save(&self, saving: &Saving, saved: Result<(u64, String), String>) {
        let (snapshots, now_ms) = (&self.snapshots, self.machine.clock.now_ms());
        let took_ms = now_ms.saturating_sub(saving.started_ms);
        let peak_bytes = saving.peak_bytes.load(Ordering::Relaxed) as u64;
        match saved {
            Ok((bytes, name)) => {
                tracing::info!(
                    "DB saved on disk: {bytes} bytes in {name}, {took_ms} ms, {peak_bytes} bytes waited at most"
                );
                tracing::info!("Background saving terminated with success");
                snapshots.note_saved(saving.changes);
                snapshots.last_save_seconds.store(now_ms / 1000, Ordering::Relaxed);
                snapshots.save_count.fetch_add(1, Ordering::Relaxed);
                snapshots.last_failed.store(false, Ordering::Relaxed);
            }
            Err(why) if saving.is_given_up() => tracing::warn!("Background saving given up: {why}"),
            Err(why) => snapshots.note_failure(&why),
        }
        snapshots.last_took_seconds.store((took_ms / 1000) as i64, Ordering::Relaxed);
        snapshots.last_peak_bytes.store(peak_bytes, Ordering::Relaxed);
        snapshots.set_current(None);
        self.tell_of_snapshot();
    }

    /// Whether a server that ends saves unless it is told otherwise.
    pub(crate) fn has_save_points(&self) -> bool {
        self.settings.is_on(SAVE)
    }

    /// Changes on all shards; exactly those that a save sees if they are entered.
    fn changes(&self) -> u64 {
        self.shards.figures().map(|figures| figures.changes.get()).sum()
    }

    /// The threads have ended: nothing is being saved any more.
    pub(crate) fn end(&self) {
        self.snapshots.end_writer();
    }
}
