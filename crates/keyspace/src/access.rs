//! The access bits of a record: 24 bits in its first word, so that they take no additional memory.
//!
//! ```text
//! LRU  │ seconds since 1970, the lower 24 bits       │
//! LFU  │ minutes since 1970, 16 bits │ counter, 8 bits │
//! ```
//!
//! `maxmemory-policy` selects one of the two. The counter is Redis' Morris counter: it grows randomly, the more rarely
//! the larger it is, and shrinks by one for every `lfu-decay-time` without access. After a change of the policy,
//! records are misread until they are used again, as in Redis.

use ds::random::Random;

use crate::data_config::UnixMs;

/// The counter of a new record: large enough that it is not evicted at once.
const NEW_COUNT: u8 = 5;

/// Longer idle times are stored as this: nearly the longest that the bits can represent.
const IDLE_SECONDS_MAX: u64 = 16_000_000;

/// Maximum difference between the clocks of threads, in minutes.
const AHEAD_MINUTES_MAX: u16 = 60;

const SECOND_MS: UnixMs = 1000;
const MINUTE_MS: UnixMs = 60 * SECOND_MS;

/// How accesses are counted under the LFU policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lfu {
    /// `lfu-log-factor`: how much more rarely the counter grows as it gets larger.
    pub log_factor: u64,
    /// `lfu-decay-time`: the counter shrinks by one in this many minutes; 0: never.
    pub decay_minutes: u64,
}

/// The access bits under the LRU policies and without eviction: seconds.
#[inline]
pub fn lru_clock(now: UnixMs) -> u32 {
    (now / SECOND_MS) as u32
}

fn minutes(now: UnixMs) -> u16 {
    (now / MINUTE_MS) as u16
}

impl Lfu {
    /// The access bits with this counter.
    pub fn word(now: UnixMs, counter: u8) -> u32 {
        u32::from(minutes(now)) << 8 | u32::from(counter)
    }

    /// The counter now, after decay.
    pub fn counter(self, access: u32, now: UnixMs) -> u8 {
        let idle_minutes = minutes(now).wrapping_sub((access >> 8) as u16);
        let periods = u64::from(idle_minutes).checked_div(self.decay_minutes).unwrap_or(0);
        (access as u8).saturating_sub(periods.try_into().unwrap_or(u8::MAX))
    }

    /// The access bits after another use.
    pub fn used(self, access: u32, now: UnixMs, random: &mut Random) -> u32 {
        let counter = self.counter(access, now);
        let above = u64::from(counter.saturating_sub(NEW_COUNT));
        let grows = random.below(above.saturating_mul(self.log_factor).saturating_add(1)) == 0;
        Lfu::word(now, counter.saturating_add(u8::from(grows)))
    }
}

/// Whole minutes since the last use, from access bits under the LFU policies. 0 if they were written by a thread whose
/// clock is ahead.
pub fn lfu_idle_minutes(access: u32, now: UnixMs) -> u32 {
    let idle_minutes = minutes(now).wrapping_sub((access >> 8) as u16);
    if idle_minutes < u16::MAX - AHEAD_MINUTES_MAX { idle_minutes.into() } else { 0 }
}

/// The access bits of a new record.
#[inline]
pub fn created(lfu: Option<Lfu>, now: UnixMs) -> u32 {
    if lfu.is_some() { Lfu::word(now, NEW_COUNT) } else { lru_clock(now) }
}

/// The access bits that a snapshot or `RESTORE` specifies, if it has those that the policy needs; otherwise
/// those of a new record.
pub fn restored(lfu: Option<Lfu>, now: UnixMs, idle_seconds: Option<u64>, frequency: Option<u8>) -> u32 {
    match (lfu, idle_seconds, frequency) {
        (Some(_), _, Some(frequency)) => Lfu::word(now, frequency),
        (None, Some(seconds), _) => lru_clock(now).wrapping_sub(seconds.min(IDLE_SECONDS_MAX) as u32),
        _ => created(lfu, now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LFU: Lfu = Lfu { log_factor: 10, decay_minutes: 1 };
    const NOW: UnixMs = 1_700_000_000_000;

    /// The counter after this many uses in one minute.
    fn after(lfu: Lfu, uses: usize) -> u8 {
        let mut random = Random::new(7);
        let access = (0..uses).fold(created(Some(lfu), NOW), |access, _| lfu.used(access, NOW, &mut random));
        lfu.counter(access, NOW)
    }

    #[test]
    fn the_counter_grows_as_in_redis() {
        // The table in redis.conf, within the random variation of one record.
        for (log_factor, uses, expected) in [
            (0, 100, 105),
            (0, 1000, 255),
            (10, 100, 10),
            (10, 1000, 18),
            (10, 100_000, 142),
            (100, 1000, 11),
        ] {
            let counter = after(Lfu { log_factor, ..LFU }, uses);
            let scatter = if log_factor == 0 { 0 } else { 3 + expected / 8 };
            assert!(counter.abs_diff(expected) <= scatter, "factor {log_factor}, {uses} uses: {counter}");
        }
        assert_eq!(after(LFU, 1), NEW_COUNT + 1);
    }

    #[test]
    fn the_counter_decays() {
        let access = Lfu::word(NOW, 100);
        for (decay_minutes, idle_minutes, counter) in [
            (1, 0, 100),
            (1, 7, 93),
            (1, 99, 1),
            (1, 60_000, 0),
            (2, 7, 97),
            (0, 60_000, 100),
            (10, 60_000, 0),
        ] {
            let lfu = Lfu { decay_minutes, ..LFU };
            assert_eq!(
                lfu.counter(access, NOW + idle_minutes * MINUTE_MS),
                counter,
                "{decay_minutes} {idle_minutes}"
            );
        }
        // The minutes wrap around.
        let before_turn = (1 << 16) * MINUTE_MS - MINUTE_MS;
        assert_eq!(LFU.counter(Lfu::word(before_turn, 100), before_turn + 3 * MINUTE_MS), 97);
    }

    #[test]
    fn what_was_saved_is_taken_as_far_as_it_is_meant() {
        assert_eq!(restored(None, NOW, Some(60), Some(9)), lru_clock(NOW) - 60);
        assert_eq!(restored(None, NOW, Some(u64::MAX), None), lru_clock(NOW) - 16_000_000);
        assert_eq!(restored(None, NOW, None, Some(9)), lru_clock(NOW));
        assert_eq!(LFU.counter(restored(Some(LFU), NOW, Some(60), Some(9)), NOW), 9);
        assert_eq!(LFU.counter(restored(Some(LFU), NOW, Some(60), None), NOW), NEW_COUNT);
    }
}
