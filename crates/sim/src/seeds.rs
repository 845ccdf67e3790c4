//! Which seeds a test runs, and how a failure says its own.

use std::time::{Duration, Instant};

use proactor::Entropy;

/// Runs `simulate` with seeds from 1 on, `count` of them; with `DARTER_SECONDS` for so long instead, from `DARTER_SEED`
/// on if that is set. `DARTER_SEED` alone runs that seed only. A seed that fails is printed.
pub fn for_each_seed(test: &str, count: u64, mut simulate: impl FnMut(Entropy)) {
    let (first, seconds) = (number("DARTER_SEED"), number("DARTER_SECONDS"));
    let start = Instant::now();
    let mut seed = first.unwrap_or(1);
    let mut done = 0;
    loop {
        let report = Report { test, seed };
        simulate(Entropy::from_seed(seed));
        drop(report);
        done += 1;
        seed += 1;
        let is_enough = match (seconds, first) {
            (Some(seconds), _) => start.elapsed() >= Duration::from_secs(seconds),
            (None, Some(_)) => true,
            (None, None) => done >= count,
        };
        if is_enough {
            break;
        }
    }
    println!("{test}: {done} seeds, up to {}", seed - 1);
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
