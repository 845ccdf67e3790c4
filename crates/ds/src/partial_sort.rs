//! Sorting only as far as a range of the result requires.
//!
//! Quicksort as Bentley and McIlroy describe it ("Engineering a sort function", 1993), which skips the parts entirely
//! outside the range. Redis uses the same algorithm where only a part of the result is returned, so elements that
//! compare equal have the same order as there.

use std::cmp::Ordering;
use std::ops::Range;

/// Slices shorter than this are sorted by insertion.
const INSERTION_MAX: usize = 7;
/// For slices longer than this, the pivot is the median of three medians.
const NINTHER_MIN: usize = 40;

/// Moves the elements to `wanted` that would be there if all were sorted, in order.
pub fn partial_sort<T>(items: &mut [T], wanted: Range<usize>, compare: &mut impl FnMut(&T, &T) -> Ordering) {
    if items.len() < INSERTION_MAX {
        for end in 1..items.len() {
            for at in (1..=end).rev() {
                if compare(&items[at - 1], &items[at]).is_le() {
                    break;
                }
                items.swap(at - 1, at);
            }
        }
        return;
    }
    let pivot = pivot(items, compare);
    items.swap(0, pivot);
    let (lesser, greater) = partition(items, compare);
    let (count, greater_start) = (items.len(), items.len() - greater);
    let part_wanted = |part: Range<usize>| {
        let is_wanted = part.len() > 1 && wanted.start < part.end && part.start < wanted.end;
        is_wanted.then(|| wanted.start.saturating_sub(part.start)..wanted.end - part.start)
    };
    if let Some(wanted) = part_wanted(0..lesser) {
        partial_sort(&mut items[..lesser], wanted, compare);
    }
    if let Some(wanted) = part_wanted(greater_start..count) {
        partial_sort(&mut items[greater_start..], wanted, compare);
    }
}

fn pivot<T>(items: &[T], compare: &mut impl FnMut(&T, &T) -> Ordering) -> usize {
    let count = items.len();
    let (mut first, mut middle, mut last) = (0, count / 2, count - 1);
    if count == INSERTION_MAX {
        return middle;
    }
    if count > NINTHER_MIN {
        let step = count / 8;
        first = median(items, [first, first + step, first + 2 * step], compare);
        middle = median(items, [middle - step, middle, middle + step], compare);
        last = median(items, [last - 2 * step, last - step, last], compare);
    }
    median(items, [first, middle, last], compare)
}

fn median<T>(items: &[T], [a, b, c]: [usize; 3], compare: &mut impl FnMut(&T, &T) -> Ordering) -> usize {
    let mut order = |left: usize, right: usize| compare(&items[left], &items[right]);
    if order(a, b).is_lt() {
        match () {
            () if order(b, c).is_lt() => b,
            () if order(a, c).is_lt() => c,
            () => a,
        }
    } else {
        match () {
            () if order(b, c).is_gt() => b,
            () if order(a, c).is_lt() => a,
            () => c,
        }
    }
}

/// Partitions by the first element: lesser elements to the front, greater ones to the end, equal ones between them.
/// Returns the numbers of lesser and of greater elements.
///
/// In the meantime, equal elements are collected at both ends:
///
/// ```text
/// pivot, equal │ lesser │ not looked at │ greater │ equal
///        equal_end   low             high    equal_start
/// ```
fn partition<T>(items: &mut [T], compare: &mut impl FnMut(&T, &T) -> Ordering) -> (usize, usize) {
    let count = items.len();
    let (mut equal_end, mut low) = (1, 1);
    // `high` is the end of the elements not looked at, `equal_start` that of those not known to be equal.
    let (mut high, mut equal_start) = (count, count);
    loop {
        while low < high {
            match compare(&items[low], &items[0]) {
                Ordering::Greater => break,
                Ordering::Equal => {
                    items.swap(equal_end, low);
                    equal_end += 1;
                }
                Ordering::Less => {}
            }
            low += 1;
        }
        while low < high {
            match compare(&items[high - 1], &items[0]) {
                Ordering::Less => break,
                Ordering::Equal => {
                    equal_start -= 1;
                    items.swap(high - 1, equal_start);
                }
                Ordering::Greater => {}
            }
            high -= 1;
        }
        if low >= high {
            break;
        }
        items.swap(low, high - 1);
        low += 1;
        high -= 1;
    }
    let (lesser, greater) = (low - equal_end, equal_start - high);
    let moved = equal_end.min(lesser);
    swap_runs(items, 0, low - moved, moved);
    let moved = greater.min(count - equal_start);
    swap_runs(items, low, count - moved, moved);
    (lesser, greater)
}

fn swap_runs<T>(items: &mut [T], one: usize, other: usize, count: usize) {
    (0..count).for_each(|index| items.swap(one + index, other + index));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_range_is_as_if_all_were_sorted(
            mut items in proptest::collection::vec(0..50_u8, 0..200),
            from: prop::sample::Index,
            length in 1..60_usize,
        ) {
            let mut sorted = items.clone();
            sorted.sort_unstable();
            let start = if items.is_empty() { 0 } else { from.index(items.len()) };
            let range = start..(start + length).min(items.len());
            partial_sort(&mut items, range.clone(), &mut Ord::cmp);
            prop_assert_eq!(&items[range.clone()], &sorted[range]);
            items.sort_unstable();
            prop_assert_eq!(items, sorted);
        }
    }
}
