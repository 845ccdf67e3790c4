//! `math.random` as in Redis: the 48-bit linear congruential generator of POSIX `lrand48`.
//!
//! The sequence continues from script to script, and starts like C's without a seed. Each engine has its own
//! generator, so a server with several engines seeds them differently.

use std::cell::Cell;

/// The generator's range, by which Redis scales numbers.
const RANGE: i64 = i32::MAX as i64;
const MULTIPLIER: u64 = 0x0005_DEEC_E66D;
const INCREMENT: u64 = 0xB;
/// The state without a seed.
const STATE_FIRST: u64 = 0x1234_ABCD_330E;
const STATE_MASK: u64 = (1 << 48) - 1;
/// The 16 bits that POSIX puts below the 32 bits of a seed.
const SEED_LOW: u64 = 0x330E;

/// The generator's state.
#[derive(Debug)]
pub(crate) struct Random(Cell<u64>);

impl Default for Random {
    fn default() -> Random {
        Random(Cell::new(STATE_FIRST))
    }
}

impl Random {
    pub(crate) fn seed(&self, seed: i32) {
        self.0.set((u64::from(seed as u32) << 16) | SEED_LOW);
    }

    /// A number in [0, 1).
    pub(crate) fn next(&self) -> f64 {
        let state = self.0.get().wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & STATE_MASK;
        self.0.set(state);
        let drawn = (state >> 17) as i64;
        (drawn % RANGE) as f64 / RANGE as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_what_lrand48_draws() {
        let random = Random::default();
        assert_eq!((random.next() * RANGE as f64).round() as i64, 851_401_618);
        random.seed(0);
        // srand48(0); lrand48() gives 366850414, 1610402240, 206956554.
        for expected in [366_850_414_i64, 1_610_402_240, 206_956_554] {
            assert_eq!((random.next() * RANGE as f64).round() as i64, expected);
        }
    }
}
