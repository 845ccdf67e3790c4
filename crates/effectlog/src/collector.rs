//! The collector: closes slices, and makes the stream of what is in them.
//!
//! It never waits by itself: where a thread is committing at that moment, whoever calls comes back.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::log::{LaneEnds, Log, Placed};
use crate::slice::Slice;
use crate::stream::Stream;
use crate::sync::Arc;

/// What came of closing a slice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Closing {
    /// This is the slice.
    Done(Slice),
    /// A thread is committing: once more, a little later.
    Busy,
    /// There is nothing to be closed.
    Nothing,
}

/// See the head of this file.
pub struct Collector {
    log: Arc<Log>,
    lanes: Vec<Lane>,
    /// The number of the slice that is closed next.
    next: u64,
    /// Where in the stream it begins.
    position: u64,
    stream: Stream,
    /// Of the slice that is being closed: the first record of each lane that has one, by stamp.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
}

struct Lane {
    end: crate::log::LaneEnd,
    /// The record that comes next.
    head: Option<Placed>,
}

impl Collector {
    /// Closes the slices of `log`, none of which was closed before.
    pub fn new(log: &Arc<Log>, ends: LaneEnds) -> Collector {
        let lanes = ends.0.into_iter().map(|end| Lane { end, head: None }).collect();
        Collector {
            log: Arc::clone(log),
            lanes,
            next: log.slice(),
            position: 0,
            stream: Stream::default(),
            heads: BinaryHeap::new(),
        }
    }

    /// The log was turned on with slice `first`, which begins at `position` of the stream. All that was open before must be closed.
    pub fn begin(&mut self, first: u64, position: u64) {
        assert!(first >= self.next, "slice {first} was closed before");
        (self.next, self.position, self.stream) = (first, position, Stream::default());
    }

    /// The number of the slice that is closed next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Closes the next slice if there is something in it, if a cut has ended it, or if it may be empty; `payload` is what its bytes are
    /// appended to.
    pub fn close(&mut self, may_be_empty: bool, payload: Vec<u8>) -> Closing {
        if self.log.slice() == self.next {
            if !may_be_empty && !self.log.has_pending() && self.lanes.iter().all(|lane| lane.head.is_none()) {
                return Closing::Nothing;
            }
            self.log.end(self.next);
        }
        if !self.log.is_complete() {
            return Closing::Busy;
        }
        let (db, position) = (self.stream.db(), self.position);
        let mut slice = Slice { number: self.next, position, db, payload };
        for lane in 0..self.lanes.len() {
            self.find_head(lane);
        }
        while let Some(Reverse((_, lane))) = self.heads.pop() {
            let Some(Placed { record, .. }) = self.lanes[lane].head.take() else {
                unreachable!("a lane is among the heads if it has one")
            };
            self.stream.write(&record, &mut slice.payload);
            self.log.note_merged(lane, record.byte_count() as u64);
            self.lanes[lane].end.give_back(record);
            self.find_head(lane);
        }
        self.next += 1;
        self.position = slice.end();
        Closing::Done(slice)
    }

    /// Looks for the next record of a lane that is in the slice that is being closed.
    fn find_head(&mut self, number: usize) {
        let lane = &mut self.lanes[number];
        if lane.head.is_none() {
            lane.head = lane.end.take();
        }
        if let Some(Placed { place, .. }) = &lane.head
            && place.slice <= self.next
        {
            assert!(
                place.slice == self.next,
                "a record of slice {} comes after that was closed",
                place.slice
            );
            self.heads.push(Reverse((place.stamp, number)));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::recorder::{Place, Recorder};

    fn log(threads: usize) -> (Arc<Log>, Vec<Recorder>, Collector) {
        let (log, recorders, ends) = Log::new(threads, Box::new(|| 0));
        log.turn_on(1);
        let mut collector = Collector::new(&log, ends);
        collector.begin(1, 0);
        (log, recorders, collector)
    }

    /// Commits a command that selects database `db`; `after` is the stamp of the shard.
    fn commit(recorder: &mut Recorder, db: u32, after: u64) -> Place {
        recorder.push(db, &[b"A"]);
        recorder.commit(after).expect("it is on")
    }

    fn selected(collector: &mut Collector) -> Option<(u64, Vec<u32>)> {
        let Closing::Done(slice) = collector.close(false, Vec::new()) else { return None };
        let text = String::from_utf8(slice.payload).expect("it is text");
        let words: Vec<&str> = text.split("\r\n").collect();
        let dbs = words.windows(3).filter(|words| words[0] == "SELECT");
        Some((slice.number, dbs.map(|words| words[2].parse().expect("a number")).collect()))
    }

    #[test]
    fn records_come_by_stamp_and_then_by_thread() {
        let (_log, mut threads, mut collector) = log(3);
        assert_eq!(selected(&mut collector), None);
        let first = commit(&mut threads[2], 20, 0);
        let second = commit(&mut threads[0], 0, first.stamp);
        commit(&mut threads[1], 10, second.stamp);
        commit(&mut threads[2], 21, 0);
        commit(&mut threads[0], 1, 0);
        assert_eq!((first.slice, second.slice, first.stamp < second.stamp), (1, 1, true));
        assert_eq!(selected(&mut collector), Some((1, vec![20, 0, 21, 1, 10])));
        assert_eq!(selected(&mut collector), None);
    }

    #[test]
    fn a_cut_is_between_two_slices() {
        let (log, mut threads, mut collector) = log(1);
        commit(&mut threads[0], 1, 0);
        assert_eq!(log.cut(), 1);
        commit(&mut threads[0], 2, 0);
        assert_eq!(selected(&mut collector), Some((1, vec![1])));
        assert_eq!(log.cut(), 2);
        assert_eq!(selected(&mut collector), Some((2, vec![2])));
        assert_eq!(log.cut(), 3);
        assert_eq!(
            selected(&mut collector),
            Some((3, vec![])),
            "a slice that a cut has ended comes, empty or not"
        );
        assert_eq!(selected(&mut collector), None);
    }

    #[test]
    fn slices_say_where_they_are_in_the_stream() {
        let (log, mut threads, mut collector) = log(1);
        collector.begin(1, 1000);
        commit(&mut threads[0], 3, 0);
        assert!(log.pending_bytes() > 0);
        let Closing::Done(first) = collector.close(false, Vec::new()) else { panic!("there is something") };
        assert_eq!((first.position, first.db, log.pending_bytes()), (1000, None, 0));
        let Closing::Done(second) = collector.close(true, Vec::new()) else { panic!("it may be empty") };
        assert_eq!((second.position, second.db, second.payload.len()), (first.end(), Some(3), 0));
    }

    #[test]
    fn a_log_that_is_off_records_nothing() {
        let (log, mut threads, mut collector) = log(1);
        assert_eq!(log.turn_off(), 1);
        assert_eq!(selected(&mut collector), Some((1, vec![])));
        assert!(!threads[0].is_on());
        assert_eq!(selected(&mut collector), None);
        assert_eq!(log.turn_on(7), 2);
        assert_eq!(selected(&mut collector), Some((2, vec![])));
        collector.begin(7, 0);
        assert!(threads[0].is_on() && commit(&mut threads[0], 0, 0).slice == 7);
        assert_eq!(selected(&mut collector), Some((7, vec![0])));
    }
}
