//! A queue for tests.

use jobs::queues::{Row, State, System, Waits};

/// A queue of this depth.
pub(crate) fn row(name: &str, depth: u64) -> Row {
    Row {
        name: name.as_bytes().into(),
        db: 0,
        system: System::Sidekiq,
        state: State::Waiting,
        depth,
        score_ms: Some(1000.0),
        oldest_ms: (depth > 0).then_some(1500),
        due_in_ms: None,
        in_per_s: [1.0, 2.0, 3.0],
        out_per_s: [4.0, 5.0, 6.00049],
        pushed: 10 + depth,
        popped: 10,
        waiters: 2,
        is_paused: false,
        memory_bytes: 100 * depth,
        waits: Waits::default(),
        jobs: None,
    }
}
