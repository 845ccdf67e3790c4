//! Counters of one thread, written by that thread alone and read by any thread that answers `INFO`.
//!
//! Every counter is an atomic that only its own thread writes, so adding is a plain load and store, and each
//! thread's counters have cache lines of their own. `CONFIG RESETSTAT` does not touch them: it notes the sums of all
//! threads in a [`ThreadStats`] that no thread owns, and readers subtract it (`observed.rs`).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use command::CommandId;

/// A number that one thread writes.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; only the owning thread may.
    #[inline]
    pub fn add(&self, number: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(number), Ordering::Relaxed);
    }

    /// Subtracts; only the owning thread may.
    #[inline]
    pub fn sub(&self, number: u64) {
        self.add(number.wrapping_neg());
    }

    /// Makes it a number that is none of whole ones.
    pub fn set_f64(&self, number: f64) {
        self.set(number.to_bits());
    }

    /// What [`set_f64`](Self::set_f64) made it.
    pub fn get_f64(&self) -> f64 {
        f64::from_bits(self.get())
    }

    /// What it is now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Makes it another number.
    pub fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }
}

/// How a command came to its shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryType {
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

impl EntryType {
    /// All of them, with the words by which they are told.
    pub const NAMED: [(&'static str, EntryType); 6] = [
        ("inline", EntryType::Inline),
        ("quick", EntryType::Quick),
        ("hop", EntryType::Hop),
        ("wide", EntryType::Wide),
        ("global", EntryType::Global),
        ("none", EntryType::None),
    ];
}

/// What a client was not allowed to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denial {
    /// To say who it is.
    Auth,
    /// To run a command.
    Command,
    /// To use a key.
    Key,
    /// To use a channel.
    Channel,
}

/// Widths that the histogram tells apart: 1, 2, 3–4, 5–8 … shards.
pub const WIDTH_BUCKETS: usize = 13;

/// Each doubling of a duration has 2 to this power of buckets: a percentile is off by 6 % at most.
const STEPS_LOG2: u32 = 4;
/// The first bucket ends at 2 to this power, the last begins at 2 to that: 64 ns and more than two minutes.
const SHORTEST_NS_LOG2: u32 = 6;
const LONGEST_NS_LOG2: u32 = 37;
/// Durations that the histogram tells apart.
pub(crate) const DURATION_BUCKETS: usize =
    (((LONGEST_NS_LOG2 - SHORTEST_NS_LOG2) << STEPS_LOG2) + 2) as usize;

/// The bucket of a duration.
#[inline]
pub(crate) fn duration_bucket(ns: u64) -> usize {
    let log2 = (ns | 1).ilog2();
    if log2 < SHORTEST_NS_LOG2 {
        return 0;
    }
    // The highest bits, the first of which is always one: it is what the doublings before take less the first bucket.
    let steps = (ns >> (log2 - STEPS_LOG2)) as usize;
    let doublings = (log2 - SHORTEST_NS_LOG2) as usize;
    ((doublings << STEPS_LOG2) + steps - ((1 << STEPS_LOG2) - 1)).min(DURATION_BUCKETS - 1)
}

/// Where a bucket begins.
pub(crate) fn bucket_start_ns(bucket: usize) -> u64 {
    let Some(step) = bucket.checked_sub(1) else { return 0 };
    let in_doubling = (step & ((1 << STEPS_LOG2) - 1)) as u64;
    let doubling = (step >> STEPS_LOG2) as u32;
    ((1 << STEPS_LOG2) + in_doubling) << (SHORTEST_NS_LOG2 - STEPS_LOG2 + doubling)
}

/// Counters of one command.
#[derive(Debug, Default)]
pub struct CommandStats {
    /// Those that ran, failed ones included.
    pub calls: Counter,
    /// What they took in all.
    pub ns: Counter,
    /// Those that were refused before they ran.
    pub rejected: Counter,
    /// Those that answered an error.
    pub failed: Counter,
    /// Calls by duration, made with the first: most commands are never called.
    durations: OnceLock<Box<Histogram>>,
}

/// Calls by duration.
type Histogram = [Counter; DURATION_BUCKETS];

impl CommandStats {
    /// The counter of calls of such a duration; only the owning thread may call this.
    #[inline]
    pub fn duration_of(&self, ns: u64) -> &Counter {
        let histogram = match self.durations.get() {
            Some(histogram) => histogram,
            None => self.histogram(),
        };
        &histogram[duration_bucket(ns)]
    }

    #[cold]
    fn histogram(&self) -> &Histogram {
        self.durations.get_or_init(|| Box::new(std::array::from_fn(|_| Counter::default())))
    }

    /// The number of calls in a bucket of durations, to be read only.
    pub(crate) fn calls_in(&self, bucket: usize) -> &Counter {
        static NONE: Counter = Counter(AtomicU64::new(0));
        self.durations.get().map_or(&NONE, |histogram| &histogram[bucket])
    }

    /// Adds the number of calls in each bucket.
    pub(crate) fn add_durations(&self, to: &mut [u64; DURATION_BUCKETS]) {
        let Some(histogram) = self.durations.get() else { return };
        for (sum, counter) in to.iter_mut().zip(histogram.iter()) {
            *sum += counter.get();
        }
    }

    /// Has it hold the sums of `all`.
    pub(crate) fn set_durations(&self, all: &[&CommandStats]) {
        if all.iter().all(|stats| stats.durations.get().is_none()) {
            return;
        }
        for (bucket, counter) in self.histogram().iter().enumerate() {
            counter.set(all.iter().map(|stats| stats.calls_in(bucket).get()).sum());
        }
    }
}

/// Code words of errors that are told apart; further ones are not counted one by one.
const ERROR_CODES_MAX: usize = 128;

/// Error replies by their code word.
#[derive(Debug)]
pub struct ErrorCounts {
    len: AtomicUsize,
    codes: [OnceLock<Box<str>>; ERROR_CODES_MAX],
    counts: [Counter; ERROR_CODES_MAX],
}

impl Default for ErrorCounts {
    fn default() -> Self {
        ErrorCounts {
            len: AtomicUsize::new(0),
            codes: [const { OnceLock::new() }; ERROR_CODES_MAX],
            counts: std::array::from_fn(|_| Counter::default()),
        }
    }
}

impl ErrorCounts {
    /// Adds; only the owning thread may.
    pub fn add(&self, code: &str, number: u64) {
        if let Some(counter) = self.counter(code) {
            counter.add(number);
        }
    }

    /// The counter of a code word, made if there is room; only the owning thread may call this.
    fn counter(&self, code: &str) -> Option<&Counter> {
        let len = self.len.load(Ordering::Relaxed);
        let known =
            self.codes[..len].iter().position(|known| known.get().is_some_and(|known| **known == *code));
        let index = known.unwrap_or(len);
        if index == len {
            self.codes.get(index)?.get_or_init(|| code.into());
            self.len.store(len + 1, Ordering::Release);
        }
        self.counts.get(index)
    }

    /// Every code word with its number.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        let len = self.len.load(Ordering::Acquire);
        let counts = self.codes[..len].iter().zip(&self.counts);
        counts.filter_map(|(code, count)| Some((&**code.get()?, count.get())))
    }
}

/// Counters of one thread.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ThreadStats {
    /// Commands by [`EntryType`].
    pub entries: [Counter; 6],
    /// Commands that ran.
    pub commands_processed: Counter,
    /// Entries by the number of their shards.
    pub widths: [Counter; WIDTH_BUCKETS],
    /// Commands that ran here for clients of other threads.
    pub delegated: Counter,
    /// Transactions that could not have their shards.
    pub retries: Counter,
    /// Shards that scripts lent to others while they waited.
    pub lent: Counter,
    /// Commands held back because a snapshot was being saved.
    pub held_back: Counter,
    /// Turns that began with a shard kept from before, because its backlog was long.
    pub kept: Counter,
    /// Connections that get a line for every command, just now.
    pub monitors: Counter,
    /// How many there are just now: this and what is of the Lua states are no sums since the start.
    pub blocked_clients: Counter,
    /// Those of them whose wait ends by itself.
    pub clients_with_timeout: Counter,
    /// Connections that it has just now.
    pub connections: Counter,
    /// How busy it was in the last round, in thousandths.
    pub busy: Counter,
    /// When that round ended, on the monotonic clock.
    pub looked_ms: Counter,
    /// Of all threads the first one says how many serve connections just now.
    pub threads_in_use: Counter,
    /// Connections that it has sent to other threads.
    pub connections_moved: Counter,
    /// The largest buffers that a client had in the last seconds.
    pub recent_input_bytes_max: Counter,
    /// The same of what is sent.
    pub recent_output_bytes_max: Counter,
    /// Of the keys with an expiry that background expiry looks at: how many had expired, and how many there were. Both
    /// are `f64`s, which forget what was long ago.
    pub stale_keys: Counter,
    /// See above.
    pub sampled_keys: Counter,
    /// As it is now: large values and databases that are left to be freed.
    pub garbage: Counter,
    /// The same: what its clients take, and the largest of them.
    pub client_bytes: Counter,
    /// See above.
    pub largest_client_bytes: Counter,
    /// Clients that were closed to make room.
    pub evicted_clients: Counter,
    /// Large values, and keys of flushed databases, that were freed later than they went.
    pub lazily_freed: Counter,
    /// The part of its time, in percent, that defragmentation gets just now: no sum either.
    pub defrag_percent: Counter,
    /// Blocks of memory that defragmentation moved and did not, and keys with such blocks and without.
    pub defrag_hits: Counter,
    /// See above.
    pub defrag_misses: Counter,
    /// See above.
    pub defrag_key_hits: Counter,
    /// See above.
    pub defrag_key_misses: Counter,
    /// Connections that were taken.
    pub connections_received: Counter,
    /// Connections that were sent away.
    pub rejected_connections: Counter,
    /// What clients sent.
    pub net_input_bytes: Counter,
    /// What was answered.
    pub net_output_bytes: Counter,
    /// Times that something came.
    pub reads_processed: Counter,
    /// Times that something was sent.
    pub writes_processed: Counter,
    /// All error replies.
    pub error_replies: Counter,
    /// The same by their code words.
    pub errors: ErrorCounts,
    /// What clients were not allowed to do, by [`Denial`]; never reset.
    pub denied: [Counter; 4],
    /// Of each command, by its number.
    pub commands: Box<[CommandStats]>,
}

impl ThreadStats {
    /// All zero, for a table of `command_count` commands.
    pub fn new(command_count: usize) -> Self {
        ThreadStats {
            commands: (0..command_count).map(|_| CommandStats::default()).collect(),
            ..ThreadStats::default()
        }
    }

    /// Counts an entry of `width` shards.
    #[inline]
    pub fn count_entry(&self, entry_type: EntryType, width: usize) {
        self.entries[entry_type as usize].add(1);
        if width > 0 {
            self.widths[(width.next_power_of_two().trailing_zeros() as usize).min(WIDTH_BUCKETS - 1)].add(1);
        }
    }

    /// Counts what was read from a client and written to it.
    #[inline]
    pub fn count_io(&self, input_bytes: usize, output_bytes: usize) {
        self.reads_processed.add(1);
        self.net_input_bytes.add(input_bytes as u64);
        self.net_output_bytes.add(output_bytes as u64);
    }

    /// Counts an error reply by its code word.
    pub fn count_error(&self, code: &str) {
        self.count_errors(code, 1);
    }

    /// Counts so many error replies with this code word.
    pub fn count_errors(&self, code: &str, count: u64) {
        self.error_replies.add(count);
        self.errors.add(code, count);
    }

    /// Counters of one command.
    #[inline]
    pub fn command(&self, id: CommandId) -> &CommandStats {
        &self.commands[usize::from(id.0)]
    }

    /// Every counter that `CONFIG RESETSTAT` starts anew, errors by code and durations left out, always in the same order.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &Counter> {
        let single = [
            &self.commands_processed,
            &self.delegated,
            &self.retries,
            &self.lent,
            &self.held_back,
            &self.kept,
            &self.evicted_clients,
            &self.lazily_freed,
            &self.defrag_hits,
            &self.defrag_misses,
            &self.defrag_key_hits,
            &self.defrag_key_misses,
            &self.connections_received,
            &self.connections_moved,
            &self.rejected_connections,
            &self.net_input_bytes,
            &self.net_output_bytes,
            &self.reads_processed,
            &self.writes_processed,
            &self.error_replies,
        ];
        let of_commands = self
            .commands
            .iter()
            .flat_map(|command| [&command.calls, &command.ns, &command.rejected, &command.failed]);
        single.into_iter().chain(&self.entries).chain(&self.widths).chain(of_commands)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_into_the_bucket_that_begins_before_them() {
        for (ns, bucket) in
            [(0, 0), (63, 0), (64, 1), (67, 1), (68, 2), (127, 16), (128, 17), (1023, 64), (1024, 65)]
        {
            assert_eq!(duration_bucket(ns), bucket, "{ns}");
        }
        assert_eq!(duration_bucket(u64::MAX), DURATION_BUCKETS - 1);
        for bucket in 0..DURATION_BUCKETS {
            assert_eq!(duration_bucket(bucket_start_ns(bucket)), bucket);
            assert_eq!(duration_bucket(bucket_start_ns(bucket + 1) - 1), bucket);
        }
    }

    #[test]
    fn errors_are_counted_by_code_and_bounded() {
        let errors = ErrorCounts::default();
        for number in 0..200 {
            errors.add(&format!("CODE{number}"), 1);
        }
        errors.add("CODE7", 2);
        assert_eq!(errors.iter().count(), ERROR_CODES_MAX);
        assert!(errors.iter().any(|counted| counted == ("CODE7", 3)));
    }
}
