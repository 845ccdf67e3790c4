//! Decides when snapshots are saved without a request: at `save` points, by `snapshot-cron`, and after a
//! postponed `BGSAVE`.

use std::sync::atomic::Ordering;

use crate::purpose::may_try;
use crate::snapshots::Snapshots;
use config::Schedule;

/// Whether a save point is reached: this many seconds since the last save, with this many changes.
fn is_reached(points: &str, seconds: u64, changes: impl FnOnce() -> u64) -> Option<(u64, u64)> {
    let numbers: Vec<u64> = points.split(' ').filter_map(|word| word.parse().ok()).collect();
    let due: Vec<&[u64]> = numbers.chunks_exact(2).filter(|point| seconds > point[0]).collect();
    if due.is_empty() {
        return None;
    }
    let changes = changes();
    due.iter().find(|point| changes >= point[1]).map(|point| (changes, point[0]))
}

/// The settings for saves without a request.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// `save`: seconds and changes, in pairs.
    pub points: &'a str,
    /// `snapshot-cron`.
    pub cron: &'a str,
}

/// Whether a background save is due at `now_seconds`. It stays due until one begins.
pub fn is_due(
    snapshots: &Snapshots,
    plan: Plan<'_>,
    changes: impl FnOnce() -> u64,
    now_seconds: u64,
) -> bool {
    if snapshots.progress.is_loading() || snapshots.current().is_some() {
        return false;
    }
    if snapshots.is_scheduled.load(Ordering::Relaxed) {
        return true;
    }
    if snapshots.looked_at_seconds.swap(now_seconds, Ordering::Relaxed) == now_seconds {
        return false;
    }
    let last_try_seconds = snapshots.last_try_seconds.load(Ordering::Relaxed);
    let may_try = may_try(&snapshots.last_try_seconds, &snapshots.last_failed, now_seconds);
    let since_save = now_seconds.saturating_sub(snapshots.last_save_seconds());
    let reached = is_reached(plan.points, since_save, || snapshots.changes_since(changes()));
    let is_due = if let Some((changes, seconds)) = reached.filter(|_| may_try) {
        tracing::info!("{changes} changes in {seconds} seconds. Saving...");
        true
    } else {
        Schedule::parse(plan.cron).is_ok_and(|schedule| schedule.is_due(now_seconds))
            && last_try_seconds / 60 < now_seconds / 60
    };
    // A client may have requested one meanwhile.
    snapshots.is_scheduled.fetch_or(is_due, Ordering::Relaxed);
    is_due
}

#[cfg(test)]
mod tests {
    use proactor::Clock;

    use super::*;
    use crate::purpose::RETRY_SECONDS;
    use crate::tuning::Tuning;

    /// Checks whether a save is due after this many seconds and changes, with these save points.
    fn check(points: &str, seconds: u64, changes: u64, has_failed: bool, expected: bool) {
        let snapshots = Snapshots::new(Clock::real(), true, Tuning::LARGE);
        let started = snapshots.last_save_seconds();
        snapshots.last_failed.store(has_failed, Ordering::Relaxed);
        snapshots.last_try_seconds.store(started, Ordering::Relaxed);
        let is_due = || is_due(&snapshots, Plan { points, cron: "" }, || changes, started + seconds);
        assert_eq!(is_due(), expected, "{points} {seconds} {changes}");
        // It stays due until it begins.
        assert_eq!(is_due(), expected);
        snapshots.is_scheduled.store(false, Ordering::Relaxed);
        assert!(!is_due(), "it was looked at in this second");
    }

    #[test]
    fn a_save_is_due_when_a_point_is_reached() {
        let points = "60 2 3 100";
        check(points, 61, 2, false, true);
        check(points, 60, 2, false, false);
        check(points, 61, 1, false, false);
        check(points, 4, 100, false, true);
        check(points, RETRY_SECONDS, 100, true, false);
        check(points, RETRY_SECONDS + 1, 100, true, true);
        check("", 1000, 1000, false, false);
    }
}
