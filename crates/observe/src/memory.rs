//! How memory is used, for INFO and MEMORY.

/// What INFO and MEMORY tell about memory.
#[derive(Debug, Default)]
pub struct Memory {
    /// Bytes that are allocated.
    pub used_bytes: u64,
    /// The most that ever were.
    pub peak_bytes: u64,
    /// Those that were before anything was stored.
    pub startup_bytes: u64,
    /// Physical memory of the process.
    pub rss_bytes: u64,
    /// Bytes of slabs in which no block lies.
    pub unused_bytes: u64,
    /// Everything but keys and values.
    pub overhead_bytes: u64,
    /// Keys and values.
    pub dataset_bytes: u64,
    /// Buffers and all else of the clients, added up every second.
    pub client_bytes: u64,
    /// Large values and databases that are left to be freed.
    pub garbage_count: u64,
    /// Of cached scripts.
    pub script_bytes: u64,
    /// Those.
    pub script_count: usize,
    /// Of libraries of functions: their codes and what is known of them.
    pub function_bytes: u64,
    /// Libraries of functions.
    pub library_count: usize,
    /// Their functions.
    pub function_count: usize,
    /// The Lua states of all threads, those for scripts and those for functions.
    pub script_state_bytes: u64,
    /// See above.
    pub function_state_bytes: u64,
    /// Keys of all databases.
    pub key_count: u64,
    /// Of the tables of each database.
    pub table_bytes: Vec<u64>,
    /// What the machine has.
    pub system_bytes: u64,
    /// What may be used; 0: all of it.
    pub limit_bytes: u64,
    /// What goes if that is not enough.
    pub policy: String,
    /// What gives memory to the data.
    pub allocator: &'static str,
}

impl Memory {
    /// How much of what was allocated since the start is data.
    pub fn dataset_percent(&self) -> f64 {
        percent(self.dataset_bytes, self.used_bytes.saturating_sub(self.startup_bytes)).min(100.0)
    }

    /// How much of the peak is used now.
    pub fn peak_percent(&self) -> f64 {
        percent(self.used_bytes, self.peak_bytes)
    }

    /// Physical memory for each byte allocated.
    pub fn fragmentation(&self) -> f64 {
        percent(self.rss_bytes, self.used_bytes) / 100.0
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
