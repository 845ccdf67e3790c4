//! How memory is used, for INFO and MEMORY.

/// The use of memory, for INFO and MEMORY.
#[derive(Debug, Default)]
pub struct Memory {
    /// Allocated bytes.
    pub used_bytes: u64,
    /// The most bytes that were ever allocated.
    pub peak_bytes: u64,
    /// Bytes that were allocated before any data was stored.
    pub startup_bytes: u64,
    /// The physical memory of the process.
    pub rss_bytes: u64,
    /// Bytes of slabs that are not used by blocks.
    pub unused_bytes: u64,
    /// Buffers and other memory of the clients, added up once a second.
    pub client_bytes: u64,
    /// The replication backlog.
    pub backlog_bytes: u64,
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
    /// Everything but keys and values.
    pub fn overhead_bytes(&self) -> u64 {
        let tables: u64 = self.table_bytes.iter().sum();
        let others = self.client_bytes + self.backlog_bytes + self.script_bytes;
        (self.startup_bytes + tables + others).min(self.used_bytes)
    }

    /// Keys and values.
    pub fn dataset_bytes(&self) -> u64 {
        self.used_bytes - self.overhead_bytes()
    }

    /// The dataset's part of what was allocated since the start, in percent.
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
