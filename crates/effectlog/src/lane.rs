//! Lanes: each takes the records of one thread to the collector.
//!
//! ```text
//!              ┌─ ring:  … │ bytes of the record, u64 │ slice, u64 │ stamp, u64 │ record │ …   copied, takes no memory
//!   thread ────┤                                                                                        collector
//!              └─ queue: what does not fit into the ring at that moment, as a value
//! ```
//!
//! A commit never waits, and no record is too large: a record that does not fit into the ring goes through a
//! queue without a maximum size. Both keep the order, and stamps of a thread only grow, so the collector
//! takes from the one whose next stamp is smaller.
//!
//! There is no ring until the first record. A ring that is full is replaced by one of twice the size, up to a maximum,
//! and one that was not used for long is dropped. The collector's end of a new ring goes through the queue; the
//! collector turns to it when it has emptied the ring before.
//!
//! Not here: when a record may be taken. `log.rs` makes sure that all records of a slice have arrived.

use std::collections::VecDeque;

use heap::{Exempt, Exemption};
use rtrb::chunks::ChunkError;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::places::{Lsn, Stamp};
use crate::record::{Record, Units};
use crate::recorder::RecordPlace;
use crate::sync::{Receiver, Sender, channel};

/// The sizes of the first and of the largest ring. The largest takes as much as a busy thread commits while the log
/// thread is away for a millisecond. The model checker cannot see into rings, so with it all records take the queue.
const RING_BYTES_FIRST: usize = if cfg!(loom) { 1 } else { 32 * 1024 };
const RING_BYTES_MAX: usize = if cfg!(loom) { 1 } else { 256 * 1024 };
/// The bytes before a record in the ring.
const HEAD_BYTES: usize = 24;

/// A record in the queue.
struct Queued {
    place: RecordPlace,
    record: Record,
    /// For this value itself: the memory of the record does not count anyway.
    #[expect(dead_code, reason = "that it is there counts")]
    exemption: Exemption,
}

/// The collector's end of a ring.
struct RingEnd {
    records: Consumer<u8>,
    #[expect(dead_code, reason = "that it is there counts")]
    exemption: Exemption,
}

/// The two ends of a new lane.
pub(crate) fn lane() -> (LaneStart, LaneEnd) {
    let (start, end) = channel();
    let end = LaneEnd {
        ring: None,
        next_rings: VecDeque::new(),
        in_ring: None,
        queue: end,
        in_queue: None,
        joined: Vec::new(),
        joined_memory: Exemption::none(Exempt::Journal),
    };
    (LaneStart { ring: None, queue: start }, end)
}

/// The items that go through the queue.
enum Sent {
    Record(Queued),
    /// Records behind this one are in this ring, unless they come through the queue.
    Ring(RingEnd),
}

/// The thread's end.
pub(crate) struct LaneStart {
    ring: Option<Producer<u8>>,
    queue: Sender<Sent>,
}

impl LaneStart {
    /// Sends `record`. Its content afterwards is undefined.
    pub(crate) fn send(&mut self, place: RecordPlace, record: &mut Record) {
        let bytes = record.bytes();
        let needed = HEAD_BYTES + bytes.len();
        if let Some(ring) = self.ring_with_room(needed) {
            let head = Head { record_bytes: bytes.len(), place }.encode();
            let pushed = ring.push_entire_slice(&head).and_then(|()| ring.push_entire_slice(bytes));
            assert!(pushed.is_ok(), "there was room");
        } else {
            let record = std::mem::take(record);
            let exemption = Exemption::new(Exempt::Journal, size_of::<Queued>());
            let queued = Queued { place, record, exemption };
            // The collector lives as long as anything is recorded.
            let _ = self.queue.send(Sent::Record(queued));
        }
    }

    #[inline]
    fn ring_with_room(&mut self, needed: usize) -> Option<&mut Producer<u8>> {
        // `slots` is called only if the cached number is too small, because it reads a line that the
        // collector writes.
        let has_room =
            self.ring.as_mut().is_some_and(|ring| ring.cached_slots() >= needed || ring.slots() >= needed);
        if !has_room {
            self.begin_ring(needed)?;
        }
        self.ring.as_mut()
    }

    /// Begins a ring that is larger than the one before and has room for `needed` bytes, unless it would be
    /// too large.
    #[cold]
    fn begin_ring(&mut self, needed: usize) -> Option<()> {
        let larger = self.ring.as_ref().map_or(RING_BYTES_FIRST, |ring| 2 * ring.buffer().capacity());
        let bytes = larger.max(needed.next_power_of_two());
        if bytes > RING_BYTES_MAX {
            return None;
        }
        let (start, ring_end) = heap::at_once(|| {
            let (start, records) = RingBuffer::new(bytes);
            (start, RingEnd { records, exemption: Exemption::of_block(Exempt::Journal, bytes) })
        });
        self.ring = Some(start);
        self.queue.send(Sent::Ring(ring_end)).ok()
    }

    /// Drops the ring if all records were taken from it.
    pub(crate) fn rest(&mut self) {
        self.ring.take_if(|ring| ring.slots() == ring.buffer().capacity());
    }
}

/// The collector's end.
pub(crate) struct LaneEnd {
    ring: Option<RingEnd>,
    /// The rings after it.
    next_rings: VecDeque<RingEnd>,
    /// The head of the next record in the ring, once it was read.
    in_ring: Option<Head>,
    queue: Receiver<Sent>,
    in_queue: Option<Queued>,
    /// Holds a record that wraps around the end of the ring.
    joined: Vec<u8>,
    joined_memory: Exemption,
}

impl LaneEnd {
    /// Looks for new records. Call this when all records of a slice have arrived, before they are taken.
    pub(crate) fn look(&mut self) {
        // In this order: the queue may have the ring.
        self.look_into_queue();
        self.look_into_ring();
    }

    /// The place of the next record, as of the last [look](Self::look). If not all records had arrived by then, it may
    /// be wrong.
    pub(crate) fn next(&self) -> Option<RecordPlace> {
        let in_ring = self.in_ring.as_ref().map(|head| head.place);
        let in_queue = self.in_queue.as_ref().map(|queued| queued.place);
        in_ring.into_iter().chain(in_queue).min_by_key(|place| place.stamp)
    }

    /// Passes the next record to `reader` and removes it. Returns its size in bytes.
    ///
    /// # Panics
    /// If there is no record.
    pub(crate) fn take(&mut self, reader: impl FnOnce(Units<'_>)) -> usize {
        let next = self.next();
        if let Some(Queued { record, .. }) = self.in_queue.take_if(|queued| Some(queued.place) == next) {
            reader(record.units());
            self.look();
            return record.byte_count();
        }
        let Head { record_bytes, .. } = self.in_ring.take().expect("a record comes next");
        self.read_ring(record_bytes, reader).expect("a record follows its head");
        self.look_into_ring();
        record_bytes
    }

    fn read_ring(&mut self, record_bytes: usize, reader: impl FnOnce(Units<'_>)) -> Result<(), ChunkError> {
        let chunk = self.ring.as_mut().expect("its head was there").records.read_chunk(record_bytes)?;
        match chunk.as_slices() {
            (whole, []) => reader(Units::of(whole)),
            (front, back) => {
                self.joined.clear();
                self.joined.extend_from_slice(front);
                self.joined.extend_from_slice(back);
                self.joined_memory.resize(heap::block_bytes(self.joined.capacity()));
                reader(Units::of(&self.joined));
            }
        }
        chunk.commit_all();
        Ok(())
    }

    fn look_into_ring(&mut self) {
        while self.in_ring.is_none() {
            let mut head = [0; HEAD_BYTES];
            let popped =
                self.ring.as_mut().is_some_and(|ring| ring.records.pop_entire_slice(&mut head).is_ok());
            if popped {
                self.in_ring = Some(Head::decode(&head));
            } else if !self.next_rings.is_empty() {
                // The thread had left this ring when it was seen to be empty.
                self.ring = self.next_rings.pop_front();
            } else {
                return self.leave_ring();
            }
        }
    }

    /// Frees a ring that the thread has dropped, if nothing is left in it.
    #[inline]
    fn leave_ring(&mut self) {
        self.ring.take_if(|ring| ring.records.is_abandoned() && ring.records.is_empty());
    }

    fn look_into_queue(&mut self) {
        while self.in_queue.is_none() {
            match self.queue.try_recv() {
                Ok(Sent::Record(queued)) => self.in_queue = Some(queued),
                Ok(Sent::Ring(ring)) => self.next_rings.push_back(ring),
                Err(_) => return,
            }
        }
    }
}

/// The bytes before a record in the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Head {
    record_bytes: usize,
    place: RecordPlace,
}

impl Head {
    fn encode(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let words = [self.record_bytes as u64, self.place.slice.get(), self.place.stamp.get()];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8; HEAD_BYTES]) -> Head {
        let word = |number: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * number + byte]));
        Head {
            record_bytes: word(0) as usize,
            place: RecordPlace { slice: Lsn::new(word(1)), stamp: Stamp::new(word(2)) },
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn place(slice: u64, stamp: u64) -> RecordPlace {
        RecordPlace { slice: Lsn::new(slice), stamp: Stamp::new(stamp) }
    }

    /// A record whose only effect has an argument of `bytes` bytes, all of them derived from `stamp`.
    fn record(stamp: u64, bytes: usize) -> Record {
        let mut record = Record::default();
        record.push(0, &[&vec![stamp as u8; bytes]]);
        record.end_unit();
        record
    }

    /// The next record's stamp, the byte that fills its argument, and the argument's length.
    fn taken(end: &mut LaneEnd) -> Option<(u64, u8, usize)> {
        end.look();
        let place = end.next()?;
        let mut argument = Vec::new();
        end.take(|units| {
            for effect in units.flat_map(|unit| unit.effects()) {
                argument.extend_from_slice(effect.args()[0]);
            }
        });
        assert!(argument.iter().all(|byte| *byte == argument[0]), "no byte of another record");
        Some((place.stamp.get(), argument[0], argument.len()))
    }

    #[test]
    fn records_of_any_size_come_in_order() {
        let (mut start, mut end) = lane();
        let mut sent = VecDeque::new();
        // The sizes end at any place in the ring, and some never fit. Now and then no record is taken for a
        // while, so that the ring fills up.
        for stamp in 1..3000 {
            let bytes = match stamp % 100 {
                99 => 2 * RING_BYTES_MAX,
                other => 1 + (stamp as usize * 7919) % (other as usize * 100 + 1),
            };
            start.send(place(stamp / 10, stamp), &mut record(stamp, bytes));
            sent.push_back((stamp, stamp as u8, bytes));
            let waits = stamp % 500 < 300;
            while !waits && let Some(expected) = sent.pop_front() {
                assert_eq!(taken(&mut end), Some(expected));
            }
        }
        for expected in sent {
            assert_eq!(taken(&mut end), Some(expected));
        }
        assert_eq!(taken(&mut end), None);
    }

    #[test]
    fn rings_grow_with_what_is_sent_and_go_when_it_rests() {
        let (mut start, mut end) = lane();
        let size = |start: &LaneStart| start.ring.as_ref().map_or(0, |ring| ring.buffer().capacity());
        assert_eq!(size(&start), 0);
        let mut sent = 0;
        for _ in 0..3 {
            start.send(place(1, sent + 1), &mut record(sent + 1, 1));
            sent += 1;
            assert_eq!(size(&start), RING_BYTES_FIRST);
            start.rest();
            assert_eq!(size(&start), RING_BYTES_FIRST, "something is in it");
            assert_eq!(taken(&mut end), Some((sent, sent as u8, 1)));
            assert_eq!(taken(&mut end), None);
            start.rest();
            assert_eq!((size(&start), taken(&mut end), end.ring.is_none()), (0, None, true));
        }
        let all = 40;
        for stamp in sent + 1..=all {
            start.send(place(1, stamp), &mut record(stamp, RING_BYTES_FIRST / 2));
        }
        assert_eq!(size(&start), RING_BYTES_MAX);
        let stamps: Vec<u64> = std::iter::from_fn(|| taken(&mut end)).map(|(stamp, ..)| stamp).collect();
        assert_eq!(stamps, (sent + 1..=all).collect::<Vec<u64>>());
    }

    #[test]
    fn a_record_that_came_through_the_queue_is_not_overtaken() {
        let (mut start, mut end) = lane();
        start.send(place(1, 1), &mut record(1, 1));
        start.send(place(1, 2), &mut record(2, RING_BYTES_MAX));
        start.send(place(1, 3), &mut record(3, 1));
        let stamps: Vec<u64> = std::iter::from_fn(|| taken(&mut end)).map(|(stamp, ..)| stamp).collect();
        assert_eq!(stamps, [1, 2, 3]);
    }
}
