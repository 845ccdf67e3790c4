//! Intsets: sets of integers, all of the width that the widest needs.
//!
//! ```text
//! bytes of each(4, LE): 2, 4 or 8    count(4, LE)    integers, LE, ascending
//! ```

use super::take;

const DAMAGED: &str = "an intset is damaged";

/// The integers of an intset.
pub(crate) fn integers(bytes: &[u8]) -> Result<impl Iterator<Item = i64>, &'static str> {
    let mut rest = bytes;
    let mut number = || take(&mut rest).map(u32::from_le_bytes).ok_or(DAMAGED);
    let (width, count) = (number()? as usize, number()? as usize);
    if ![2, 4, 8].contains(&width) || count.checked_mul(width) != Some(rest.len()) {
        return Err(DAMAGED);
    }
    let numbers = rest.chunks_exact(width).map(move |chunk| {
        let mut wide = [0; 8];
        wide[8 - width..].copy_from_slice(chunk);
        i64::from_le_bytes(wide) >> (64 - 8 * width)
    });
    if numbers.clone().is_sorted_by(|one, next| one < next) { Ok(numbers) } else { Err(DAMAGED) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_each_width() {
        let check = |bytes: &[u8], expected: Option<&[i64]>| {
            let found = integers(bytes).ok().map(Iterator::collect::<Vec<_>>);
            assert_eq!(found.as_deref(), expected, "{bytes:?}");
        };
        check(b"\x02\0\0\0\x02\0\0\0\xff\xff\x01\0", Some(&[-1, 1]));
        check(b"\x04\0\0\0\x01\0\0\0\0\0\x01\0", Some(&[65_536]));
        check(b"\x08\0\0\0\x01\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff", Some(&[-2]));
        check(b"\x02\0\0\0\0\0\0\0", Some(&[]));
        check(b"\x02\0\0\0\x02\0\0\0\x01\0\xff\xff", None);
        check(b"\x02\0\0\0\x02\0\0\0\x01\0\x01\0", None);
        check(b"\x02\0\0\0\x02\0\0\0\xff\xff\x01", None);
        check(b"\x03\0\0\0\x01\0\0\0\xff\xff\x01", None);
        check(b"\x08\0\0\0\0\0\0\x20\0\0\0\0\0\0\0\0", None);
        check(b"\x08\0\0\0\0\0\0", None);
    }
}
