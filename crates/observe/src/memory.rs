//! The figures about memory, for INFO and MEMORY.

/// The use of memory, for INFO and MEMORY.
#[derive(Debug, Default)]
pub struct Memory {
    /// Allocated bytes.
    pub used_bytes: u64,
    /// The most bytes that were ever allocated.
    pub peak_bytes: u64,
    /// Allocated bytes that count against the limit.
    pub counted_bytes: u64,
    /// The memory that the server needs with or without data, with the threads that are in use.
    pub startup_bytes: u64,
    /// The physical memory of the process.
    pub rss_bytes: u64,
    /// Bytes of slabs that are not used by blocks.
    pub unused_bytes: u64,
    /// Buffers and other memory of the clients, added up once a second.
    pub client_bytes: u64,
    /// The stream that is kept for replicas: the backlog, and what a replica lacks beyond it.
    pub stream_bytes: u64,
    /// The size of the backlog: how much of the stream is kept although no replica lacks it.
    pub backlog_bytes_max: u64,
    /// Bytes that were written to replicas' outputs and not sent.
    pub replica_output_bytes: u64,
    /// Changes that wait for the journal.
    pub journal_bytes: u64,
    /// The number of large values and databases that wait to be freed.
    pub garbage_count: u64,
    /// The memory of cached scripts.
    pub script_bytes: u64,
    /// The number of cached scripts.
    pub script_count: usize,
    /// The memory of libraries of functions.
    pub function_bytes: u64,
    /// The number of libraries.
    pub library_count: usize,
    /// The number of functions.
    pub function_count: usize,
    /// The memory of all threads' Lua states for scripts.
    pub script_state_bytes: u64,
    /// The memory of all threads' Lua states for functions.
    pub function_state_bytes: u64,
    /// The number of keys in all databases.
    pub key_count: u64,
    /// The memory of each database's tables.
    pub table_bytes: Vec<u64>,
    /// The memory of the machine.
    pub system_bytes: u64,
    /// The limit; 0: none.
    pub limit_bytes: u64,
    /// The eviction policy.
    pub policy: String,
    /// The name of the allocator.
    pub allocator: &'static str,
}

impl Memory {
    /// The used memory that does not count against the limit: fixed memory, and memory that grows when keys are
    /// evicted.
    pub fn not_counted_bytes(&self) -> u64 {
        self.used_bytes.saturating_sub(self.counted_bytes)
    }

    /// The backlog.
    pub fn backlog_bytes(&self) -> u64 {
        self.stream_bytes.min(self.backlog_bytes_max)
    }

    /// Bytes that replicas have not received: the stream beyond the backlog, and their output.
    pub fn replica_bytes(&self) -> u64 {
        self.stream_bytes - self.backlog_bytes() + self.replica_output_bytes
    }

    /// Everything but keys and values.
    pub fn overhead_bytes(&self) -> u64 {
        let tables: u64 = self.table_bytes.iter().sum();
        let waiting = self.stream_bytes + self.replica_output_bytes + self.journal_bytes;
        let others = self.client_bytes + waiting + self.script_bytes;
        (self.startup_bytes + tables + others).min(self.used_bytes)
    }

    /// Whether less than half of the limit is left for keys and values, because other memory counts as well, or the
    /// server itself, which does not count, needs more than half as much.
    pub fn is_limit_too_small(&self) -> bool {
        let half = self.limit_bytes / 2;
        let others = self.counted_bytes.saturating_sub(self.dataset_bytes());
        self.limit_bytes > 0 && (self.startup_bytes > half || others > half)
    }

    /// Keys and values.
    pub fn dataset_bytes(&self) -> u64 {
        self.used_bytes - self.overhead_bytes()
    }

    /// The dataset's part of the memory allocated since the start, in percent.
    pub fn dataset_percent(&self) -> f64 {
        percent(self.dataset_bytes(), self.used_bytes.saturating_sub(self.startup_bytes)).min(100.0)
    }

    /// The used part of the peak, in percent.
    pub fn peak_percent(&self) -> f64 {
        percent(self.used_bytes, self.peak_bytes)
    }

    /// Physical memory per allocated byte.
    pub fn fragmentation(&self) -> f64 {
        percent(self.rss_bytes, self.used_bytes) / 100.0
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
