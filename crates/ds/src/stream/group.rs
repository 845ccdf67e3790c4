//! Consumer groups: which entries were delivered to whom and are not acknowledged.
//!
//! ```text
//! pending    id ──▶ consumer, time and number of deliveries      all pending entries, by id
//! consumers  name ──▶ the ids that are pending for it            the same entries, by consumer
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::id::StreamId;

/// A consumer of a group, by its number in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConsumerId(u32);

/// An entry that was delivered to a consumer and not acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pending {
    /// The consumer that has it.
    pub consumer: ConsumerId,
    /// When it was last delivered.
    pub delivered_ms: i64,
    /// How often it was delivered.
    pub delivery_count: i64,
}

/// A consumer.
#[derive(Clone, Debug)]
pub struct Consumer {
    name: Arc<[u8]>,
    pending: BTreeSet<StreamId>,
    /// When it last tried to read.
    pub seen_ms: i64,
    /// When it last got an entry.
    pub active_ms: Option<i64>,
}

impl Consumer {
    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Number of entries that are pending for it.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }
}

/// A consumer group.
#[derive(Clone, Debug)]
pub struct Group {
    /// The id of the last entry that was delivered as new.
    pub last_id: StreamId,
    /// Number of entries added to the stream up to that one; `None` if unknown.
    pub entries_read: Option<i64>,
    pending: BTreeMap<StreamId, Pending>,
    /// By number; `None` in place of a deleted consumer.
    consumers: Vec<Option<Consumer>>,
    by_name: BTreeMap<Arc<[u8]>, ConsumerId>,
}

impl Group {
    /// A group that reads the entries after `last_id`.
    pub fn new(last_id: StreamId, entries_read: Option<i64>) -> Group {
        Group {
            last_id,
            entries_read,
            pending: BTreeMap::new(),
            consumers: Vec::new(),
            by_name: BTreeMap::new(),
        }
    }

    // ---- consumers -------------------------------------------------------------------------------------

    /// The consumer with this name.
    pub fn find(&self, name: &[u8]) -> Option<ConsumerId> {
        self.by_name.get(name).copied()
    }

    /// The consumer with this name, and whether it was created.
    pub fn find_or_create(&mut self, name: &[u8], now_ms: i64) -> (ConsumerId, bool) {
        if let Some(id) = self.find(name) {
            return (id, false);
        }
        let name: Arc<[u8]> = name.into();
        let consumer =
            Consumer { name: name.clone(), pending: BTreeSet::new(), seen_ms: now_ms, active_ms: None };
        let place = match self.by_name.len() == self.consumers.len() {
            true => self.consumers.len(),
            false => self.consumers.iter().position(Option::is_none).expect("not all places are taken"),
        };
        match self.consumers.get_mut(place) {
            Some(free) => *free = Some(consumer),
            None => self.consumers.push(Some(consumer)),
        }
        let id = ConsumerId(place as u32);
        self.by_name.insert(name, id);
        (id, true)
    }

    /// Deletes a consumer with its pending entries. Returns their number, or `None` if there is no such consumer.
    pub fn delete(&mut self, name: &[u8]) -> Option<usize> {
        let id = self.by_name.remove(name)?;
        let consumer = self.consumers[id.0 as usize].take()?;
        consumer.pending.iter().for_each(|entry| _ = self.pending.remove(entry));
        Some(consumer.pending.len())
    }

    /// The consumer with this number. Panics if it was deleted.
    pub fn consumer(&self, id: ConsumerId) -> &Consumer {
        self.consumers[id.0 as usize].as_ref().expect("numbers of deleted consumers are nowhere kept")
    }

    /// Like [`consumer`](Self::consumer), mutable.
    pub fn consumer_mut(&mut self, id: ConsumerId) -> &mut Consumer {
        self.consumers[id.0 as usize].as_mut().expect("numbers of deleted consumers are nowhere kept")
    }

    /// All consumers, ordered by name.
    pub fn consumers(&self) -> impl ExactSizeIterator<Item = &Consumer> {
        self.by_name.values().map(|&id| self.consumer(id))
    }

    // ---- pending entries -------------------------------------------------------------------------------

    /// Number of pending entries.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The pending entry `id`.
    pub fn pending(&self, id: StreamId) -> Option<&Pending> {
        self.pending.get(&id)
    }

    /// The pending entries of a range. The range must not be empty.
    pub fn pending_range(
        &self,
        range: RangeInclusive<StreamId>,
    ) -> impl DoubleEndedIterator<Item = (StreamId, &Pending)> {
        self.pending.range(range).map(|(&id, pending)| (id, pending))
    }

    /// The entries of a range that are pending for a consumer. The range must not be empty.
    pub fn pending_range_of(
        &self,
        consumer: ConsumerId,
        range: RangeInclusive<StreamId>,
    ) -> impl Iterator<Item = (StreamId, &Pending)> {
        self.consumer(consumer).pending.range(range).map(|&id| (id, &self.pending[&id]))
    }

    /// Makes the entry `id` pending as given, and takes it from any consumer that had it before.
    pub fn assign(&mut self, id: StreamId, pending: Pending) {
        let before = self.pending.insert(id, pending);
        if before.is_none_or(|before| before.consumer != pending.consumer) {
            if let Some(before) = before {
                self.consumer_mut(before.consumer).pending.remove(&id);
            }
            self.consumer_mut(pending.consumer).pending.insert(id);
        }
    }

    /// Removes the entry `id` from the pending ones. Returns false if it was not pending.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(&id) else { return false };
        self.consumer_mut(pending.consumer).pending.remove(&id);
        true
    }

    /// Drops up to `count` pending entries. Returns false when none is left.
    pub(super) fn drop_pending(&mut self, count: usize) -> bool {
        for _ in 0..count {
            let Some((&id, _)) = self.pending.first_key_value() else { return false };
            self.acknowledge(id);
        }
        !self.pending.is_empty()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let per_pending = size_of::<(StreamId, Pending)>() + size_of::<StreamId>();
        let names: usize = self.by_name.keys().map(|name| name.len()).sum();
        self.pending.len() * per_pending
            + self.consumers.capacity() * size_of::<Option<Consumer>>()
            + self.by_name.len() * size_of::<(Arc<[u8]>, ConsumerId)>()
            + names
    }

    /// Panics if the group is inconsistent; for tests.
    pub fn debug_validate(&self) {
        assert_eq!(self.consumers.iter().flatten().count(), self.by_name.len());
        let mut count = 0;
        for (name, &id) in &self.by_name {
            assert_eq!(self.consumer(id).name, *name);
            for entry in &self.consumer(id).pending {
                assert_eq!(self.pending[entry].consumer, id);
                count += 1;
            }
        }
        assert_eq!(count, self.pending.len());
    }
}
