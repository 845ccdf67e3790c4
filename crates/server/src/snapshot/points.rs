//! When snapshots are saved unasked: `save` points, `snapshot_cron`, and what `BGSAVE` put off.

use std::sync::atomic::Ordering;

use crate::thread::Thread;
use config::Schedule;
use settings::{SAVE, SNAPSHOT_CRON, Settings};

/// After a save that failed the next one comes at the earliest after so many seconds.
const RETRY_SECONDS: u64 = 5;

/// Whether one of the save points is reached: so many seconds since the last save and so many changes.
fn is_reached(settings: &Settings, seconds: u64, changes: impl FnOnce() -> u64) -> Option<(u64, u64)> {
    let text = settings.text(SAVE);
    let numbers: Vec<u64> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
    let due: Vec<&[u64]> = numbers.chunks_exact(2).filter(|point| seconds > point[0]).collect();
    if due.is_empty() {
        return None;
    }
    let changes = changes();
    due.iter().find(|point| changes >= point[1]).map(|point| (changes, point[0]))
}

impl Thread {
    /// Saves in the background if it is time to; the first thread looks ten times a second.
    pub(crate) fn save_if_due(&mut self) {
        let shared = self.host.shared;
        let snapshots = &shared.snapshots;
        if snapshots.progress.is_loading() || snapshots.current().is_some() {
            return;
        }
        let now_seconds = self.host.driver.clock().now_ms() / 1000;
        if !snapshots.is_scheduled.load(Ordering::Relaxed) {
            if snapshots.looked_at_seconds.swap(now_seconds, Ordering::Relaxed) == now_seconds {
                return;
            }
            let since_try = now_seconds.saturating_sub(snapshots.last_try_seconds.load(Ordering::Relaxed));
            let may_try = since_try > RETRY_SECONDS || !snapshots.last_failed.load(Ordering::Relaxed);
            let since_save = now_seconds.saturating_sub(snapshots.last_save_seconds());
            let reached =
                is_reached(&shared.settings, since_save, || snapshots.changes_since(shared.shards.changes()));
            if let Some((changes, seconds)) = reached.filter(|_| may_try) {
                tracing::info!("{changes} changes in {seconds} seconds. Saving...");
                snapshots.is_scheduled.store(true, Ordering::Relaxed);
            } else if Schedule::parse(&shared.settings.text(SNAPSHOT_CRON))
                .is_ok_and(|schedule| schedule.is_due(now_seconds))
                && snapshots.last_try_seconds.load(Ordering::Relaxed) / 60 < now_seconds / 60
            {
                snapshots.is_scheduled.store(true, Ordering::Relaxed);
            }
        }
        if snapshots.is_scheduled.load(Ordering::Relaxed) && self.try_to_begin_save() {
            snapshots.is_scheduled.store(false, Ordering::Relaxed);
        }
    }
}
