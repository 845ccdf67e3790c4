//! The order of keys: memtier_benchmark's patterns.
//!
//! | pattern | keys |
//! |---|---|
//! | `R` | uniformly random |
//! | `G` | normally distributed around the middle |
//! | `Z` | the n-th most frequent key occurs 1/n^s times as often as the first |
//! | `S` | in sequence; each client starts at the first key |
//! | `P` | in sequence; each client has its own part |

use proactor::Entropy;

/// A pattern by its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Random,
    Gaussian,
    Zipf,
    Sequential,
    Parallel,
}

/// The keys from `min` to `max`, and the parameters of their distribution.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    pub(crate) min: u64,
    pub(crate) max: u64,
    /// Standard deviation of the normal distribution. 0: a sixth of the keys, so that nearly all draws are among them.
    pub(crate) deviation: f64,
    /// Median of the normal distribution. 0: the middle.
    pub(crate) median: u64,
    /// The exponent s of Zipf's law.
    pub(crate) exponent: f64,
}

/// One client's sequence of keys of a pattern.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pattern: Pattern,
    min: u64,
    count: u64,
    /// Of the normal distribution, relative to `min`.
    median: f64,
    deviation: f64,
    zipf: Option<Zipf>,
    next: u64,
}

/// Parses `R:S` and similar: the patterns of SET and of GET.
pub(crate) fn patterns(text: &str) -> Result<(Pattern, Pattern), String> {
    let letter = |letter: &str| match letter {
        "R" => Some(Pattern::Random),
        "G" => Some(Pattern::Gaussian),
        "Z" => Some(Pattern::Zipf),
        "S" => Some(Pattern::Sequential),
        "P" => Some(Pattern::Parallel),
        _ => None,
    };
    let both = text.split_once(':').and_then(|(set, get)| Some((letter(set)?, letter(get)?)));
    both.ok_or_else(|| "a key pattern is SET:GET, each one of R, G, Z, S, P; for instance G:G".to_owned())
}

impl Space {
    fn count(&self) -> u64 {
        self.max - self.min + 1
    }

    /// The keys of client `index` out of `clients`.
    pub(crate) fn keys(&self, pattern: Pattern, index: u64, clients: u64) -> Keys {
        let (mut min, mut count) = (self.min, self.count());
        if pattern == Pattern::Parallel {
            let part = (count / clients).max(1);
            min += (part * index) % count;
            count = if index + 1 == clients { self.max - min + 1 } else { part.min(self.max - min + 1) };
        }
        let median = if self.median == 0 { count as f64 / 2.0 } else { self.median as f64 - min as f64 };
        let deviation = if self.deviation == 0.0 { count as f64 / 6.0 } else { self.deviation };
        let zipf = (pattern == Pattern::Zipf).then(|| Zipf::new(count, self.exponent));
        Keys { pattern, min, count, median, deviation, zipf, next: 0 }
    }
}

impl Keys {
    /// The next key's number.
    pub(crate) fn next(&mut self, random: &mut Entropy) -> u64 {
        let offset = match self.pattern {
            Pattern::Random => random.below(self.count),
            Pattern::Sequential | Pattern::Parallel => {
                let offset = self.next;
                self.next = (offset + 1) % self.count;
                offset
            }
            Pattern::Gaussian => self.bell(random),
            Pattern::Zipf => self.zipf.as_ref().map_or(0, |zipf| zipf.draw(random)),
        };
        self.min + offset
    }

    /// A normally distributed offset (Box-Muller). Draws outside the keys are repeated.
    fn bell(&self, random: &mut Entropy) -> u64 {
        for _ in 0..100 {
            let radius = (-2.0 * (1.0 - unit(random)).ln()).sqrt();
            let drawn = self.median + self.deviation * radius * (std::f64::consts::TAU * unit(random)).cos();
            if drawn >= 0.0 && drawn < self.count as f64 {
                return drawn as u64;
            }
        }
        // The distribution hardly overlaps the keys.
        random.below(self.count)
    }
}

/// A random number from 0 to below 1.
fn unit(random: &mut Entropy) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Zipf's law by rejection inversion, in constant time and memory (Hörmann and Derflinger, "Rejection-inversion to generate
/// variates from monotone discrete distributions", 1996).
#[derive(Clone, Debug)]
struct Zipf {
    count: u64,
    exponent: f64,
    area_first: f64,
    area_last: f64,
    accept: f64,
}

impl Zipf {
    fn new(count: u64, exponent: f64) -> Zipf {
        let mut zipf = Zipf { count, exponent, area_first: 0.0, area_last: 0.0, accept: 0.0 };
        zipf.area_first = zipf.area(1.5) - 1.0;
        zipf.area_last = zipf.area(count as f64 + 0.5);
        zipf.accept = 2.0 - zipf.area_inverse(zipf.area(2.5) - zipf.height(2.0));
        zipf
    }

    /// A rank, counted from 0.
    fn draw(&self, random: &mut Entropy) -> u64 {
        loop {
            let area = self.area_last + unit(random) * (self.area_first - self.area_last);
            let x = self.area_inverse(area);
            let rank = (x + 0.5).floor().clamp(1.0, self.count as f64);
            if rank - x <= self.accept || area >= self.area(rank + 0.5) - self.height(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn height(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    /// The integral of `height`.
    fn area(&self, x: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power.abs() < 1e-9 { x.ln() } else { (x.powf(power) - 1.0) / power }
    }

    fn area_inverse(&self, area: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power.abs() < 1e-9 { area.exp() } else { (area * power + 1.0).max(0.0).powf(1.0 / power) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(min: u64, max: u64) -> Space {
        Space { min, max, deviation: 0.0, median: 0, exponent: 1.0 }
    }

    fn drawn(space: &Space, pattern: Pattern, count: usize) -> Vec<u64> {
        let mut random = Entropy::from_seed(1);
        let mut keys = space.keys(pattern, 0, 1);
        (0..count).map(|_| keys.next(&mut random)).collect()
    }

    #[test]
    fn patterns_by_their_letters() {
        assert_eq!(patterns("G:S"), Ok((Pattern::Gaussian, Pattern::Sequential)));
        assert!(["R", "R:X", "r:r", ""].iter().all(|text| patterns(text).is_err()));
    }

    #[test]
    fn every_pattern_keeps_within_its_keys() {
        for pattern in
            [Pattern::Random, Pattern::Gaussian, Pattern::Zipf, Pattern::Sequential, Pattern::Parallel]
        {
            for (min, max) in [(5, 5), (0, 1), (10, 19), (1, 1_000_000)] {
                let keys = drawn(&space(min, max), pattern, 2000);
                assert!(keys.iter().all(|key| (min..=max).contains(key)), "{pattern:?} of {min} to {max}");
            }
        }
    }

    #[test]
    fn sequences_go_round_and_parts_cover_everything() {
        assert_eq!(drawn(&space(3, 5), Pattern::Sequential, 5), [3, 4, 5, 3, 4]);
        let mut random = Entropy::from_seed(1);
        let mut all: Vec<u64> = Vec::new();
        for client in 0..3 {
            let mut keys = space(0, 9).keys(Pattern::Parallel, client, 3);
            let length = keys.count;
            all.extend((0..length).map(|_| keys.next(&mut random)));
        }
        assert_eq!(all, (0..10).collect::<Vec<u64>>());
    }

    #[test]
    fn the_bell_has_its_middle_and_width() {
        let keys =
            drawn(&Space { median: 300, deviation: 50.0, ..space(0, 1000) }, Pattern::Gaussian, 20_000);
        let share = |from, to| keys.iter().filter(|key| (from..to).contains(*key)).count() as f64 / 20_000.0;
        assert!((share(250, 350) - 0.683).abs() < 0.02, "within one deviation: {}", share(250, 350));
        assert!((share(0, 300) - 0.5).abs() < 0.02, "below the median: {}", share(0, 300));
    }

    #[test]
    fn zipf_draws_each_rank_as_often_as_the_law_says() {
        for exponent in [0.5, 1.0, 1.5] {
            let draws = 200_000;
            let keys = drawn(&Space { exponent, ..space(0, 99) }, Pattern::Zipf, draws);
            let sum: f64 = (1..=100).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for rank in [1u64, 2, 3, 10, 50, 100] {
                let expected = (rank as f64).powf(-exponent) / sum * draws as f64;
                let found = keys.iter().filter(|key| **key == rank - 1).count() as f64;
                let tolerance = 5.0 * expected.sqrt();
                assert!(
                    (found - expected).abs() < tolerance,
                    "s {exponent}, rank {rank}: {found}, not {expected:.0}"
                );
            }
        }
    }
}
