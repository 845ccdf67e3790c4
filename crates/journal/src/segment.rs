//! A segment: one file of frames.
//!
//! Its name is `journal-<id>-<number>.seg`: the journal's id in 16 hexadecimal digits, the number in decimal. The
//! segments of a journal are read in the order of their numbers. The first ones are small, and later ones larger. A
//! segment is allocated at its full length, with its name durable, before the manifest lists it and before it is used.
//! If each slice must be durable before its reply, the segment is also filled with zeros, which makes later writes
//! cheaper to make durable. A segment that is no longer needed is renamed and reused as it is: its old frames do not
//! fit by slice and chain. No segment ever becomes shorter, so a segment shorter than in the manifest was cut.
//!
//! Not here: frames (`frame.rs`), and which segments exist (`manifest.rs`).

use std::fmt;
use std::str::FromStr;

use effectlog::{Lsn, StreamPosition};

use crate::frame::{PAYLOAD_BYTES_MAX, padded_bytes};

/// A segment for which the log waits is up to four times as long as this, or as long as the log.
const SHORT_BYTES: u64 = 2 << 20;

/// Sizes and counts. Tests and the simulation choose smaller ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// Bytes of the first segments. Later ones grow with the log, see [`Tuning::next_segment_bytes`].
    pub segment_bytes_first: u64,
    /// Bytes of the largest segments.
    pub segment_bytes: u64,
    /// The largest payload of a frame: up to [`PAYLOAD_BYTES_MAX`], so that a frame fits into a segment.
    pub payload_bytes_max: usize,
    /// The number of segments that are kept ready.
    pub spares: usize,
    /// The number of unneeded segments that are kept beside them, to become spares.
    pub free_max: usize,
    /// The approximate size of a write.
    pub write_bytes: usize,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning::BUILT
    }
}

impl Tuning {
    /// The values of a server.
    pub const BUILT: Tuning = Tuning {
        segment_bytes_first: 2 << 20,
        segment_bytes: 64 << 20,
        payload_bytes_max: PAYLOAD_BYTES_MAX,
        spares: 2,
        free_max: 4,
        write_bytes: 2 << 20,
    };

    pub(crate) fn check(&self) {
        assert!((1..=PAYLOAD_BYTES_MAX).contains(&self.payload_bytes_max));
        assert!(self.can_use(self.segment_bytes_first), "a frame fits into a segment");
        assert!(self.segment_bytes_first <= self.segment_bytes);
    }

    /// Whether a segment of this many bytes has room for any frame.
    pub(crate) fn can_use(&self, segment_bytes: u64) -> bool {
        padded_bytes(self.payload_bytes_max) as u64 <= segment_bytes
    }

    /// The size of the next segment after a log of `log_bytes`, whose largest segment has `largest_bytes`: a quarter of
    /// the log, so that a small log takes little space, and a large one has few segments. If the log waits for the
    /// segment (`is_short`), segments were too small for its speed.
    pub(crate) fn next_segment_bytes(&self, log_bytes: u64, largest_bytes: u64, is_short: bool) -> u64 {
        let wanted =
            if is_short { log_bytes.max(4 * SHORT_BYTES).min(4 * largest_bytes) } else { log_bytes / 4 };
        let floor = 1 << wanted.max(1).ilog2();
        floor.clamp(self.segment_bytes_first, self.segment_bytes)
    }
}

/// The name of a segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SegmentName {
    /// Its journal.
    pub journal_id: u64,
    /// Its number.
    pub number: u64,
}

impl fmt::Display for SegmentName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "journal-{:016x}-{}.seg", self.journal_id, self.number)
    }
}

impl FromStr for SegmentName {
    type Err = ();

    /// Only a text in exactly this form is a name.
    fn from_str(text: &str) -> Result<SegmentName, ()> {
        let parts = text.strip_prefix("journal-").and_then(|rest| rest.strip_suffix(".seg"));
        let (id, number) = parts.and_then(|parts| parts.split_once('-')).ok_or(())?;
        let journal_id = u64::from_str_radix(id, 16).map_err(drop)?;
        let name = SegmentName { journal_id, number: number.parse().map_err(drop)? };
        if name.to_string() == text { Ok(name) } else { Err(()) }
    }
}

/// The state before the first frame of a segment. With it, a frame can be checked without the segments before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentStart {
    /// The segment's number.
    pub number: u64,
    /// The incarnation in which it was begun.
    pub incarnation: u32,
    /// The state of the log before its first frame.
    pub place: FramePlace,
}

/// A place between two frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FramePlace {
    /// The slice of the next frame.
    pub slice: Lsn,
    /// The position of that frame's payload in the stream.
    pub position: StreamPosition,
    /// The checksum of the head of the frame before.
    pub checksum: u64,
    /// Whether the slice has frames before this place.
    pub is_within_slice: bool,
}

impl FramePlace {
    /// The last slice that is complete before this place.
    pub fn last_slice(&self) -> Lsn {
        self.slice.before()
    }

    /// Whether all slices from `slice` on begin at this place or behind it.
    pub fn is_before_slice(&self, slice: Lsn) -> bool {
        self.slice < slice || self.slice == slice && !self.is_within_slice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_grow_with_the_log_and_faster_if_it_waits() {
        let next = |log_mib: u64, largest_mib: u64, is_short| {
            Tuning::BUILT.next_segment_bytes(log_mib << 20, largest_mib << 20, is_short) >> 20
        };
        assert_eq!([0, 2, 8, 31, 32, 64, 300].map(|log| next(log, 8, false)), [2, 2, 2, 4, 8, 16, 64]);
        assert_eq!([2, 8, 16, 64].map(|largest| next(2, largest, true)), [8, 8, 8, 8]);
        assert_eq!([2, 8, 16, 64].map(|largest| next(40, largest, true)), [8, 32, 32, 32]);
        let all_alike = Tuning { segment_bytes_first: 12_288, segment_bytes: 12_288, ..Tuning::BUILT };
        assert_eq!(all_alike.next_segment_bytes(1 << 40, 1, true), 12_288);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        let name = SegmentName { journal_id: 0x1a, number: 12 };
        assert_eq!(name.to_string(), "journal-000000000000001a-12.seg");
        assert_eq!(name.to_string().parse(), Ok(name));
        for other in [
            "journal-000000000000001a-012.seg",
            "journal-000000000000001A-12.seg",
            "journal-00000000000001a-12.seg",
            "journal-000000000000001a-12.seg.tmp",
            "journal-000000000000001a-+2.seg",
            "journal-000000000000001a.seg",
            "journal.manifest",
            "",
        ] {
            assert_eq!(other.parse::<SegmentName>(), Err(()), "{other}");
        }
    }

    #[test]
    fn a_place_knows_which_slices_are_behind_it() {
        let between = FramePlace {
            slice: Lsn::new(5),
            position: StreamPosition::START,
            checksum: 0,
            is_within_slice: false,
        };
        let within = FramePlace { is_within_slice: true, ..between };
        assert!(between.is_before_slice(Lsn::new(5)) && !between.is_before_slice(Lsn::new(4)));
        assert!(!within.is_before_slice(Lsn::new(5)) && within.is_before_slice(Lsn::new(6)));
    }
}
