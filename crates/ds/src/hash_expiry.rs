//! When fields of a hash expire: by field, and ordered by time. Most hashes have no expiring fields.

use std::collections::{BTreeMap, BTreeSet};

/// Expiry times by field.
#[derive(Clone, Debug, Default)]
pub struct FieldExpiries {
    by_field: BTreeMap<Box<[u8]>, i64>,
    by_time: BTreeSet<(i64, Box<[u8]>)>,
    field_bytes: usize,
}

impl FieldExpiries {
    /// When `field` expires, in ms; `None` if it does not.
    pub fn of(&self, field: &[u8]) -> Option<i64> {
        self.by_field.get(field).copied()
    }

    /// Sets when `field` expires.
    pub fn set(&mut self, field: &[u8], at_ms: i64) {
        self.remove(field);
        self.by_field.insert(field.into(), at_ms);
        self.by_time.insert((at_ms, field.into()));
        self.field_bytes += 2 * field.len();
    }

    /// Removes the expiry of `field`. Returns false if it had none.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        let Some((field, at_ms)) = self.by_field.remove_entry(field) else { return false };
        self.field_bytes -= 2 * field.len();
        self.by_time.remove(&(at_ms, field))
    }

    /// The earliest expiry.
    pub fn first_ms(&self) -> Option<i64> {
        self.by_time.first().map(|(at_ms, _)| *at_ms)
    }

    /// Whether all of `count` fields expired before `now_ms`.
    pub fn are_all_due(&self, count: usize, now_ms: i64) -> bool {
        self.by_time.len() == count && self.by_time.last().is_some_and(|(at_ms, _)| *at_ms < now_ms)
    }

    /// Removes and returns the field that expires first, if it expired before `now_ms`.
    pub fn pop_due(&mut self, now_ms: i64) -> Option<Box<[u8]>> {
        self.first_ms().filter(|at_ms| *at_ms < now_ms)?;
        let (_, field) = self.by_time.pop_first()?;
        self.by_field.remove(&field);
        self.field_bytes -= 2 * field.len();
        Some(field)
    }

    /// Number of fields that expired before `before_ms`; costs O(that number).
    pub fn due_count(&self, before_ms: i64) -> usize {
        self.by_time.iter().take_while(|(at_ms, _)| *at_ms < before_ms).count()
    }

    /// All fields that expire, earliest first.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], i64)> {
        self.by_time.iter().map(|(at_ms, field)| (&**field, *at_ms))
    }

    /// Bytes of the entries; the overhead of the trees is not counted.
    pub fn memory_bytes(&self) -> usize {
        self.by_field.len() * 2 * size_of::<(i64, Box<[u8]>)>() + self.field_bytes
    }

    /// Panics if the two orders are inconsistent; for tests.
    pub fn debug_validate(&self) {
        assert_eq!(self.by_field.len(), self.by_time.len());
        assert!(self.by_time.iter().all(|(at_ms, field)| self.of(field) == Some(*at_ms)));
        assert_eq!(self.field_bytes, self.by_field.keys().map(|field| 2 * field.len()).sum::<usize>());
    }
}
