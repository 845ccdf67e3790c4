//! The order in which the pending entries of a group are claimed: those that were released, in the order in which they
//! were; then the others, the one whose delivery is longest ago first.
//!
//! ```text
//! released   turn ──▶ id         first come, first served; turns: id ──▶ turn
//! by_time    (time of the last delivery, id)          only once something was claimed in this order
//! ```
//!
//! Most groups never need it, so a group has it in a box that comes with the first entry that is released, or the first
//! claim in this order. An entry that was deleted from the log stays pending, but can no longer be claimed: it leaves
//! the order when a claim meets it.

use std::collections::{BTreeMap, BTreeSet};

use super::id::StreamId;

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub(super) struct ClaimOrder {
    released: BTreeMap<u64, StreamId>,
    turns: BTreeMap<StreamId, u64>,
    next_turn: u64,
    by_time: Option<BTreeSet<(i64, StreamId)>>,
}

impl ClaimOrder {
    /// Whether entries with a consumer are in order, too.
    pub(super) fn has_times(&self) -> bool {
        self.by_time.is_some()
    }

    /// Orders entries with a consumer, too: these, with the times of their deliveries.
    pub(super) fn set_times(&mut self, entries: impl Iterator<Item = (i64, StreamId)>) {
        self.by_time = Some(entries.collect());
    }

    /// Adds an entry that is not in the order: `Some` time for an entry that has a consumer.
    pub(super) fn add(&mut self, id: StreamId, delivered_ms: Option<i64>) {
        match (delivered_ms, &mut self.by_time) {
            (None, _) => {
                self.turns.insert(id, self.next_turn);
                self.released.insert(self.next_turn, id);
                self.next_turn += 1;
            }
            (Some(time_ms), Some(by_time)) => _ = by_time.insert((time_ms, id)),
            (Some(_), None) => {}
        }
    }

    /// Removes an entry, if it is in the order.
    pub(super) fn remove(&mut self, id: StreamId, delivered_ms: Option<i64>) {
        match (delivered_ms, &mut self.by_time) {
            (None, _) => {
                if let Some(turn) = self.turns.remove(&id) {
                    self.released.remove(&turn);
                }
            }
            (Some(time_ms), Some(by_time)) => _ = by_time.remove(&(time_ms, id)),
            (Some(_), None) => {}
        }
    }

    /// The entries that were released, in their order.
    pub(super) fn released(&self) -> impl Iterator<Item = StreamId> {
        self.released.values().copied()
    }

    /// The others from the longest waiting on, if they are in order.
    pub(super) fn by_time(&self) -> impl Iterator<Item = StreamId> {
        self.by_time.iter().flatten().map(|(_, id)| *id)
    }

    /// Drops up to `count` entries. Returns false when none is left.
    pub(super) fn drop_some(&mut self, count: usize) -> bool {
        for _ in 0..count {
            let of_times = self.by_time.as_mut().and_then(BTreeSet::pop_first).is_some();
            let of_released = self.released.pop_first().is_some() | self.turns.pop_first().is_some();
            if !of_times && !of_released {
                return false;
            }
        }
        true
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let released = self.released.len() * 2 * size_of::<(u64, StreamId)>();
        let by_time = self.by_time.as_ref().map_or(0, BTreeSet::len) * size_of::<(i64, StreamId)>();
        size_of::<ClaimOrder>() + released + by_time
    }

    /// Panics if the order is inconsistent; `time_of` tells when an entry was delivered to its consumer, if it has one,
    /// and panics for an entry that is not pending. For tests.
    pub(super) fn debug_validate(&self, released_count: usize, time_of: impl Fn(StreamId) -> Option<i64>) {
        assert!(self.released.len() <= released_count);
        assert_eq!(self.released.len(), self.turns.len());
        for (turn, id) in &self.released {
            assert_eq!((self.turns[id], time_of(*id)), (*turn, None));
            assert!(*turn < self.next_turn);
        }
        for (time_ms, id) in self.by_time.iter().flatten() {
            assert_eq!(time_of(*id), Some(*time_ms));
        }
    }
}
