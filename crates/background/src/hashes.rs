//! Compression of unused hashes: passes over the home shards, in short slices.
//!
//! A slice takes at most [`SLICE_NS`], and slices come as often as the share of time allows, which is small
//! while clients keep the thread busy. After a pass that has found work the next one begins soon; otherwise
//! each pause is twice as long as the one before, so where there are no such hashes it costs next to nothing.
//!
//! Not here: which hashes are compressed, and the position of a pass in a database (`keyspace::compression`).

use std::collections::VecDeque;

use ds::random::Random;
use keyspace::{Config, Dbs, UnixMs};
use proactor::Clock;
use shard::ShardId;

use crate::Visits;

/// Length of a slice of work, in which one shard is held.
const SLICE_NS: u64 = 50_000;
/// Percentage of a thread's time while clients keep it busy, and otherwise.
const BUSY_PERCENT: u64 = 1;
const IDLE_PERCENT: u64 = 5;
/// Pause between two passes if the first one had work to do: this part of the time for which hashes must be
/// unused, within limits.
const PAUSE_PART: u64 = 4;
const PAUSE_MS_MIN: u64 = 100;
const PAUSE_MS_MAX: u64 = 15_000;
/// Maximum number of times that a pause is doubled.
const DOUBLINGS_MAX: u32 = 3;
/// In a simulation, where time stands still during a slice, a slice has at most this many steps, and the next
/// one follows within this time.
const SIMULATED_STEPS: u64 = 40;
const SIMULATED_REST_NS: u64 = 20_000_000;

/// A thread's compression of hashes.
#[derive(Debug, Default)]
pub struct HashUpkeep {
    /// Shards still to be visited, each with its next database; empty between two passes.
    left: VecDeque<(ShardId, usize)>,
    /// When the next slice or pass may begin, on the monotonic clock.
    due_ns: u64,
    /// This pass has found work.
    has_helped: bool,
    /// Number of passes in a row that found no work.
    idle_passes: u32,
}

/// The things that compression needs from its thread.
#[derive(Debug)]
pub struct Surroundings {
    /// The thread's clock.
    pub clock: Clock,
    /// Whether `hash-compress-bytes-min` is not 0.
    pub is_on: bool,
    /// `hash-compress-idle`.
    pub idle_seconds: u64,
    /// Whether clients keep the thread busy.
    pub is_busy: bool,
    /// In a simulation, decides how long slices are.
    pub chance: Option<Random>,
}

impl HashUpkeep {
    /// When it continues, on the monotonic clock; `None` between two passes.
    pub fn next_ms(&self) -> Option<u64> {
        (!self.left.is_empty()).then_some(self.due_ns.div_ceil(1_000_000))
    }

    /// Whether there is work to do now (`now_ms`, on the monotonic clock).
    pub fn is_due(&self, now_ms: u64) -> bool {
        self.due_ns <= now_ms * 1_000_000
    }

    /// Works for a slice. `at_home` returns the home shards, for a new pass.
    pub fn work(
        &mut self,
        around: Surroundings,
        at_home: impl FnOnce() -> Vec<ShardId>,
        thread: &mut impl Visits,
    ) {
        let Surroundings { clock, is_on, idle_seconds, is_busy, mut chance } = around;
        let began_ns = clock.monotonic_ns();
        if !is_on {
            *self = HashUpkeep { due_ns: began_ns + PAUSE_MS_MAX * 1_000_000, ..HashUpkeep::default() };
            return;
        }
        if self.left.is_empty() {
            self.left = at_home().into_iter().map(|id| (id, 0)).collect();
            self.has_helped = false;
        }
        let mut steps_left = chance.as_mut().map(|chance| 1 + chance.below(SIMULATED_STEPS));
        let mut has_time = || match &mut steps_left {
            Some(left) => {
                *left = left.saturating_sub(1);
                *left > 0
            }
            None => clock.monotonic_ns() < began_ns + SLICE_NS,
        };
        while let Some((id, db)) = self.left.pop_front() {
            let done = thread.visit(id, |tx| {
                let (config, now) = (&tx.config, tx.now);
                compress(&mut tx.hold.shard_mut(id).dbs, db, config, now, &mut has_time)
            });
            match done {
                // The shard is taken; try it again later.
                None => self.left.push_back((id, db)),
                Some((next, has_helped)) => {
                    self.has_helped |= has_helped;
                    if let Some(next) = next {
                        self.left.push_front((id, next));
                    }
                }
            }
            if done.is_none() || !has_time() {
                break;
            }
        }
        let now_ns = clock.monotonic_ns();
        self.due_ns = if self.left.is_empty() {
            now_ns + self.pause_ms(idle_seconds) * 1_000_000
        } else if let Some(chance) = &mut chance {
            now_ns + chance.below(SIMULATED_REST_NS)
        } else {
            let percent = if is_busy { BUSY_PERCENT } else { IDLE_PERCENT };
            now_ns + (now_ns - began_ns).max(SLICE_NS) * (100 - percent) / percent
        };
    }

    /// How long to pause after a pass, in milliseconds.
    fn pause_ms(&mut self, idle_seconds: u64) -> u64 {
        self.idle_passes = if self.has_helped { 0 } else { DOUBLINGS_MAX.min(self.idle_passes + 1) };
        let shortest_ms = (idle_seconds.saturating_mul(1000) / PAUSE_PART).clamp(PAUSE_MS_MIN, PAUSE_MS_MAX);
        shortest_ms << self.idle_passes
    }
}

/// Continues in these databases, from `first` on. Returns the one to continue with, if there was no time for
/// all of them, and whether there was work to do.
fn compress(
    dbs: &mut Dbs,
    first: usize,
    config: &Config,
    now: UnixMs,
    has_time: &mut dyn FnMut() -> bool,
) -> (Option<usize>, bool) {
    let mut has_helped = false;
    for number in first..dbs.len() {
        let Some(db) = dbs.used_mut(number) else { continue };
        let progress = db.compress_hashes(config, now, has_time);
        has_helped |= progress.attempts > 0;
        if !progress.is_pass_over {
            return (Some(number), has_helped);
        }
    }
    (None, has_helped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Alone;

    fn around(is_on: bool) -> Surroundings {
        Surroundings { clock: Clock::real(), is_on, idle_seconds: 0, is_busy: false, chance: None }
    }

    #[test]
    fn passes_come_to_each_shard_and_rest_where_there_is_nothing_to_do() {
        let mut thread = Alone::new();
        thread.local.config.hash_compression.bytes_min = 1;
        thread.local.config.hash_compression.idle_seconds = 0;
        for number in 0..4000 {
            thread.local.line(&format!(
                "HSET job:{number} name sendEmail template welcome-to-the-company locale en-US-x-twain number {number}"
            ));
        }
        let shards: Vec<ShardId> = thread.shards().collect();
        let mut hashes = HashUpkeep::default();
        thread.is_taken = true;
        hashes.work(around(true), || shards.clone(), &mut thread);
        assert_eq!(hashes.left.len(), 8, "taken shards are left for later");
        thread.is_taken = false;
        let mut slice_count = 0;
        while hashes.idle_passes < 2 {
            hashes.work(around(true), || shards.clone(), &mut thread);
            slice_count += 1;
        }
        assert!(slice_count > 8, "slices are short");
        assert!(hashes.next_ms().is_none(), "it waits for the next pass");
        assert_eq!(thread.local.line("HGET job:17 number"), "$2\r\n17\r\n");
        let client = engine::Client::internal(0, resp::Proto::Resp2);
        let compressed = thread.local.with_store(client, |store| {
            let keys = (0..4000).map(|number| format!("job:{number}"));
            keys.filter(|key| {
                let record = store.peek(key.as_bytes()).expect("it is there");
                matches!(record.value(), keyspace::ValueRef::Compressed(_))
            })
            .count()
        });
        assert_eq!(compressed, 4000);
    }

    #[test]
    fn it_may_be_off() {
        let mut thread = Alone::new();
        let mut hashes = HashUpkeep::default();
        hashes.work(around(false), || panic!("no shard is looked at"), &mut thread);
        assert!(!hashes.is_due(Clock::real().monotonic_ms()));
    }
}
