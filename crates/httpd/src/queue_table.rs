//! The table of queues as JSON: for autoscalers and scripts, and with the depths of the last minute for the console.

use std::collections::BTreeMap;

use jobs::queues::{Row, SHOWN_NAME_BYTES_MAX};
use serde::Serialize;

use crate::json::base64;
use crate::query::Query;
use crate::reply::{self, Answer};
use crate::state::HttpState;

/// How many queues are shown; the others are only counted.
const QUEUES_MAX: usize = 1000;

/// A queue that takes longer to be empty has no end that can be seen.
const TO_EMPTY_S_MAX: f64 = 365.0 * 86_400.0;

/// The answer.
#[derive(Serialize)]
struct QueueTable<'r> {
    time_ms: u64,
    total: Total,
    queues: Vec<QueueLine<'r>>,
    /// The number of queues that are not shown.
    other: usize,
}

/// The sums over all selected queues, including those that are not shown. These are always numbers, so that an
/// autoscaler gets one even if no queue matches.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Total {
    queues: usize,
    depth: u64,
    /// The age of the oldest element of all; 0 if all queues are empty.
    oldest_ms: u64,
    in_per_s: f64,
    out_per_s: f64,
    waiters: u64,
}

/// A queue.
#[derive(Serialize)]
struct QueueLine<'r> {
    name: String,
    key: String,
    db: u32,
    system: &'r str,
    state: &'r str,
    depth: u64,
    oldest_ms: Option<u64>,
    due_in_ms: Option<u64>,
    in_per_s: f64,
    out_per_s: f64,
    in_per_s_1m: f64,
    out_per_s_1m: f64,
    in_per_s_10m: f64,
    out_per_s_10m: f64,
    pushed: u64,
    popped: u64,
    waiters: u64,
    paused: bool,
    bytes: u64,
    wait_ms: Option<Wait>,
    seconds_to_empty: Option<u64>,
    /// The numbers of its jobs outside the list, if its jobs are leased.
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<BTreeMap<&'static str, Option<u64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spark: Option<Vec<u64>>,
    /// For the console: what its scores mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    score_ms: Option<f64>,
}

/// How long the elements that were taken in the last minute had waited.
#[derive(Serialize)]
struct Wait {
    p50: u64,
    p99: u64,
    max: u64,
}

/// The queues that the query selects. Its fields `name`, `system`, `state` and `db` are filters: a queue must have one
/// of the values of each.
pub(crate) fn answer(state: &HttpState, query: &Query, has_sparks: bool) -> Answer {
    let rows = state.source.queues();
    let sampler = state.sampler.borrow();
    let spark = |row: &Row| has_sparks.then(|| sampler.sparks.of(row));
    reply::json(&table(&rows, query, state.source.now_ms(), spark))
}

fn table<'r>(
    rows: &'r [Row],
    query: &Query,
    time_ms: u64,
    spark: impl Fn(&Row) -> Option<Vec<u64>>,
) -> QueueTable<'r> {
    let is_wanted = |row: &&Row| {
        query.allows("name", &row.name)
            && query.allows("system", row.system.name().as_bytes())
            && query.allows("state", row.state.name().as_bytes())
            && query.allows("db", row.db.to_string().as_bytes())
    };
    let wanted: Vec<&Row> = rows.iter().filter(is_wanted).collect();
    let total = Total {
        queues: wanted.len(),
        depth: wanted.iter().map(|row| row.depth).sum(),
        oldest_ms: wanted.iter().filter_map(|row| row.oldest_ms).max().unwrap_or(0),
        in_per_s: rounded(wanted.iter().map(|row| row.in_per_s[0]).sum()),
        out_per_s: rounded(wanted.iter().map(|row| row.out_per_s[0]).sum()),
        waiters: wanted.iter().map(|row| row.waiters).sum(),
    };
    let queues: Vec<QueueLine> = most_wanted(wanted).into_iter().map(|row| line(row, spark(row))).collect();
    QueueTable { time_ms, other: total.queues - queues.len(), total, queues }
}

/// If there are too many: the few sets beside queues, then the oldest and the deepest queues.
fn most_wanted(mut rows: Vec<&Row>) -> Vec<&Row> {
    rows.retain(|row| row.name.len() <= SHOWN_NAME_BYTES_MAX);
    if rows.len() > QUEUES_MAX {
        rows.sort_by_key(|row| {
            std::cmp::Reverse((
                row.state != jobs::queues::State::Waiting,
                row.oldest_ms,
                row.depth,
                row.pushed,
            ))
        });
        rows.truncate(QUEUES_MAX);
    }
    rows
}

fn line(row: &Row, spark: Option<Vec<u64>>) -> QueueLine<'_> {
    let [in_per_s, in_per_s_1m, in_per_s_10m] = row.in_per_s.map(rounded);
    let [out_per_s, out_per_s_1m, out_per_s_10m] = row.out_per_s.map(rounded);
    QueueLine {
        name: String::from_utf8_lossy(&row.name).into_owned(),
        key: base64(&row.name),
        db: row.db,
        system: row.system.name(),
        state: row.state.name(),
        depth: row.depth,
        oldest_ms: row.oldest_ms,
        due_in_ms: row.due_in_ms,
        in_per_s,
        out_per_s,
        in_per_s_1m,
        out_per_s_1m,
        in_per_s_10m,
        out_per_s_10m,
        pushed: row.pushed,
        popped: row.popped,
        waiters: row.waiters,
        paused: row.is_paused,
        bytes: row.memory_bytes,
        wait_ms: row.waits.last_minute.map(|[p50, p99, max]| Wait { p50, p99, max }),
        seconds_to_empty: seconds_to_empty(row),
        jobs: row.jobs.map(|jobs| jobs.rows().collect()),
        score_ms: row.score_ms.filter(|_| spark.is_some()),
        spark,
    }
}

/// When the queue will be empty at the rates of the last minute; `None`: never, or in more than a year.
fn seconds_to_empty(row: &Row) -> Option<u64> {
    let shrinks_per_s = row.out_per_s[1] - row.in_per_s[1];
    if row.depth == 0 {
        return Some(0);
    }
    let seconds = (row.depth as f64 / shrinks_per_s).ceil();
    let has_end = shrinks_per_s > 0.0 && seconds <= TO_EMPTY_S_MAX && !row.is_paused;
    has_end.then_some(seconds as u64)
}

/// Rounds to three decimals.
fn rounded(rate: f64) -> f64 {
    if rate.is_finite() { (rate * 1000.0).round() / 1000.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::row;

    #[test]
    fn a_queue_is_shown_with_its_rates() {
        let mut example = row("queue:a\"", 7);
        example.waits.last_minute = Some([1, 20, 300]);
        let shown = serde_json::to_value(line(&example, Some(vec![1, 7]))).unwrap();
        let expected = serde_json::json!({
            "name": "queue:a\"", "key": "cXVldWU6YSI=", "db": 0, "system": "sidekiq", "state": "waiting", "depth": 7,
            "oldest_ms": 1500, "due_in_ms": null, "in_per_s": 1.0, "out_per_s": 4.0, "in_per_s_1m": 2.0, "out_per_s_1m": 5.0,
            "in_per_s_10m": 3.0, "out_per_s_10m": 6.0, "pushed": 17, "popped": 10, "waiters": 2, "paused": false,
            "bytes": 700, "wait_ms": { "p50": 1, "p99": 20, "max": 300 }, "seconds_to_empty": 3, "spark": [1, 7], "score_ms": 1000.0,
        });
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_query_chooses_queues_and_its_total_is_always_a_number() {
        let mut rows = vec![row("queue:a", 3), row("queue:b", 0), row("bull:c:wait", 5)];
        rows[2].system = jobs::queues::System::BullMq;
        rows[2].oldest_ms = Some(60_000);
        let check = |query: &str, names: &[&str], depth: u64, oldest_ms: u64| {
            let found = table(&rows, &Query::parse(query), 0, |_| None);
            let found_names: Vec<&str> = found.queues.iter().map(|line| &*line.name).collect();
            assert_eq!((found_names.as_slice(), found.other), (names, 0), "{query}");
            let (count, rate) = (names.len(), names.len() as f64);
            let waiters = 2 * count as u64;
            let total =
                Total { queues: count, depth, oldest_ms, in_per_s: rate, out_per_s: 4.0 * rate, waiters };
            assert_eq!(found.total, total, "{query}");
        };
        check("", &["queue:a", "queue:b", "bull:c:wait"], 8, 60_000);
        check("system=sidekiq&state=waiting", &["queue:a", "queue:b"], 3, 1500);
        check("name=queue%3Aa&name=bull%3Ac%3Await&db=0", &["queue:a", "bull:c:wait"], 8, 60_000);
        check("name=queue:b", &["queue:b"], 0, 0);
        check("name=gone", &[], 0, 0);
        check("db=x", &[], 0, 0);
    }

    #[test]
    fn a_queue_that_does_not_shrink_has_no_end() {
        let check = |change: fn(&mut Row), expected: Option<u64>| {
            let mut example = row("q", 9);
            change(&mut example);
            assert_eq!(seconds_to_empty(&example), expected);
        };
        check(|_| {}, Some(3));
        check(|row| row.depth = 0, Some(0));
        check(|row| row.is_paused = true, None);
        check(|row| row.in_per_s[1] = 5.0, None);
        check(|row| row.out_per_s[1] = f64::NAN, None);
        check(|row| row.out_per_s[1] = row.in_per_s[1] + 1e-12, None);
        check(|row| (row.in_per_s[1], row.out_per_s[1]) = (0.0, f64::MIN_POSITIVE), None);
    }

    #[test]
    fn of_too_many_the_oldest_are_shown() {
        let mut rows: Vec<Row> = (0..QUEUES_MAX + 5).map(|index| row(&format!("q{index}"), 1)).collect();
        rows[3].name = vec![b'x'; SHOWN_NAME_BYTES_MAX + 1].into();
        rows[QUEUES_MAX + 4].oldest_ms = Some(1_000_000);
        let shown = most_wanted(rows.iter().collect());
        assert_eq!((shown.len(), &*shown[0].name), (QUEUES_MAX, format!("q{}", QUEUES_MAX + 4).as_bytes()));
    }
}
