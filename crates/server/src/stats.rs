//! Counters of one thread, written by it alone and read by whoever asks `INFO`.
//!
//! Every counter is an atomic that only its own thread writes, so adding is a plain load and store, and each
//! thread's counters have cache lines of their own.

use std::sync::atomic::{AtomicU64, Ordering};

use command::CommandId;

/// A number that one thread writes.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds; only the owning thread may.
    #[inline]
    pub(crate) fn add(&self, number: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(number), Ordering::Relaxed);
    }

    /// Subtracts; only the owning thread may.
    #[inline]
    pub(crate) fn sub(&self, number: u64) {
        self.add(number.wrapping_neg());
    }

    /// What it is now.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Starts again from 0.
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// How a command came to its shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EntryType {
    /// It needed none.
    None,
    /// Entered by the home thread.
    Inline,
    /// Entered by another thread.
    Quick,
    /// Delegated, or sent to the home thread.
    Hop,
    /// Several shards.
    Wide,
    /// All shards.
    Global,
}

/// Widths that the histogram tells apart: 1, 2, 3–4, 5–8 … shards.
pub(crate) const WIDTH_BUCKETS: usize = 13;

/// Counters of one command.
#[derive(Debug, Default)]
pub(crate) struct CommandStats {
    pub(crate) calls: Counter,
    pub(crate) ticks: Counter,
    pub(crate) rejected: Counter,
    pub(crate) failed: Counter,
    /// Calls by duration: bucket n counts those of less than 2^n microseconds … for `LATENCY HISTOGRAM`.
    pub(crate) durations: [Counter; 32],
}

/// Counters of one thread.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct ThreadStats {
    pub(crate) entries: [Counter; 6],
    pub(crate) widths: [Counter; WIDTH_BUCKETS],
    pub(crate) delegated: Counter,
    pub(crate) retries: Counter,
    pub(crate) blocked_clients: Counter,
    pub(crate) connections_received: Counter,
    pub(crate) rejected_connections: Counter,
    pub(crate) net_input_bytes: Counter,
    pub(crate) net_output_bytes: Counter,
    pub(crate) error_replies: Counter,
    pub(crate) commands: Box<[CommandStats]>,
}

impl ThreadStats {
    /// All zero, for a table of `command_count` commands.
    pub(crate) fn new(command_count: usize) -> Self {
        ThreadStats {
            entries: Default::default(),
            widths: Default::default(),
            delegated: Counter::default(),
            retries: Counter::default(),
            blocked_clients: Counter::default(),
            connections_received: Counter::default(),
            rejected_connections: Counter::default(),
            net_input_bytes: Counter::default(),
            net_output_bytes: Counter::default(),
            error_replies: Counter::default(),
            commands: (0..command_count).map(|_| CommandStats::default()).collect(),
        }
    }

    /// Counts an entry of `width` shards.
    #[inline]
    pub(crate) fn count_entry(&self, entry_type: EntryType, width: usize) {
        self.entries[entry_type as usize].add(1);
        if width > 0 {
            self.widths[(width.next_power_of_two().trailing_zeros() as usize).min(WIDTH_BUCKETS - 1)].add(1);
        }
    }

    /// Counters of one command.
    #[inline]
    pub(crate) fn command(&self, id: CommandId) -> &CommandStats {
        &self.commands[usize::from(id.0)]
    }
}
