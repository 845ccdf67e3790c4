//! How much memory may be used, and how long evicting may take.

use std::sync::atomic::{AtomicU64, Ordering};

/// Time per step of `maxmemory-eviction-tenacity`.
const TENACITY_NS: f64 = 50_000.0;
/// With a lower limit, no client could talk to the server.
const BYTES_MIN: u64 = 128 * 1024;

/// Memory that all clients together may use, by the two settings; `None`: no limit.
pub fn client_bytes_max(clients: i64, memory_bytes_max: u64) -> Option<u64> {
    let wanted = match clients {
        0 => return None,
        percent @ ..0 if memory_bytes_max > 0 => memory_bytes_max / 100 * percent.unsigned_abs(),
        ..0 => return None,
        bytes => bytes as u64,
    };
    Some(wanted.max(BYTES_MIN))
}

/// A limit that was lowered without evicting keys, as in memcached: memory that is in use stays in use. The
/// limit in force is that memory, until it is no more than the new limit.
#[derive(Debug, Default)]
pub struct Lowered {
    /// The new limit; 0: it was not lowered.
    to_bytes: AtomicU64,
    used_bytes: AtomicU64,
}

impl Lowered {
    /// Notes that the limit is about to be set to `to_bytes`, while more is used.
    pub fn begin(&self, to_bytes: u64, used_bytes: u64) {
        self.used_bytes.store(used_bytes, Ordering::Relaxed);
        self.to_bytes.store(to_bytes, Ordering::Release);
    }

    /// Notes that the limit was set to `bytes_max`. If that is not the limit that [`begin`](Self::begin)
    /// announced, it is in force at once.
    pub fn note_limit(&self, bytes_max: u64) {
        if self.to_bytes.load(Ordering::Relaxed) != bytes_max {
            self.to_bytes.store(0, Ordering::Relaxed);
        }
    }

    /// The limit in force, where `bytes_max` was set.
    #[inline]
    pub fn limit(&self, bytes_max: u64) -> u64 {
        if self.to_bytes.load(Ordering::Acquire) != bytes_max {
            return bytes_max;
        }
        bytes_max.max(self.used_bytes.load(Ordering::Relaxed))
    }

    /// Lowers the limit in force to the memory in use, if that is less. One thread calls this now and then.
    pub fn follow(&self, bytes_max: u64, used_bytes: u64) {
        if self.limit(bytes_max) > used_bytes {
            self.used_bytes.fetch_min(used_bytes, Ordering::Relaxed);
        }
    }
}

/// The settings for eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes that may be used; 0: no limit.
    pub bytes_max: u64,
    /// Number of keys that are sampled for each one that is evicted.
    pub sample_count: usize,
    /// From 0 to 100: how long a command may be delayed; 100: without limit.
    pub tenacity: i64,
}

impl Limits {
    /// How long evicting may delay a command, in nanoseconds.
    pub(super) fn ns_max(&self) -> u64 {
        match self.tenacity {
            100 => u64::MAX,
            tenacity @ ..=10 => (TENACITY_NS * tenacity as f64) as u64,
            tenacity => (TENACITY_NS * 10.0 * 1.15_f64.powi((tenacity - 10) as i32)) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_tenacity_the_more_time() {
        for (tenacity, ns) in [(0, 0), (10, 500_000), (11, 575_000), (100, u64::MAX)] {
            let ns_max = Limits { bytes_max: 1, sample_count: 5, tenacity }.ns_max();
            assert!(ns_max.abs_diff(ns) <= 1, "{tenacity}: {ns_max}");
        }
    }

    #[test]
    fn a_lowered_limit_follows_what_is_used() {
        let lowered = Lowered::default();
        lowered.follow(100, 50);
        assert_eq!(lowered.limit(100), 100);
        lowered.begin(100, 300);
        lowered.note_limit(100);
        lowered.follow(100, 310);
        assert_eq!((lowered.limit(100), lowered.limit(200)), (300, 200), "no more than before");
        lowered.follow(100, 250);
        assert_eq!(lowered.limit(100), 250);
        lowered.follow(100, 90);
        assert_eq!(lowered.limit(100), 100);
        lowered.begin(100, 300);
        lowered.note_limit(200);
        assert_eq!(lowered.limit(100), 100, "somebody set another limit since");
    }

    #[test]
    fn the_limit_is_bytes_or_a_share() {
        for (clients, memory, expected) in [
            (0, 0, None),
            (0, 1 << 30, None),
            (1 << 20, 0, Some(1 << 20)),
            (5, 0, Some(BYTES_MIN)),
            (-5, 0, None),
            (-5, 100 << 20, Some(5 << 20)),
            (-1, 1 << 20, Some(BYTES_MIN)),
            (-100, i64::MAX as u64, Some(i64::MAX as u64 / 100 * 100)),
        ] {
            assert_eq!(client_bytes_max(clients, memory), expected, "{clients} {memory}");
        }
    }
}
