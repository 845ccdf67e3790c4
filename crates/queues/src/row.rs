//! What is known of one queue at one moment, without entering its shard.

/// Upper bounds of the classes into which waiting times are counted, in milliseconds; longer ones are in none of them.
pub const WAIT_BOUNDS_MS: [u64; 12] =
    [1, 5, 25, 100, 500, 1_000, 5_000, 30_000, 120_000, 600_000, 3_600_000, 21_600_000];

/// What the elements of a queue are to the system that put them there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// They wait for a worker.
    Waiting,
    /// A worker has them.
    Active,
    /// They are due at a time.
    Scheduled,
    /// They failed and are tried again at a time.
    Retry,
    /// They failed for good.
    Dead,
    /// They are done.
    Completed,
    /// The system has paused the queue they were in.
    Paused,
}

impl State {
    /// The name that users see.
    pub fn name(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Active => "active",
            State::Scheduled => "scheduled",
            State::Retry => "retry",
            State::Dead => "dead",
            State::Completed => "completed",
            State::Paused => "paused",
        }
    }
}

/// How long elements had waited when they were taken.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// How many waited at most as long as each of [`WAIT_BOUNDS_MS`], and longer than the one before.
    pub counts: [u64; WAIT_BOUNDS_MS.len()],
    /// How many were taken in all.
    pub count: u64,
    /// How long all of them waited together.
    pub sum_ms: u64,
    /// Of those taken in the last minute: the median, the 99th percentile and the longest. `None` if none was taken.
    pub last_minute: Option<[u64; 3]>,
}

/// A queue, or a set of jobs beside one.
#[derive(Clone, Debug)]
pub struct Row {
    /// The key: any bytes.
    pub name: Box<[u8]>,
    /// Its database.
    pub db: u32,
    /// The system that names its keys so: `sidekiq`, `bullmq`, `celery` …, or `custom` for a pattern of the operator's.
    pub system: &'static str,
    /// What its elements are.
    pub state: State,
    /// How many elements there are.
    pub depth: u64,
    /// How long ago the oldest came; of a sorted set of what is due, how late the first one is. `None` if there is none, or it is not late.
    pub oldest_ms: Option<u64>,
    /// Elements that come each second, over 10 s, 1 min and 10 min.
    pub in_per_s: [f64; 3],
    /// Elements that are taken each second, over the same.
    pub out_per_s: [f64; 3],
    /// Elements that came since the server knows the queue.
    pub pushed: u64,
    /// Elements that were taken since then.
    pub popped: u64,
    /// Clients that wait for elements.
    pub waiters: u64,
    /// `QUEUE PAUSE` holds it.
    pub is_paused: bool,
    /// Bytes of memory of its elements, as of about a second ago.
    pub memory_bytes: u64,
    /// Waiting times.
    pub waits: Waits,
}
