//! Compression of lists that grew by commands with very many elements: in short slices, over the home shards.
//!
//! Pushes compress a list themselves, some groups of nodes each (`ds::list::deep`). One that leaves more than that notes the list, and
//! the thread at home goes on within a second. A slice takes about [`SLICE_NS`], and slices come as often as the share of time
//! allows, which is small while clients keep the thread busy.

use std::collections::VecDeque;

use ds::random::Random;
use proactor::Clock;
use shard::ShardId;

use crate::Visits;

/// Length of a slice of work, in which one shard is held: some groups of nodes.
const SLICE_NS: u64 = 200_000;
/// Percentage of a thread's time while clients keep it busy, and otherwise.
const BUSY_PERCENT: u64 = 2;
const IDLE_PERCENT: u64 = 20;
/// Time between two passes.
const PAUSE_NS: u64 = 1_000_000_000;
/// In a simulation, where time stands still during a slice, a slice has at most this many groups, and the next one follows within
/// this time.
const SIMULATED_STEPS: u64 = 40;
const SIMULATED_REST_NS: u64 = 20_000_000;

/// A thread's compression of lists.
#[derive(Debug, Default)]
pub struct ListUpkeep {
    /// Shards still to be visited; empty between two passes.
    left: VecDeque<ShardId>,
    /// When the next slice or pass may begin, on the monotonic clock.
    due_ns: u64,
}

impl ListUpkeep {
    /// When it continues, on the monotonic clock; `None` between two passes.
    pub fn next_ms(&self) -> Option<u64> {
        (!self.left.is_empty()).then_some(self.due_ns.div_ceil(1_000_000))
    }

    /// Whether there may be work to do now.
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.due_ns <= now_ns
    }

    /// Works for a slice. `at_home` returns the home shards, for a new pass; in a simulation, `chance` decides how long slices are.
    pub fn work(
        &mut self,
        (clock, is_busy, mut chance): (&Clock, bool, Option<Random>),
        at_home: impl FnOnce() -> VecDeque<ShardId>,
        thread: &mut impl Visits,
    ) {
        let began_ns = clock.monotonic_ns();
        if self.left.is_empty() {
            self.left = at_home();
        }
        let mut steps_left = chance.as_mut().map(|chance| 1 + chance.below(SIMULATED_STEPS));
        let mut has_time = || match &mut steps_left {
            Some(left) => {
                *left = left.saturating_sub(1);
                *left > 0
            }
            None => clock.monotonic_ns() < began_ns + SLICE_NS,
        };
        // A shard that is taken is tried again in the next pass.
        while let Some(id) = self.left.pop_front() {
            let is_done = thread.visit(id, |tx| {
                let config = tx.config;
                let mut dbs = tx.hold.shard_mut(id).dbs.iter_mut();
                dbs.all(|(_, db)| db.compress_lists(config, &mut has_time))
            });
            if is_done == Some(false) {
                self.left.push_front(id);
                break;
            }
        }
        let now_ns = clock.monotonic_ns();
        self.due_ns = if self.left.is_empty() {
            now_ns + PAUSE_NS
        } else if let Some(chance) = &mut chance {
            now_ns + chance.below(SIMULATED_REST_NS)
        } else {
            let percent = if is_busy { BUSY_PERCENT } else { IDLE_PERCENT };
            now_ns + (now_ns - began_ns) * (100 - percent) / percent
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Alone;

    /// A job of some 230 bytes with random parts, as Sidekiq writes them.
    fn job(random: &mut Random) -> String {
        let [id, user] = [random.next_u64(), random.next_u64()];
        format!(
            "{{\"class\":\"NotificationMailerJob\",\"args\":[{},\"welcome\"],\"retry\":true,\"queue\":\"default\",\
             \"jid\":\"{id:016x}{:08x}\",\"created_at\":1700000000.123,\"enqueued_at\":1700000000.456,\"tags\":[\"mailer\"]}}",
            user % 1_000_000,
            user as u32
        )
    }

    /// Memory that a list takes for each job if pushes of `each` made it, before and after upkeep.
    fn bytes_per_job(count: usize, each: usize) -> [usize; 2] {
        let mut thread = Alone::new();
        let mut random = Random::new(7);
        for _ in 0..count / each {
            let jobs: Vec<String> = (0..each).map(|_| job(&mut random)).collect();
            thread.local.line(&format!("LPUSH q {}", jobs.join(" ")));
        }
        let used = |thread: &mut Alone| {
            let client = command::Client::internal(0, resp::Proto::Resp2);
            thread.local.with_store(client, |store| {
                let list = store.peek_as::<ds::list::List>(b"q").expect("a list").expect("it is there");
                list.debug_validate();
                assert_eq!(list.len(), count);
                list.memory_bytes() / count
            })
        };
        let before = used(&mut thread);
        let shards: VecDeque<ShardId> = thread.shards().collect();
        let (mut lists, clock) = (ListUpkeep::default(), Clock::real());
        lists.work((&clock, false, Some(Random::new(1))), || shards, &mut thread);
        while lists.next_ms().is_some() {
            lists.work((&clock, false, Some(Random::new(1))), || panic!("the pass goes on"), &mut thread);
        }
        [before, used(&mut thread)]
    }

    #[test]
    fn one_push_of_many_jobs_takes_as_little_as_many_pushes() {
        for count in [4_000, 5_000, 20_000, 100_000] {
            let [of_many, _] = bytes_per_job(count, 100);
            let [at_once, of_one] = bytes_per_job(count, count);
            assert!(of_one <= of_many + of_many / 5, "{count}: {of_one}, in many pushes {of_many}");
            assert!(
                at_once > 2 * of_one,
                "{count}: {at_once}, and then {of_one}: the test has no backlog to compress"
            );
        }
    }

    #[test]
    fn shards_that_are_taken_come_again() {
        let mut thread = Alone::new();
        let shards: VecDeque<ShardId> = thread.shards().collect();
        let mut lists = ListUpkeep::default();
        thread.is_taken = true;
        lists.work((&Clock::real(), true, None), || shards, &mut thread);
        assert!(lists.next_ms().is_none() && !lists.is_due(Clock::real().monotonic_ns()));
    }
}
