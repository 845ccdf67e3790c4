//! Counters of one thread, written by that thread alone and read by any thread that answers `INFO`.
//!
//! Every counter is an atomic that only its own thread writes, so adding is a plain load and store, and each
//! thread's counters have cache lines of their own. `CONFIG RESETSTAT` does not touch them: it notes the sums of all
//! threads in a [`ThreadStats`] that no thread owns, and readers subtract it (`observed.rs`).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use engine::CommandId;

/// A number that one thread writes and all threads read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds. Only the owning thread may call this.
    #[inline]
    pub fn add(&self, number: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(number), Ordering::Relaxed);
    }

    /// Subtracts. Only the owning thread may call this.
    #[inline]
    pub fn sub(&self, number: u64) {
        self.add(number.wrapping_neg());
    }

    /// Stores a floating-point number.
    pub fn set_f64(&self, number: f64) {
        self.set(number.to_bits());
    }

    /// The number that [`set_f64`](Self::set_f64) stored.
    pub fn get_f64(&self) -> f64 {
        f64::from_bits(self.get())
    }

    /// The current number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Stores a number.
    pub fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }
}

/// How a command entered its shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryType {
    /// It needed no shard.
    None,
    /// One shard, entered by its home thread.
    Inline,
    /// One shard, entered by another thread.
    Quick,
    /// One shard; the command was delegated or sent to the home thread.
    Hop,
    /// Several shards.
    Wide,
    /// All shards.
    Global,
}

impl EntryType {
    /// All types, with their names in figures.
    pub const NAMED: [(&'static str, EntryType); 6] = [
        ("inline", EntryType::Inline),
        ("quick", EntryType::Quick),
        ("hop", EntryType::Hop),
        ("wide", EntryType::Wide),
        ("global", EntryType::Global),
        ("none", EntryType::None),
    ];
}

/// The kind of access that a client was denied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denial {
    /// Authentication.
    Auth,
    /// A command.
    Command,
    /// Access to a key.
    Key,
    /// Access to a channel.
    Channel,
    /// Access to a database.
    Database,
}

/// The number of buckets of widths: 1, 2, 3–4, 5–8 … shards.
pub const WIDTH_BUCKETS: usize = 13;

/// Binary logarithm of the number of buckets for each doubling of a duration. With 16 buckets a percentile is off by at
/// most 6 %.
const STEPS_LOG2: u32 = 4;
/// Binary logarithms of the end of the first bucket and the beginning of the last one: 64 ns and more than two minutes.
const SHORTEST_NS_LOG2: u32 = 6;
const LONGEST_NS_LOG2: u32 = 37;
/// The number of buckets of durations.
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
    /// How often it ran, failures included.
    pub calls: Counter,
    /// How long all calls took.
    pub ns: Counter,
    /// How often it was rejected before it ran.
    pub rejected: Counter,
    /// How often it returned an error.
    pub failed: Counter,
    /// Calls by duration. Allocated at the first call, since most commands are never called.
    durations: OnceLock<Box<Histogram>>,
}

/// Calls by duration.
type Histogram = [Counter; DURATION_BUCKETS];

impl CommandStats {
    /// The counter for calls of this duration. Only the owning thread may call this.
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

    /// The number of calls in a bucket. To be read only.
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

    /// Replaces the number in each bucket by the sum over `all`.
    pub(crate) fn set_durations(&self, all: &[&CommandStats]) {
        if all.iter().all(|stats| stats.durations.get().is_none()) {
            return;
        }
        for (bucket, counter) in self.histogram().iter().enumerate() {
            counter.set(all.iter().map(|stats| stats.calls_in(bucket).get()).sum());
        }
    }
}

/// How many error codes are counted separately. Further ones are only part of the total.
const ERROR_CODES_MAX: usize = 128;

/// A code, and how many replies had it.
type ErrorCount = (OnceLock<Box<str>>, Counter);

/// Error replies by code.
#[derive(Debug, Default)]
pub struct ErrorCounts {
    len: AtomicUsize,
    /// Allocated at the first error.
    codes: OnceLock<Box<[ErrorCount]>>,
}

impl ErrorCounts {
    /// Adds to the counter of a code. Only the owning thread may call this.
    pub fn add(&self, code: &str, number: u64) {
        if let Some(counter) = self.counter(code) {
            counter.add(number);
        }
    }

    /// The counter of a code. It is created if there is room. Only the owning thread may call this.
    fn counter(&self, code: &str) -> Option<&Counter> {
        let codes = self.codes.get_or_init(|| (0..ERROR_CODES_MAX).map(|_| Default::default()).collect());
        let len = self.len.load(Ordering::Relaxed);
        let known =
            codes[..len].iter().position(|(known, _)| known.get().is_some_and(|known| **known == *code));
        let index = known.unwrap_or(len);
        let (name, counter) = codes.get(index)?;
        if index == len {
            name.get_or_init(|| code.into());
            self.len.store(len + 1, Ordering::Release);
        }
        Some(counter)
    }

    /// All codes with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        let len = self.len.load(Ordering::Acquire);
        let codes = self.codes.get().map_or(&[][..], |codes| &codes[..len]);
        codes.iter().filter_map(|(code, count)| Some((&**code.get()?, count.get())))
    }
}

/// A counter of a thread that `CONFIG RESETSTAT` resets, and where it is shown.
pub struct Total {
    /// What it counts.
    pub what: &'static str,
    /// Its name in INFO. `None`: it is not there, or in another unit.
    pub info: Option<&'static str>,
    /// Its name in `/metrics`, and whether it is a gauge there, as redis_exporter has it.
    pub metric: Option<(&'static str, bool)>,
    /// The counter of a thread.
    pub of: fn(&ThreadStats) -> &Counter,
}

/// Declares the counters of a thread. What is declared below `totals` is reset by `CONFIG RESETSTAT`, and shown in INFO
/// and in `/metrics` if it has a name there; the others are fields and no more.
macro_rules! metrics {
    (@is_gauge counter) => { false };
    (@is_gauge gauge) => { true };
    (@name) => { None };
    (@name $name:literal) => { Some($name) };
    (@metric) => { None };
    (@metric $kind:ident $name:literal) => { Some(($name, metrics!(@is_gauge $kind))) };
    (
        totals { $(#[doc = $what:literal] $total:ident $(: $info:literal)? $(=> $kind:ident $metric:literal)?;)* }
        others { $($others:tt)* }
    ) => {
        /// Counters of one thread.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct ThreadStats {
            $(#[doc = $what] pub $total: Counter,)*
            $($others)*
        }

        impl ThreadStats {
            /// All counters that are reset and counted by themselves.
            pub const TOTALS: &[Total] = &[$(Total {
                what: $what,
                info: metrics!(@name $($info)?),
                metric: metrics!(@metric $($kind $metric)?),
                of: |stats| &stats.$total,
            }),*];
        }
    };
}

metrics! {
    totals {
        /// Commands that ran.
        commands_processed: "total_commands_processed" => counter "redis_commands_processed_total";
        /// Commands that a thread ran for clients of another thread.
        delegated: "tx_delegated" => counter "darter_delegated_total";
        /// Commands of the thread's clients that were left with the holder of their shard.
        left_with_holder;
        /// Attempts of commands to enter several shards that failed because one was taken.
        retries: "tx_retries" => counter "darter_baton_retries_total";
        /// Shards that waiting scripts lent to other scripts.
        lent: "tx_lent" => counter "darter_baton_lent_total";
        /// Commands held back because a snapshot was being saved.
        held_back;
        /// Times that a thread kept a shard into its next turn because of its backlog.
        kept: "tx_kept" => counter "darter_baton_kept_total";
        /// Connections that moved to other threads.
        connections_moved: "connections_moved";
        /// Clients that were disconnected to free memory.
        evicted_clients: "evicted_clients" => counter "redis_evicted_clients_total";
        /// Large values, and keys of flushed databases, that were freed in the background.
        lazily_freed: "lazyfreed_objects" => gauge "redis_lazyfreed_objects";
        /// Blocks of memory that defragmentation moved.
        defrag_hits: "active_defrag_hits" => gauge "redis_defrag_hits";
        /// Blocks that it did not move.
        defrag_misses: "active_defrag_misses" => gauge "redis_defrag_misses";
        /// Keys whose blocks defragmentation moved.
        defrag_key_hits: "active_defrag_key_hits" => gauge "redis_defrag_key_hits";
        /// Keys that it visited without moving a block.
        defrag_key_misses: "active_defrag_key_misses" => gauge "redis_defrag_key_misses";
        /// Connections that were accepted.
        connections_received: "total_connections_received" => counter "redis_connections_received_total";
        /// Connections that were rejected.
        rejected_connections: "rejected_connections" => counter "redis_rejected_connections_total";
        /// Bytes received from clients.
        net_input_bytes: "total_net_input_bytes" => counter "redis_net_input_bytes_total";
        /// Bytes sent to clients.
        net_output_bytes: "total_net_output_bytes" => counter "redis_net_output_bytes_total";
        /// Times that input was received.
        reads_processed: "total_reads_processed" => counter "redis_total_reads_processed";
        /// Times that output was sent.
        writes_processed: "total_writes_processed" => counter "redis_total_writes_processed";
        /// Turns of the thread's loop.
        cycles: "eventloop_cycles";
        /// How long they took, without sleeping and polling.
        cycles_ns;
        /// All error replies.
        error_replies: "total_error_replies" => counter "redis_total_error_replies";
    }
    others {
        /// Commands by [`EntryType`].
        pub entries: [Counter; 6],
        /// Entries by the number of shards.
        pub widths: [Counter; WIDTH_BUCKETS],
        /// The current number of monitors.
        pub monitors: Counter,
        /// The current number of blocked clients. This and the memory of the Lua states are not counted since the start.
        pub blocked_clients: Counter,
        /// Blocked clients whose wait has a timeout.
        pub clients_with_timeout: Counter,
        /// The current number of connections.
        pub connections: Counter,
        /// The load in the last round, in thousandths.
        pub busy: Counter,
        /// The share of commands that were left with a shard's holder in that round, in thousandths.
        pub contended: Counter,
        /// When that round ended, by the monotonic clock.
        pub looked_ms: Counter,
        /// How many threads serve connections now. Only the first thread sets this.
        pub threads_in_use: Counter,
        /// The largest input buffer of a client in the last seconds.
        pub recent_input_bytes_max: Counter,
        /// The largest output buffer of a client in the last seconds.
        pub recent_output_bytes_max: Counter,
        /// How many of the keys that background expiry looked at had expired. This and the next one are `f64`s in which old
        /// samples lose weight.
        pub stale_keys: Counter,
        /// How many keys background expiry looked at.
        pub sampled_keys: Counter,
        /// The current number of large values and databases that wait to be freed.
        pub garbage: Counter,
        /// The current memory of the thread's clients.
        pub client_bytes: Counter,
        /// The current memory of its largest client.
        pub largest_client_bytes: Counter,
        /// The share of its time that defragmentation may use now, in percent.
        pub defrag_percent: Counter,
        /// Error replies by code.
        pub errors: ErrorCounts,
        /// Denials by [`Denial`]; never reset.
        pub denied: [Counter; 5],
        command_count: usize,
        /// Counters of each command, by its number. Allocated at the first command, as many threads never run any.
        commands: OnceLock<Box<[CommandStats]>>,
    }
}

impl ThreadStats {
    /// Counters for a table of `command_count` commands.
    pub fn new(command_count: usize) -> Self {
        ThreadStats { command_count, ..ThreadStats::default() }
    }

    /// Counts a command that entered `width` shards.
    #[inline]
    pub fn count_entry(&self, entry_type: EntryType, width: usize) {
        self.entries[entry_type as usize].add(1);
        if width > 0 {
            self.widths[(width.next_power_of_two().trailing_zeros() as usize).min(WIDTH_BUCKETS - 1)].add(1);
        }
    }

    /// Commands of this thread's clients, on all ways of entry.
    pub fn entries(&self) -> u64 {
        self.entries.iter().map(Counter::get).sum()
    }

    /// Counts bytes received from a client and sent to it.
    #[inline]
    pub fn count_io(&self, input_bytes: usize, output_bytes: usize) {
        self.reads_processed.add(1);
        self.net_input_bytes.add(input_bytes as u64);
        self.net_output_bytes.add(output_bytes as u64);
    }

    /// Counts an error reply.
    pub fn count_error(&self, code: &str) {
        self.count_errors(code, 1);
    }

    /// Counts several error replies with the same code.
    pub fn count_errors(&self, code: &str, count: u64) {
        self.error_replies.add(count);
        self.errors.add(code, count);
    }

    /// Counters of one command, for reading.
    pub fn command(&self, id: CommandId) -> &CommandStats {
        static NONE: CommandStats = CommandStats {
            calls: Counter(AtomicU64::new(0)),
            ns: Counter(AtomicU64::new(0)),
            rejected: Counter(AtomicU64::new(0)),
            failed: Counter(AtomicU64::new(0)),
            durations: OnceLock::new(),
        };
        self.commands.get().map_or(&NONE, |commands| &commands[usize::from(id.0)])
    }

    /// Counters of one command, for counting. Only the owning thread may call this.
    #[inline]
    pub fn own_command(&self, id: CommandId) -> &CommandStats {
        &self.own_commands()[usize::from(id.0)]
    }

    /// Counters of all commands; none if the thread never ran one.
    pub(crate) fn all_commands(&self) -> &[CommandStats] {
        self.commands.get().map_or(&[], |commands| commands)
    }

    /// Counters of all commands, for counting. Only the owning thread may call this.
    #[inline]
    pub(crate) fn own_commands(&self) -> &[CommandStats] {
        match self.commands.get() {
            Some(commands) => commands,
            None => self.begin_commands(),
        }
    }

    #[cold]
    fn begin_commands(&self) -> &[CommandStats] {
        self.commands.get_or_init(|| (0..self.command_count).map(|_| CommandStats::default()).collect())
    }

    /// All counters that `CONFIG RESETSTAT` resets, except errors by code and durations, always in the same order. Those
    /// of commands come last, and are missing if the thread never ran one.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &Counter> {
        let single = ThreadStats::TOTALS.iter().map(|total| (total.of)(self));
        let of_commands = self
            .commands
            .get()
            .into_iter()
            .flatten()
            .flat_map(|command| [&command.calls, &command.ns, &command.rejected, &command.failed]);
        single.chain(&self.entries).chain(&self.widths).chain(of_commands)
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
