//! When elements of a hash or members of a set expire: by element, and ordered by time. Most hashes and sets have no
//! elements that expire.

use std::collections::{BTreeMap, BTreeSet};

/// Expiry times by element.
#[derive(Clone, Debug, Default)]
pub struct ElementExpiries {
    by_element: BTreeMap<Box<[u8]>, i64>,
    by_time: BTreeSet<(i64, Box<[u8]>)>,
    element_bytes: usize,
}

impl ElementExpiries {
    /// When `element` expires, in ms; `None` if it does not.
    pub fn of(&self, element: &[u8]) -> Option<i64> {
        self.by_element.get(element).copied()
    }

    /// Sets when `element` expires.
    pub fn set(&mut self, element: &[u8], at_ms: i64) {
        self.remove(element);
        self.by_element.insert(element.into(), at_ms);
        self.by_time.insert((at_ms, element.into()));
        self.element_bytes += 2 * element.len();
    }

    /// Removes the expiry of `element`. Returns false if it had none.
    pub fn remove(&mut self, element: &[u8]) -> bool {
        let Some((element, at_ms)) = self.by_element.remove_entry(element) else { return false };
        self.element_bytes -= 2 * element.len();
        self.by_time.remove(&(at_ms, element))
    }

    /// The earliest expiry.
    pub fn first_ms(&self) -> Option<i64> {
        self.by_time.first().map(|(at_ms, _)| *at_ms)
    }

    /// Whether all of `count` elements expired before `now_ms`.
    pub fn are_all_due(&self, count: usize, now_ms: i64) -> bool {
        self.by_time.len() == count && self.by_time.last().is_some_and(|(at_ms, _)| *at_ms < now_ms)
    }

    /// Removes and returns the element that expires first, if it expired before `now_ms`.
    pub fn pop_due(&mut self, now_ms: i64) -> Option<Box<[u8]>> {
        self.first_ms().filter(|at_ms| *at_ms < now_ms)?;
        let (_, element) = self.by_time.pop_first()?;
        self.by_element.remove(&element);
        self.element_bytes -= 2 * element.len();
        Some(element)
    }

    /// Number of elements that expired before `before_ms`; costs O(that number).
    pub fn due_count(&self, before_ms: i64) -> usize {
        self.by_time.iter().take_while(|(at_ms, _)| *at_ms < before_ms).count()
    }

    /// All elements that expire, earliest first.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], i64)> {
        self.by_time.iter().map(|(at_ms, element)| (&**element, *at_ms))
    }

    /// Bytes of the entries; the overhead of the trees is not counted.
    pub fn memory_bytes(&self) -> usize {
        self.by_element.len() * 2 * size_of::<(i64, Box<[u8]>)>() + self.element_bytes
    }

    /// Whether no element expires.
    pub fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }

    /// Panics if the two orders are inconsistent; for tests.
    pub fn debug_validate(&self) {
        assert_eq!(self.by_element.len(), self.by_time.len());
        assert!(self.by_time.iter().all(|(at_ms, element)| self.of(element) == Some(*at_ms)));
        assert_eq!(
            self.element_bytes,
            self.by_element.keys().map(|element| 2 * element.len()).sum::<usize>()
        );
    }
}

/// The expiries of a borrowed collection, and which of its elements are hidden because of that.
#[derive(Clone, Copy)]
pub(crate) struct Hiding<'a> {
    all: &'a ElementExpiries,
    before_ms: i64,
}

impl<'a> Hiding<'a> {
    /// Hides nothing.
    pub(crate) fn none(all: &'a ElementExpiries) -> Self {
        Hiding { all, before_ms: i64::MIN }
    }

    /// Hides the elements that expired before this time.
    pub(crate) fn before(self, before_ms: i64) -> Self {
        Hiding { before_ms, ..self }
    }

    /// All expiries; those of hidden elements, too.
    pub(crate) fn all(self) -> &'a ElementExpiries {
        self.all
    }

    pub(crate) fn hides(self, element: &[u8]) -> bool {
        self.before_ms > i64::MIN && self.all.of(element).is_some_and(|at_ms| at_ms < self.before_ms)
    }

    pub(crate) fn hidden_count(self) -> usize {
        self.all.due_count(self.before_ms)
    }

    /// The elements that expire and are not hidden, with the time in ms, earliest first.
    pub(crate) fn shown(self) -> impl Iterator<Item = (&'a [u8], i64)> {
        self.all.iter().filter(move |(_, at_ms)| *at_ms >= self.before_ms)
    }
}
