//! A sorted set of integers, as narrow as its widest member: the form of small sets of numbers.
//!
//! Members take 2, 4 or 8 bytes each. A member that does not fit widens all of them; removing it narrows
//! nothing, because a set that had wide members will probably get them again. Members are found by binary
//! search, and stored as bytes like other small collections (`packed`).
//!
//! Invariant: strictly ascending. Not here: when a set stops being one of integers, see [`Set`](crate::set::Set).

use crate::mover::{Mover, move_vec};
use std::cmp::Ordering;

use crate::packed;

/// Parses an integer in its canonical form: no sign other than a minus, no leading zeros, no `-0`. Returns `None` for
/// any other text.
pub(crate) fn parse_canonical(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    digits.iter().try_fold(0_i64, |number, &digit| {
        let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
        let number = number.checked_mul(10)?;
        if is_negative { number.checked_sub(digit) } else { number.checked_add(digit) }
    })
}

/// A sorted set of integers, owned.
#[derive(Clone, Debug)]
pub(crate) struct Intset {
    /// Little-endian.
    bytes: Vec<u8>,
    width: Width,
}

/// A borrowed [`Intset`], wherever its bytes are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntsetRef<'a> {
    bytes: &'a [u8],
    width: Width,
}

/// Bytes per member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub(crate) enum Width {
    Two = 2,
    Four = 4,
    Eight = 8,
}

impl Width {
    fn of(number: i64) -> Self {
        match number {
            n if i16::try_from(n).is_ok() => Self::Two,
            n if i32::try_from(n).is_ok() => Self::Four,
            _ => Self::Eight,
        }
    }

    fn bytes(self) -> usize {
        self as usize
    }
}

impl<'a> IntsetRef<'a> {
    pub(crate) fn new(bytes: &'a [u8], width: Width) -> Self {
        Self { bytes, width }
    }

    /// Number of members.
    pub(crate) fn len(self) -> usize {
        self.bytes.len() / self.width.bytes()
    }

    /// True if there is no member.
    pub(crate) fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn width(self) -> Width {
        self.width
    }

    /// The members as bytes.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// True if `number` is a member.
    pub(crate) fn contains(self, number: i64) -> bool {
        self.search(number).is_ok()
    }

    /// The member at `index` in ascending order.
    pub(crate) fn get(self, index: usize) -> Option<i64> {
        let width = self.width.bytes();
        let bytes = self.bytes.get(index * width..(index + 1) * width)?;
        Some(match *bytes {
            [a, b] => i16::from_le_bytes([a, b]).into(),
            [a, b, c, d] => i32::from_le_bytes([a, b, c, d]).into(),
            [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => unreachable!("no member has another width"),
        })
    }

    /// Index of a member, or the index where it would have to be inserted.
    fn search(self, number: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle).map(|member| member.cmp(&number)) {
                Some(Ordering::Equal) => return Ok(middle),
                Some(Ordering::Less) => low = middle + 1,
                Some(Ordering::Greater) | None => high = middle,
            }
        }
        Err(low)
    }

    /// The members in ascending order.
    pub(crate) fn iter(self) -> impl Iterator<Item = i64> {
        (0..self.len()).map_while(move |index| self.get(index))
    }
}

impl Intset {
    /// An empty set; allocates nothing.
    pub(crate) const fn new() -> Self {
        Self { bytes: Vec::new(), width: Width::Two }
    }

    /// Moves its memory if the mover asks for it.
    pub(crate) fn relocate(&mut self, mover: &mut dyn Mover) {
        move_vec(&mut self.bytes, mover);
    }

    /// The set with the members that [`IntsetRef::bytes`] returned.
    pub(crate) fn on(bytes: Vec<u8>, width: Width) -> Self {
        Self { bytes, width }
    }

    /// Borrows the set.
    #[inline]
    pub(crate) fn lend(&self) -> IntsetRef<'_> {
        IntsetRef { bytes: &self.bytes, width: self.width }
    }

    /// Adds `number`. Returns true if it is new.
    pub(crate) fn insert(&mut self, number: i64) -> bool {
        self.widen_for(number);
        let Err(place) = self.lend().search(number) else { return false };
        let width = self.width.bytes();
        let at = place * width;
        packed::make_gap(&mut self.bytes, at, width);
        self.bytes[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
        true
    }

    fn widen_for(&mut self, number: i64) {
        let width = Width::of(number);
        if width <= self.width {
            return;
        }
        let mut wide = Vec::with_capacity((self.lend().len() + 1) * width.bytes());
        for member in self.lend().iter() {
            wide.extend_from_slice(&member.to_le_bytes()[..width.bytes()]);
        }
        *self = Self { bytes: wide, width };
    }

    /// Removes `number`. Returns true if it was there.
    pub(crate) fn remove(&mut self, number: i64) -> bool {
        let Ok(place) = self.lend().search(number) else { return false };
        let width = self.width.bytes();
        self.bytes.drain(place * width..(place + 1) * width);
        packed::give_back(&mut self.bytes);
        true
    }

    /// Bytes that it has allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Panics if the set is inconsistent; for tests.
    pub(crate) fn debug_validate(&self) {
        assert_eq!(self.bytes.len() % self.width.bytes(), 0);
        assert!(self.lend().iter().zip(self.lend().iter().skip(1)).all(|(one, next)| one < next));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form_is_a_number() {
        for number in [0, 1, -1, 10, 99, i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1] {
            assert_eq!(parse_canonical(number.to_string().as_bytes()), Some(number));
        }
        for text in [
            "",
            "-",
            "-0",
            "00",
            "01",
            "-01",
            "+1",
            " 1",
            "1 ",
            "1a",
            "1.0",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
        ] {
            assert_eq!(parse_canonical(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn members_widen_when_needed_and_stay_wide() {
        let mut set = Intset::new();
        for (number, bytes) in
            [(1, 2), (-32_768, 2), (32_768, 4), (i64::from(i32::MIN), 4), (i64::MIN, 8), (5, 8)]
        {
            assert!(set.insert(number));
            assert!(!set.insert(number));
            assert!(set.lend().contains(number));
            assert_eq!(set.lend().width().bytes(), bytes);
            set.debug_validate();
        }
        assert!(set.remove(i64::MIN));
        assert!(!set.remove(i64::MIN));
        assert_eq!(set.lend().width().bytes(), 8);
        assert!(set.lend().iter().eq([i64::from(i32::MIN), -32_768, 1, 5, 32_768]));
        let mut wide_at_once = Intset::new();
        assert!(wide_at_once.insert(3) && wide_at_once.insert(i64::MAX));
        assert!(wide_at_once.lend().iter().eq([3, i64::MAX]));
    }
}
