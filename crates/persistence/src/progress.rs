//! Tracks the progress of loading at the start.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// See the head of this file.
#[derive(Default, Debug)]
pub struct Progress {
    is_loading: AtomicBool,
    /// The start of loading, in seconds since 1970.
    started_seconds: AtomicU64,
    /// The size of the file that is being read.
    pub total_bytes: AtomicU64,
    /// The bytes of it that were read.
    pub loaded_bytes: AtomicU64,
    /// The memory in use when the file was saved, as the file says.
    pub used_bytes: AtomicU64,
}

/// The figures that `INFO` shows.
#[derive(Debug)]
pub struct LoadFigures {
    /// The start of loading, in seconds since 1970.
    pub started_seconds: u64,
    /// The size of the file.
    pub total_bytes: u64,
    /// The memory in use when the file was saved.
    pub used_bytes: u64,
    /// The bytes that were read.
    pub loaded_bytes: u64,
    /// Their share in percent.
    pub percent: f64,
    /// An estimate of the remaining time.
    pub seconds_left: u64,
}

impl Progress {
    /// Begins loading at `now_ms` since 1970.
    pub fn begin(&self, now_ms: u64) {
        self.started_seconds.store(now_ms / 1000, Ordering::Relaxed);
        self.is_loading.store(true, Ordering::Relaxed);
    }

    /// Begins a file of this many bytes.
    pub fn begin_file(&self, total_bytes: u64) {
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        self.loaded_bytes.store(0, Ordering::Relaxed);
    }

    /// The percentage that was read.
    pub fn percent(&self) -> u64 {
        let total_bytes = self.total_bytes.load(Ordering::Relaxed);
        (self.loaded_bytes.load(Ordering::Relaxed) * 100 / total_bytes.max(1)).min(100)
    }

    /// Ends loading.
    pub fn end(&self) {
        self.is_loading.store(false, Ordering::Release);
    }

    /// Whether the data are still being loaded.
    #[inline]
    pub fn is_loading(&self) -> bool {
        self.is_loading.load(Ordering::Acquire)
    }

    /// The figures, during a load.
    pub fn figures(&self, now_ms: u64) -> Option<LoadFigures> {
        let get = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let loaded_bytes = get(&self.loaded_bytes);
        // The length of the journal after its base is an estimate, and a file may grow.
        let total_bytes = match get(&self.total_bytes) {
            // The length of a pipe is unknown.
            0 => 0,
            total_bytes => total_bytes.max(loaded_bytes),
        };
        let started_seconds = get(&self.started_seconds);
        let elapsed = (now_ms / 1000).saturating_sub(started_seconds);
        let bytes_left = total_bytes.saturating_sub(loaded_bytes);
        self.is_loading().then(|| LoadFigures {
            started_seconds,
            total_bytes,
            used_bytes: get(&self.used_bytes),
            loaded_bytes,
            percent: loaded_bytes as f64 / (total_bytes + 1) as f64 * 100.0,
            // Redis shows this, too: it cannot estimate in the first second.
            seconds_left: if elapsed == 0 { 1 } else { elapsed * bytes_left / (loaded_bytes + 1) },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_everything_is_loaded() {
        let progress = Progress::default();
        progress.begin(1_000);
        progress.begin_file(200);
        progress.loaded_bytes.store(50, Ordering::Relaxed);
        let figures = |progress: &Progress| progress.figures(9_000).expect("it loads");
        assert_eq!((progress.percent(), figures(&progress).percent as u64), (25, 24));
        // The file is longer than expected.
        progress.loaded_bytes.store(500, Ordering::Relaxed);
        let LoadFigures { total_bytes, loaded_bytes, percent, seconds_left, .. } = figures(&progress);
        assert_eq!((total_bytes, loaded_bytes, seconds_left, progress.percent()), (500, 500, 0, 100));
        assert!(percent < 100.0);
    }
}
