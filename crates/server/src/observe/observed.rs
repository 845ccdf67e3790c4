//! What operators look at beside the threads' counters: sums over all threads, rates, the peak of memory, the slow log.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use keyspace::Figure;
use shard::Figures;

use crate::observe::latency_monitor::LatencyMonitor;
use crate::observe::slow_log::SlowLog;
use crate::observe::stats::{Counter, ThreadStats};
use crate::shared::Shared;

/// Samples over which a rate is taken, one every tenth of a second or so.
const SAMPLES: usize = 16;

/// Shown by `INFO`, `SLOWLOG` and `LATENCY`.
#[derive(Debug)]
pub(crate) struct Observed {
    /// Sums at the last `CONFIG RESETSTAT`; nobody counts in it.
    reset: ThreadStats,
    /// The same of the shards.
    reset_shards: Figures,
    peak_bytes: AtomicU64,
    /// What was allocated when the server began to serve.
    startup_bytes: AtomicU64,
    rates: Mutex<Rates>,
    slow_log: Mutex<SlowLog>,
    pub(crate) latency: LatencyMonitor,
}

/// How much happens in a second.
#[derive(Debug, Default)]
struct Rates {
    last_ms: u64,
    last: [u64; 3],
    samples: [[u64; 3]; SAMPLES],
    next: usize,
}

/// Per second: commands, bytes in, bytes out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    pub(crate) commands: u64,
    pub(crate) input_bytes: u64,
    pub(crate) output_bytes: u64,
}

impl Observed {
    /// Nothing seen yet.
    pub(crate) fn new(command_count: usize) -> Observed {
        Observed {
            reset: ThreadStats::new(command_count),
            reset_shards: Figures::default(),
            peak_bytes: AtomicU64::new(0),
            startup_bytes: AtomicU64::new(0),
            rates: Mutex::default(),
            slow_log: Mutex::default(),
            latency: LatencyMonitor::default(),
        }
    }

    /// The slow log. The lock is taken by commands that were slow and by those that look at them.
    pub(crate) fn slow_log(&self) -> MutexGuard<'_, SlowLog> {
        self.slow_log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most bytes that were allocated at any time looked at.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.peak_bytes.fetch_max(heap::allocated_bytes(), Ordering::Relaxed).max(heap::allocated_bytes())
    }

    /// Notes how much was allocated before anything was stored.
    pub(crate) fn note_startup(&self) {
        self.startup_bytes.store(heap::allocated_bytes(), Ordering::Relaxed);
    }

    /// What was allocated before anything was stored.
    pub(crate) fn startup_bytes(&self) -> u64 {
        self.startup_bytes.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// The sum of a counter over all threads since the start or the last reset.
    pub(crate) fn sum(&self, counter: impl Fn(&ThreadStats) -> &Counter) -> u64 {
        let total: u64 = self.threads.iter().map(|thread| counter(&thread.stats).get()).sum();
        total.wrapping_sub(counter(&self.observed.reset).get())
    }

    /// The sum of a figure over all shards, since the start or, where it counts, the last reset.
    pub(crate) fn over_shards(&self, figure: impl Fn(&Figures) -> &Figure) -> u64 {
        let total: u64 = self.shards.figures().map(|figures| figure(figures).get()).sum();
        total.wrapping_sub(figure(&self.observed.reset_shards).get())
    }

    /// Error replies by code word, sorted.
    pub(crate) fn errors(&self) -> Vec<(String, u64)> {
        let mut sums = std::collections::BTreeMap::<String, u64>::new();
        for (code, count) in self.threads.iter().flat_map(|thread| thread.stats.errors.iter()) {
            *sums.entry(code.to_owned()).or_default() += count;
        }
        for (code, count) in self.observed.reset.errors.iter() {
            sums.entry(code.to_owned()).and_modify(|sum| *sum = sum.wrapping_sub(count));
        }
        sums.into_iter().filter(|(_, sum)| *sum > 0).collect()
    }

    /// Starts the counters again from 0, as their readers see it.
    pub(crate) fn reset_stats(&self) {
        // Held to the end, so that two resets do not mix.
        let mut rates = self.observed.rates.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, reset) in self.observed.reset_shards.counters().into_iter().enumerate() {
            reset.set(self.shards.figures().map(|figures| figures.counters()[number].get()).sum());
        }
        for (code, count) in self.errors() {
            self.observed.reset.errors.add(&code, count);
        }
        let mut counters: Vec<_> = self.threads.iter().map(|thread| thread.stats.counters()).collect();
        for reset in self.observed.reset.counters() {
            reset.set(counters.iter_mut().filter_map(Iterator::next).map(Counter::get).sum());
        }
        for (index, reset) in self.observed.reset.commands.iter().enumerate() {
            let all: Vec<_> = self.threads.iter().map(|thread| &thread.stats.commands[index]).collect();
            reset.set_durations(&all);
        }
        *rates = Rates::default();
        self.observed.peak_bytes.store(heap::allocated_bytes(), Ordering::Relaxed);
        self.exceeded.reset();
        self.fragmented.reset();
    }

    /// Takes a sample for the rates and the peak; one thread does so about ten times a second.
    pub(crate) fn sample(&self, now_ms: u64) {
        self.observed.peak_bytes.fetch_max(heap::allocated_bytes(), Ordering::Relaxed);
        let now = [
            self.sum(|stats| &stats.commands_processed),
            self.sum(|stats| &stats.net_input_bytes),
            self.sum(|stats| &stats.net_output_bytes),
        ];
        let mut rates = self.observed.rates.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// How much happened per second in the last one and a half seconds.
    pub(crate) fn rate(&self) -> Rate {
        let rates = self.observed.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let mean = |i: usize| rates.samples.iter().map(|sample| sample[i]).sum::<u64>() / SAMPLES as u64;
        Rate { commands: mean(0), input_bytes: mean(1), output_bytes: mean(2) }
    }
}
