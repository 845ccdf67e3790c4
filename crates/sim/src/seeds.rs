//! Which seeds a test runs, and how a failure reports its seed.

use std::time::{Duration, Instant};

use proactor::Entropy;

/// Runs `simulate` with the seeds from 1 to `count`. With `DARTER_SECONDS`, runs for that time instead, starting at
/// `DARTER_SEED` if that is set. `DARTER_SEED` alone runs only that seed, twice: the first world of a process has a fresh heap,
/// and may behave differently from later ones. A failing seed is printed.
pub fn for_each_seed(test: &str, count: u64, mut simulate: impl FnMut(Entropy)) {
    let (first, seconds) = (number("DARTER_SEED"), number("DARTER_SECONDS"));
    let start = Instant::now();
    let seeds: Box<dyn Iterator<Item = u64>> = match (seconds, first) {
        (Some(seconds), _) => {
            let is_time = move |_: &u64| start.elapsed() < Duration::from_secs(seconds);
            Box::new((first.unwrap_or(1)..).take_while(is_time))
        }
        (None, Some(seed)) => Box::new(std::iter::repeat_n(seed, 2)),
        (None, None) => Box::new(1..=count),
    };
    let (mut done, mut last) = (0, 0);
    for seed in seeds {
        let report = Report { test, seed };
        simulate(Entropy::from_seed(seed));
        drop(report);
        (done, last) = (done + 1, seed);
    }
    println!("{test}: {done} worlds, the last of seed {last}");
}

/// Whether the environment says which seeds tests run, or for how long. They may be too few for what is rare to happen.
pub fn are_seeds_chosen() -> bool {
    ["DARTER_SEED", "DARTER_SECONDS"].into_iter().any(|name| std::env::var_os(name).is_some())
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

struct Report<'a> {
    test: &'a str,
    seed: u64,
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{} failed; again with DARTER_SEED={}", self.test, self.seed);
        }
    }
}
