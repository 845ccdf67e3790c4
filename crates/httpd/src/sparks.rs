//! The depth of each queue over the last minute, second by second.
//!
//! Reading all queues costs a little for each. With very many queues, samples are taken less often, so that they take
//! at most a hundredth of the thread's time; a missing sample repeats the one before.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use jobs::queues::Row;

use crate::ring::Ring;

/// How many points a queue has.
const POINTS: usize = 60;
/// How many queues have points.
const QUEUES_MAX: usize = 1000;
/// Sampling takes at most one part in this many of the time.
const COST_SHARE: u32 = 100;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Sparks {
    rings: HashMap<u64, (Ring<f32>, u64)>,
    /// The number of samples.
    round: u64,
    due: Instant,
}

impl Sparks {
    pub(crate) fn new(now: Instant) -> Sparks {
        Sparks { rings: HashMap::new(), round: 0, due: now }
    }

    /// Takes a sample, if it is due.
    pub(crate) fn take(&mut self, rows: impl FnOnce() -> Vec<Row>) {
        let began = Instant::now();
        if began < self.due {
            return self.repeat();
        }
        self.add(&rows());
        let took = began.elapsed();
        self.due = began + (took * COST_SHARE).saturating_sub(Duration::from_secs(1));
    }

    fn add(&mut self, rows: &[Row]) {
        self.round += 1;
        for row in rows {
            let is_full = self.rings.len() >= QUEUES_MAX;
            let key = key(row);
            if is_full && !self.rings.contains_key(&key) {
                continue;
            }
            let (ring, round) = self.rings.entry(key).or_insert_with(|| (Ring::new(POINTS), 0));
            ring.push(row.depth as f32);
            *round = self.round;
        }
        self.rings.retain(|_, (_, round)| *round == self.round);
    }

    fn repeat(&mut self) {
        for (ring, _) in self.rings.values_mut() {
            if let Some(last) = ring.iter().last() {
                ring.push(last);
            }
        }
    }

    /// The points of a queue, oldest first.
    pub(crate) fn of(&self, row: &Row) -> Vec<u64> {
        self.rings
            .get(&key(row))
            .map(|(ring, _)| ring.iter().map(|depth| depth as u64).collect())
            .unwrap_or_default()
    }
}

fn key(row: &Row) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&row.name, row.db).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::row;

    #[test]
    fn points_of_a_queue_go_with_it() {
        let mut sparks = Sparks::new(Instant::now());
        let rows = |depths: &[u64]| -> Vec<Row> {
            depths.iter().enumerate().map(|(index, depth)| row(&format!("queue:{index}"), *depth)).collect()
        };
        sparks.add(&rows(&[1, 10]));
        sparks.add(&rows(&[2, 20]));
        sparks.repeat();
        sparks.add(&rows(&[3]));
        let known = rows(&[0, 0]);
        assert_eq!((sparks.of(&known[0]), sparks.of(&known[1])), (vec![1, 2, 2, 3], vec![]));
    }

    #[test]
    fn there_are_so_many_queues_with_points() {
        let mut sparks = Sparks::new(Instant::now());
        let rows: Vec<Row> = (0..2 * QUEUES_MAX).map(|index| row(&format!("q{index}"), 1)).collect();
        sparks.add(&rows);
        sparks.add(&rows);
        assert_eq!(sparks.rings.len(), QUEUES_MAX);
        assert_eq!(sparks.of(&rows[0]), [1, 1], "the first ones keep their places");
    }
}
