//! LZF, the compression of strings (the stream of Marc Lehmann's liblzf).
//!
//! ```text
//! 000lllll                    l + 1 bytes as they are
//! lllooooo oooooooo           l + 2 bytes (1 <= l <= 6) from o + 1 bytes back
//! 111ooooo llllllll oooooooo  l + 9 bytes from o + 1 bytes back
//! ```

/// The most literal bytes in one run.
const LITERALS_MAX: usize = 32;
/// The shortest and longest repetition, and its greatest distance.
const MATCH_MIN: usize = 3;
const MATCH_MAX: usize = 264;
const DISTANCE_MAX: usize = 8192;
/// The bits of the hash of three bytes.
const HASH_BITS: u32 = 13;
/// The most bytes per compressed byte: three of them give [`MATCH_MAX`].
const EXPANSION_MAX: usize = MATCH_MAX / 3;

/// Finds repetitions. It is kept so that its memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Compressor {
    /// By hash, the last position of three such bytes, counted from 1 and from `base`. Lower ones belong to
    /// earlier texts.
    places: Vec<u32>,
    base: u32,
}

impl Compressor {
    /// Appends `text` compressed to `out`. If that takes `bytes_max` bytes or more, leaves `out` unchanged
    /// and returns false.
    pub(crate) fn compress(&mut self, text: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> bool {
        let Ok(length) = u32::try_from(text.len()) else { return false };
        if self.places.is_empty() || length >= u32::MAX - self.base {
            self.places = vec![0; 1 << HASH_BITS];
            self.base = 0;
        }
        let start = out.len();
        let (mut literals_from, mut at) = (0, 0);
        while at + MATCH_MIN <= text.len() {
            if out.len() - start + (at - literals_from) >= bytes_max {
                break;
            }
            match self.find(text, at) {
                Some((from, length)) => {
                    push_literals(&text[literals_from..at], out);
                    push_match(at - from - 1, length, out);
                    at += length;
                    literals_from = at;
                }
                None => at += 1,
            }
        }
        push_literals(&text[literals_from..], out);
        self.base += length;
        let is_smaller = out.len() - start < bytes_max;
        if !is_smaller {
            out.truncate(start);
        }
        is_smaller
    }

    /// Finds an earlier occurrence of the bytes at `at`: its position and length. Records the position `at`.
    fn find(&mut self, text: &[u8], at: usize) -> Option<(usize, usize)> {
        let three = u32::from_le_bytes([text[at], text[at + 1], text[at + 2], 0]);
        let hash = (three.wrapping_mul(0x9E37_79B1) >> (32 - HASH_BITS)) as usize;
        let place = std::mem::replace(&mut self.places[hash], self.base + at as u32 + 1);
        let from = place.checked_sub(self.base + 1)? as usize;
        if at - from > DISTANCE_MAX || text[from..from + MATCH_MIN] != text[at..at + MATCH_MIN] {
            return None;
        }
        let longest = MATCH_MAX.min(text.len() - at);
        Some((from, common(&text[from..], &text[at..at + longest])))
    }
}

/// The length of the common beginning of two texts. The first must not be shorter.
fn common(one: &[u8], other: &[u8]) -> usize {
    let words = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    let same = words.take_while(|(one, other)| one == other).count() * 8;
    let bytes = one[same..].iter().zip(&other[same..]);
    same + bytes.take_while(|(one, other)| one == other).count()
}

fn push_literals(bytes: &[u8], out: &mut Vec<u8>) {
    for run in bytes.chunks(LITERALS_MAX) {
        out.push(run.len() as u8 - 1);
        out.extend_from_slice(run);
    }
}

fn push_match(offset: usize, length: usize, out: &mut Vec<u8>) {
    let high = (offset >> 8) as u8;
    match length - 2 {
        short @ ..7 => out.push((short as u8) << 5 | high),
        long => out.extend_from_slice(&[7 << 5 | high, (long - 7) as u8]),
    }
    out.push(offset as u8);
}

/// Appends the `length` bytes of the compressed text `packed` to `out`; `None` if it has another length.
/// Memory grows with the bytes that result, not with `length`.
pub(crate) fn decompress(packed: &[u8], length: usize, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    out.reserve_exact(length.min(packed.len().saturating_mul(EXPANSION_MAX)));
    let mut rest = packed;
    while let Some((&head, mut after)) = rest.split_first() {
        let room = length - (out.len() - start);
        if head < 0x20 {
            let (run, after) = after.split_at_checked(usize::from(head) + 1)?;
            out.extend_from_slice(Some(run).filter(|run| run.len() <= room)?);
            rest = after;
            continue;
        }
        let mut count = usize::from(head >> 5) + 2;
        if count == 9 {
            count += usize::from(*after.split_off_first()?);
        }
        let offset = usize::from(head & 0x1f) << 8 | usize::from(*after.split_off_first()?);
        let from = (out.len() - start).checked_sub(offset + 1).filter(|_| count <= room)? + start;
        let end = out.len() + count;
        while out.len() < end {
            // A repetition copies the bytes that it has so far, which doubles them each time.
            let piece = (out.len() - from).min(end - out.len());
            out.extend_from_within(from..from + piece);
        }
        rest = after;
    }
    (out.len() - start == length).then_some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(text: &[u8], compressor: &mut Compressor) -> Option<usize> {
        let mut packed = b"before".to_vec();
        if !compressor.compress(text, text.len(), &mut packed) {
            assert_eq!(packed, b"before");
            return None;
        }
        let mut out = b"x".to_vec();
        decompress(&packed[6..], text.len(), &mut out).expect("what was compressed");
        assert_eq!(&out[1..], text);
        Some(packed.len() - 6)
    }

    #[test]
    fn repetitions_take_little() {
        let mut compressor = Compressor::default();
        assert_eq!(round_trip(&[b'a'; 100_000], &mut compressor), Some(2 + 379 * 3));
        assert_eq!(round_trip(b"abc", &mut compressor), None);
        assert!(round_trip(&b"hello world, ".repeat(1000), &mut compressor).is_some_and(|bytes| bytes < 200));
        let far: Vec<u8> =
            [&b"repeated far away"[..], &vec![0; DISTANCE_MAX - 17], b"repeated far away"].concat();
        assert!(round_trip(&far, &mut compressor).is_some());
    }

    #[test]
    fn places_of_earlier_texts_are_not_taken() {
        let mut compressor = Compressor { places: vec![0; 1 << HASH_BITS], base: u32::MAX - 40 };
        for _ in 0..3 {
            assert!(round_trip(b"abcabcabcabcabcabcabcabc", &mut compressor).is_some());
            assert!(round_trip(b"xbcabcabcabcabcabcabcabc", &mut compressor).is_some());
        }
    }

    #[test]
    fn what_stands_for_nothing_is_refused() {
        let none = |packed: &[u8], length: usize| {
            let mut out = Vec::new();
            assert_eq!(decompress(packed, length, &mut out), None, "{packed:?}");
            assert!(out.capacity() <= 1024, "{packed:?}");
        };
        none(&[0, b'a'], 2);
        none(&[0, b'a'], 0);
        none(&[1, b'a', b'b', 0, b'c'], 1);
        none(&[5, b'a'], 6);
        none(&[0, b'a', 0x20, 1], 4);
        none(&[0, b'a', 0x20], 4);
        none(&[0, b'a', 0xe0, 1], 11);
        none(&[0, b'a', 0xe0, 1, 0], usize::MAX);
        none(&[0, b'a', 0xe0, 1, 0], 5);
    }

    proptest! {
        #[test]
        fn what_is_compressed_comes_back(text in prop::collection::vec(0_u8..4, 0..3000)) {
            round_trip(&text, &mut Compressor::default());
        }

        #[test]
        fn any_bytes_are_taken(packed in prop::collection::vec(any::<u8>(), 0..200), length in 0_usize..5000) {
            let mut out = Vec::new();
            let _ = decompress(&packed, length, &mut out);
            assert!(out.len() <= length);
        }
    }
}
