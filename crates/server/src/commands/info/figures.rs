//! Where memory goes.

use process::system;

use crate::shared::Shared;

/// What INFO and MEMORY tell about memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryFigures {
    pub(crate) used_bytes: u64,
    pub(crate) peak_bytes: u64,
    pub(crate) startup_bytes: u64,
    pub(crate) rss_bytes: u64,
    /// Bytes of slabs in which no block lies.
    pub(crate) unused_bytes: u64,
    /// Everything but keys and values.
    pub(crate) overhead_bytes: u64,
    pub(crate) dataset_bytes: u64,
    /// Buffers and all else of the clients, added up every second.
    pub(crate) client_bytes: u64,
    /// Large values and databases that are left to be freed.
    pub(crate) garbage_count: u64,
    pub(crate) script_bytes: u64,
    pub(crate) script_count: usize,
    /// Of libraries of functions: their codes and what is known of them.
    pub(crate) function_bytes: u64,
    pub(crate) library_count: usize,
    pub(crate) function_count: usize,
    /// The Lua states of all threads, those for scripts and those for functions.
    pub(crate) script_state_bytes: u64,
    pub(crate) function_state_bytes: u64,
    pub(crate) key_count: u64,
    /// Of the tables of each database.
    pub(crate) table_bytes: Vec<u64>,
}

impl MemoryFigures {
    /// Takes them.
    pub(crate) fn take(shared: &Shared) -> MemoryFigures {
        let (mut table_bytes, mut key_count) = (Vec::new(), 0);
        for db in 0..shared.settings.databases() {
            let filled = || shared.shards.tallies(db).filter(|tally| tally.keys.get() > 0);
            table_bytes.push(filled().map(|tally| tally.table_bytes.get()).sum());
            key_count += filled().map(|tally| tally.keys.get()).sum::<u64>();
        }
        let (script_bytes, script_count) = {
            let cache = shared.scripts.cache();
            (cache.memory_bytes() as u64, cache.len())
        };
        let (_, libraries) = shared.scripts.libraries.get();
        let (script_state_bytes, function_state_bytes) = shared.scripts.state_bytes();
        let (used_bytes, startup_bytes) = (heap::allocated_bytes(), shared.observed.startup_bytes());
        let client_bytes = shared.client_bytes();
        let overhead_bytes =
            (startup_bytes + table_bytes.iter().sum::<u64>() + client_bytes + script_bytes).min(used_bytes);
        MemoryFigures {
            used_bytes,
            peak_bytes: shared.observed.peak_bytes().max(used_bytes),
            startup_bytes,
            rss_bytes: system::resident_bytes(),
            unused_bytes: crate::upkeep::defrag::unused_bytes(),
            overhead_bytes,
            dataset_bytes: used_bytes - overhead_bytes,
            client_bytes,
            garbage_count: shared.observed.now(|stats| &stats.garbage),
            script_bytes,
            script_count,
            function_bytes: libraries.memory_bytes() as u64,
            library_count: libraries.len(),
            function_count: libraries.function_count(),
            script_state_bytes,
            function_state_bytes,
            key_count,
            table_bytes,
        }
    }

    /// How much of what was allocated since the start is data.
    pub(crate) fn dataset_percent(&self) -> f64 {
        percent(self.dataset_bytes, self.used_bytes.saturating_sub(self.startup_bytes)).min(100.0)
    }

    /// How much of the peak is used now.
    pub(crate) fn peak_percent(&self) -> f64 {
        percent(self.used_bytes, self.peak_bytes)
    }

    /// Physical memory for each byte allocated.
    pub(crate) fn fragmentation(&self) -> f64 {
        percent(self.rss_bytes, self.used_bytes) / 100.0
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
