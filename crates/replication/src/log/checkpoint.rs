//! Gives the journal new bases, so that older segments can be removed.
//!
//! A checkpoint is a background snapshot like any other, with a name in the journal's folder. Its cut ends a
//! slice. Once the snapshot is durable and the log thread has written that slice, the journal begins with the
//! snapshot.

use std::io;
use std::sync::atomic::Ordering;

use config::{AUTO_AOF_REWRITE_MIN_SIZE, AUTO_AOF_REWRITE_PERCENTAGE, REPL_BACKLOG_SIZE, Settings};
use effectlog::StreamPosition;
use journal::{Base, Refusal, Trouble};
use persistence::{Names, Purpose, Saved, names, save_settings};

use crate::log::journal::{Checkpoint, Files, ServerLog, locked};
use crate::log::keeper::Keeper;

impl ServerLog {
    /// Whether the journal has outgrown its base and needs a new one.
    fn has_grown(&self, settings: &Settings) -> bool {
        let files = locked(&self.files);
        let Some(Files { base_bytes, base_position, .. }) = *files else { return false };
        let log_bytes = self.progress.counts.position.load(Ordering::Relaxed).since(base_position);
        let percentage = settings.number(AUTO_AOF_REWRITE_PERCENTAGE) as u64;
        let size_bytes = base_bytes + log_bytes;
        percentage > 0
            && size_bytes > settings.number(AUTO_AOF_REWRITE_MIN_SIZE) as u64
            && log_bytes * 100 / base_bytes.max(1) >= percentage
    }

    /// When the current checkpoint began.
    pub fn checkpoint_started_ms(&self) -> Option<u64> {
        locked(&self.files).as_ref()?.checkpoint.as_ref().map(|checkpoint| checkpoint.started_ms)
    }

    /// The folder and the name of the next base.
    fn next_base(&self) -> Option<(std::path::PathBuf, String)> {
        let id = locked(&self.files).as_ref()?.id;
        let folder = locked(&self.folder).as_ref()?.path().to_owned();
        Some((folder, format!("base-{id:016x}-{}.rdb", self.log.slice())))
    }
}

impl Keeper {
    /// Whether a checkpoint should begin.
    pub fn wants_checkpoint(&self, now_seconds: u64) -> bool {
        let snapshots = self.snapshots;
        let is_loading = snapshots.progress.is_loading() && !self.journal.awaits_first_base();
        let is_under_way = self.journal.checkpoint_started_ms().is_some();
        if !self.journal.is_on() || is_loading || is_under_way || snapshots.current().is_some() {
            return false;
        }
        let checkpoints = &snapshots.checkpoints;
        let may_try = checkpoints.may_try(now_seconds);
        let is_due = || self.journal.awaits_first_base() || self.journal.has_grown(self.settings);
        self.journal.is_scheduled.load(Ordering::Relaxed) || may_try && is_due()
    }

    /// Begins a checkpoint. All shards are entered, and no other save is running.
    pub fn begin_checkpoint(
        self,
        save: impl FnOnce(persistence::Settings) -> io::Result<()>,
    ) -> io::Result<()> {
        self.journal.is_scheduled.store(false, Ordering::Relaxed);
        let Some((folder, name)) = self.journal.next_base() else { return Ok(()) };
        let disk = self.disk;
        let settings = persistence::Settings {
            purpose: Purpose::Checkpoint,
            names: Names::new(disk, &folder.display().to_string(), &name),
            has_own_format: true,
            ..save_settings(self.settings, disk)
        };
        // Discards a checkpoint of an earlier journal that may have ended since.
        let _ = self.snapshots.checkpoints.take_ended();
        let cut = self.journal.log.cut();
        self.journal.progress.wake_log_thread();
        save(settings)?;
        if let Some(files) = locked(&self.journal.files).as_mut() {
            files.checkpoint = Some(Checkpoint { cut, name, started_ms: self.clock.now_ms() });
        }
        Ok(())
    }

    /// If the checkpoint has ended, makes it the base of the journal.
    pub fn end_checkpoint(self) {
        let mut files = locked(&self.journal.files);
        let Some(Files { checkpoint: under_way, journal, .. }) = files.as_mut() else { return };
        let Some(Checkpoint { cut, name, .. }) = under_way.as_ref() else { return };
        let Some(position) = cut.end() else { return };
        let saved = match self.snapshots.checkpoints.take_ended() {
            // It is still running, or the one that ended belonged to an earlier journal.
            None => return,
            Some(Ok(saved)) if saved.name != *name => return,
            Some(ended) => ended,
        };
        let Ok(saved) = saved else {
            *under_way = None;
            return;
        };
        let before = journal.facts().base.slice;
        assert!(cut.slice() >= before, "the base has slices up to {before}, and the next one fewer");
        let base = Base { slice: cut.slice(), position, file: Some(name.clone()) };
        let then = move |outcome: Result<(), Trouble>| self.note_base(&saved, position, outcome);
        let backlog_bytes = self.settings.number(REPL_BACKLOG_SIZE) as u64;
        self.journal.disk.set_base(base, backlog_bytes, Box::new(then));
    }

    /// Called when the checkpoint, which ends at `position` of the stream, has become the base or has failed
    /// to.
    fn note_base(&self, saved: &Saved, position: StreamPosition, outcome: Result<(), Trouble>) {
        let mut files = locked(&self.journal.files);
        let is_its = |files: &&mut Files| files.checkpoint.as_ref().is_some_and(|own| own.name == saved.name);
        let Some(files) = files.as_mut().filter(is_its) else { return };
        files.checkpoint = None;
        if let Err(trouble) = outcome {
            return self.snapshots.checkpoints.note_failure(&trouble.to_string());
        }
        tracing::info!("Background append only file rewriting terminated with success");
        assert!(position >= files.base_position, "a base never goes back in the stream");
        (files.base_bytes, files.base_position) = (saved.bytes, position);
        if self.journal.progress.refusal() == Refusal::Failed {
            self.journal.progress.set_refusal(Refusal::None, "");
        }
        self.journal.lacks_copy.store(false, Ordering::Relaxed);
        if self.journal.is_first_base.swap(false, Ordering::Relaxed) {
            self.snapshots.note_superseded(&names(self.settings, self.disk));
            self.snapshots.progress.end();
            self.journal.progress.wake_all();
        }
    }
}
