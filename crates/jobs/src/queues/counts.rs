//! Counts the jobs of a queue that are not in its list, because they are active, delayed, dead or in groups,
//! and reads their limits. The lengths of the keys beside the queue give the counts, so counting costs the
//! same for any number.
//!
//! Not here: the meaning of these keys (`jobs`).

use ds::hash::Hash;
use ds::num::parse_i64;
use ds::zset::ZSet;
use engine::{CommandError, Store, beside, peek_into};
use keyspace::queue::{ACTIVE, CRON, DEAD, DELAYED, GROUPS, GROUPS_FULL, JOBS, TURN};
use keyspace::queue::{JobCounts, JobFigure};

use crate::limits::Limit;

/// The field of the turn hash with the number of jobs that wait in groups.
pub const GROUPED: &[u8] = b"waiting";

/// Whether waiting jobs of `queue` have records. Then elements of its list may be references without their
/// payloads.
pub(crate) fn has_kept(store: &Store, queue: &[u8]) -> bool {
    let Ok(begin) = beside(store, queue) else { return false };
    let len = |end: &[u8]| store.peek(&[&begin, end].concat()).map_or(0, |record| record.value().len());
    len(JOBS) > len(ACTIVE) + len(DELAYED) + len(DEAD)
}

/// The counts of the jobs of `queue`.
///
/// # Errors
/// If a key beside it holds something else.
pub fn count_jobs(store: &Store, queue: &[u8]) -> Result<JobCounts, CommandError> {
    let begin = beside(store, queue)?;
    let name = |end: &[u8]| [&begin, end].concat();
    let mut counts = JobCounts::default();
    let set = |end: &[u8]| -> Result<(u64, Option<u64>), CommandError> {
        let key = name(end);
        let Some(set) = store.peek_as::<ZSet>(&key)? else { return Ok((0, None)) };
        Ok((set.len() as u64, set.score_at(0).map(|time_ms| time_ms as u64)))
    };
    let (active, lease_ms) = set(ACTIVE)?;
    let (delayed, delay_ms) = set(DELAYED)?;
    let (schedules, schedule_ms) = set(CRON)?;
    counts.set(JobFigure::Active, active);
    counts.set(JobFigure::Delayed, delayed);
    counts.set(JobFigure::Dead, set(DEAD)?.0);
    counts.set(JobFigure::Schedules, schedules);
    counts.set(JobFigure::NextLeaseMs, lease_ms.unwrap_or(0));
    counts.set(JobFigure::NextDueMs, [delay_ms, schedule_ms].into_iter().flatten().min().unwrap_or(0));
    let (turn, mut buffer) = (name(TURN), Vec::new());
    if let Some(turn) = peek_into::<Hash>(store, &turn, &mut buffer)? {
        let grouped = turn.get(GROUPED).and_then(|text| parse_i64(&text.bytes())).unwrap_or(0);
        counts.set(JobFigure::Grouped, u64::try_from(grouped).unwrap_or(0));
        counts.set(JobFigure::Groups, set(GROUPS)?.0 + set(GROUPS_FULL)?.0);
    }
    if let Some(limit) = Limit::of(store, queue)? {
        let rate = limit.rate.map_or((0, 0), |rate| (rate.count, rate.per_ms.cast_unsigned()));
        counts.set(JobFigure::Rate, rate.0);
        counts.set(JobFigure::PerMs, rate.1);
        counts.set(JobFigure::ActiveMax, limit.active.unwrap_or(0));
        counts.set(JobFigure::PerGroupMax, limit.per_group.unwrap_or(0));
    }
    Ok(counts)
}
