//! Holds the state of a server's snapshots, and saves them.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use keyspace::Dbs;
use proactor::Clock;
use rdb::{Encoder, Style};

use crate::names::Names;
use crate::output::{Output, SnapshotForm};
use crate::progress::Progress;
use crate::purpose::{Checkpoints, NoCheckpoint, Purpose};
use crate::scribe::{Saving, Usage, WriterItem, write_record};
use crate::spool::Spool;
use crate::superseded;
use crate::tuning::Tuning;
use crate::writer::{Tell, Writer};

/// The longest time that a save waits until a cancelled one has freed its disk space.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);

/// The settings of a save, fixed when it begins.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its purpose.
    pub purpose: Purpose,
    /// Its directory and name.
    pub names: Names,
    /// How values are encoded.
    pub style: Style,
    /// Whether it is in Darter's own format, in several files, rather than in Redis'.
    pub has_own_format: bool,
    /// Whether a file in Redis' format ends with its checksum.
    pub has_checksum: bool,
    /// Whether the disk begins to write before the end.
    pub begins_early: bool,
}

/// The content of a snapshot.
pub struct SnapshotContent<'a> {
    /// The databases of each shard, with its home thread.
    pub shards: Vec<(u16, &'a Dbs)>,
    /// The number of threads.
    pub thread_count: u16,
    /// The information about the use of keys that is saved.
    pub usage: Usage,
    /// The encoded part before the keys: fields about the snapshot, and libraries.
    pub about: Vec<u8>,
}

/// A completed snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Saved {
    /// Its length.
    pub bytes: u64,
    /// Its name.
    pub name: String,
    /// The duration.
    pub took_ms: u64,
}

impl SnapshotContent<'_> {
    fn database_count(&self) -> usize {
        self.shards.first().map_or(0, |(_, dbs)| dbs.len())
    }

    fn key_count(&self) -> u64 {
        self.shards.iter().flat_map(|(_, dbs)| dbs.iter()).map(|(_, db)| db.len() as u64).sum()
    }

    /// The beginning of a snapshot: the header, fields about it, and the number of keys.
    fn head(&self, form: SnapshotForm) -> io::Result<Vec<u8>> {
        let count = self.database_count();
        assert!(
            self.shards.iter().all(|(_, dbs)| dbs.len() == count),
            "a database that only some shards have would not be saved"
        );
        let mut encoder = Encoder::of_chunks(form.style);
        if !form.has_parts() {
            encoder.header()?;
        }
        encoder.bytes(&self.about)?;
        for db in 0..count {
            let parts = || self.shards.iter().filter_map(|(_, dbs)| dbs.used(db));
            let key_count: usize = parts().map(|part| part.len()).sum();
            if key_count > 0 {
                let volatile_count: usize = parts().map(|part| part.volatile_len()).sum();
                encoder.database(db as u32, key_count as u64, volatile_count as u64)?;
            }
        }
        encoder.finish()
    }
}

/// The state of a server's snapshots.
pub struct Snapshots {
    pub(crate) clock: Clock,
    /// The time of the last save, or of the server's start, in seconds since 1970.
    last_save_seconds: AtomicU64,
    /// The number of changes at the last save, or when the snapshot was loaded.
    changes_saved: AtomicU64,
    /// The number of successful saves.
    pub save_count: AtomicU64,
    /// Whether the last save failed.
    pub last_failed: AtomicBool,
    /// The number of keys in the snapshot that was loaded last.
    pub loaded_key_count: AtomicU64,
    /// The number of expired keys in it.
    pub expired_key_count: AtomicU64,
    /// The progress of loading at the start.
    pub progress: Progress,
    /// The keys written by a save for which all threads wait, and all of its keys. 0 of 0 if there is no such
    /// save.
    keys_written: AtomicU64,
    keys_to_write: AtomicU64,
    /// The current background save.
    current: Mutex<Option<Arc<Saving>>>,
    is_cutting: AtomicBool,
    /// The thread of the latest writer.
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Whether writers get no threads, because the simulation takes and steps them.
    is_simulated: bool,
    tuning: Tuning,
    simulated_writer: Mutex<Option<Writer>>,
    /// The state of the append-only file that snapshots supersede.
    superseded_aof: Mutex<Option<String>>,
    /// Held while a file becomes the snapshot, so that a cancelled save never does.
    renaming: Mutex<()>,
    /// Whether a background save was requested as soon as possible.
    pub is_scheduled: AtomicBool,
    /// The beginning of the last one, in seconds since 1970.
    pub last_try_seconds: AtomicU64,
    /// The time of the last check whether a save is due, in seconds since 1970.
    pub looked_at_seconds: AtomicU64,
    /// The duration of the last save. -1 if there was none.
    pub last_took_seconds: AtomicI64,
    /// The largest amount that waited in memory to be written in the last one.
    pub last_peak_bytes: AtomicU64,
    /// The state of checkpoints, which count only there.
    pub checkpoints: Checkpoints,
}

impl Snapshots {
    /// The state of a server without snapshots.
    pub fn new(clock: Clock, is_simulated: bool, tuning: Tuning) -> Snapshots {
        Snapshots {
            last_save_seconds: AtomicU64::new(clock.now_ms() / 1000),
            clock,
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
            tuning,
            simulated_writer: Mutex::default(),
            superseded_aof: Mutex::default(),
            renaming: Mutex::default(),
            is_scheduled: AtomicBool::new(false),
            last_try_seconds: AtomicU64::new(0),
            looked_at_seconds: AtomicU64::new(0),
            last_took_seconds: AtomicI64::new(-1),
            last_peak_bytes: AtomicU64::new(0),
            checkpoints: Checkpoints::default(),
        }
    }

    /// Saves a snapshot. The caller has entered all shards; `changes` is the number of changes so far. A
    /// background save of a snapshot is cancelled, because it is older. A checkpoint continues. `is_aborted`
    /// tells whether this save is no longer wanted.
    pub fn save(
        &self,
        settings: Settings,
        content: &SnapshotContent<'_>,
        changes: u64,
        is_aborted: &dyn Fn() -> bool,
    ) -> io::Result<Saved> {
        assert_eq!(settings.purpose, Purpose::Snapshot, "nobody waits for a checkpoint");
        if self.saving_snapshot().is_some() {
            self.give_up("another save overtook it");
            if !self.is_simulated {
                self.await_room();
            }
        }
        let started_ms = self.clock.now_ms();
        let form = SnapshotForm::wanted(&settings, started_ms, content.thread_count);
        let mut output = Output::new(self, settings, form, false, None);
        let saved = self.write(content, &mut output, is_aborted).and_then(|()| output.complete(None));
        output.discard();
        self.keys_to_write.store(0, Ordering::Relaxed);
        let (bytes, name) = saved?;
        let now_ms = self.clock.now_ms();
        self.note_success(changes, now_ms);
        Ok(Saved { bytes, name, took_ms: now_ms.saturating_sub(started_ms) })
    }

    /// Writes everything to the files of `output`.
    fn write(
        &self,
        content: &SnapshotContent<'_>,
        output: &mut Output<'_>,
        is_aborted: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let head = content.head(output.form)?;
        output.file(0)?.bytes(&head)?;
        self.keys_written.store(0, Ordering::Relaxed);
        self.keys_to_write.store(content.key_count(), Ordering::Relaxed);
        for db in 0..content.database_count() {
            for (thread, dbs) in &content.shards {
                if is_aborted() {
                    return Err(io::Error::other("the shutdown that needed it was aborted"));
                }
                let encoder = output.file(output.form.file_of(*thread))?;
                if let Some(part) = dbs.used(db).filter(|part| !part.is_empty()) {
                    encoder.select(db as u32)?;
                    part.iter().try_for_each(|record| write_record(record, content.usage, encoder))?;
                    self.keys_written.fetch_add(part.len() as u64, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    /// Prepares a background save of the current data. The caller has entered all shards, and no other save
    /// is running. The caller then runs the writer ([`run_writer`](Self::run_writer)), creates a scribe for
    /// each database that has keys, and calls [`began`](Self::began).
    pub fn begin(
        &'static self,
        settings: Settings,
        content: &SnapshotContent<'_>,
        changes: u64,
        tell: Tell,
    ) -> io::Result<(Arc<Saving>, Writer)> {
        assert_ne!(settings.purpose, Purpose::Replicas, "replicas need a spool to read");
        self.prepare(settings, content, changes, tell, None)
    }

    /// Prepares a snapshot that replicas read while it is written, like [`begin`](Self::begin). It is
    /// cancelled when the last reader has dropped the spool.
    pub fn begin_spool(
        &'static self,
        settings: Settings,
        content: &SnapshotContent<'_>,
        tell: Tell,
    ) -> io::Result<(Arc<Saving>, Writer, Arc<Spool>)> {
        let is_one_stream = settings.purpose == Purpose::Replicas && !settings.has_own_format;
        assert!(is_one_stream, "replicas read one stream of Redis' format");
        let spool = Arc::new(Spool::new());
        let (saving, writer) = self.prepare(settings, content, 0, tell, Some(Arc::downgrade(&spool)))?;
        Ok((saving, writer, spool))
    }

    fn prepare(
        &'static self,
        settings: Settings,
        content: &SnapshotContent<'_>,
        changes: u64,
        tell: Tell,
        spool: Option<Weak<Spool>>,
    ) -> io::Result<(Arc<Saving>, Writer)> {
        assert!(self.current().is_none(), "two saves would write to the same files");
        let now_ms = self.clock.now_ms();
        let purpose = settings.purpose;
        match purpose {
            Purpose::Snapshot => self.last_try_seconds.store(now_ms / 1000, Ordering::Relaxed),
            Purpose::Checkpoint => {
                self.checkpoints.last_try_seconds.store(now_ms / 1000, Ordering::Relaxed);
            }
            Purpose::Replicas => {}
        }
        let form = SnapshotForm::wanted(&settings, now_ms, content.thread_count);
        let head = content.head(form)?;
        let (to_writer, chunks) = channel();
        let counts = (changes, content.key_count());
        let threads = content.thread_count.into();
        let (form, tuning) = ((form, content.usage), self.tuning);
        let saving = Saving::new(to_writer, purpose, now_ms, counts, form, tuning, threads);
        let saving = Arc::new(saving);
        let writer = Writer::new(self, settings, (Arc::clone(&saving), chunks), head, tell, spool);
        Ok((saving, writer))
    }

    /// Notes that all databases with keys have their scribes. The caller ends with [`Saving::close_one`].
    pub fn began(&self, saving: &Arc<Saving>) {
        self.set_current(Some(Arc::clone(saving)));
    }

    /// The current background save.
    pub fn current(&self) -> Option<Arc<Saving>> {
        lock(&self.current).clone()
    }

    /// The current background save, if it is for the snapshot rather than a checkpoint.
    pub fn saving_snapshot(&self) -> Option<Arc<Saving>> {
        self.current().filter(|saving| saving.purpose == Purpose::Snapshot)
    }

    /// The current background save, if Redis would have a process that writes an RDB: for the snapshot or for
    /// replicas.
    pub fn saving_rdb(&self) -> Option<Arc<Saving>> {
        self.current().filter(|saving| saving.purpose != Purpose::Checkpoint)
    }

    /// The current background save, if it is a checkpoint.
    pub fn saving_checkpoint(&self) -> Option<Arc<Saving>> {
        self.current().filter(|saving| saving.purpose == Purpose::Checkpoint)
    }

    fn set_current(&self, saving: Option<Arc<Saving>>) {
        self.is_cutting.store(saving.is_some(), Ordering::Relaxed);
        *lock(&self.current) = saving;
    }

    /// Whether a record might have to be saved before it changes. The answer is certain for a caller that
    /// holds a shard.
    #[inline]
    pub fn is_cutting(&self) -> bool {
        self.is_cutting.load(Ordering::Relaxed)
    }

    /// Runs a writer on a thread of its own. The thread begins with `prepare`.
    pub fn run_writer(&self, writer: Writer, prepare: impl FnOnce() + Send + 'static) -> io::Result<()> {
        if self.is_simulated {
            *lock(&self.simulated_writer) = Some(writer);
            return Ok(());
        }
        let work = move || {
            prepare();
            writer.run();
        };
        let started = std::thread::Builder::new().name("snapshot".to_owned()).spawn(work)?;
        *lock(&self.writer) = Some(started);
        Ok(())
    }

    /// Takes a writer that was begun, for the simulation.
    pub fn take_simulated_writer(&self) -> Option<Writer> {
        lock(&self.simulated_writer).take()
    }

    /// Keeps other threads from changing the snapshot while the guard is held. Getting the guard may take
    /// long, because another thread may be writing to the disk.
    fn lock_renaming(&self) -> MutexGuard<'_, ()> {
        loop {
            match self.renaming.try_lock() {
                Ok(renaming) => return renaming,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                // All simulated threads are one real thread, so the holder of the lock must run.
                Err(TryLockError::WouldBlock) if self.is_simulated => shard::pause(),
                Err(TryLockError::WouldBlock) => return lock(&self.renaming),
            }
        }
    }

    /// Makes `temporary` the snapshot of this name, unless `saving` was cancelled.
    pub(crate) fn make_snapshot(
        &self,
        names: &Names,
        temporary: &Path,
        name: &str,
        saving: Option<&Saving>,
    ) -> io::Result<()> {
        let _nobody_else = self.lock_renaming();
        if let Some(why) = saving.and_then(Saving::failure) {
            return Err(io::Error::other(why));
        }
        names.rename(temporary, name)?;
        let is_checkpoint = saving.is_some_and(|saving| saving.purpose == Purpose::Checkpoint);
        if !is_checkpoint {
            self.note_superseded(names);
        }
        Ok(())
    }

    /// Records beside the snapshot that an append-only file is superseded, if there is one. Its replacement
    /// is durable.
    pub fn note_superseded(&self, names: &Names) {
        if let Some(state) = self.superseded_aof() {
            superseded::note(names, &state);
        }
    }

    /// Ends a background save: with its length and name, or with the reason why it failed.
    pub(crate) fn end_background_save(&self, saving: &Saving, saved: Result<(u64, String), String>) {
        let current = self.current();
        assert!(
            current.is_some_and(|current| std::ptr::eq(&*current, saving)),
            "the save that ends is not the one that is under way"
        );
        let took_ms = self.clock.now_ms().saturating_sub(saving.started_ms);
        let peak_bytes = saving.peak_bytes.load(Ordering::Relaxed) as u64;
        let saved = saved.map(|(bytes, name)| Saved { bytes, name, took_ms });
        match saving.purpose {
            Purpose::Checkpoint => {
                let ended = saved.map_err(|why| NoCheckpoint { why, is_given_up: saving.is_given_up() });
                self.checkpoints.note_end(ended, took_ms, peak_bytes);
                return self.set_current(None);
            }
            Purpose::Snapshot => self.note_snapshot(saving, saved),
            Purpose::Replicas => note_spool(saving, saved),
        }
        self.last_took_seconds.store((took_ms / 1000) as i64, Ordering::Relaxed);
        self.last_peak_bytes.store(peak_bytes, Ordering::Relaxed);
        self.set_current(None);
    }

    fn note_snapshot(&self, saving: &Saving, saved: Result<Saved, String>) {
        match saved {
            Ok(Saved { bytes, name, took_ms }) => {
                let peak_bytes = saving.peak_bytes.load(Ordering::Relaxed);
                tracing::info!(
                    "DB saved on disk: {bytes} bytes in {name}, {took_ms} ms, {peak_bytes} bytes queued at peak"
                );
                tracing::info!("Background saving terminated with success");
                self.note_success(saving.changes, self.clock.now_ms());
            }
            Err(why) if saving.is_given_up() => tracing::warn!("Background saving cancelled: {why}"),
            Err(why) => self.note_failure(&why),
        }
    }

    fn note_success(&self, changes: u64, now_ms: u64) {
        self.note_saved(changes);
        self.last_save_seconds.store(now_ms / 1000, Ordering::Relaxed);
        self.save_count.fetch_add(1, Ordering::Relaxed);
        self.last_failed.store(false, Ordering::Relaxed);
    }

    /// Notes that the last background save has failed, for this reason.
    pub fn note_failure(&self, why: &str) {
        tracing::warn!("Background saving error: {why}");
        self.last_failed.store(true, Ordering::Relaxed);
    }

    /// Cancels the background save. It can no longer become the snapshot.
    pub fn give_up(&self, why: &str) {
        let _nobody_renames = self.lock_renaming();
        if let Some(saving) = self.current() {
            saving.fail(why.to_owned(), true);
        }
    }

    /// Cancels the background save if it is for replicas, to free its disk space for something more
    /// important.
    pub fn give_up_spool(&self, why: &str) {
        if self.current().is_some_and(|saving| saving.purpose == Purpose::Replicas) {
            self.give_up(why);
            if !self.is_simulated {
                self.await_room();
            }
        }
    }

    /// Waits for a limited time until a cancelled save has freed its disk space.
    fn await_room(&self) {
        if let Some(saving) = self.current() {
            let (waiting, is_gone) = channel();
            saving.send(WriterItem::GivenUp(waiting));
            // The writer sends nothing; it drops its end when the space is free.
            let _ = is_gone.recv_timeout(ROOM_PATIENCE);
        }
    }

    /// Ends the writer of a server whose threads have ended.
    pub fn end_writer(&self) {
        self.give_up("the server ends");
        self.current().into_iter().for_each(|saving| saving.abandon());
        if let Some(writer) = lock(&self.writer).take() {
            // A writer that panicked has reported it.
            let _ = writer.join();
        }
    }

    /// The state of the append-only file that snapshots supersede.
    pub fn superseded_aof(&self) -> Option<String> {
        lock(&self.superseded_aof).clone()
    }

    /// Makes snapshots supersede an append-only file in this state.
    pub fn set_superseded_aof(&self, state: Option<String>) {
        *lock(&self.superseded_aof) = state;
    }

    /// The time of the last save, or of the server's start if there was none, in seconds since 1970.
    pub fn last_save_seconds(&self) -> u64 {
        self.last_save_seconds.load(Ordering::Relaxed)
    }

    /// The number of `changes` that came after the last save. 0 if they were counted before it.
    pub fn changes_since(&self, changes: u64) -> u64 {
        changes.saturating_sub(self.changes_saved.load(Ordering::Relaxed))
    }

    /// Notes that all of `changes` are on disk.
    pub fn note_saved(&self, changes: u64) {
        self.changes_saved.store(changes, Ordering::Relaxed);
    }

    /// The percentage of keys that a save for which all threads wait has written, if there is one.
    pub fn save_percent(&self) -> Option<f64> {
        let all = self.keys_to_write.load(Ordering::Relaxed);
        (all > 0).then(|| self.keys_written.load(Ordering::Relaxed) as f64 * 100.0 / all as f64)
    }
}

/// Notes that a snapshot for replicas is complete or has failed. A failure causes no refusal: the replicas
/// ask again.
fn note_spool(saving: &Saving, saved: Result<Saved, String>) {
    match saved {
        Ok(Saved { bytes, took_ms, .. }) => {
            let peak_bytes = saving.peak_bytes.load(Ordering::Relaxed);
            tracing::info!(
                "Snapshot for replicas written: {bytes} bytes, {took_ms} ms, {peak_bytes} bytes queued at peak"
            );
            tracing::info!("Background RDB transfer terminated with success");
        }
        Err(why) if saving.is_given_up() => tracing::warn!("Background transfer cancelled: {why}"),
        Err(why) => tracing::warn!("Background transfer error: {why}"),
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
