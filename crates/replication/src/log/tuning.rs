//! Sizes that are invisible from outside but decide which code runs.

use proactor::Entropy;

/// How much is done at a time. Small sizes interleave more, so test builds use small ones, and a simulation
/// draws each at random.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// The sizes of snapshots.
    pub persistence: persistence::Tuning,
    /// The sizes of the journal.
    pub journal: journal::Tuning,
    /// Records per slice of work for a snapshot.
    pub slice_records_max: usize,
    /// Shards with at least this many keys rarely have their records in a near cache.
    pub keys_min: usize,
    /// How long the commands of one client may run before other clients get their turn.
    pub serving_ns_max: u64,
    /// One turn in this many moves any connection to any thread; 0: only connections that have to move.
    pub moves_one_in: u64,
}

impl Tuning {
    const LARGE: Tuning = Tuning {
        persistence: persistence::Tuning::LARGE,
        journal: journal::Tuning::BUILT,
        slice_records_max: 1000,
        keys_min: 512,
        serving_ns_max: 1_000_000,
        moves_one_in: 0,
    };
    /// Small sizes, except for the journal, whose segments are files that users see.
    const SMALL: Tuning = Tuning {
        persistence: persistence::Tuning::SMALL,
        slice_records_max: 6,
        keys_min: 1,
        serving_ns_max: 100_000,
        ..Tuning::LARGE
    };
    /// The sizes of this build.
    pub const BUILT: Tuning = if cfg!(debug_assertions) { Tuning::SMALL } else { Tuning::LARGE };

    /// The sizes of a simulation: each size is small more often than not, otherwise large. Segments of the
    /// journal are always small.
    pub fn drawn(entropy: &mut Entropy) -> Tuning {
        let (small, large) = (Tuning::SMALL, Tuning::LARGE);
        let mut from = |small: usize, large: usize| if entropy.below(3) < 2 { small } else { large };
        let (few, many) = (small.persistence, large.persistence);
        let piece = from(0, 1);
        Tuning {
            persistence: persistence::Tuning {
                chunk_bytes: from(few.chunk_bytes, many.chunk_bytes),
                waiting_bytes_per_thread: from(few.waiting_bytes_per_thread, many.waiting_bytes_per_thread),
                whole_len_max: from(few.whole_len_max, many.whole_len_max),
                part_bytes: from(few.part_bytes as usize, many.part_bytes as usize) as u64,
                piece_bytes_min: [few.piece_bytes_min, many.piece_bytes_min][piece],
                piece_bytes_max: [few.piece_bytes_max, many.piece_bytes_max][piece],
            },
            slice_records_max: from(small.slice_records_max, large.slice_records_max),
            keys_min: from(small.keys_min, large.keys_min),
            journal: segments(entropy),
            // No time passes while commands run in a simulation, so this means one command, or any number.
            serving_ns_max: [0, large.serving_ns_max][entropy.below(2) as usize],
            moves_one_in: [0, 5, 100][entropy.below(3) as usize],
        }
    }
}

/// Segments that fill up soon: some hold a few frames, and some not even one slice.
fn segments(entropy: &mut Entropy) -> journal::Tuning {
    let payload_bytes_max = [100, 1_000, 8_000][entropy.below(3) as usize];
    let segment_bytes_first = [12_288, 16_384, 65_536][entropy.below(3) as usize];
    journal::Tuning {
        segment_bytes_first,
        segment_bytes: segment_bytes_first << (2 * entropy.below(2)),
        payload_bytes_max,
        spares: 1 + entropy.below(2) as usize,
        free_max: entropy.below(3) as usize,
        write_bytes: [4_096, 40_000][entropy.below(2) as usize],
    }
}
