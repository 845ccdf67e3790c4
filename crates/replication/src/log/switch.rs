//! Turns the journal on and off while the server runs, as `appendonly` says.
//!
//! ```text
//!              yes: the disk thread makes the files             all shards are held: begin
//!   no journal ──────────────────────────▶ UnderWay ──▶ Made ──────────────────────────────▶ it is on, and gets its first base
//!       ▲                                       ▲                                                │        │
//!       │ a snapshot is newer: it is retired    └── a write has failed, and replies do not wait ─┘        │ no: all shards are held
//!       └──────────────────────────────────────────── Ended ◀─────────────────────────────────────────────┘
//! ```
//!
//! The first thread checks ten times a second whether the journal is in the state that the setting asks for,
//! and takes the next step. A new journal does not count until its first base is durable: until then, a start
//! continues the previous one, if there was one. A closed journal stays until a snapshot contains all of it,
//! so that nothing is lost if the server is started with it again.
//!
//! Not here: the start (`opening.rs`), and the steps of a checkpoint (`checkpoint.rs`).

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use config::APPENDONLY;
use effectlog::Lsn;
use journal::{Data, LockedFolder, Policy, Refusal};

use crate::log::journal::{Opened, ServerLog, locked};
use crate::log::keeper::Keeper;
use crate::log::opening::Opening;

/// A failed attempt is repeated after this many seconds.
const RETRY_SECONDS: u64 = 5;

/// The state of a new journal.
#[derive(Default)]
pub(crate) enum Making {
    #[default]
    No,
    /// The disk thread is creating its files.
    UnderWay,
    /// Its files exist, or creating them has failed.
    Made(Result<Opened, journal::Error>),
}

/// A journal that was turned off, until its files are removed.
pub(crate) struct Ended {
    /// The journal's last slice.
    last: Lsn,
    /// A snapshot contains all of the journal's changes once more saves than this have succeeded since the
    /// start.
    saves: u64,
}

/// The next step, which needs all shards.
pub enum SwitchStep {
    /// Turn on this journal.
    Begin(Opened),
    /// Turn off the journal.
    End,
    /// Begin a checkpoint.
    Checkpoint,
}

impl ServerLog {
    /// Whether the journal is on, and no write has failed in a way that requires new files.
    fn is_in_order(&self) -> bool {
        let is_lost = self.progress.refusal() == Refusal::Failed && self.progress.policy() != Policy::Always;
        self.is_on() && (!is_lost || self.awaits_first_base())
    }

    /// The id of the next new journal.
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

impl Keeper {
    /// Checks whether the journal can be turned on as `appendonly` asks: whether its folder can be used.
    pub fn prepare_journal(&self) -> Result<(), journal::Error> {
        if self.settings.is_on(APPENDONLY) && !self.journal.is_on() {
            self.take_folder()?;
        }
        Ok(())
    }

    /// Locks the journal's folder.
    fn take_folder(&self) -> Result<Arc<LockedFolder>, journal::Error> {
        let mut own = locked(&self.journal.folder);
        let path = crate::log::opening::path(self.settings);
        if let Some(folder) = own.as_ref().filter(|folder| folder.path() == path) {
            return Ok(folder.clone());
        }
        let folder = Opening::new(self.settings, self.disk, self.tuning)?.locked?;
        Ok(own.insert(folder).clone())
    }

    /// Does the work that needs no shards. Returns the next step that needs them, if there is one.
    pub fn next_step(self, now_seconds: u64) -> Option<SwitchStep> {
        self.end_checkpoint();
        let journal = &self.journal;
        if self.snapshots.progress.is_loading() && !journal.awaits_first_base() {
            return None;
        }
        let mut making = locked(&journal.making);
        if !self.settings.is_on(APPENDONLY) {
            if matches!(*making, Making::Made(_)) {
                *making = Making::No;
            }
            if journal.is_on() {
                return Some(SwitchStep::End);
            }
            if journal.progress.refusal() != Refusal::None {
                journal.progress.set_refusal(Refusal::None, "");
            }
            self.retire_journal();
            return None;
        }
        match std::mem::take(&mut *making) {
            Making::UnderWay => *making = Making::UnderWay,
            Making::Made(Ok(opened)) => return Some(SwitchStep::Begin(opened)),
            Making::Made(Err(error)) => self.note_no_journal(&error, now_seconds),
            Making::No if journal.is_in_order() => {
                return self.wants_checkpoint(now_seconds).then_some(SwitchStep::Checkpoint);
            }
            Making::No => {
                let since_failure =
                    now_seconds.saturating_sub(journal.failed_seconds.load(Ordering::Relaxed));
                if since_failure > RETRY_SECONDS && self.snapshots.saving_checkpoint().is_none() {
                    *making = Making::UnderWay;
                    drop(making);
                    self.make_journal(now_seconds);
                }
            }
        }
        None
    }

    /// Lets the disk thread create the files of a new journal.
    fn make_journal(self, now_seconds: u64) {
        let journal = &self.journal;
        let opening = self.take_folder().and_then(|folder| Opening::again(folder, self.tuning));
        let opening = match opening {
            Ok(opening) => opening,
            Err(error) => {
                *locked(&journal.making) = Making::No;
                return self.note_no_journal(&error, now_seconds);
            }
        };
        tracing::info!("starting a journal in {}", opening.folder.path().display());
        let id = journal.next_id();
        journal.disk.run(Box::new(move || {
            *locked(&self.journal.making) = Making::Made(opening.locked.clone().and_then(|folder| {
                opening.create_in(folder, self.settings, None, id, Data::Coming).map(Box::new)
            }));
        }));
    }

    fn note_no_journal(&self, error: &journal::Error, now_seconds: u64) {
        self.journal.failed_seconds.store(now_seconds, Ordering::Relaxed);
        self.snapshots.checkpoints.note_failure(&error.to_string());
    }

    /// Takes a step. All shards are entered. Saves in progress are the same as when the step was returned.
    pub fn take_step(self, step: SwitchStep, save: impl FnOnce(persistence::Settings) -> io::Result<()>) {
        match step {
            SwitchStep::Begin(opened) => {
                // The folder was locked when the files were created.
                let Some(folder) = locked(&self.journal.folder).clone() else { return };
                *locked(&self.journal.ended) = None;
                self.journal.begin(folder, opened);
            }
            SwitchStep::End => self.end_journal(),
            SwitchStep::Checkpoint if self.snapshots.current().is_some() => {}
            SwitchStep::Checkpoint => {
                if let Err(error) = self.begin_checkpoint(save) {
                    self.snapshots.checkpoints.note_failure(&error.to_string());
                }
            }
        }
    }

    /// Call this if a step cannot be taken now: it will be returned again.
    pub fn put_off(&self, step: SwitchStep) {
        if let SwitchStep::Begin(opened) = step {
            *locked(&self.journal.making) = Making::Made(Ok(opened));
        }
    }

    fn end_journal(&self) {
        let last = self.journal.end();
        // Data loaded at startup no longer waits for this journal's first base.
        self.snapshots.progress.end();
        let is_saving = self.snapshots.saving_snapshot().is_some();
        let saves = self.snapshots.save_count.load(Ordering::Relaxed) + u64::from(is_saving);
        *locked(&self.journal.ended) = Some(Ended { last, saves });
        if self.settings.has_save_points() {
            self.snapshots.is_scheduled.store(true, Ordering::Relaxed);
            tracing::info!(
                "the journal is closed, because appendonly is no. Its files are removed when a snapshot contains the same data"
            );
        } else {
            tracing::warn!(
                "the journal is closed, because appendonly is no. There are no save points, so its files stay until a snapshot is saved"
            );
        }
    }

    /// Removes the files of a journal that was turned off, once a snapshot contains all of its changes.
    fn retire_journal(self) {
        let save_count = self.snapshots.save_count.load(Ordering::Relaxed);
        let mut ended = locked(&self.journal.ended);
        let progress = &self.journal.progress;
        let is_needless = |ended: &Ended| save_count > ended.saves && progress.has_ended(ended.last);
        if !ended.as_ref().is_some_and(is_needless) {
            return;
        }
        *ended = None;
        let Some(folder) = locked(&self.journal.folder).clone() else { return };
        self.journal.disk.run(Box::new(move || {
            match folder.retire() {
                Ok(()) => {
                    tracing::info!("a snapshot contains the journal's data: the journal's files are removed")
                }
                Err(error) => tracing::warn!("cannot remove the closed journal: {error}"),
            }
            // The setting may have been turned on again.
            let mut own = locked(&self.journal.folder);
            if !self.settings.is_on(APPENDONLY) {
                *own = None;
            }
            // Unlock it while the mutex is held: a thread that finds no folder there locks it itself.
            drop(folder);
        }));
    }
}
