//! Checkpoints: the journal gets a new base, so that what came before it may go.
//!
//! A checkpoint is a snapshot in the background like any other, under a name in the journal's folder. Its cut ends a slice. When it is
//! durable, and the log thread has written that slice, the journal begins with it.

use std::io;
use std::sync::atomic::Ordering;

use command::{Task, Wait};
use journal::{Base, Trouble};
use persistence::{Names, Purpose};
use settings::{AUTO_AOF_REWRITE_MIN_SIZE, AUTO_AOF_REWRITE_PERCENTAGE, Settings};
use shard::Hold;

use super::{Files, Journal, locked};
use crate::shared::Shared;
use crate::snapshot::save_settings;

/// After one that failed the next one comes at the earliest after so many seconds.
const RETRY_SECONDS: u64 = 5;

impl Journal {
    /// Whether it has grown by so much over its base that it is to get another one.
    fn has_grown(&self, settings: &Settings) -> bool {
        let files = locked(&self.files);
        let Some(Files { base_bytes, base_position, .. }) = *files else { return false };
        let log_bytes = self.progress.position.load(Ordering::Relaxed).saturating_sub(base_position);
        let percentage = settings.number(AUTO_AOF_REWRITE_PERCENTAGE) as u64;
        let size_bytes = base_bytes + log_bytes;
        percentage > 0
            && size_bytes > settings.number(AUTO_AOF_REWRITE_MIN_SIZE) as u64
            && log_bytes * 100 / base_bytes.max(1) >= percentage
    }

    /// The name of the next base, and where it goes.
    fn next_base(&self) -> Option<(std::path::PathBuf, String)> {
        let files = locked(&self.files);
        let Files { folder, id, .. } = files.as_ref()?;
        Some((folder.path().to_owned(), format!("base-{id:016x}-{}.rdb", self.log.slice())))
    }
}

impl Shared {
    /// Whether a checkpoint is to be begun.
    pub(crate) fn wants_checkpoint(&self, now_seconds: u64) -> bool {
        let snapshots = &self.snapshots;
        let is_loading = snapshots.progress.is_loading() && !self.journal.awaits_first_base();
        if !self.journal.is_on() || is_loading || snapshots.current().is_some() {
            return false;
        }
        let checkpoints = &snapshots.checkpoints;
        let since_try = now_seconds.saturating_sub(snapshots.last_try_seconds.load(Ordering::Relaxed));
        let may_try = !checkpoints.last_failed.load(Ordering::Relaxed) || since_try > RETRY_SECONDS;
        self.journal.is_scheduled.load(Ordering::Relaxed) || may_try && self.journal.has_grown(&self.settings)
    }

    /// Begins one; all shards are entered, and nothing is being saved.
    pub(crate) fn begin_checkpoint(&'static self, hold: &mut Hold<'_, Task, Wait>) -> io::Result<()> {
        self.journal.is_scheduled.store(false, Ordering::Relaxed);
        let Some((folder, name)) = self.journal.next_base() else { return Ok(()) };
        let disk = &self.machine.disk;
        let settings = persistence::Settings {
            purpose: Purpose::Checkpoint,
            names: Names::new(disk, &folder.display().to_string(), &name),
            has_own_format: true,
            ..save_settings(&self.settings, disk)
        };
        let cut = self.journal.log.cut();
        self.journal.progress.wake_log_thread();
        self.save_in_background(hold, settings)?;
        if let Some(files) = locked(&self.journal.files).as_mut() {
            files.checkpoint = Some((cut, name));
        }
        Ok(())
    }

    /// If a checkpoint has ended, the journal begins with it.
    pub(crate) fn end_checkpoint(&'static self) {
        let mut files = locked(&self.journal.files);
        let Some(Files { checkpoint, base_bytes, base_position, .. }) = files.as_mut() else { return };
        let Some((cut, name)) = checkpoint.clone() else { return };
        let Some(position) = cut.end() else { return };
        let Some(ended) = self.snapshots.checkpoints.take_ended() else { return };
        *checkpoint = None;
        let Ok(saved) = ended else { return };
        (*base_bytes, *base_position) = (saved.bytes, position);
        let base = Base { slice: cut.slice(), position, file: Some(name) };
        let then = move |outcome: Result<(), Trouble>| match outcome {
            Ok(()) => {
                tracing::info!("Background append only file rewriting terminated with success");
                if self.journal.is_first_base.swap(false, Ordering::Relaxed) {
                    self.snapshots.progress.end();
                }
            }
            Err(trouble) => self.snapshots.checkpoints.note_failure(&trouble.to_string()),
        };
        self.journal.disk.set_base(base, Box::new(then));
    }
}
