//! A sorted set of integers, as narrow as its widest member: the form of small sets of numbers.
//!
//! Members take 2, 4 or 8 bytes each. One that does not fit widens all of them; removing it narrows
//! nothing, as a set that has seen wide members will see them again. Members are found by binary search.
//!
//! Invariant: strictly ascending. Not here: when a set stops being one of integers, see
//! [`Set`](crate::set::Set).

use crate::mover::{Mover, move_vec};

/// The integer that `text` is the one canonical way to write: no sign but a minus, no leading zeros, no
/// `-0`.
pub fn parse_canonical(text: &[u8]) -> Option<i64> {
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

/// A set of integers; see the head of this file.
#[derive(Clone, Debug)]
pub struct Intset {
    members: Members,
}

#[derive(Clone, Debug)]
enum Members {
    Two(Vec<i16>),
    Four(Vec<i32>),
    Eight(Vec<i64>),
}

/// Runs the same expression on whichever vector there is.
macro_rules! with_members {
    ($members:expr, $vec:ident => $body:expr) => {
        match $members {
            Members::Two($vec) => $body,
            Members::Four($vec) => $body,
            Members::Eight($vec) => $body,
        }
    };
}

fn search<T: Copy + Into<i64>>(members: &[T], number: i64) -> Result<usize, usize> {
    members.binary_search_by_key(&number, |&member| member.into())
}

fn at<T: Copy + Into<i64>>(members: &[T], index: usize) -> Option<i64> {
    members.get(index).map(|&member| member.into())
}

fn insert<T: Copy + Into<i64>>(members: &mut Vec<T>, number: T) -> bool {
    let Err(place) = search(members, number.into()) else { return false };
    members.insert(place, number);
    true
}

impl Default for Intset {
    fn default() -> Self {
        Self::new()
    }
}

impl Intset {
    /// An empty set; allocates nothing.
    pub const fn new() -> Self {
        Self { members: Members::Two(Vec::new()) }
    }

    /// Moves its memory.
    pub(crate) fn relocate(&mut self, mover: &mut dyn Mover) {
        with_members!(&mut self.members, members => move_vec(members, mover));
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        with_members!(&self.members, members => members.len())
    }

    /// True if there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that each member takes: 2, 4 or 8.
    pub fn member_bytes(&self) -> usize {
        match self.members {
            Members::Two(_) => 2,
            Members::Four(_) => 4,
            Members::Eight(_) => 8,
        }
    }

    /// True if `number` is a member.
    pub fn contains(&self, number: i64) -> bool {
        with_members!(&self.members, members => search(members, number).is_ok())
    }

    /// Adds `number`; true if it is new.
    pub fn insert(&mut self, number: i64) -> bool {
        self.widen_for(number);
        const FITS: &str = "the set has just been made wide enough";
        match &mut self.members {
            Members::Two(members) => insert(members, i16::try_from(number).expect(FITS)),
            Members::Four(members) => insert(members, i32::try_from(number).expect(FITS)),
            Members::Eight(members) => insert(members, number),
        }
    }

    fn widen_for(&mut self, number: i64) {
        let bytes_needed = match number {
            n if i16::try_from(n).is_ok() => 2,
            n if i32::try_from(n).is_ok() => 4,
            _ => 8,
        };
        if bytes_needed <= self.member_bytes() {
            return;
        }
        self.members = match &self.members {
            Members::Two(members) if bytes_needed == 4 => {
                Members::Four(members.iter().map(|&member| member.into()).collect())
            }
            Members::Two(_) | Members::Four(_) | Members::Eight(_) => Members::Eight(self.iter().collect()),
        };
    }

    /// Removes `number`; true if it was there.
    pub fn remove(&mut self, number: i64) -> bool {
        with_members!(&mut self.members, members => {
            let Ok(place) = search(members, number) else { return false };
            members.remove(place);
            if members.len() < members.capacity() / 4 {
                members.shrink_to(members.len() * 2);
            }
            true
        })
    }

    /// The member at `index` in ascending order.
    pub fn get(&self, index: usize) -> Option<i64> {
        with_members!(&self.members, members => at(members, index))
    }

    /// The members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = i64> {
        (0..self.len()).map_while(|index| self.get(index))
    }

    /// Bytes it has allocated.
    pub fn memory_bytes(&self) -> usize {
        with_members!(&self.members, members => members.capacity()) * self.member_bytes()
    }

    /// Panics if the set contradicts itself; for tests.
    pub fn debug_validate(&self) {
        assert!(self.iter().zip(self.iter().skip(1)).all(|(one, next)| one < next));
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
            assert!(set.contains(number));
            assert_eq!(set.member_bytes(), bytes);
            set.debug_validate();
        }
        assert!(set.remove(i64::MIN));
        assert!(!set.remove(i64::MIN));
        assert_eq!(set.member_bytes(), 8);
        assert!(set.iter().eq([i64::from(i32::MIN), -32_768, 1, 5, 32_768]));
        let mut wide_at_once = Intset::new();
        assert!(wide_at_once.insert(3) && wide_at_once.insert(i64::MAX));
        assert!(wide_at_once.iter().eq([3, i64::MAX]));
    }
}
