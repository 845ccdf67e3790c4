//! Consumer groups: which entries were delivered to whom and are not acknowledged.
//!
//! ```text
//! pending    id ──▶ consumer, time and number of deliveries      all pending entries, by id
//! consumers  name ──▶ the ids that are pending for it            the same entries, by consumer
//! ```
//!
//! A pending entry that its consumer has released has none until another one claims it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::id::StreamId;
use super::log::Log;
use super::order::ClaimOrder;

/// A consumer of a group, by its number in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConsumerId(u32);

/// An entry that was delivered to a consumer and not acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pending {
    /// The consumer that has it; `None` if it was released.
    pub consumer: Option<ConsumerId>,
    /// When it was last delivered; 0 if it was released.
    pub delivered_ms: i64,
    /// How often it was delivered.
    pub delivery_count: i64,
}

// The consumer takes the room that alignment leaves.
const _: () = assert!(size_of::<Pending>() == 24);

impl Pending {
    /// An entry that was released.
    pub fn released(delivery_count: i64) -> Pending {
        Pending { consumer: None, delivered_ms: 0, delivery_count }
    }

    /// When it was delivered to the consumer that has it.
    fn owned_since(&self) -> Option<i64> {
        self.consumer.map(|_| self.delivered_ms)
    }

    /// When it can be claimed by consumers that claim what has been idle for this long.
    pub fn claimable_ms(&self, min_idle_ms: i64) -> i64 {
        self.owned_since().map_or(i64::MIN, |since_ms| since_ms.saturating_add(min_idle_ms))
    }
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

/// Stands for an unknown number of entries.
const UNKNOWN: i64 = -1;

/// A consumer group.
#[derive(Clone, Debug)]
pub struct Group {
    /// The id of the last entry that was delivered as new.
    pub last_id: StreamId,
    /// Number of entries added to the stream up to that one; [`UNKNOWN`] if unknown.
    entries_read: i64,
    pending: BTreeMap<StreamId, Pending>,
    /// By number; `None` in place of a deleted consumer.
    consumers: Vec<Option<Consumer>>,
    by_name: BTreeMap<Arc<[u8]>, ConsumerId>,
    order: Option<Box<ClaimOrder>>,
}

impl Group {
    /// A group that reads the entries after `last_id`.
    pub fn new(last_id: StreamId, entries_read: Option<i64>) -> Group {
        Group {
            last_id,
            entries_read: entries_read.unwrap_or(UNKNOWN),
            pending: BTreeMap::new(),
            consumers: Vec::new(),
            by_name: BTreeMap::new(),
            order: None,
        }
    }

    /// Number of entries added to the stream up to the last one that was delivered as new; `None` if unknown.
    pub fn entries_read(&self) -> Option<i64> {
        (self.entries_read != UNKNOWN).then_some(self.entries_read)
    }

    /// Sets [`entries_read`](Self::entries_read).
    pub fn set_entries_read(&mut self, entries_read: Option<i64>) {
        self.entries_read = entries_read.unwrap_or(UNKNOWN);
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
        for entry in &consumer.pending {
            if let (Some(pending), Some(order)) = (self.pending.remove(entry), &mut self.order) {
                order.remove(*entry, pending.owned_since());
            }
        }
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

    /// The name of the consumer that has a pending entry; empty if it was released.
    pub fn owner_name(&self, pending: &Pending) -> &[u8] {
        pending.consumer.map_or(b"", |consumer| self.consumer(consumer).name())
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

    /// Number of pending entries that were released.
    pub fn released_len(&self) -> usize {
        let owned = || self.by_name.values().map(|&id| self.consumer(id).pending_len()).sum::<usize>();
        if self.order.is_some() { self.pending.len() - owned() } else { 0 }
    }

    /// The pending entries that were released, in that order.
    pub fn released(&self) -> impl Iterator<Item = StreamId> {
        self.order.iter().flat_map(|order| order.released())
    }

    /// Makes the entry `id` pending as given, and takes it from any consumer that had it before. An entry that is
    /// released, perhaps again, comes behind all that were.
    pub fn assign(&mut self, id: StreamId, pending: Pending) {
        let before = self.pending.insert(id, pending);
        if before.is_none_or(|before| before.consumer != pending.consumer) {
            if let Some(consumer) = before.and_then(|before| before.consumer) {
                self.consumer_mut(consumer).pending.remove(&id);
            }
            if let Some(consumer) = pending.consumer {
                self.consumer_mut(consumer).pending.insert(id);
            }
        }
        if self.order.is_some() || pending.consumer.is_none() {
            let order = self.order.get_or_insert_default();
            if let Some(before) = before {
                order.remove(id, before.owned_since());
            }
            order.add(id, pending.owned_since());
        }
    }

    /// Removes the entry `id` from the pending ones. Returns false if it was not pending.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(&id) else { return false };
        if let Some(consumer) = pending.consumer {
            self.consumer_mut(consumer).pending.remove(&id);
        }
        if let Some(order) = &mut self.order {
            order.remove(id, pending.owned_since());
        }
        true
    }

    /// The first `count_max` entries in the order of claims that have been idle for `min_idle_ms` at `now_ms`, as far
    /// as the log still has them. The first call puts the pending entries into this order.
    pub fn claims(
        &mut self,
        log: &Log,
        min_idle_ms: i64,
        now_ms: i64,
        count_max: usize,
    ) -> Vec<(StreamId, Pending)> {
        let Group { pending, order, .. } = self;
        let (mut claims, mut gone) = (Vec::new(), Vec::new());
        if pending.is_empty() {
            return claims;
        }
        let order = order.get_or_insert_default();
        if !order.has_times() {
            let owned = pending.iter().filter_map(|(&id, pending)| Some((pending.owned_since()?, id)));
            order.set_times(owned);
        }
        for id in order.released().chain(order.by_time()) {
            let found = pending[&id];
            if claims.len() == count_max || found.claimable_ms(min_idle_ms) > now_ms {
                break;
            }
            match log.contains(id) {
                true => claims.push((id, found)),
                false => gone.push((id, found.owned_since())),
            }
        }
        gone.into_iter().for_each(|(id, since_ms)| order.remove(id, since_ms));
        claims
    }

    /// When the next entry that the log has can be claimed by consumers that claim what has been idle for this long;
    /// `None` if there is none.
    pub fn next_claim_ms(&self, log: &Log, min_idle_ms: i64) -> Option<i64> {
        let Some(order) = self.order.as_ref().filter(|order| order.has_times()) else {
            let there = self.pending.iter().filter(|(id, _)| log.contains(**id));
            return there.map(|(_, pending)| pending.claimable_ms(min_idle_ms)).min();
        };
        let id = order.released().chain(order.by_time()).find(|id| log.contains(*id))?;
        Some(self.pending[&id].claimable_ms(min_idle_ms))
    }

    /// Drops up to `count` pending entries. Returns false when none is left.
    pub(super) fn drop_pending(&mut self, count: usize) -> bool {
        if let Some(order) = &mut self.order {
            if order.drop_some(count) {
                return true;
            }
            self.order = None;
        }
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
            + self.order.as_ref().map_or(0, |order| order.memory_bytes())
    }

    /// Panics if the group is inconsistent; for tests.
    pub fn debug_validate(&self) {
        assert_eq!(self.consumers.iter().flatten().count(), self.by_name.len());
        let mut count = 0;
        for (name, &id) in &self.by_name {
            assert_eq!(self.consumer(id).name, *name);
            for entry in &self.consumer(id).pending {
                assert_eq!(self.pending[entry].consumer, Some(id));
                count += 1;
            }
        }
        let released = self.pending.values().filter(|pending| pending.consumer.is_none()).count();
        assert_eq!(count + released, self.pending.len());
        assert_eq!(released, self.released_len());
        if let Some(order) = &self.order {
            order.debug_validate(released, |id| self.pending[&id].owned_since());
        }
    }
}
