//! What operators look at beside the threads' counters: sums over all threads, rates, the peak of memory, the slow log.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use keyspace::Figure;
use shard::Figures;

use crate::observe::latency_monitor::LatencyMonitor;
use crate::observe::stats::{Counter, ThreadStats};
use crate::shared::Shared;

/// Samples over which a rate is taken, one every tenth of a second or so.
const SAMPLES: usize = 16;

/// Shown by `INFO`, `SLOWLOG` and `LATENCY`.
#[derive(Debug)]
pub(crate) struct Watch {
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

/// Commands that took long, newest first, bounded by `slowlog-max-len`.
#[derive(Debug, Default)]
pub(crate) struct SlowLog {
    pub(crate) entries: VecDeque<SlowCommand>,
    next_id: u64,
}

/// A command that took long.
#[derive(Debug)]
pub(crate) struct SlowCommand {
    pub(crate) id: u64,
    /// When it was done, in seconds since 1970.
    pub(crate) unix_seconds: u64,
    pub(crate) duration_us: u64,
    /// Shortened.
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) peer: String,
    pub(crate) name: Vec<u8>,
}

/// Arguments of a slow command that are kept.
const SLOW_ARGS_MAX: usize = 32;
/// Bytes of an argument that are kept.
const SLOW_ARG_BYTES_MAX: usize = 128;

impl Watch {
    /// Nothing seen yet.
    pub(crate) fn new(command_count: usize) -> Watch {
        Watch {
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
        total.wrapping_sub(counter(&self.watch.reset).get())
    }

    /// The sum of a figure over all shards, since the start or, where it counts, the last reset.
    pub(crate) fn over_shards(&self, figure: impl Fn(&Figures) -> &Figure) -> u64 {
        let total: u64 = self.shards.figures().map(|figures| figure(figures).get()).sum();
        total.wrapping_sub(figure(&self.watch.reset_shards).get())
    }

    /// Error replies by code word, sorted.
    pub(crate) fn errors(&self) -> Vec<(String, u64)> {
        let mut sums = std::collections::BTreeMap::<String, u64>::new();
        for (code, count) in self.threads.iter().flat_map(|thread| thread.stats.errors.iter()) {
            *sums.entry(code.to_owned()).or_default() += count;
        }
        for (code, count) in self.watch.reset.errors.iter() {
            sums.entry(code.to_owned()).and_modify(|sum| *sum = sum.wrapping_sub(count));
        }
        sums.into_iter().filter(|(_, sum)| *sum > 0).collect()
    }

    /// Starts the counters again from 0, as their readers see it.
    pub(crate) fn reset_stats(&self) {
        // Held to the end, so that two resets do not mix.
        let mut rates = self.watch.rates.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, reset) in self.watch.reset_shards.counters().into_iter().enumerate() {
            reset.set(self.shards.figures().map(|figures| figures.counters()[number].get()).sum());
        }
        for (code, count) in self.errors() {
            self.watch.reset.errors.add(&code, count);
        }
        let mut counters: Vec<_> = self.threads.iter().map(|thread| thread.stats.counters()).collect();
        for reset in self.watch.reset.counters() {
            reset.set(counters.iter_mut().filter_map(Iterator::next).map(Counter::get).sum());
        }
        for (index, reset) in self.watch.reset.commands.iter().enumerate() {
            let all: Vec<_> = self.threads.iter().map(|thread| &thread.stats.commands[index]).collect();
            reset.set_durations(&all);
        }
        *rates = Rates::default();
        self.watch.peak_bytes.store(heap::allocated_bytes(), Ordering::Relaxed);
        self.exceeded.reset();
        self.fragmented.reset();
    }

    /// Takes a sample for the rates and the peak; one thread does so about ten times a second.
    pub(crate) fn sample(&self, now_ms: u64) {
        self.watch.peak_bytes.fetch_max(heap::allocated_bytes(), Ordering::Relaxed);
        let now = [
            self.sum(|stats| &stats.commands_processed),
            self.sum(|stats| &stats.net_input_bytes),
            self.sum(|stats| &stats.net_output_bytes),
        ];
        let mut rates = self.watch.rates.lock().unwrap_or_else(PoisonError::into_inner);
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
        let rates = self.watch.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let mean = |i: usize| rates.samples.iter().map(|sample| sample[i]).sum::<u64>() / SAMPLES as u64;
        Rate { commands: mean(0), input_bytes: mean(1), output_bytes: mean(2) }
    }
}

impl SlowLog {
    /// Adds a command; the oldest go beyond `len_max`.
    pub(crate) fn add(&mut self, command: SlowCommand, len_max: usize) {
        let id = self.next_id;
        self.next_id += 1;
        self.entries.push_front(SlowCommand { id, ..command });
        self.entries.truncate(len_max);
    }
}

/// Arguments as the slow log keeps them, shortened as Redis does.
pub(crate) fn shortened(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept = if args.len() > SLOW_ARGS_MAX { SLOW_ARGS_MAX - 1 } else { args.len() };
    let mut short: Vec<Vec<u8>> = args[..kept]
        .iter()
        .map(|arg| match arg.get(..SLOW_ARG_BYTES_MAX) {
            Some(head) if arg.len() > SLOW_ARG_BYTES_MAX => {
                let more = format!("... ({} more bytes)", arg.len() - SLOW_ARG_BYTES_MAX);
                [head, more.as_bytes()].concat()
            }
            _ => arg.to_vec(),
        })
        .collect();
    if kept < args.len() {
        short.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_shortened() {
        let long = vec![b'x'; 200];
        let short = shortened(&[b"SET", b"k", &long, &long[..128]]);
        assert_eq!(short[2], [&long[..128], b"... (72 more bytes)"].concat());
        assert_eq!(short[3], &long[..128]);
        let many = vec![b"a".as_slice(); 40];
        let short = shortened(&many);
        assert_eq!((short.len(), short[31].as_slice()), (32, b"... (9 more arguments)".as_slice()));
        assert_eq!(shortened(&many[..32]).len(), 32);
    }

    #[test]
    fn the_slow_log_keeps_the_newest() {
        let mut log = SlowLog::default();
        for duration_us in 0..5 {
            let command = SlowCommand {
                id: 0,
                unix_seconds: 0,
                duration_us,
                args: Vec::new(),
                peer: String::new(),
                name: Vec::new(),
            };
            log.add(command, 2);
        }
        let ids: Vec<u64> = log.entries.iter().map(|command| command.id).collect();
        assert_eq!(ids, [4, 3]);
    }
}
