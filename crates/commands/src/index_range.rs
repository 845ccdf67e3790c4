//! Ranges of indexes as clients give them: both ends included, negative ones counted from the end.

use std::ops::Range;

/// The indexes from `start` to `stop` that exist in a sequence of `len` elements.
pub(crate) fn index_range(start: i64, stop: i64, len: usize) -> Range<usize> {
    let len = len as i64;
    let from_front = |index: i64| if index < 0 { len + index } else { index };
    let (start, stop) = (from_front(start).max(0), from_front(stop).min(len - 1));
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_clamped_to_what_there_is() {
        for (start, stop, len, expected) in [
            (0, -1, 3, 0..3),
            (-2, -1, 3, 1..3),
            (1, 1, 3, 1..2),
            (0, 100, 3, 0..3),
            (-100, 0, 3, 0..1),
            (2, 1, 3, 0..0),
            (3, 5, 3, 0..0),
            (0, -4, 3, 0..0),
            (0, -1, 0, 0..0),
            (i64::MIN, i64::MAX, 3, 0..3),
            (i64::MAX, i64::MAX, 3, 0..0),
            (i64::MAX, i64::MIN, 3, 0..0),
            (i64::MIN, i64::MIN, 3, 0..0),
        ] {
            assert_eq!(index_range(start, stop, len), expected, "{start} {stop} of {len}");
        }
    }
}
