//! The only clock.
//!
//! Real time comes from the operating system (wall clock) and from the processor's counter (durations).
//! Simulated time comes from the simulated network, which alone advances it. All other code asks this clock,
//! so all of it can be simulated.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::sys;

/// A clock; cheap to clone.
#[derive(Clone, Debug)]
pub struct Clock(ClockSource);

#[derive(Clone, Debug)]
enum ClockSource {
    Real { counter: quanta::Clock, start: u64, start_unix_ms: u64 },
    Simulated { now_ns: Arc<AtomicU64>, set_ahead_ms: Arc<AtomicI64> },
}

/// Where simulated wall time starts: 2024-01-01.
const SIMULATED_START_UNIX_MS: u64 = 1_704_067_200_000;
/// Two clocks are read so close together, and so often again if they are not.
const READ_APART_NS: u64 = 100_000_000;
const READ_AGAIN_MAX: usize = 10;

/// What all clocks show at one moment; each as the method of [`Clock`] of that name returns it.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// See [`Clock::now_ms`].
    pub now_ms: u64,
    /// See [`Clock::steady_ms`].
    pub steady_ms: u64,
    /// See [`Clock::monotonic_ms`].
    pub monotonic_ms: u64,
    /// See [`Clock::ticks`].
    pub ticks: u64,
}

impl Clock {
    /// The machine's clock, the same for the whole process. The first call measures the processor's counter
    /// and may take some milliseconds.
    pub fn real() -> Clock {
        static FIRST: OnceLock<Clock> = OnceLock::new();
        let first = || {
            let counter = quanta::Clock::new();
            let start = counter.raw();
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Clock(ClockSource::Real { counter, start, start_unix_ms: since.as_millis() as u64 })
        };
        FIRST.get_or_init(first).clone()
    }

    /// A clock that shows this many nanoseconds since its beginning. The owner of `now_ns` advances it.
    pub fn simulated(now_ns: Arc<AtomicU64>) -> Clock {
        Clock(ClockSource::Simulated { now_ns, set_ahead_ms: Arc::default() })
    }

    /// Sets the wall clock ahead, or back, for all clones of a simulated clock.
    ///
    /// # Panics
    /// If it is the real clock, which cannot be set from here.
    pub fn set_ahead(&self, ms: i64) {
        match &self.0 {
            ClockSource::Real { .. } => panic!("the machine's clock is not ours"),
            ClockSource::Simulated { set_ahead_ms, .. } => _ = set_ahead_ms.fetch_add(ms, Ordering::Relaxed),
        }
    }

    /// Milliseconds since 1970; may jump when the machine's clock is set.
    pub fn now_ms(&self) -> u64 {
        self.now_us() / 1_000
    }

    /// Milliseconds since 1970, as if the machine's clock had not been set since this one was created; never
    /// jumps or runs backwards.
    pub fn steady_ms(&self) -> u64 {
        self.start_unix_ms() + self.monotonic_ms()
    }

    /// The wall clock when the monotonic one began.
    fn start_unix_ms(&self) -> u64 {
        match &self.0 {
            ClockSource::Real { start_unix_ms, .. } => *start_unix_ms,
            ClockSource::Simulated { .. } => SIMULATED_START_UNIX_MS,
        }
    }

    /// Reads all clocks at the same moment. A thread that is interrupted meanwhile reads them again; otherwise it
    /// would look as if the machine's clock had been set.
    pub fn moment(&self) -> Moment {
        let mut ticks = self.ticks();
        let mut now_ms = self.now_ms();
        for _ in 0..READ_AGAIN_MAX {
            let after = self.ticks();
            if self.ticks_to_ns(ticks, after) <= READ_APART_NS {
                break;
            }
            (ticks, now_ms) = (after, self.now_ms());
        }
        let monotonic_ms = self.monotonic_ns_at(ticks) / 1_000_000;
        Moment { now_ms, steady_ms: self.start_unix_ms() + monotonic_ms, monotonic_ms, ticks }
    }

    /// Microseconds since 1970, as `TIME` reports them.
    pub fn now_us(&self) -> u64 {
        match &self.0 {
            ClockSource::Real { .. } => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
            }
            ClockSource::Simulated { set_ahead_ms, .. } => {
                let set_ahead_us = set_ahead_ms.load(Ordering::Relaxed) * 1_000;
                (SIMULATED_START_UNIX_MS * 1_000 + self.monotonic_ns() / 1_000)
                    .saturating_add_signed(set_ahead_us)
            }
        }
    }

    /// Nanoseconds since some moment in the past; never runs backwards.
    pub fn monotonic_ns(&self) -> u64 {
        self.monotonic_ns_at(self.ticks())
    }

    fn monotonic_ns_at(&self, ticks: u64) -> u64 {
        match &self.0 {
            ClockSource::Real { start, .. } => self.ticks_to_ns(*start, ticks),
            ClockSource::Simulated { .. } => ticks,
        }
    }

    /// Processor time that the calling thread has used; 0 in a simulation.
    pub fn thread_cpu_ns(&self) -> u64 {
        match &self.0 {
            ClockSource::Real { .. } => sys::thread_cpu_ns(),
            ClockSource::Simulated { .. } => 0,
        }
    }

    /// Milliseconds since some moment in the past, those included in which the machine was suspended.
    pub fn boot_ms(&self) -> u64 {
        match &self.0 {
            ClockSource::Real { .. } => sys::boot_ns() / 1_000_000,
            ClockSource::Simulated { .. } => self.monotonic_ms(),
        }
    }

    /// Milliseconds since some moment in the past; never runs backwards.
    pub fn monotonic_ms(&self) -> u64 {
        self.monotonic_ns() / 1_000_000
    }

    /// The processor's counter: the cheapest way to take many timings. [`ticks_to_ns`](Clock::ticks_to_ns)
    /// converts differences.
    pub fn ticks(&self) -> u64 {
        match &self.0 {
            ClockSource::Real { counter, .. } => counter.raw(),
            ClockSource::Simulated { now_ns, .. } => now_ns.load(Ordering::Relaxed),
        }
    }

    /// About how many [`ticks`](Clock::ticks) there are in this many nanoseconds.
    pub fn ns_to_ticks(&self, ns: u64) -> u64 {
        const MANY: u64 = 1 << 30;
        let ns_of_many = self.ticks_to_ns(0, MANY).max(1);
        (u128::from(ns) * u128::from(MANY) / u128::from(ns_of_many)) as u64
    }

    /// A duration in nanoseconds from two readings of [`ticks`](Clock::ticks).
    pub fn ticks_to_ns(&self, start: u64, end: u64) -> u64 {
        match &self.0 {
            ClockSource::Real { counter, .. } => counter.delta_as_nanos(start, end),
            ClockSource::Simulated { .. } => end.saturating_sub(start),
        }
    }
}

/// The sooner of two times; `None` is never.
#[inline]
pub fn sooner<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, None) => one,
        (None, other) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_moves_forward() {
        let clock = Clock::real();
        let (first_ns, first) = (clock.monotonic_ns(), clock.ticks());
        let (second_ns, second) = (clock.monotonic_ns(), clock.ticks());
        assert!(second_ns >= first_ns);
        assert!(clock.ticks_to_ns(first, second) < 1_000_000_000);
        assert!(clock.now_ms() > SIMULATED_START_UNIX_MS);
    }

    #[test]
    fn simulated_time_stands_still_until_it_is_moved() {
        let now_ns = Arc::new(AtomicU64::new(0));
        let clock = Clock::simulated(now_ns.clone());
        assert_eq!(clock.now_ms(), SIMULATED_START_UNIX_MS);
        now_ns.store(2_000_000, Ordering::Relaxed);
        assert_eq!(clock.now_ms(), SIMULATED_START_UNIX_MS + 2);
        assert_eq!(clock.monotonic_ns(), 2_000_000);
        let other = clock.clone();
        other.set_ahead(-1000);
        assert_eq!(clock.now_ms(), SIMULATED_START_UNIX_MS + 2 - 1000);
        assert_eq!((clock.steady_ms(), clock.monotonic_ns()), (SIMULATED_START_UNIX_MS + 2, 2_000_000));
    }
}
