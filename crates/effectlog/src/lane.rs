//! Lanes: each takes the records of one thread to the collector.
//!
//! ```text
//!              ┌─ ring:  … │ bytes of the record, u64 │ slice, u64 │ stamp, u64 │ record │ …   copied, takes no memory
//!   thread ────┤                                                                                        collector
//!              └─ queue: what does not fit into the ring at that moment, as a value
//! ```
//!
//! A commit never waits, and no record is too large: what does not fit into the ring goes through a queue without a
//! maximum size. Both keep the order, and stamps of a thread only grow, so the collector takes from the one whose next
//! stamp is smaller.
//!
//! Not here: when a record may be taken. `log.rs` makes sure that all records of a slice have arrived.

use rtrb::chunks::ChunkError;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::record::{Record, Units};
use crate::recorder::Place;
use crate::sync::{Receiver, Sender, channel};

/// The size of a ring: as much as a busy thread commits while the log thread is away for a millisecond. The model
/// checker cannot see into rings, so with it all records take the queue.
const RING_BYTES: usize = if cfg!(loom) { 1 } else { 256 * 1024 };
/// The bytes before a record in the ring.
const HEAD_BYTES: usize = 24;

/// The two ends of a new lane.
pub(crate) fn lane() -> (LaneStart, LaneEnd) {
    let (ring_start, ring_end) = RingBuffer::new(RING_BYTES);
    let (queue_start, queue_end) = channel();
    let end = LaneEnd { ring: ring_end, in_ring: None, queue: queue_end, in_queue: None, joined: Vec::new() };
    (LaneStart { ring: ring_start, queue: queue_start }, end)
}

/// The thread's end.
pub(crate) struct LaneStart {
    ring: Producer<u8>,
    queue: Sender<(Place, Record)>,
}

impl LaneStart {
    /// Sends `record`. Its content afterwards is undefined.
    pub(crate) fn send(&mut self, place: Place, record: &mut Record) {
        let bytes = record.bytes();
        let needed = HEAD_BYTES + bytes.len();
        // Not asked for its news each time: that is a line which the collector writes.
        if self.ring.cached_slots() >= needed || self.ring.slots() >= needed {
            let head = Head { record_bytes: bytes.len(), place }.encode();
            let pushed = self.ring.push_entire_slice(&head).and_then(|()| self.ring.push_entire_slice(bytes));
            debug_assert!(pushed.is_ok(), "there was room");
        } else {
            // The collector lives as long as anything is recorded.
            let _ = self.queue.send((place, std::mem::take(record)));
        }
    }
}

/// The collector's end.
pub(crate) struct LaneEnd {
    ring: Consumer<u8>,
    /// The head of the next record in the ring, once it was read.
    in_ring: Option<Head>,
    queue: Receiver<(Place, Record)>,
    in_queue: Option<(Place, Record)>,
    /// Holds a record that wraps around the end of the ring.
    joined: Vec<u8>,
}

impl LaneEnd {
    /// Looks for new records. To be called when all records of a slice have arrived, before they are taken.
    pub(crate) fn look(&mut self) {
        self.look_into_ring();
        self.look_into_queue();
    }

    /// The place of the next record, as of the last [look](Self::look). If not all records had arrived by then, it may
    /// be wrong.
    pub(crate) fn next(&self) -> Option<Place> {
        let in_ring = self.in_ring.as_ref().map(|head| head.place);
        let in_queue = self.in_queue.as_ref().map(|(place, _)| *place);
        in_ring.into_iter().chain(in_queue).min_by_key(|place| place.stamp)
    }

    /// Passes the next record to `reader` and removes it. Returns its size in bytes.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn take(&mut self, reader: impl FnOnce(Units<'_>)) -> usize {
        let next = self.next();
        if let Some((_, record)) = self.in_queue.take_if(|(place, _)| Some(*place) == next) {
            reader(record.units());
            self.look_into_queue();
            return record.byte_count();
        }
        let Head { record_bytes, .. } = self.in_ring.take().expect("a record comes next");
        self.read_ring(record_bytes, reader).expect("a record follows its head");
        self.look_into_ring();
        record_bytes
    }

    fn read_ring(&mut self, record_bytes: usize, reader: impl FnOnce(Units<'_>)) -> Result<(), ChunkError> {
        let chunk = self.ring.read_chunk(record_bytes)?;
        match chunk.as_slices() {
            (whole, []) => reader(Units::of(whole)),
            (front, back) => {
                self.joined.clear();
                self.joined.extend_from_slice(front);
                self.joined.extend_from_slice(back);
                reader(Units::of(&self.joined));
            }
        }
        chunk.commit_all();
        Ok(())
    }

    fn look_into_ring(&mut self) {
        if self.in_ring.is_none() {
            let mut head = [0; HEAD_BYTES];
            self.in_ring = self.ring.pop_entire_slice(&mut head).ok().map(|()| Head::decode(&head));
        }
    }

    fn look_into_queue(&mut self) {
        if self.in_queue.is_none() {
            self.in_queue = self.queue.try_recv().ok();
        }
    }
}

/// The bytes before a record in the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Head {
    record_bytes: usize,
    place: Place,
}

impl Head {
    fn encode(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let words = [self.record_bytes as u64, self.place.slice, self.place.stamp];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8; HEAD_BYTES]) -> Head {
        let word = |number: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * number + byte]));
        Head { record_bytes: word(0) as usize, place: Place { slice: word(1), stamp: word(2) } }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A record whose only effect has an argument of so many bytes, all of them like `stamp`.
    fn record(stamp: u64, bytes: usize) -> Record {
        let mut record = Record::default();
        record.push(0, &[&vec![stamp as u8; bytes]]);
        record.end_unit();
        record
    }

    /// The next record's stamp, what its argument consists of, and how long that is.
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
        Some((place.stamp, argument[0], argument.len()))
    }

    #[test]
    fn records_of_any_size_come_in_order() {
        let (mut start, mut end) = lane();
        let mut sent = std::collections::VecDeque::new();
        // Sizes that end at any place in the ring, and some that never fit; now and then nobody takes for a while, so that it is full.
        for stamp in 1..3000 {
            let bytes = match stamp % 100 {
                99 => 2 * RING_BYTES,
                other => 1 + (stamp as usize * 7919) % (other as usize * 100 + 1),
            };
            start.send(Place { slice: stamp / 10, stamp }, &mut record(stamp, bytes));
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
    fn a_record_that_came_through_the_queue_is_not_overtaken() {
        let (mut start, mut end) = lane();
        start.send(Place { slice: 1, stamp: 1 }, &mut record(1, 1));
        start.send(Place { slice: 1, stamp: 2 }, &mut record(2, RING_BYTES));
        start.send(Place { slice: 1, stamp: 3 }, &mut record(3, 1));
        let stamps: Vec<u64> = std::iter::from_fn(|| taken(&mut end)).map(|(stamp, ..)| stamp).collect();
        assert_eq!(stamps, [1, 2, 3]);
    }
}
