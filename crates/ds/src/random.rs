//! A small seeded random number generator: SRANDMEMBER, SPOP, RANDOMKEY, sampling, the simulator.
//!
//! xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021), its state filled by
//! splitmix64 as its authors advise. Pure: the same seed gives the same numbers everywhere. Not for secrets.

/// The finalizer of splitmix64: a bijection that spreads every bit of `number` over all bits.
#[inline]
pub const fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Maps a random number to `0..n` by its top bits; the bias is below n / 2^64. Panics if `n` is 0.
#[inline]
pub fn reduce(random: u64, n: usize) -> usize {
    assert!(n > 0, "no number is below zero");
    ((u128::from(random) * n as u128) >> 64) as usize
}

/// A random number generator.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// A generator with this seed.
    pub const fn new(seed: u64) -> Self {
        let (a, b, c) = (mix(seed), mix(seed.wrapping_add(1)), mix(seed.wrapping_add(2)));
        // `mix` is a bijection, so at most one of the three is zero and the state never is.
        Self { state: [a, b, c, mix(a)] }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A uniformly distributed number in `0..n` (Lemire, "Fast random integer generation in an interval", 2019). Panics
    /// if `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "no number is below zero");
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            let unfair = n.wrapping_neg() % n;
            while (product as u64) < unfair {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// Shuffles `items` uniformly.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_numbers() {
        let (mut one, mut two, mut other) = (Random::new(5), Random::new(5), Random::new(6));
        assert!((0..100).all(|_| one.next_u64() == two.next_u64()));
        assert!((0..100).all(|_| one.next_u64() != other.next_u64()));
    }

    #[test]
    fn below_is_fair_and_in_range() {
        let mut random = Random::new(1);
        for n in [1_u64, 2, 3, 7, 10, 100] {
            let mut counts = vec![0_u64; n as usize];
            for _ in 0..n * 1000 {
                counts[random.below(n) as usize] += 1;
            }
            assert!(counts.iter().all(|&count| (850..1150).contains(&count)), "{n}: {counts:?}");
        }
        let huge = u64::MAX / 2 + 2;
        assert!((0..1000).all(|_| random.below(huge) < huge));
        assert_eq!((reduce(0, 5), reduce(u64::MAX, 5), reduce(1 << 63, 4)), (0, 4, 2));
    }

    #[test]
    fn shuffle_reaches_every_order_equally() {
        let mut random = Random::new(2);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..24_000 {
            let mut items = [0, 1, 2, 3];
            random.shuffle(&mut items);
            *counts.entry(items).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 24);
        assert!(counts.values().all(|&count| (850..1150).contains(&count)), "{counts:?}");
        random.shuffle::<u8>(&mut []);
    }
}
