//! Reports the journal's state to INFO, and says in one line what a crash now would lose.

use std::sync::atomic::Ordering;

use crate::{Following, Primary};
use config::{APPENDONLY, JOURNAL_STALL_MS, Settings};
use journal::{Policy, Refusal};

use crate::log::journal::{Files, ServerLog, locked};
use crate::log::keeper::Keeper;

impl ServerLog {
    /// The statistics of replication at `now_ms` on the monotonic clock.
    pub fn replication(
        &self,
        primary: &Primary,
        following: &Following,
        settings: &Settings,
        now_ms: u64,
    ) -> observe::Replication {
        // Read in this order: the start of the backlog only moves forward, unless the backlog starts over at
        // this moment.
        let first = self.is_streaming().then(|| self.backlog.first());
        let stream = (first, self.position());
        let mut facts = crate::facts(primary, following, &self.synced, stream, settings, now_ms);
        if let Some(followed) = facts.followed.as_mut().filter(|_| self.lacks_copy(settings)) {
            // Whoever waits for the link, or looks for one to promote, wants a server that keeps what it has.
            (followed.is_up, followed.priority) = (false, 0);
            followed.snapshot.get_or_insert_with(|| following.snapshot_progress());
        }
        facts
    }

    /// The journal's statistics, if it is on.
    pub fn facts(&self) -> Option<observe::JournalFacts> {
        let files = locked(&self.files);
        let Files { base_bytes, base_position, .. } = files.as_ref()?;
        let progress = &self.progress;
        let number = |word: &std::sync::atomic::AtomicU64| word.load(Ordering::Relaxed);
        let position = progress.counts.position.load(Ordering::Relaxed);
        Some(observe::JournalFacts {
            size_bytes: base_bytes + position.since(*base_position),
            base_bytes: *base_bytes,
            pending_bytes: progress.pending_bytes(&self.log),
            syncs_pending: u64::from(number(&progress.counts.sync_since_ms) > 0),
            syncs_delayed: number(&progress.counts.syncs_delayed),
            writes_delayed: number(&progress.counts.writes_delayed),
            slice: progress.written().get(),
            durable_slice: progress.durable().get(),
            position: position.get(),
            write_count: number(&progress.counts.write_count),
            write_us: number(&progress.counts.write_us),
            has_failed: !matches!(progress.refusal(), Refusal::None | Refusal::Stalled),
        })
    }
}

impl Keeper {
    /// Called ten times a second: logs if the disk is late, and passes slow events since the last call to
    /// `note`, by their names in the latency monitor.
    pub fn watch_journal(&self, now_ms: u64, mut note: impl FnMut(&'static str, u64)) {
        let progress = &self.journal.progress;
        let stall_ms = self.settings.number(JOURNAL_STALL_MS) as u64;
        let late_ms = progress.waits_for_disk_ms(now_ms);
        progress.note_stall((stall_ms > 0 && late_ms > stall_ms).then_some(late_ms));
        let refusal = progress.refusal();
        if self.journal.told.swap(refusal as u8, Ordering::Relaxed) != refusal as u8 {
            self.journal.told_ms.store(self.clock.now_ms(), Ordering::Relaxed);
            match refusal {
                Refusal::None => tracing::info!("the journal can be written again: writes are accepted"),
                Refusal::Stalled => tracing::warn!("the journal has stalled: {}", progress.why()),
                Refusal::NoRoom => tracing::warn!("write commands are refused: {}", progress.why()),
                // The thread that noticed the failure has logged it.
                Refusal::Failed => {}
            }
        }
        let is_synced = progress.policy() == Policy::Always;
        let write = if is_synced { "aof-fsync-always" } else { "aof-write" };
        for (event, slowest_ns) in
            [(write, &progress.counts.slowest_write_ns), ("aof-fsync", &progress.counts.slowest_sync_ns)]
        {
            if slowest_ns.load(Ordering::Relaxed) > 0 {
                note(event, slowest_ns.swap(0, Ordering::Relaxed));
            }
        }
    }

    /// Says what a crash now would lose and, if write commands are refused, since when and why.
    pub fn at_risk(&self, changes: u64) -> String {
        let lost = self.lost_by_crash(changes);
        let progress = &self.journal.progress;
        if matches!(progress.refusal(), Refusal::None | Refusal::Stalled) {
            let is_refused = persistence::refuses_writes(self.snapshots, self.settings);
            let why = "; write commands are refused, because the last snapshot could not be saved";
            return if is_refused { lost + why } else { lost };
        }
        let waiting = match (progress.policy(), progress.pending_bytes(&self.journal.log)) {
            (Policy::Always, _) | (_, 0) => String::new(),
            (_, bytes) => format!(", and {bytes} bytes of changes that could not be written"),
        };
        let since = match self.journal.told.load(Ordering::Relaxed) == progress.refusal() as u8 {
            true => self.journal.told_ms.load(Ordering::Relaxed),
            // The refusal began after the last check.
            false => self.clock.now_ms(),
        };
        let (since, why) = (journal::time(since), progress.why());
        format!("{lost}{waiting}; write commands have been refused since {since} UTC: {why}")
    }

    fn lost_by_crash(&self, changes: u64) -> String {
        let is_wanted = self.settings.is_on(APPENDONLY);
        if is_wanted && self.journal.is_on() && !self.journal.awaits_first_base() {
            let what = match self.journal.progress.policy() {
                Policy::Always => "nothing that was acknowledged",
                Policy::Everysec => {
                    "at most the last two seconds if the power fails, about half a millisecond (at most a tenth of a second) if the process dies"
                }
                Policy::No => {
                    "what the system has not written yet if the power fails, about half a millisecond (at most a tenth of a second) if the process dies"
                }
            };
            return what.to_owned();
        }
        let changes = self.snapshots.changes_since(changes);
        match changes {
            0 => "nothing".to_owned(),
            _ => format!("{changes} changes that are in no snapshot"),
        }
    }
}
