//! The last messages of a stream's producers, by which a message that is sent again is recognized.
//!
//! ```text
//! by_name   producer ──▶ its records, by ascending ids:  id of the entry, id that the producer gave the message
//! ```
//!
//! A record is known for a time, which begins with the milliseconds of its entry's id, and each producer has a limit of
//! records. Records that are over are dropped when their producer adds the next one. Each addition also looks at two
//! other producers, in turn, so a producer that is silent leaves nothing for long while others add.
//!
//! A producer with few records searches them by their hashes. One with more has an index.
//!
//! Streams without producers have none of this but a null pointer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::Bound;

use super::id::StreamId;
use crate::hashing::ObjectSeed;

/// For how many seconds records are known by default.
pub const DURATION_S: u32 = 100;
/// The longest time that can be set.
pub const DURATION_S_MAX: u32 = 86_400;
/// The records of each producer by default.
pub const RECORDS: u32 = 100;
/// The most that can be set.
pub const RECORDS_MAX: u32 = 10_000;
/// The longest name of a producer, and the longest id of a message, in bytes.
pub const ID_BYTES_MAX: usize = 64 * 1024;
/// The most producers of a stream.
pub const PRODUCERS_MAX: usize = 1_000_000;
/// The most bytes of all their names and ids.
pub const BYTES_MAX: usize = 1 << 30;

/// Producers with more records have an index.
const UNINDEXED_MAX: usize = 32;
/// Other producers that an addition looks at, and one for which there is no room.
const LOOKS_PER_ADDITION: usize = 2;
const LOOKS_FOR_ROOM: usize = 64;
/// Records and producers that one slice of freeing drops.
const FREED_AT_ONCE: usize = 1024;

/// How long and how many records are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerLimits {
    /// For how many seconds.
    pub duration_s: u32,
    /// How many of each producer.
    pub records_max: u32,
}

impl Default for ProducerLimits {
    fn default() -> Self {
        ProducerLimits { duration_s: DURATION_S, records_max: RECORDS }
    }
}

impl ProducerLimits {
    /// Whether a record of the entry `id` is over.
    fn is_over(self, id: StreamId, now_ms: u64) -> bool {
        id.ms <= now_ms.saturating_sub(u64::from(self.duration_s) * 1000)
    }
}

/// See the head of this file.
#[derive(Clone)]
pub struct Producers {
    seed: ObjectSeed,
    limits: ProducerLimits,
    /// Number of records ever added.
    pub added: u64,
    /// Number of messages that were recognized.
    pub duplicates: u64,
    by_name: BTreeMap<Box<[u8]>, Producer>,
    record_count: usize,
    /// Bytes of all names and ids.
    bytes: usize,
    /// The producer after which the next look begins.
    looked_at: Box<[u8]>,
}

#[derive(Clone, Debug, Default)]
struct Producer {
    /// By ascending ids.
    records: VecDeque<SentMessage>,
    /// Hashes of the messages' ids, with the entries.
    index: Option<BTreeSet<(u64, StreamId)>>,
}

#[derive(Clone, Debug)]
struct SentMessage {
    id: StreamId,
    hash: u64,
    message: Box<[u8]>,
}

/// Why a message cannot be recorded: too much is known already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMany;

/// Without the seed and the hashes, so that equal contents look the same.
impl fmt::Debug for Producers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let records_of = |producer: &Producer| -> Vec<(StreamId, Box<[u8]>)> {
            producer.records.iter().map(|record| (record.id, record.message.clone())).collect()
        };
        let records: Vec<_> =
            self.by_name.iter().map(|(name, producer)| (name, records_of(producer))).collect();
        formatter
            .debug_struct("Producers")
            .field("limits", &self.limits)
            .field("added", &self.added)
            .field("duplicates", &self.duplicates)
            .field("records", &records)
            .finish()
    }
}

impl Producers {
    /// No producers yet, with these limits.
    pub fn new(limits: ProducerLimits) -> Producers {
        Producers {
            seed: ObjectSeed::next(),
            limits,
            added: 0,
            duplicates: 0,
            by_name: BTreeMap::new(),
            record_count: 0,
            bytes: 0,
            looked_at: Box::default(),
        }
    }

    /// How long and how many records are known.
    pub fn limits(&self) -> ProducerLimits {
        self.limits
    }

    /// What becomes of them with other limits: all records are forgotten.
    pub fn with_limits(&self, limits: ProducerLimits) -> Producers {
        Producers { added: self.added, duplicates: self.duplicates, ..Producers::new(limits) }
    }

    /// Number of producers with records that are not over, and number of these records.
    pub fn counts(&self, now_ms: u64) -> (usize, usize) {
        let known = |producer: &Producer| {
            let over = producer.records.partition_point(|record| self.limits.is_over(record.id, now_ms));
            producer.records.len() - over
        };
        let counts = self.by_name.values().map(known).filter(|count| *count > 0);
        counts.fold((0, 0), |(producers, records), count| (producers + 1, records + count))
    }

    /// The entry that the producer's message became, if that is known.
    pub fn find(&self, producer: &[u8], message: &[u8], now_ms: u64) -> Option<StreamId> {
        let id = self.by_name.get(producer)?.find(self.seed.hash(message), message)?;
        (!self.limits.is_over(id, now_ms)).then_some(id)
    }

    /// Makes room for a record of a message with this id, if that is possible.
    ///
    /// # Errors
    /// The limits of the stream would be exceeded.
    pub fn make_room(&mut self, producer: &[u8], message: &[u8], now_ms: u64) -> Result<(), TooMany> {
        let is_full = |producers: &Producers| {
            let is_new = !producers.by_name.contains_key(producer);
            let bytes = message.len() + if is_new { producer.len() } else { 0 };
            is_new && producers.by_name.len() >= PRODUCERS_MAX || producers.bytes + bytes > BYTES_MAX
        };
        if is_full(self) {
            (0..LOOKS_FOR_ROOM).for_each(|_| self.look_at_next(now_ms));
        }
        if is_full(self) { Err(TooMany) } else { Ok(()) }
    }

    /// Records that the producer's message became the entry `id`, and forgets what is over or too much.
    pub fn add(&mut self, producer: &[u8], message: &[u8], id: StreamId, now_ms: u64) {
        self.added = self.added.saturating_add(1);
        self.forget(producer, message);
        self.insert(producer, message, id);
        let limits = self.limits;
        self.forget_of(producer, |producer| {
            let first = producer.records.front().map(|record| record.id);
            first.is_some_and(|id| limits.is_over(id, now_ms))
                || producer.records.len() > limits.records_max as usize
        });
        for _ in 0..LOOKS_PER_ADDITION {
            self.look_at_next(now_ms);
        }
    }

    /// Adds a record that is known, such as one that was saved; nothing else changes. A message that is known already
    /// stays what it is.
    pub fn insert(&mut self, producer: &[u8], message: &[u8], id: StreamId) {
        let records = match self.by_name.get_mut(producer) {
            Some(records) => records,
            None => {
                self.bytes += producer.len();
                self.by_name.entry(producer.into()).or_default()
            }
        };
        let hash = self.seed.hash(message);
        if records.find(hash, message).is_none() {
            records.insert(SentMessage { id, hash, message: message.into() });
            self.bytes += message.len();
            self.record_count += 1;
        }
    }

    /// Forgets a message, which is over, or which a log says has become another entry.
    fn forget(&mut self, producer: &[u8], message: &[u8]) {
        let Some(records) = self.by_name.get_mut(producer) else { return };
        if let Some(record) = records.remove(self.seed.hash(message), message) {
            self.record_count -= 1;
            self.bytes -= record.message.len();
        }
    }

    /// Forgets the first records of a producer while they are `unneeded`, and the producer if it has none left.
    fn forget_of(&mut self, name: &[u8], unneeded: impl Fn(&Producer) -> bool) {
        let Some(producer) = self.by_name.get_mut(name) else { return };
        while unneeded(producer) {
            let Some(record) = producer.pop() else { break };
            self.record_count -= 1;
            self.bytes -= record.message.len();
        }
        if producer.records.is_empty() {
            self.by_name.remove(name);
            self.bytes -= name.len();
        }
    }

    /// Forgets what is over of the next producer in turn.
    fn look_at_next(&mut self, now_ms: u64) {
        let after = (Bound::Excluded(&self.looked_at[..]), Bound::Unbounded);
        let next = self.by_name.range::<[u8], _>(after).next().map(|(name, _)| name.clone());
        if let Some(name) = &next {
            let limits = self.limits;
            self.forget_of(name, |producer| {
                producer.records.front().is_some_and(|record| limits.is_over(record.id, now_ms))
            });
        }
        // At the end, the next look begins at the first one, unless that has the empty name, which none has.
        self.looked_at = next.unwrap_or_default();
    }

    /// The names of the producers from `from` on, with the number of their records.
    pub fn names(&self, from: &[u8]) -> impl Iterator<Item = (&[u8], usize)> {
        let range = self.by_name.range::<[u8], _>((Bound::Included(from), Bound::Unbounded));
        range.map(|(name, producer)| (&**name, producer.records.len()))
    }

    /// Number of records of a producer, over or not.
    pub fn count_of(&self, producer: &[u8]) -> usize {
        self.by_name.get(producer).map_or(0, |producer| producer.records.len())
    }

    /// Number of producers.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are no producers.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The records of a producer: the ids of the messages, and the entries that they became, in their order.
    pub fn records(&self, producer: &[u8]) -> impl Iterator<Item = (&[u8], StreamId)> {
        let records = self.by_name.get(producer).into_iter().flat_map(|producer| &producer.records);
        records.map(|record| (&*record.message, record.id))
    }

    /// Number of records, over or not.
    pub fn record_count(&self) -> usize {
        self.record_count
    }

    /// Drops a bounded part. Returns false when nothing is left.
    pub(super) fn free_slice(&mut self) -> bool {
        let mut freed = 0;
        while freed < FREED_AT_ONCE {
            let Some(mut producer) = self.by_name.first_entry() else { return false };
            let records = &mut producer.get_mut().records;
            let count = records.len().min(FREED_AT_ONCE - freed);
            records.drain(..count);
            self.record_count -= count;
            freed += count + 1;
            if records.is_empty() {
                producer.remove();
            }
        }
        true
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let of_producer = |producer: &Producer| {
            let index = producer.index.as_ref().map_or(0, |index| index.len() * size_of::<(u64, StreamId)>());
            producer.records.capacity() * size_of::<SentMessage>() + index
        };
        size_of::<Producers>()
            + self.bytes
            + self.by_name.len() * size_of::<(Box<[u8]>, Producer)>()
            + self.by_name.values().map(of_producer).sum::<usize>()
    }

    /// Panics if it is inconsistent; for tests.
    pub fn debug_validate(&self) {
        let (mut count, mut bytes) = (0, 0);
        for (name, producer) in &self.by_name {
            assert!(!producer.records.is_empty());
            assert!(producer.records.iter().is_sorted_by_key(|record| record.id));
            if let Some(index) = &producer.index {
                assert_eq!(index.len(), producer.records.len());
                assert!(producer.records.iter().all(|record| index.contains(&(record.hash, record.id))));
            }
            count += producer.records.len();
            bytes += name.len() + producer.records.iter().map(|record| record.message.len()).sum::<usize>();
        }
        assert_eq!((count, bytes), (self.record_count, self.bytes));
    }
}

impl Producer {
    fn find(&self, hash: u64, message: &[u8]) -> Option<StreamId> {
        let is = |record: &&SentMessage| record.hash == hash && *record.message == *message;
        let Some(index) = &self.index else { return self.records.iter().find(is).map(|record| record.id) };
        let mut ids = index.range((hash, StreamId::MIN)..=(hash, StreamId::MAX)).map(|(_, id)| *id);
        ids.find(|id| self.of_entry(*id).any(|record| is(&record)))
    }

    /// The records of an entry.
    fn of_entry(&self, id: StreamId) -> impl Iterator<Item = &SentMessage> {
        let from = self.records.partition_point(|record| record.id < id);
        self.records.range(from..).take_while(move |record| record.id == id)
    }

    fn insert(&mut self, record: SentMessage) {
        // Nearly always at the end.
        let place = match self.records.back() {
            Some(last) if last.id > record.id => self.records.partition_point(|other| other.id <= record.id),
            _ => self.records.len(),
        };
        if let Some(index) = &mut self.index {
            index.insert((record.hash, record.id));
        }
        self.records.insert(place, record);
        if self.index.is_none() && self.records.len() > UNINDEXED_MAX {
            self.index = Some(self.records.iter().map(|record| (record.hash, record.id)).collect());
        }
    }

    fn remove(&mut self, hash: u64, message: &[u8]) -> Option<SentMessage> {
        let id = self.find(hash, message)?;
        let from = self.records.partition_point(|record| record.id < id);
        let place = self.of_entry(id).position(|record| *record.message == *message)?;
        if let Some(index) = &mut self.index {
            index.remove(&(hash, id));
        }
        self.records.remove(from + place)
    }

    fn pop(&mut self) -> Option<SentMessage> {
        let record = self.records.pop_front()?;
        if let Some(index) = &mut self.index {
            index.remove(&(record.hash, record.id));
        }
        Some(record)
    }
}
