//! Hot keys: which keys cost most while an operator looks, as `HOTKEYS` shows them.
//!
//! Between `START` and `STOP` each command with keys adds its duration and its bytes to its keys, in equal parts. The
//! heaviest keys are found with a bounded table by Metwally, Agrawal and El Abbadi, *Efficient computation of frequent and
//! top-k elements in data streams* (2005): a key that is not in the full table takes the place of the lightest one and
//! inherits its weight. So a heavy key is never missed, and a weight is too large by at most the lightest one.
//!
//! Without HOTKEYS START this costs nothing: `settings.rs` lets every command be noted only after it.
//!
//! Not here: the command (`commands/hotkeys.rs`), and when a command is noted (`accounting.rs`).

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keys in a table for each key that is shown, for precision.
const TRACKED_PER_SHOWN: usize = 10;
/// The most bytes of a key that are kept.
const KEY_BYTES_MAX: usize = 4096;

/// The metrics by which HOTKEYS ranks keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) cpu: bool,
    pub(crate) net: bool,
}

/// How keys are tracked.
#[derive(Clone, Debug)]
pub(crate) struct Tracking {
    pub(crate) metrics: Metrics,
    /// How many keys are shown.
    pub(crate) count: usize,
    /// After how long tracking stops; `None`: it does not.
    pub(crate) duration_ms: Option<u64>,
    /// One in this many commands is sampled.
    pub(crate) sample_ratio: u64,
}

/// The tracking of keys, now or before.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) tracking: Tracking,
    /// When it began, in milliseconds since 1970.
    pub(crate) began_ms: u64,
    /// When it was stopped.
    stopped_ms: Option<u64>,
    /// The server's time on processors when it began, in seconds: in the program, and in the kernel.
    pub(crate) began_cpu_s: [f64; 2],
    /// The duration of all commands with keys.
    pub(crate) all_us: u64,
    /// The bytes of all commands with keys.
    pub(crate) all_bytes: u64,
    pub(crate) by_us: Heaviest,
    pub(crate) by_bytes: Heaviest,
    /// Commands with keys so far.
    command_count: u64,
}

/// The heaviest keys.
#[derive(Debug)]
pub(crate) struct Heaviest {
    capacity: usize,
    weights: HashMap<Box<[u8]>, u64>,
    order: BTreeSet<(u64, Box<[u8]>)>,
    /// The weight of all keys.
    pub(crate) total: u64,
}

impl Heaviest {
    fn new(capacity: usize) -> Heaviest {
        Heaviest { capacity, weights: HashMap::new(), order: BTreeSet::new(), total: 0 }
    }

    /// Adds weight to a key.
    fn add(&mut self, key: &[u8], weight: u64) {
        self.total += weight;
        let key = &key[..key.len().min(KEY_BYTES_MAX)];
        let before = match self.weights.get(key) {
            Some(before) => {
                self.order.remove(&(*before, Box::from(key)));
                *before
            }
            None if self.weights.len() < self.capacity => 0,
            None => {
                let Some((lightest, replaced)) = self.order.pop_first() else { return };
                self.weights.remove(&replaced);
                lightest
            }
        };
        self.weights.insert(key.into(), before + weight);
        self.order.insert((before + weight, key.into()));
        debug_assert_eq!(self.weights.len(), self.order.len(), "each key is in both");
        assert!(self.weights.len() <= self.capacity, "the table is bounded");
    }

    /// The heaviest keys with their weights, heaviest first.
    pub(crate) fn top(&self, count: usize) -> impl Iterator<Item = (&[u8], u64)> {
        self.order
            .iter()
            .rev()
            .filter(|(weight, _)| *weight > 0)
            .take(count)
            .map(|(weight, key)| (&**key, *weight))
    }
}

impl Session {
    /// Begins tracking.
    pub(crate) fn new(tracking: Tracking, began_ms: u64, began_cpu_s: [f64; 2]) -> Session {
        let capacity = tracking.count * TRACKED_PER_SHOWN;
        Session {
            tracking,
            began_ms,
            stopped_ms: None,
            began_cpu_s,
            all_us: 0,
            all_bytes: 0,
            by_us: Heaviest::new(capacity),
            by_bytes: Heaviest::new(capacity),
            command_count: 0,
        }
    }

    /// Whether commands are tracked.
    pub(crate) fn is_active(&self, now_ms: u64) -> bool {
        self.stopped_ms.is_none() && self.end_ms().is_none_or(|end_ms| now_ms < end_ms)
    }

    fn end_ms(&self) -> Option<u64> {
        self.tracking.duration_ms.map(|duration_ms| self.began_ms + duration_ms)
    }

    /// How long it has lasted.
    pub(crate) fn duration_ms(&self, now_ms: u64) -> u64 {
        let end_ms = self.stopped_ms.or(self.end_ms().filter(|end_ms| *end_ms < now_ms));
        // The clock may have been set back.
        end_ms.unwrap_or(now_ms).saturating_sub(self.began_ms)
    }

    /// Stops tracking; what was found stays.
    pub(crate) fn stop(&mut self, now_ms: u64) {
        self.stopped_ms = Some(self.began_ms + self.duration_ms(now_ms));
    }

    /// Adds a command with these keys.
    pub(crate) fn add(&mut self, keys: &[&[u8]], us: u64, bytes: u64) {
        if keys.is_empty() {
            return;
        }
        self.all_us += us;
        self.all_bytes += bytes;
        self.command_count += 1;
        if !self.command_count.is_multiple_of(self.tracking.sample_ratio) {
            return;
        }
        let count = keys.len() as u64;
        for key in keys {
            if self.tracking.metrics.cpu {
                self.by_us.add(key, us / count);
            }
            if self.tracking.metrics.net {
                self.by_bytes.add(key, bytes / count);
            }
        }
    }
}

/// The tracking of all threads.
#[derive(Debug, Default)]
pub(crate) struct HotKeys(Mutex<Option<Session>>);

impl HotKeys {
    /// The tracking, now or before. Only commands while keys are tracked, and HOTKEYS, take the lock.
    pub(crate) fn session(&self) -> MutexGuard<'_, Option<Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(count: usize, sample_ratio: u64, duration_ms: Option<u64>) -> Session {
        let metrics = Metrics { cpu: true, net: true };
        Session::new(Tracking { metrics, count, duration_ms, sample_ratio }, 100, [0.0; 2])
    }

    #[test]
    fn heavy_keys_are_never_missed() {
        let mut heaviest = Heaviest::new(20);
        let mut random = ds::random::Random::new(7);
        let mut exact = [0; 3];
        for _ in 0..20_000 {
            match random.below(10) {
                heavy @ 0..3 => {
                    exact[heavy as usize] += heavy + 1;
                    heaviest.add(format!("heavy:{heavy}").as_bytes(), heavy + 1);
                }
                _ => heaviest.add(format!("light:{}", random.below(5000)).as_bytes(), 1),
            }
        }
        let top: Vec<(&[u8], u64)> = heaviest.top(2).collect();
        assert_eq!(top.iter().map(|(key, _)| *key).collect::<Vec<_>>(), [&b"heavy:2"[..], b"heavy:1"]);
        let error_max = heaviest.total / 20;
        assert!((exact[2]..=exact[2] + error_max).contains(&top[0].1), "{top:?} {exact:?}");
        heaviest.add(&[b'k'; 10_000], 1_000_000);
        assert_eq!(heaviest.top(1).next().map(|(key, _)| key.len()), Some(KEY_BYTES_MAX));
    }

    #[test]
    fn a_command_counts_for_each_of_its_keys() {
        let mut session = session(2, 1, None);
        session.add(&[], 50, 50);
        session.add(&[b"a", b"b"], 10, 30);
        session.add(&[b"a"], 7, 5);
        assert_eq!((session.all_us, session.all_bytes), (17, 35));
        assert_eq!(session.by_us.top(9).collect::<Vec<_>>(), [(&b"a"[..], 12), (b"b", 5)]);
        assert_eq!(session.by_bytes.top(1).collect::<Vec<_>>(), [(&b"a"[..], 20)]);
        assert_eq!(session.by_bytes.total, 35);
    }

    #[test]
    fn tracking_ends_by_itself() {
        let mut session = session(2, 3, Some(1000));
        (0..9).for_each(|_| session.add(&[b"a"], 1, 0));
        assert_eq!(session.by_us.top(1).collect::<Vec<_>>(), [(&b"a"[..], 3)], "one in three");
        assert!(session.is_active(1099) && !session.is_active(1100));
        assert_eq!((session.duration_ms(600), session.duration_ms(5000)), (500, 1000));
        session.stop(700);
        assert_eq!((session.is_active(701), session.duration_ms(5000)), (false, 600));
    }
}
