//! The latency monitor: records events that took longer than `latency-monitor-threshold`, by name.
//!
//! It keeps the last [`SAMPLES`] of each event, at most one per second (the longest of that second), and the longest
//! ever. Events are `command`, `fast-command` (a command declared as fast), `expire-cycle` (a round of a thread over
//! the expired keys of its shards), `active-defrag-cycle`, and the writes and syncs of the journal. Nothing is recorded
//! while the threshold is 0.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use proactor::Clock;

/// How many samples of an event are kept.
const SAMPLES: usize = 160;
/// The width and height of a graph.
const COLUMNS: usize = 80;
const ROWS: usize = 4;
/// The characters for low, middle and high within a row.
const FILLS: [char; 3] = ['_', 'o', '#'];

/// All slow events.
#[derive(Debug, Default)]
pub(crate) struct LatencyMonitor(Mutex<BTreeMap<&'static str, Series>>);

/// The samples of one event.
#[derive(Debug, Default)]
pub(crate) struct Series {
    /// The samples, oldest first.
    pub(crate) samples: VecDeque<Sample>,
    pub(crate) longest_ms: u64,
}

/// One slow occurrence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sample {
    pub(crate) unix_seconds: u64,
    pub(crate) duration_ms: u64,
}

/// The statistics that `LATENCY DOCTOR` computes for an event.
pub(crate) struct Analysis {
    pub(crate) mean_ms: u64,
    /// The mean absolute deviation of the samples.
    pub(crate) mean_deviation_ms: u64,
    /// The mean time between two samples.
    pub(crate) period_seconds: f64,
}

impl LatencyMonitor {
    /// All events. Only slow events and LATENCY take the lock.
    pub(crate) fn events(&self) -> MutexGuard<'_, BTreeMap<&'static str, Series>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds `event`, which ends now, with its duration.
    pub(crate) fn note(&self, event: &'static str, ns: u64, clock: &Clock) {
        self.add(event, Sample { unix_seconds: clock.now_ms() / 1000, duration_ms: ns / 1_000_000 });
    }

    fn add(&self, event: &'static str, sample: Sample) {
        self.events().entry(event).or_default().add(sample);
    }
}

impl Series {
    fn add(&mut self, sample: Sample) {
        self.longest_ms = self.longest_ms.max(sample.duration_ms);
        if let Some(last) = self.samples.back_mut().filter(|last| last.unix_seconds == sample.unix_seconds) {
            last.duration_ms = last.duration_ms.max(sample.duration_ms);
            return;
        }
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The latest sample. There is always one.
    pub(crate) fn latest(&self) -> Sample {
        *self.samples.back().expect("an event is made with its first sample")
    }

    pub(crate) fn analysis(&self, now_seconds: u64) -> Analysis {
        let count = self.samples.len() as u64;
        let mean = |total: u64| total / count;
        let mean_ms = mean(self.samples.iter().map(|sample| sample.duration_ms).sum());
        let deviations = self.samples.iter().map(|sample| sample.duration_ms.abs_diff(mean_ms));
        let oldest = self.samples.front().map_or(now_seconds, |sample| sample.unix_seconds);
        Analysis {
            mean_ms,
            mean_deviation_ms: mean(deviations.sum()),
            period_seconds: now_seconds.saturating_sub(oldest) as f64 / count as f64,
        }
    }

    /// A graph of the samples, with their ages below.
    pub(crate) fn graph(&self, event: &str, now_seconds: u64) -> String {
        let durations = self.samples.iter().map(|sample| sample.duration_ms);
        let (low, high) = (durations.clone().min().unwrap_or(0), durations.max().unwrap_or(0));
        let mut graph = format!(
            "{event} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
            self.longest_ms,
            "-".repeat(COLUMNS)
        );
        let columns: Vec<(usize, String)> = self
            .samples
            .iter()
            .map(|sample| {
                let steps = FILLS.len() * ROWS;
                let relative = (sample.duration_ms - low) as usize * steps / (high - low).max(1) as usize;
                (relative.min(steps - 1), age(now_seconds.saturating_sub(sample.unix_seconds)))
            })
            .collect();
        for (index, part) in columns.chunks(COLUMNS).enumerate() {
            if index > 0 {
                graph.push('\n');
            }
            draw(part, &mut graph);
        }
        graph
    }
}

/// Draws columns of given heights, with their labels below, which are written downwards.
fn draw(columns: &[(usize, String)], graph: &mut String) {
    for row in (0..ROWS).rev() {
        let cell = |step: usize| match step.checked_sub(row * FILLS.len()) {
            Some(above) => FILLS.get(above).copied().unwrap_or('|'),
            None => ' ',
        };
        let _ = writeln!(graph, "{}", columns.iter().map(|(step, _)| cell(*step)).collect::<String>());
    }
    let label_len = columns.iter().map(|(_, label)| label.len()).max().unwrap_or(0);
    let _ = writeln!(graph, "{}", " ".repeat(columns.len()));
    for line in 0..label_len {
        let letters = columns.iter().map(|(_, label)| label.chars().nth(line).unwrap_or(' '));
        let _ = writeln!(graph, "{}", letters.collect::<String>());
    }
}

/// A duration in its largest unit.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(samples: &[(u64, u64)]) -> Series {
        let mut series = Series::default();
        for &(unix_seconds, duration_ms) in samples {
            series.add(Sample { unix_seconds, duration_ms });
        }
        series
    }

    #[test]
    fn the_longest_of_a_second_counts() {
        let series = series(&[(1, 10), (1, 30), (1, 20), (2, 5)]);
        let kept: Vec<_> =
            series.samples.iter().map(|sample| (sample.unix_seconds, sample.duration_ms)).collect();
        assert_eq!(kept, [(1, 30), (2, 5)]);
        assert_eq!((series.longest_ms, series.latest().duration_ms), (30, 5));
    }

    #[test]
    fn the_newest_are_kept() {
        let samples: Vec<_> = (1..=1000).map(|second| (second, 1001 - second)).collect();
        let series = series(&samples);
        assert_eq!((series.samples.len(), series.longest_ms), (SAMPLES, 1000));
        assert_eq!(series.samples[0].unix_seconds, 841);
        let analysis = series.analysis(1001);
        assert_eq!((analysis.mean_ms, analysis.mean_deviation_ms, analysis.period_seconds), (80, 40, 1.0));
    }

    #[test]
    fn a_graph_is_drawn_as_by_redis() {
        let series = series(&[(100, 100), (101, 400), (103, 250), (104, 100)]);
        let expected = "command - high 400 ms, low 100 ms (all time high 400 ms)\n".to_owned()
            + &"-".repeat(80)
            + "\n #  \n |_ \n || \n_||_\n    \n5421\nssss\n";
        assert_eq!(series.graph("command", 105), expected);
    }

    #[test]
    fn ages_have_their_largest_unit() {
        let ages = [0, 59, 60, 3599, 3600, 86_399, 86_400].map(age);
        assert_eq!(ages, ["0s", "59s", "1m", "59m", "1h", "23h", "1d"]);
    }
}
