//! The only source of randomness.
//!
//! [`Entropy`] is xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2019),
//! seeded by the operating system or, in a simulation, by its seed. It is fast, but not for secrets. Those
//! come from [`Entropy::secret`], which asks the operating system each time unless the run is simulated.

use std::io;

use crate::sys;

/// One thread's random numbers.
#[derive(Clone, Debug)]
pub struct Entropy {
    state: [u64; 4],
    is_simulated: bool,
}

impl Entropy {
    /// A generator seeded by the operating system.
    pub fn from_os() -> io::Result<Entropy> {
        let mut seed = [0; 8];
        sys::random_bytes(&mut seed)?;
        Ok(Entropy { is_simulated: false, ..Entropy::from_seed(u64::from_ne_bytes(seed)) })
    }

    /// A generator that yields the same numbers for the same seed, and the same secrets.
    pub fn from_seed(seed: u64) -> Entropy {
        // SplitMix64 spreads the seed over the state, as the authors advise; it never yields four zeros.
        let mut counter = seed;
        let state = std::array::from_fn(|_| {
            counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = counter;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        });
        Entropy { state, is_simulated: true }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.state;
        let result = s0.wrapping_add(*s3).rotate_left(23).wrapping_add(*s0);
        let shifted = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= shifted;
        *s3 = s3.rotate_left(45);
        result
    }

    /// A number below `bound`, which is not 0. The bias is below `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True with a probability of 1 in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Fills `into` with unpredictable bytes (run ids, passwords).
    pub fn secret(&mut self, into: &mut [u8]) -> io::Result<()> {
        if !self.is_simulated {
            return sys::random_bytes(into);
        }
        for bytes in into.chunks_mut(8) {
            bytes.copy_from_slice(&self.next_u64().to_ne_bytes()[..bytes.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_everything() {
        let numbers = |seed| {
            let mut entropy = Entropy::from_seed(seed);
            let mut secret = [0; 11];
            entropy.secret(&mut secret).expect("simulated secrets need no system call");
            (entropy.next_u64(), secret)
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_it() {
        let mut entropy = Entropy::from_os().expect("the kernel has random bytes");
        let mut seen = [false; 7];
        for _ in 0..1_000 {
            seen[entropy.below(7) as usize] = true;
        }
        assert_eq!(seen, [true; 7]);
    }
}
