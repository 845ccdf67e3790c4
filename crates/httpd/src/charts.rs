//! The last ten minutes, second by second, and the last day, minute by minute.
//!
//! A point takes an `f32` for each series and a byte for each thread. So all of it is 2,040 points of 48 bytes and a
//! byte for each thread: 100 KB, and 2 KB for each thread.

use serde_json::{Value as Json, json};

use crate::ring::Ring;

/// How many seconds are kept.
const SECONDS: usize = 600;
/// How many minutes are kept.
const MINUTES: usize = 24 * 60;
/// The most threads that are shown.
pub(crate) const THREADS_MAX: usize = 256;

/// The names of the series, as the console knows them.
pub(crate) const NAMES: [&str; 11] = [
    "reads_per_s",
    "writes_per_s",
    "other_per_s",
    "read_p50_us",
    "read_p99_us",
    "write_p50_us",
    "write_p99_us",
    "memory_bytes",
    "net_in_bytes_per_s",
    "net_out_bytes_per_s",
    "delegations_per_s",
];

/// One point of each series; NaN if it has no value, such as a latency while nothing runs.
pub(crate) type Point = [f32; NAMES.len()];

/// Points at equal distances.
#[derive(Debug)]
pub(crate) struct Chart {
    step_ms: u64,
    /// When the last point was taken.
    last_ms: u64,
    points: Ring<Point>,
    /// The load of each thread, in percent.
    cpu: Vec<Ring<u8>>,
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Charts {
    pub(crate) seconds: Chart,
    pub(crate) minutes: Chart,
}

impl Charts {
    pub(crate) fn new(thread_count: usize) -> Charts {
        Charts {
            seconds: Chart::new(1000, SECONDS, thread_count),
            minutes: Chart::new(60_000, MINUTES, thread_count),
        }
    }
}

impl Chart {
    fn new(step_ms: u64, capacity: usize, thread_count: usize) -> Chart {
        let cpu = vec![Ring::new(capacity); thread_count.min(THREADS_MAX)];
        Chart { step_ms, last_ms: 0, points: Ring::new(capacity), cpu }
    }

    /// Adds a point.
    pub(crate) fn push(&mut self, now_ms: u64, point: Point, cpu_percent: &[f32]) {
        self.last_ms = now_ms;
        self.points.push(point);
        for (ring, percent) in self.cpu.iter_mut().zip(cpu_percent) {
            ring.push(percent.round().clamp(0.0, 100.0) as u8);
        }
    }

    /// The chart for the console: the time of the first point, and the points of each series.
    pub(crate) fn json(&self) -> Json {
        let mut series = serde_json::Map::new();
        for (index, name) in NAMES.iter().enumerate() {
            let values: Json = self.points.iter().map(|point| number(point[index])).collect();
            series.insert((*name).to_owned(), values);
        }
        let cpu: Json = self.cpu.iter().map(|ring| ring.iter().map(Json::from).collect::<Json>()).collect();
        series.insert("cpu_percent".to_owned(), cpu);
        let span_ms = self.step_ms * (self.points.len() as u64).saturating_sub(1);
        json!({ "step_ms": self.step_ms, "from_ms": self.last_ms.saturating_sub(span_ms), "series": series })
    }
}

/// A number with three decimals, or `null`.
fn number(value: f32) -> Json {
    let rounded = (f64::from(value) * 1000.0).round() / 1000.0;
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 { json!(rounded as i64) } else { json!(rounded) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_shown_series_by_series() {
        let mut chart = Chart::new(1000, 3, 2);
        for second in 1..=4 {
            let mut point = [0.0; NAMES.len()];
            (point[0], point[3]) = (second as f32 * 1.5, f32::NAN);
            chart.push(second * 1000, point, &[second as f32, 250.0]);
        }
        let shown = chart.json();
        assert_eq!((&shown["step_ms"], &shown["from_ms"]), (&json!(1000), &json!(2000)));
        assert_eq!(shown["series"]["reads_per_s"], json!([3, 4.5, 6]));
        assert_eq!(shown["series"]["read_p50_us"], json!([null, null, null]));
        assert_eq!(shown["series"]["cpu_percent"], json!([[2, 3, 4], [100, 100, 100]]));
    }

    #[test]
    fn all_points_take_less_than_a_megabyte() {
        let bytes = (SECONDS + MINUTES) * (size_of::<Point>() + THREADS_MAX);
        assert!(bytes < 1 << 20, "{bytes}");
    }
}
