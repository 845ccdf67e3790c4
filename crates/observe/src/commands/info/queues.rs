//! INFO queues: the queues of all databases, as QUEUE LIST shows those of one.
//!
//! Only `INFO queues` and `INFO all` show it, so programs that read the default sections see nothing new. Names are
//! percent-encoded, so that they cannot end a field or a line.

use std::sync::atomic::Ordering;

use keyspace::queue::{JobCounts, JobFigure};
use keyspace::queue::{Row, SHOWN_NAME_BYTES_MAX, State, rows};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};

use super::Report;

/// The most queues that are shown.
pub(super) const QUEUES_SHOWN_MAX: usize = 200;
/// The ASCII characters that are encoded in names.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b',').add(b'=').add(b'%');

/// The figures that are summed up over queues whose jobs are leased.
const SUMMED: [JobFigure; 4] = [JobFigure::Active, JobFigure::Delayed, JobFigure::Dead, JobFigure::Grouped];

pub(super) fn queues(report: &mut Report) {
    let known = report.facts.shards().queues();
    let (turned_away, mut rows) = (known.turned_away(), rows(known, report.server.steady_ms));
    let count = rows.len();
    let paused_count = rows.iter().filter(|row| row.is_paused).count();
    let waiting = || rows.iter().filter(|row| row.state == State::Waiting);
    report.number("queues_known", count as u64);
    report.number("queues_paused", paused_count as u64);
    report.number("queues_turned_away", turned_away);
    report.number("queue_jobs_waiting", waiting().map(|row| row.depth).sum::<u64>());
    report.number("queue_oldest_ms", waiting().filter_map(|row| row.oldest_ms).max().unwrap_or(0));
    report.number("queue_waiters", rows.iter().map(|row| row.waiters).sum::<u64>());
    for figure in SUMMED {
        let sum = rows.iter().filter_map(|row| row.jobs).map(|jobs| jobs.get(figure)).sum::<u64>();
        report.number(&format!("queue_jobs_{}", figure.name()), sum);
    }
    report.number("queue_jobs_promoted", report.over_shards(|figures| &figures.promoted_jobs));
    let recovery = &known.recovery;
    for (name, number) in [
        ("queue_jobs_recovered", &recovery.returned_jobs),
        ("queue_jobs_not_recovered", &recovery.left_jobs),
        ("queue_processes_dead", &recovery.dead_processes),
        ("queue_last_recovery_ms", &recovery.last_ms),
        ("queue_pops_forgotten", &recovery.forgotten_pops),
    ] {
        report.number(name, number.load(Ordering::Relaxed));
    }
    report.number("queue_pops_kept_bytes", recovery.popped_bytes.load(Ordering::Relaxed) as u64);
    rows.retain(|row| row.name.len() <= SHOWN_NAME_BYTES_MAX);
    // There may be a hundred thousand: those that are not shown need no order.
    if rows.len() > QUEUES_SHOWN_MAX {
        rows.select_nth_unstable_by(QUEUES_SHOWN_MAX, Row::order);
        rows.truncate(QUEUES_SHOWN_MAX);
    }
    rows.sort_unstable_by(Row::order);
    for (number, row) in rows.iter().enumerate() {
        report.text(&format!("queue{number}"), &line(row));
    }
    report.number("queues_not_shown", (count - rows.len()) as u64);
}

fn line(row: &Row) -> String {
    let mut line = format!(
        "name={},db={},system={},state={},depth={},oldest_ms={},in_per_s={:.2},out_per_s={:.2},waiters={},paused={},bytes={}",
        percent_encode(&row.name, ENCODED),
        row.db,
        row.system.name(),
        row.state.name(),
        row.depth,
        row.oldest_ms.unwrap_or(0),
        row.in_per_s[0],
        row.out_per_s[0],
        row.waiters,
        u8::from(row.is_paused),
        row.memory_bytes
    );
    for (name, number) in row.jobs.iter().flat_map(JobCounts::rows) {
        if let Some(number) = number {
            line.push_str(&format!(",{name}={number}"));
        }
    }
    line
}
