//! Metrics of queues, by queue.

use config::METRICS_QUEUES_MAX;
use jobs::queues::{JobFigure, Row, WAIT_BOUNDS_MS};

use super::exposition::{Exposition, Kind, label_text};
use crate::labels::Sum;
use crate::state::HttpState;

/// The name for all queues without labels of their own.
const OTHER: &str = "other";
const OTHER_LABELS: [(&str, &str); 4] = [("queue", OTHER), ("db", ""), ("system", ""), ("state", "")];

/// The labels of a queue.
struct Labelled<'r> {
    row: &'r Row,
    name: String,
    db: String,
}

impl Labelled<'_> {
    fn labels(&self) -> [(&str, &str); 4] {
        let (system, state) = (self.row.system.name(), self.row.state.name());
        [("queue", &self.name), ("db", &self.db), ("system", system), ("state", state)]
    }
}

/// A metric of queues: its name, its type, its help, and how it is read.
type Figure = (&'static str, Kind, &'static str, fn(&Row) -> Option<f64>);

const FIGURES: [Figure; 7] = [
    ("darter_queue_depth", Kind::Gauge, "Jobs that wait in the queue, those in groups among them.", |row| {
        Some(row.depth as f64)
    }),
    ("darter_queue_oldest_seconds", Kind::Gauge, "Age of the oldest element; 0 if there is none.", |row| {
        Some(row.oldest_ms.unwrap_or(0) as f64 / 1000.0)
    }),
    ("darter_queue_pushed_total", Kind::Counter, "Elements added to the queue.", |row| {
        Some(row.pushed as f64)
    }),
    ("darter_queue_popped_total", Kind::Counter, "Elements taken from the queue.", |row| {
        Some(row.popped as f64)
    }),
    ("darter_queue_waiters", Kind::Gauge, "Clients waiting for elements.", |row| Some(row.waiters as f64)),
    ("darter_queue_paused", Kind::Gauge, "1 while the queue is paused by QUEUE PAUSE.", |row| {
        Some(f64::from(u8::from(row.is_paused)))
    }),
    ("darter_queue_memory_bytes", Kind::Gauge, "Memory of the elements.", |row| {
        Some(row.memory_bytes as f64)
    }),
];

/// The gauges of queues whose jobs are leased.
const JOB_FIGURES: [(&str, JobFigure, &str); 10] = [
    ("darter_queue_jobs_active", JobFigure::Active, "Jobs that workers have."),
    ("darter_queue_jobs_delayed", JobFigure::Delayed, "Jobs that come later."),
    ("darter_queue_jobs_dead", JobFigure::Dead, "Jobs that had all their attempts."),
    ("darter_queue_jobs_grouped", JobFigure::Grouped, "Jobs that wait in groups."),
    ("darter_queue_groups", JobFigure::Groups, "Groups that have jobs waiting."),
    ("darter_queue_schedules", JobFigure::Schedules, "Schedules that push jobs."),
    ("darter_queue_limit_rate", JobFigure::Rate, "Elements that may be taken in a period."),
    ("darter_queue_limit_period_seconds", JobFigure::PerMs, "That period."),
    ("darter_queue_limit_active", JobFigure::ActiveMax, "Jobs that may be active."),
    ("darter_queue_limit_per_group", JobFigure::PerGroupMax, "Jobs of each group that may be active."),
];

/// Writes these metrics.
pub(super) fn write(page: &mut Exposition, state: &HttpState) {
    let rows = state.source.queues();
    let places_max = state.source.settings().number(METRICS_QUEUES_MAX) as usize;
    let mut labels = state.labels.borrow_mut();
    let (labelled, rest, other) = labels.deal(&rows, places_max, state.source.now_ms());
    write_rows(page, &labelled, &rest, other);
}

fn write_rows(page: &mut Exposition, labelled: &[&Row], rest: &[&Row], other: &Sum) {
    let count = labelled.len() + rest.len();
    page.single("darter_queues", Kind::Gauge, "Known queues.", count as f64);
    let help = "Queues combined as `other` (setting metrics-queues-max).";
    page.single("darter_queues_other", Kind::Gauge, help, rest.len() as f64);
    let labelled: Vec<Labelled> = labelled
        .iter()
        .map(|row| Labelled { row, name: label_text(&row.name), db: row.db.to_string() })
        .collect();
    let has_other = !rest.is_empty() || other.pushed + other.popped > 0;
    for (name, kind, help, read) in FIGURES {
        page.family(name, kind, help);
        for queue in &labelled {
            if let Some(value) = read(queue.row) {
                page.sample(name, &queue.labels(), value);
            }
        }
        if has_other {
            page.sample(name, &OTHER_LABELS, of_other(name, rest, other, read));
        }
    }
    write_jobs(page, &labelled, rest);
    let name = "darter_queue_wait_seconds";
    page.family(name, Kind::Histogram, "How long elements had waited when they were taken.");
    for queue in &labelled {
        let waits = &queue.row.waits;
        histogram(page, name, &queue.labels(), &waits.counts, waits.count, waits.sum_ms);
    }
    if has_other {
        histogram(page, name, &OTHER_LABELS, &other.waits, other.wait_count, other.wait_sum_ms);
    }
}

/// Writes the counts of jobs outside the lists. Limits are not summed up.
fn write_jobs(page: &mut Exposition, labelled: &[Labelled], rest: &[&Row]) {
    for (name, figure, help) in JOB_FIGURES {
        page.family(name, Kind::Gauge, help);
        let read = |row: &Row| {
            row.jobs.map(|jobs| jobs.get(figure)).filter(|number| *number > 0 || !figure.is_optional())
        };
        let scaled =
            |number: u64| if figure == JobFigure::PerMs { number as f64 / 1000.0 } else { number as f64 };
        for queue in labelled {
            if let Some(number) = read(queue.row) {
                page.sample(name, &queue.labels(), scaled(number));
            }
        }
        if !figure.is_optional() && rest.iter().any(|row| row.jobs.is_some()) {
            page.sample(name, &OTHER_LABELS, rest.iter().filter_map(|row| read(row)).sum::<u64>() as f64);
        }
    }
}

/// The value for all queues without labels of their own: of ages the greatest, of other figures the sum.
fn of_other(name: &str, rest: &[&Row], other: &Sum, read: fn(&Row) -> Option<f64>) -> f64 {
    let values = rest.iter().filter_map(|row| read(row));
    match name {
        "darter_queue_pushed_total" => other.pushed as f64,
        "darter_queue_popped_total" => other.popped as f64,
        "darter_queue_oldest_seconds" => values.fold(0.0, f64::max),
        _ => values.sum(),
    }
}

fn histogram(
    page: &mut Exposition,
    name: &str,
    labels: &[(&str, &str); 4],
    counts: &[u64; WAIT_BOUNDS_MS.len()],
    count: u64,
    sum_ms: u64,
) {
    let bucket = format!("{name}_bucket");
    let [queue, db, system, state] = *labels;
    let mut below = 0;
    for (bound_ms, count) in WAIT_BOUNDS_MS.iter().zip(counts) {
        below += count;
        let bound = (*bound_ms as f64 / 1000.0).to_string();
        page.sample(&bucket, &[queue, db, system, state, ("le", &bound)], below as f64);
    }
    page.sample(&bucket, &[queue, db, system, state, ("le", "+Inf")], count.max(below) as f64);
    page.sample(&format!("{name}_sum"), labels, sum_ms as f64 / 1000.0);
    page.sample(&format!("{name}_count"), labels, count.max(below) as f64);
}

#[cfg(test)]
mod tests {
    use super::super::exposition::Format;
    use jobs::queues::JobCounts;

    use super::*;
    use crate::example::row;
    use crate::labels::Labels;

    fn page(rows: &[Row], places_max: usize) -> String {
        let mut labels = Labels::default();
        let mut page = Exposition::new(Format::Prometheus);
        let (labelled, rest, other) = labels.deal(rows, places_max, 0);
        write_rows(&mut page, &labelled, &rest, other);
        page.finish()
    }

    #[track_caller]
    fn check(page: &str, lines: &[&str]) {
        for line in lines {
            assert!(page.lines().any(|known| known == *line), "no {line} in\n{page}");
        }
    }

    #[test]
    fn queues_are_told_apart_and_the_rest_is_summed_up() {
        let mut rows = vec![row("queue:a", 3), row("queue:b", 1), row("queue:c", 2)];
        rows[0].waits.counts[0] = 4;
        rows[0].waits.counts[2] = 1;
        (rows[0].waits.count, rows[0].waits.sum_ms) = (6, 90_000_030);
        rows[1].oldest_ms = Some(9000);
        rows[0].pushed = 99;
        let page = page(&rows, 1);
        let a = "{queue=\"queue:a\",db=\"0\",system=\"sidekiq\",state=\"waiting\"";
        let other = "{queue=\"other\",db=\"\",system=\"\",state=\"\"";
        check(
            &page,
            &[
                "darter_queues 3",
                "darter_queues_other 2",
                &format!("darter_queue_depth{a}}} 3"),
                &format!("darter_queue_depth{other}}} 3"),
                &format!("darter_queue_oldest_seconds{a}}} 1.5"),
                &format!("darter_queue_oldest_seconds{other}}} 9"),
                &format!("darter_queue_pushed_total{a}}} 99"),
                &format!("darter_queue_pushed_total{other}}} 23"),
                &format!("darter_queue_wait_seconds_bucket{a},le=\"0.001\"}} 4"),
                &format!("darter_queue_wait_seconds_bucket{a},le=\"0.025\"}} 5"),
                &format!("darter_queue_wait_seconds_bucket{a},le=\"21600\"}} 5"),
                &format!("darter_queue_wait_seconds_bucket{a},le=\"+Inf\"}} 6"),
                &format!("darter_queue_wait_seconds_sum{a}}} 90000.03"),
                &format!("darter_queue_wait_seconds_count{a}}} 6"),
            ],
        );
        assert!(!page.contains("queue:b"), "{page}");
    }

    #[test]
    fn jobs_beside_a_queue_are_shown_where_there_are_some() {
        let mut rows = vec![row("queue:a", 3), row("mail", 1), row("post", 2)];
        for (row, active) in rows[1..].iter_mut().zip([2, 5]) {
            let mut jobs = JobCounts::default();
            jobs.set(JobFigure::Active, active);
            jobs.set(JobFigure::PerMs, 1500);
            row.jobs = Some(jobs);
            row.pushed = 10 * active;
        }
        let page = page(&rows, 2);
        let mail = "{queue=\"mail\",db=\"0\",system=\"sidekiq\",state=\"waiting\"}";
        let post = "{queue=\"post\",db=\"0\",system=\"sidekiq\",state=\"waiting\"}";
        let shown =
            |name: &str, labels: &str, value: &str| page.contains(&format!("\n{name}{labels} {value}\n"));
        for (name, labels, value) in [
            ("darter_queue_jobs_active", mail, "2"),
            ("darter_queue_jobs_active", post, "5"),
            ("darter_queue_jobs_dead", post, "0"),
            ("darter_queue_limit_period_seconds", post, "1.5"),
        ] {
            assert!(shown(name, labels, value), "{name}{labels} {value} in\n{page}");
        }
        // The other queue has no leased jobs, and no limit.
        assert!(!page.contains("darter_queue_jobs_active{queue=\"other\""), "{page}");
        assert!(!page.contains("darter_queue_limit_active{"), "{page}");
    }

    #[test]
    fn without_queues_there_are_no_samples_of_any() {
        let page = page(&[], 5);
        check(&page, &["darter_queues 0", "darter_queues_other 0"]);
        assert!(!page.contains("queue=\""), "{page}");
    }
}
