//! Sizes that are invisible from outside but decide which code runs.

/// How much is done at a time. Where tests are to come between, less is much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// A chunk leaves when it has so many bytes; each scribe has one that does not.
    pub chunk_bytes: usize,
    /// What may wait to be written, for each thread. Records that change in spite of it, and a last one, come on top.
    pub waiting_bytes_per_thread: usize,
    /// Values of more elements are taken in parts.
    pub whole_len_max: usize,
    /// Bytes of a part; about 20 us, some more where strings can be compressed.
    pub part_bytes: u64,
    /// A piece that is loaded has at least so many bytes, but for the last one, and so have slices that are applied together.
    pub piece_bytes_min: usize,
    /// One that has so many is handed over before it is complete.
    pub piece_bytes_max: usize,
}

impl Tuning {
    /// What is good for users.
    pub const LARGE: Tuning = Tuning {
        chunk_bytes: 32 * 1024,
        waiting_bytes_per_thread: 1024 * 1024,
        whole_len_max: 512,
        part_bytes: 16 * 1024,
        piece_bytes_min: 256 * 1024,
        piece_bytes_max: 1024 * 1024,
    };
    /// What is good for tests.
    pub const SMALL: Tuning = Tuning {
        chunk_bytes: 1024,
        waiting_bytes_per_thread: 4 * 1024,
        whole_len_max: 12,
        part_bytes: 64,
        piece_bytes_min: 256,
        piece_bytes_max: 4 * 1024,
    };
}
