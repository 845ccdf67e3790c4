//! Figures for operators: the threads' counters and their sums, rates, the peak of memory, the slow log, slow events.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::{CommandId, Shards};
use keyspace::Figure;
use shard::Figures;

use crate::command_log::{CommandLog, LogKind};
use crate::hot_keys::HotKeys;
use crate::latency_monitor::LatencyMonitor;
use crate::settings::{Current, ObserveSettings};
use crate::stats::{Counter, ThreadStats};

/// How many samples a rate is computed from. There is one about every tenth of a second.
const SAMPLES: usize = 16;

/// Statistics of all threads, for `INFO`, `SLOWLOG` and `LATENCY`.
#[derive(Debug)]
pub struct Observed {
    /// Settings about what is recorded.
    pub(crate) settings: Current,
    /// The number of monitors on all threads.
    monitor_count: AtomicUsize,
    /// Counters of each thread.
    threads: Box<[ThreadStats]>,
    /// The sums at the last `CONFIG RESETSTAT`. No thread counts here.
    reset: ThreadStats,
    /// The shards' sums at the last `CONFIG RESETSTAT`.
    reset_shards: Figures,
    peak_bytes: AtomicU64,
    rates: Mutex<Rates>,
    /// The log of each kind.
    command_logs: [Mutex<CommandLog>; 3],
    pub(crate) latency: LatencyMonitor,
    pub(crate) hot_keys: HotKeys,
}

/// Samples for the rates.
#[derive(Debug, Default)]
struct Rates {
    last_ms: u64,
    last: [u64; 5],
    samples: [[u64; 5]; SAMPLES],
    next: usize,
}

/// Rates per second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    /// Commands that ran.
    pub commands: u64,
    /// Bytes received from clients.
    pub input_bytes: u64,
    /// Bytes sent to clients.
    pub output_bytes: u64,
    /// Turns of the threads' loops.
    pub cycles: u64,
    /// The mean duration of such a turn, in microseconds; no rate.
    pub cycle_us: u64,
}

impl Observed {
    /// Makes the figures for `thread_count` threads and a table of `command_count` commands.
    pub fn new(thread_count: usize, command_count: usize, settings: ObserveSettings) -> Observed {
        Observed {
            settings: Current::new(settings),
            monitor_count: AtomicUsize::new(0),
            threads: (0..thread_count).map(|_| ThreadStats::new(command_count)).collect(),
            reset: ThreadStats::new(command_count),
            reset_shards: Figures::default(),
            peak_bytes: AtomicU64::new(0),
            rates: Mutex::default(),
            command_logs: Default::default(),
            latency: LatencyMonitor::default(),
            hot_keys: HotKeys::default(),
        }
    }

    /// Replaces the settings by those that `read` returns. `read` is called under a lock, so that changes do not mix.
    pub fn configure(&self, read: impl FnOnce() -> ObserveSettings) {
        self.settings.change(read);
    }

    /// The counters of each thread, by its number.
    pub fn threads(&self) -> &[ThreadStats] {
        &self.threads
    }

    /// The number of monitors on all threads.
    #[inline]
    pub(crate) fn monitor_count(&self) -> usize {
        self.monitor_count.load(Ordering::Relaxed)
    }

    pub(crate) fn add_monitor(&self) {
        self.monitor_count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_monitor(&self) {
        self.monitor_count.fetch_sub(1, Ordering::Relaxed);
    }

    /// A log of commands. Only commands that are logged and those that show logs take the lock.
    pub(crate) fn command_log(&self, kind: LogKind) -> MutexGuard<'_, CommandLog> {
        self.command_logs[kind as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The length of the slow log; and the number and duration in microseconds of its newest entry.
    pub fn slowest(&self) -> (usize, Option<(u64, u64)>) {
        let log = self.command_log(LogKind::Slow);
        (log.entries.len(), log.entries.front().map(|newest| (newest.id, newest.figure)))
    }

    /// The last sample of each event of the latency monitor: seconds since 1970, and its duration in milliseconds.
    pub fn latency_spikes(&self) -> Vec<(&'static str, u64, u64)> {
        let events = self.latency.events();
        let latest = events.iter().map(|(name, series)| (*name, series.latest()));
        latest.map(|(name, sample)| (name, sample.unix_seconds, sample.duration_ms)).collect()
    }

    /// The most allocated bytes in any sample.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes.fetch_max(heap::allocated_bytes(), Ordering::Relaxed).max(heap::allocated_bytes())
    }

    /// The sum of a counter over all threads, since the start or the last reset.
    pub fn sum(&self, counter: impl Fn(&ThreadStats) -> &Counter) -> u64 {
        self.now(&counter).wrapping_sub(counter(&self.reset).get())
    }

    /// The sum of a counter over all threads, whatever was reset: for counters of a current state.
    pub fn now(&self, counter: impl Fn(&ThreadStats) -> &Counter) -> u64 {
        self.threads.iter().map(|stats| counter(stats).get()).sum()
    }

    /// The largest value of a counter among all threads.
    pub fn largest(&self, counter: impl Fn(&ThreadStats) -> &Counter) -> u64 {
        self.threads.iter().map(|stats| counter(stats).get()).max().unwrap_or(0)
    }

    /// How long all commands took, since the start or the last reset.
    pub fn commands_ns(&self) -> u64 {
        let all =
            |stats: &ThreadStats| stats.all_commands().iter().map(|command| command.ns.get()).sum::<u64>();
        self.threads.iter().map(all).sum::<u64>().wrapping_sub(all(&self.reset))
    }

    /// The memory of all clients, as their threads last added it up.
    pub fn client_bytes(&self) -> u64 {
        self.now(|stats| &stats.client_bytes)
    }

    /// The sum of a figure over all shards. A figure that counts events is counted since the start or the last reset.
    pub fn over_shards(&self, shards: &Shards, figure: impl Fn(&Figures) -> &Figure) -> u64 {
        let total: u64 = shards.figures().map(|figures| figure(figures).get()).sum();
        total.wrapping_sub(figure(&self.reset_shards).get())
    }

    /// The numbers of error replies by code, sorted by code.
    pub fn errors(&self) -> Vec<(String, u64)> {
        let mut sums = std::collections::BTreeMap::<String, u64>::new();
        for (code, count) in self.threads.iter().flat_map(|stats| stats.errors.iter()) {
            *sums.entry(code.to_owned()).or_default() += count;
        }
        for (code, count) in self.reset.errors.iter() {
            sums.entry(code.to_owned()).and_modify(|sum| *sum = sum.wrapping_sub(count));
        }
        sums.into_iter().filter(|(_, sum)| *sum > 0).collect()
    }

    /// Resets the counters of threads and shards. They go on, but readers subtract their present values.
    pub fn reset(&self, shards: &Shards) {
        // Held to the end, so that two resets do not mix.
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, reset) in self.reset_shards.counters().into_iter().enumerate() {
            reset.set(shards.figures().map(|figures| figures.counters()[number].get()).sum());
        }
        for (code, count) in self.errors() {
            self.reset.errors.add(&code, count);
        }
        let own_commands = self.reset.own_commands();
        let mut counters: Vec<_> = self.threads.iter().map(ThreadStats::counters).collect();
        for reset in self.reset.counters() {
            reset.set(counters.iter_mut().filter_map(Iterator::next).map(Counter::get).sum());
        }
        for (index, reset) in (0..).zip(own_commands) {
            let all: Vec<_> = self.threads.iter().map(|stats| stats.command(CommandId(index))).collect();
            reset.set_durations(&all);
        }
        *rates = Rates::default();
        self.peak_bytes.store(heap::allocated_bytes(), Ordering::Relaxed);
    }

    /// Takes a sample for the rates and the peak. One thread calls this about ten times a second.
    pub fn sample(&self, now_ms: u64) {
        self.peak_bytes.fetch_max(heap::allocated_bytes(), Ordering::Relaxed);
        let now = [
            self.sum(|stats| &stats.commands_processed),
            self.sum(|stats| &stats.net_input_bytes),
            self.sum(|stats| &stats.net_output_bytes),
            self.sum(|stats| &stats.cycles),
            self.sum(|stats| &stats.cycles_ns),
        ];
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed_ms = now_ms.saturating_sub(rates.last_ms);
        if rates.last_ms > 0 && elapsed_ms > 0 {
            let index = rates.next;
            rates.samples[index] =
                std::array::from_fn(|i| now[i].saturating_sub(rates.last[i]) * 1000 / elapsed_ms);
            rates.next = (index + 1) % SAMPLES;
        }
        rates.last_ms = now_ms;
        rates.last = now;
    }

    /// The rates over the last one and a half seconds.
    pub fn rate(&self) -> Rate {
        let rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let mean = |i: usize| rates.samples.iter().map(|sample| sample[i]).sum::<u64>() / SAMPLES as u64;
        let cycle_us = mean(4).checked_div(mean(3)).unwrap_or(0) / 1000;
        Rate { commands: mean(0), input_bytes: mean(1), output_bytes: mean(2), cycles: mean(3), cycle_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed() -> Observed {
        let settings =
            ObserveSettings { logs: Default::default(), latency_threshold_ms: None, tracks_durations: true };
        Observed::new(2, 1, settings)
    }

    #[test]
    fn sums_begin_anew_with_a_reset() {
        let observed = observed();
        let placement = shard::Placement::new(ds::hashing::Seed::new(1), 2, None);
        let shards = Shards::new(placement, 2, 1, 1);
        let count = |commands: u64| {
            for stats in observed.threads() {
                stats.commands_processed.add(commands);
                stats.count_error("ERR");
                stats.own_command(CommandId(0)).duration_of(1000).add(1);
            }
        };
        count(3);
        observed.reset(&shards);
        assert_eq!((observed.sum(|stats| &stats.commands_processed), observed.errors()), (0, Vec::new()));
        assert_eq!(observed.now(|stats| &stats.commands_processed), 6);
        count(2);
        assert_eq!(observed.sum(|stats| &stats.commands_processed), 4);
        assert_eq!(observed.errors(), [("ERR".to_owned(), 2)]);
        assert_eq!(crate::Durations::of(&observed, CommandId(0)).calls, 0, "none was called");
    }

    #[test]
    fn rates_are_means_of_samples() {
        let observed = observed();
        for second in 1..=SAMPLES as u64 + 1 {
            observed.sample(second * 1000);
            observed.threads()[0].commands_processed.add(50);
            observed.threads()[1].net_input_bytes.add(7);
        }
        let rate = observed.rate();
        assert_eq!((rate.commands, rate.input_bytes, rate.output_bytes), (50, 7, 0));
    }
}
