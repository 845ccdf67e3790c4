//! Measures what a scrape of `/metrics` and of `/queues.json` costs, by the number of queues:
//! `cargo run --release -p httpd --example scrape_cost`

#[path = "../tests/made_up/mod.rs"]
mod made_up;

use std::time::{Duration, Instant};

use made_up::{MadeUp, get, row};

/// Requests of each kind.
const ROUNDS: usize = 200;

fn main() {
    for queue_count in [0, 200, 1000, 10_000] {
        let names = (0..queue_count).map(|number| format!("queue:some-name-{number}"));
        let port = MadeUp::serve(names.map(|name| row(name.as_bytes(), 7)).collect());
        for path in ["/metrics", "/queues.json"] {
            let mut body_bytes = 0;
            let mut took: Vec<Duration> = (0..ROUNDS)
                .map(|_| {
                    let began = Instant::now();
                    body_bytes = get(port, path).len();
                    began.elapsed()
                })
                .collect();
            took.sort_unstable();
            let (median, longest) = (took[ROUNDS / 2], took[ROUNDS - 1]);
            println!(
                "{queue_count:6} queues  {path:13} {body_bytes:8} bytes  median {median:?}  longest {longest:?}"
            );
        }
    }
}
