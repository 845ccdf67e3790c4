//! Sizes that are invisible from outside but decide which code runs.

/// Amounts of work that are done at a time. Small ones interleave more, for tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// The size at which a chunk is sent to the writer. Each scribe has one smaller chunk.
    pub chunk_bytes: usize,
    /// Limit of the bytes that wait to be written, for each thread. Records that must be captured in spite of
    /// it, and a last chunk, may exceed it.
    pub waiting_bytes_per_thread: usize,
    /// Values with more elements are captured in parts.
    pub whole_len_max: usize,
    /// Bytes of a part; about 20 µs of work, more if strings can be compressed.
    pub part_bytes: u64,
    /// The least size of a loaded piece, except for the last one, and of a batch of slices.
    pub piece_bytes_min: usize,
    /// The size at which a piece is handed over before it is complete.
    pub piece_bytes_max: usize,
}

impl Tuning {
    /// The sizes for users.
    pub const LARGE: Tuning = Tuning {
        chunk_bytes: 32 * 1024,
        waiting_bytes_per_thread: 1024 * 1024,
        whole_len_max: 512,
        part_bytes: 16 * 1024,
        piece_bytes_min: 256 * 1024,
        piece_bytes_max: 1024 * 1024,
    };
    /// The sizes for tests.
    pub const SMALL: Tuning = Tuning {
        chunk_bytes: 1024,
        waiting_bytes_per_thread: 4 * 1024,
        whole_len_max: 12,
        part_bytes: 64,
        piece_bytes_min: 256,
        piece_bytes_max: 4 * 1024,
    };
}
