//! Decides how many threads serve connections, and which thread gives some of its load to which.
//!
//! A single thread is the cheapest: its commands meet no other thread, and no thread has to be woken. So more threads
//! are used only when those in use are busy and processors are idle. Threads are given up when fewer would do. Between
//! these two limits lies a wide band in which nothing changes.
//!
//! ```text
//!   load of the threads in use:   0 ─────────── 55 % of one thread less ──────────── 75 % on average, one 85 % ─────▶
//!                                      give one up         nothing changes            use one more, up to twice as many
//! ```
//!
//! Threads whose clients mostly want one shard, such as that of a hot queue, cannot share its work. With more threads,
//! more commands are left with the shard's holder, and each costs a message there and back. If nearly half of all
//! commands are left, fewer threads are used. More are tried again every half minute.
//!
//! The load of a thread is its processor time without polling. If its clients need the processors as much as it does,
//! its load stays low and no processor is idle. Another thread would then only take the clients' time.
//!
//! Not here: the cost of a connection, and which ones move (`connections/balancing.rs` of the server).

use std::ops::Range;

/// The whole load of a thread.
const WHOLE: u32 = 1000;
/// More threads are used if the busy ones reach this load, as a mean and as a maximum.
const BUSY_MEAN: u32 = 750;
const BUSY_MOST: u32 = 850;
/// Another thread is used only if at least this share of a processor is idle.
const IDLE_MIN: u32 = 250;
/// A thread is given up if the others would not be busier than this without it.
const QUIET_MEAN: u32 = 550;
/// Fewer threads are used if this share of commands is left with the holder of their shard, on average.
const CONTENDED_MEAN: u32 = 450;
/// The busiest thread gives connections to the idlest if their loads differ by this much.
const UNEVEN_MIN: u32 = 300;
/// The number of consecutive rounds for which each condition must hold.
const BUSY_ROUNDS: u32 = 3;
const QUIET_ROUNDS: u32 = 10;
const UNEVEN_ROUNDS: u32 = 5;
const CONTENDED_ROUNDS: u32 = 3;
/// The rounds until more threads may be tried.
const CAUTIOUS_ROUNDS: u32 = 300;
/// A thread without clients has less load than this.
const IDLE_THREAD: u32 = 5;

/// The load of a thread in one round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// The load, in thousandths.
    pub busy: u32,
    /// The share of commands that were left with the holder of their shard, in thousandths.
    pub contended: u32,
    /// How many connections it has.
    pub connections: u64,
}

/// The number of threads in use, its limit, and the state of the last rounds.
#[derive(Debug)]
pub struct Balance {
    in_use: usize,
    /// The most threads that may be used after contention, and the rounds until that limit rises.
    in_use_max: usize,
    cautious_rounds: u32,
    /// The last number that was not contended, if more are on trial.
    good: Option<usize>,
    rounds: Rounds,
}

/// The consecutive rounds for which each condition has held.
#[derive(Debug, Default)]
struct Rounds {
    contended: u32,
    busy: u32,
    quiet: u32,
    uneven: u32,
    stray: u32,
}

/// An order to one thread to give connections to others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// The thread that gives.
    pub from: u16,
    /// The threads that receive.
    pub to: Range<u16>,
    /// The share of its load that each of them gets, in thousandths. 1000: all connections.
    pub share: u32,
}

impl Order {
    /// Whether all connections must go.
    pub fn is_all(&self) -> bool {
        self.share >= WHOLE
    }
}

impl Default for Balance {
    fn default() -> Self {
        Balance {
            in_use: 1,
            in_use_max: usize::MAX,
            cautious_rounds: 0,
            good: None,
            rounds: Rounds::default(),
        }
    }
}

impl Balance {
    /// The number of threads that serve connections: those with the lowest numbers.
    pub fn in_use(&self) -> usize {
        self.in_use
    }

    /// Plans after a round. `loads` has the load of each thread in it. `idle` is the processor time that was idle, in
    /// thousandths of one processor, if known.
    pub fn plan(&mut self, loads: &[Load], idle: Option<u32>) -> Vec<Order> {
        let (used, rest) = loads.split_at(self.in_use);
        let busy = || used.iter().map(|load| load.busy);
        let (sum, most, least) = (busy().sum::<u32>(), busy().max().unwrap_or(0), busy().min().unwrap_or(0));
        let count = self.in_use as u32;
        let contended = used.iter().map(|load| load.contended).sum::<u32>();
        self.grow_bold(loads.len());
        let room = loads.len().min(self.in_use_max);
        let is_busy = most >= BUSY_MOST && sum >= BUSY_MEAN * count && self.in_use < room;
        let is_quiet = count > 1 && sum <= QUIET_MEAN * (count - 1);
        let is_stray = |load: &Load| load.connections > 0 && load.busy >= IDLE_THREAD;
        count_round(&mut self.rounds.busy, is_busy && idle.is_some_and(|idle| idle >= IDLE_MIN));
        count_round(&mut self.rounds.quiet, is_quiet);
        count_round(&mut self.rounds.contended, count > 1 && contended >= CONTENDED_MEAN * count);
        count_round(&mut self.rounds.uneven, most - least >= UNEVEN_MIN);
        count_round(&mut self.rounds.stray, rest.iter().any(is_stray));
        if self.rounds.contended >= CONTENDED_ROUNDS {
            self.back_off(loads)
        } else if self.rounds.busy >= BUSY_ROUNDS {
            let idle = idle.unwrap_or(0);
            self.widen(room.min(self.in_use * 2).min(self.in_use + (idle / WHOLE).max(1) as usize))
        } else if self.rounds.quiet >= QUIET_ROUNDS {
            self.become_of(self.in_use - 1);
            self.gather(loads)
        } else if self.rounds.uneven >= UNEVEN_ROUNDS {
            self.rounds.uneven = 0;
            even_out(used)
        } else if self.rounds.stray >= QUIET_ROUNDS {
            self.rounds.stray = 0;
            self.gather(loads)
        } else {
            Vec::new()
        }
    }

    /// Makes at least `count` threads serve.
    pub fn use_all(&mut self, count: usize) -> Vec<Order> {
        if self.in_use < count { self.widen(count) } else { Vec::new() }
    }

    /// Uses `count` threads, which is more than before.
    fn widen(&mut self, count: usize) -> Vec<Order> {
        let before = self.in_use;
        self.become_of(count);
        // Each new thread gets an equal part from each of the others.
        let (to, share) = (before as u16..count as u16, WHOLE / count as u32);
        (0..before as u16).map(|from| Order { from, to: to.clone(), share }).collect()
    }

    /// Sets the number of threads to `count` and restarts the counts of rounds.
    fn become_of(&mut self, count: usize) {
        (self.in_use, self.rounds) = (count, Rounds::default());
    }

    /// Uses fewer threads, because they hinder each other: as many as before a trial, otherwise a quarter fewer. The
    /// threads that stop deal their connections out to the others.
    fn back_off(&mut self, loads: &[Load]) -> Vec<Order> {
        let count = self.good.filter(|good| *good < self.in_use).unwrap_or(self.in_use * 3 / 4).max(1);
        self.become_of(count);
        (self.in_use_max, self.cautious_rounds, self.good) = (count, CAUTIOUS_ROUNDS, None);
        self.empty_rest(loads, 0..count as u16)
    }

    /// Allows more threads after some time: a third more, because the load may have changed.
    fn grow_bold(&mut self, count: usize) {
        if self.cautious_rounds > 0 {
            self.cautious_rounds -= 1;
        } else if self.in_use_max < count {
            (self.good, self.cautious_rounds) = (Some(self.in_use), CAUTIOUS_ROUNDS);
            self.in_use_max += (self.in_use_max / 3).max(1);
        } else {
            self.good = None;
        }
    }

    /// Moves the connections of unused threads to the thread with the least load.
    fn gather(&self, loads: &[Load]) -> Vec<Order> {
        self.empty_rest(loads, only(idlest(&loads[..self.in_use])))
    }

    /// Moves all connections away from unused threads.
    fn empty_rest(&self, loads: &[Load], to: Range<u16>) -> Vec<Order> {
        let rest = (self.in_use..loads.len()).filter(|from| loads[*from].connections > 0);
        rest.map(|from| Order { from: from as u16, to: to.clone(), share: WHOLE }).collect()
    }
}

fn only(thread: usize) -> Range<u16> {
    thread as u16..thread as u16 + 1
}

fn idlest(loads: &[Load]) -> usize {
    (0..loads.len()).min_by_key(|thread| loads[*thread].busy).unwrap_or(0)
}

/// Makes the busiest thread give half of the difference to the idlest.
fn even_out(loads: &[Load]) -> Vec<Order> {
    let Some(from) = (0..loads.len()).max_by_key(|thread| loads[*thread].busy) else { return Vec::new() };
    let to = idlest(loads);
    let share = (loads[from].busy - loads[to].busy) * WHOLE / 2 / loads[from].busy.max(1);
    vec![Order { from: from as u16, to: only(to), share }]
}

fn count_round(rounds: &mut u32, is_so: bool) {
    *rounds = if is_so { *rounds + 1 } else { 0 };
}

/// Chooses connections for each receiver by their costs. Returns their indices. Each receiver gets at most `share`
/// thousandths of the total cost. The most expensive connections go first, so few have to move.
pub fn choose(costs: &[u64], share: u32, receivers: usize) -> Vec<Vec<usize>> {
    let sum: u64 = costs.iter().sum();
    let part = u128::from(sum) * u128::from(share) / u128::from(WHOLE);
    let mut chosen = vec![(part, Vec::new()); receivers];
    let mut by_cost: Vec<usize> = (0..costs.len()).filter(|index| costs[*index] > 0).collect();
    by_cost.sort_unstable_by_key(|index| std::cmp::Reverse(costs[*index]));
    for index in by_cost {
        let cost = u128::from(costs[index]);
        let most_left = chosen.iter_mut().max_by_key(|(left, _)| *left);
        if let Some((left, indices)) = most_left.filter(|(left, _)| cost <= *left) {
            *left -= cost;
            indices.push(index);
        }
    }
    chosen.into_iter().map(|(_, indices)| indices).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plans `count` equal rounds. Returns the orders.
    fn rounds(balance: &mut Balance, count: u32, busy: &[u32], idle: u32) -> Vec<Order> {
        (0..count).flat_map(|_| balance.plan(&loads(busy), Some(idle))).collect()
    }

    /// Threads with these loads, all of which have connections.
    fn loads(busy: &[u32]) -> Vec<Load> {
        busy.iter().map(|busy| Load { busy: *busy, connections: 7, ..Load::default() }).collect()
    }

    fn order(from: u16, to: u16, share: u32) -> Order {
        Order { from, to: only(to.into()), share }
    }

    #[test]
    fn more_threads_are_used_when_those_in_use_are_busy_and_processors_idle() {
        let mut balance = Balance::default();
        assert_eq!(rounds(&mut balance, 100, &[840, 0], 1000), [], "it is not busy enough");
        assert_eq!(rounds(&mut balance, 100, &[990, 0], 200), [], "no processor is idle");
        assert_eq!((0..100).flat_map(|_| balance.plan(&loads(&[990, 0]), None)).collect::<Vec<_>>(), []);
        assert_eq!(rounds(&mut balance, 2, &[990, 0], 900), []);
        assert_eq!(rounds(&mut balance, 1, &[100, 0], 900), [], "a moment of calm");
        assert_eq!(rounds(&mut balance, 3, &[990, 0], 900), [order(0, 1, 500)]);
        assert_eq!(balance.in_use(), 2);
        assert_eq!(rounds(&mut balance, 100, &[990, 990], 900), [], "there are no more");
    }

    #[test]
    fn as_many_more_are_used_as_processors_are_idle_but_at_most_twice_as_many() {
        let (mut balance, busy) = (Balance::default(), [950; 16]);
        let mut sizes = Vec::new();
        while balance.in_use() < 16 {
            rounds(&mut balance, 3, &busy, 12_000);
            sizes.push(balance.in_use());
        }
        assert_eq!(sizes, [2, 4, 8, 16]);
        let mut balance = Balance { in_use: 4, ..Balance::default() };
        let orders = rounds(&mut balance, 3, &busy, 1_900);
        let expected = [0, 1, 2, 3].map(|from| order(from, 4, 200));
        assert_eq!((orders, balance.in_use()), (expected.to_vec(), 5));
        let mut balance = Balance { in_use: 2, ..Balance::default() };
        let expected = [0, 1].map(|from| Order { from, to: 2..4, share: 250 });
        assert_eq!(
            rounds(&mut balance, 3, &busy, 12_000),
            expected,
            "each gives to all the new ones at once"
        );
    }

    #[test]
    fn threads_that_hinder_each_other_become_fewer_and_one_more_is_tried_later() {
        let mut balance = Balance { in_use: 8, ..Balance::default() };
        let mut plan = |contended: u32, rounds: u32| {
            let load = Load { busy: 950, contended, connections: 7 };
            let mut orders = Vec::new();
            for _ in 0..rounds {
                let loads = [0, 1, 2, 3, 4, 5, 6, 7]
                    .map(|thread| if thread < balance.in_use() { load } else { Load::default() });
                orders.extend(balance.plan(&loads, Some(12_000)));
            }
            (orders, balance.in_use())
        };
        assert_eq!(plan(440, 100), (vec![], 8));
        let all_to_six = |from| Order { from, to: 0..6, share: WHOLE };
        assert_eq!(plan(460, 3), (vec![all_to_six(6), all_to_six(7)], 6));
        assert_eq!(plan(460, 3).1, 4);
        assert_eq!(plan(100, CAUTIOUS_ROUNDS), (vec![], 4), "not yet, although they are busy");
        assert_eq!(plan(100, 3).1, 5);
        assert_eq!(plan(940, 3).1, 4, "one more was too many");
        assert_eq!(plan(100, CAUTIOUS_ROUNDS + 3).1, 5);
        assert_eq!(plan(940, 3).1, 4, "and again");
        assert_eq!(plan(940, 30).1, 1, "a single thread hinders nobody");
        assert_eq!(plan(0, 10 * CAUTIOUS_ROUNDS).1, 8, "in the end all are tried");
    }

    #[test]
    fn a_thread_is_given_up_when_the_others_can_do_its_work_and_does_not_come_back_for_that() {
        let mut balance = Balance { in_use: 3, ..Balance::default() };
        assert_eq!(rounds(&mut balance, 100, &[400, 400, 310], 1000), []);
        assert_eq!(rounds(&mut balance, 9, &[400, 390, 300], 1000), []);
        assert_eq!(rounds(&mut balance, 1, &[400, 390, 300], 1000), [order(2, 1, 1000)]);
        assert_eq!(rounds(&mut balance, 100, &[550, 545, 0], 1000), []);
        // The whole load is on one thread.
        let mut balance = Balance { in_use: 2, ..Balance::default() };
        assert_eq!(rounds(&mut balance, 10, &[300, 250], 1000), [order(1, 0, 1000)]);
        assert_eq!(rounds(&mut balance, 100, &[550, 0], 1000), []);
    }

    #[test]
    fn connections_on_threads_that_are_not_in_use_are_gathered() {
        let mut balance = Balance::default();
        assert_eq!(rounds(&mut balance, 9, &[100, 4, 60], 1000), []);
        assert_eq!(rounds(&mut balance, 1, &[100, 4, 60], 1000), [order(1, 0, 1000), order(2, 0, 1000)]);
        assert_eq!(rounds(&mut balance, 100, &[100, 4, 0], 1000), [], "that much it does by itself");
        let without =
            [(100, 7), (900, 0)].map(|(busy, connections)| Load { busy, connections, ..Load::default() });
        assert_eq!((0..100).flat_map(|_| balance.plan(&without, None)).count(), 0, "it loads a snapshot");
    }

    #[test]
    fn the_busiest_gives_to_the_idlest_what_makes_them_even() {
        let mut balance = Balance { in_use: 3, ..Balance::default() };
        assert_eq!(rounds(&mut balance, 5, &[800, 300, 700], 1000), [order(0, 1, 312)]);
        assert_eq!(rounds(&mut balance, 100, &[700, 450, 700], 1000), []);
    }

    #[test]
    fn the_dearest_connections_go_that_are_not_too_much() {
        assert_eq!(choose(&[10, 500, 0, 90, 400], 500, 1), [[1]]);
        assert_eq!(choose(&[10, 500, 0, 90, 400], 499, 1), [[4, 3]]);
        assert_eq!(choose(&[1000, 10], 500, 1), [[1]], "the one that is all of the load cannot be parted");
        assert_eq!(choose(&[0, 0], 500, 1), [[0_usize; 0]]);
        assert_eq!(choose(&[7; 60], 500, 1)[0].len(), 30);
        assert_eq!(choose(&[40, 30, 20, 10, 100], 250, 3), [vec![2, 3], vec![1], vec![0]]);
        assert_eq!(choose(&[7; 60], 200, 4).iter().map(Vec::len).collect::<Vec<_>>(), [12; 4]);
    }
}
