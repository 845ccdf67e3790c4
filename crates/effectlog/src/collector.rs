//! The collector: closes slices, and forms the stream from their records.
//!
//! It never waits: if a thread is committing at that moment, the caller tries again later.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::boundary::Boundary;
use crate::dialect::Dialect;
use crate::lane::LaneEnd;
use crate::log::{LaneEnds, Log};
use crate::places::{Lsn, Stamp, StreamPosition};
use crate::slice::Slice;
use crate::stream::Stream;
use crate::sync::Arc;

/// The result of closing a slice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Closing {
    /// This is the slice.
    Done(Slice),
    /// A thread is committing: try again a little later.
    Busy,
    /// There is nothing to close.
    Nothing,
}

/// See the head of this file.
pub struct Collector {
    log: Arc<Log>,
    lanes: Vec<LaneEnd>,
    /// The number of the next slice to close.
    next: Lsn,
    /// The position of that slice in the stream.
    position: StreamPosition,
    stream: Stream,
    /// The log was turned on after slice before `next`. This slice is next, and waits for [`Collector::begin`], which sets
    /// its position.
    awaited: Option<Lsn>,
    /// The dialect of the slice that was closed last, if dialects are determined.
    dialect: Dialect,
    /// The lanes that have further records of the slice being closed, by the stamp of the next record.
    heads: BinaryHeap<Reverse<(Stamp, usize)>>,
}

impl Collector {
    /// A collector that closes all slices of `log`. It must be created before any slice is closed.
    pub fn new(log: &Arc<Log>, ends: LaneEnds) -> Collector {
        Collector {
            log: Arc::clone(log),
            lanes: ends.0,
            next: log.slice(),
            position: StreamPosition::START,
            stream: Stream::default(),
            awaited: None,
            dialect: Dialect::default(),
            heads: BinaryHeap::new(),
        }
    }

    /// Slice `first` is closed next, and begins at `position` of the stream. The log was or will be [turned
    /// on](Log::turn_on) with this slice. All slices before that must be closed.
    ///
    /// # Panics
    /// If slice `first` was closed, or the log was turned on with another one.
    pub fn begin(&mut self, first: Lsn, position: StreamPosition) {
        assert!(first >= self.next, "slice {first} was closed before");
        assert!(
            self.awaited.is_none_or(|awaited| awaited == first),
            "the log does not go on with slice {first}"
        );
        (self.next, self.position, self.stream, self.awaited) = (first, position, self.stream.anew(), None);
    }

    /// Call this after the log was turned on, if its slices begin where the last closed one ended.
    pub fn go_on(&mut self) {
        if let Some(first) = self.awaited {
            self.begin(first, self.position);
        }
    }

    /// The dialect of the slice that was closed last, if [`tell_dialects`](Self::tell_dialects) is on.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Whether the dialects of slices are determined from now on.
    pub fn tell_dialects(&mut self, tells: bool) {
        self.stream.tell_dialects(tells);
    }

    /// The position of the next slice to close.
    pub fn position(&self) -> StreamPosition {
        self.position
    }

    /// The number of the next slice to close. After the log was turned off and on, this is the last closed slice's
    /// number plus 1 until [`begin`](Self::begin).
    pub fn next(&self) -> Lsn {
        self.next
    }

    /// Closes the next slice if it is not empty, if it has ended, or if `may_be_empty`. Its bytes are appended to the
    /// buffer that `payload` returns. Whether their memory counts against `maxmemory` is the caller's affair.
    pub fn close(&mut self, may_be_empty: bool, payload: impl FnOnce() -> Vec<u8>) -> Closing {
        let open = self.log.slice();
        if self.awaited.is_some() || open < self.next {
            return Closing::Nothing;
        }
        if open == self.next {
            if !may_be_empty && !self.log.has_pending() {
                return Closing::Nothing;
            }
            self.log.end(open);
        }
        if !self.log.is_complete() {
            return Closing::Busy;
        }
        let (db, position) = (self.stream.db(), self.position);
        let mut slice = Slice { number: self.next, position, db, payload: payload() };
        for lane in 0..self.lanes.len() {
            self.lanes[lane].look();
            self.add_head(lane);
        }
        while let Some(Reverse((_, lane))) = self.heads.pop() {
            let stream = &mut self.stream;
            let bytes = self.lanes[lane].take(|units| stream.write(units, &mut slice.payload));
            self.log.note_merged(lane, bytes as u64);
            self.add_head(lane);
        }
        self.dialect = self.stream.take_dialect();
        slice.db = slice.db.or(self.stream.take_copied_from());
        match self.log.take_boundary(slice.number) {
            Some(Boundary::Cut(cut)) => {
                // A reader that begins behind the cut has no database selected.
                self.stream = self.stream.anew();
                cut.set_end(slice.end());
            }
            Some(Boundary::TurnedOn { first, .. }) => self.awaited = Some(first),
            None => {}
        }
        self.next = self.next.next();
        self.position = slice.end();
        Closing::Done(slice)
    }

    /// Adds a lane to the heads if its next record belongs to the slice being closed.
    fn add_head(&mut self, lane: usize) {
        if let Some(place) = self.lanes[lane].next().filter(|place| place.slice <= self.next) {
            assert!(
                place.slice == self.next,
                "a record of slice {} comes after that was closed",
                place.slice
            );
            self.heads.push(Reverse((place.stamp, lane)));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::recorder::{RecordPlace, Recorder};

    fn log(threads: usize) -> (Arc<Log>, Vec<Recorder>, Collector) {
        let (log, recorders, ends) = Log::new(threads, Box::new(|| 0));
        log.turn_on(Lsn::new(1));
        let mut collector = Collector::new(&log, ends);
        collector.begin(Lsn::new(1), StreamPosition::START);
        (log, recorders, collector)
    }

    /// Commits a command that selects database `db`; `after` is the stamp of the shard.
    fn commit(recorder: &mut Recorder, db: u32, after: Stamp) -> RecordPlace {
        recorder.push(db, &[b"A"]);
        recorder.commit(after).expect("it is on")
    }

    fn selected(collector: &mut Collector) -> Option<(u64, Vec<u32>)> {
        let Closing::Done(slice) = collector.close(false, Vec::new) else { return None };
        let text = String::from_utf8(slice.payload).expect("it is text");
        let words: Vec<&str> = text.split("\r\n").collect();
        let dbs = words.windows(3).filter(|words| words[0] == "SELECT");
        Some((slice.number.get(), dbs.map(|words| words[2].parse().expect("a number")).collect()))
    }

    #[test]
    fn records_come_by_stamp_and_then_by_thread() {
        let (_log, mut threads, mut collector) = log(3);
        assert_eq!(selected(&mut collector), None);
        let first = commit(&mut threads[2], 20, Stamp::NONE);
        let second = commit(&mut threads[0], 0, first.stamp);
        commit(&mut threads[1], 10, second.stamp);
        commit(&mut threads[2], 21, Stamp::NONE);
        commit(&mut threads[0], 1, Stamp::NONE);
        assert_eq!((first.slice, second.slice, first.stamp < second.stamp), (Lsn::new(1), Lsn::new(1), true));
        assert_eq!(selected(&mut collector), Some((1, vec![20, 0, 21, 1, 10])));
        assert_eq!(selected(&mut collector), None);
    }

    #[test]
    fn a_cut_is_between_two_slices() {
        let (log, mut threads, mut collector) = log(1);
        commit(&mut threads[0], 1, Stamp::NONE);
        assert_eq!(log.cut().slice(), Lsn::new(1));
        commit(&mut threads[0], 2, Stamp::NONE);
        assert_eq!(selected(&mut collector), Some((1, vec![1])));
        assert_eq!(log.cut().slice(), Lsn::new(2));
        assert_eq!(selected(&mut collector), Some((2, vec![2])));
        assert_eq!(log.cut().slice(), Lsn::new(3));
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
        collector.begin(Lsn::new(1), StreamPosition::new(1000));
        commit(&mut threads[0], 3, Stamp::NONE);
        assert!(log.pending_bytes() > 0);
        let Closing::Done(first) = collector.close(false, Vec::new) else { panic!("there is something") };
        assert_eq!((first.position.get(), first.db, log.pending_bytes()), (1000, None, 0));
        let Closing::Done(second) = collector.close(true, Vec::new) else { panic!("it may be empty") };
        assert_eq!((second.position, second.db, second.payload.len()), (first.end(), Some(3), 0));
    }

    #[test]
    fn any_number_of_cuts_may_be_under_way() {
        let (log, mut threads, mut collector) = log(2);
        let mut cuts = Vec::new();
        for number in 0..100 {
            commit(&mut threads[0], number, Stamp::NONE);
            cuts.push(log.cut());
            if number % 3 == 0 {
                // Two slices end at one moment.
                cuts.push(log.cut());
            }
        }
        commit(&mut threads[1], 0, Stamp::NONE);
        for cut in cuts {
            assert_eq!((collector.next(), cut.end()), (cut.slice(), None), "its slice is not closed yet");
            let Closing::Done(slice) = collector.close(false, Vec::new) else { panic!("it has ended") };
            assert_eq!((slice.number, Some(slice.end())), (cut.slice(), cut.end()));
        }
        let Closing::Done(slice) = collector.close(false, Vec::new) else { panic!("there is something") };
        assert!(slice.number > Lsn::new(100) && !slice.payload.is_empty());
    }

    #[test]
    fn a_log_that_is_turned_on_waits_for_its_beginning() {
        let (log, mut threads, mut collector) = log(1);
        commit(&mut threads[0], 1, Stamp::NONE);
        let cut = log.cut();
        let far = Lsn::new(1 << 60);
        assert_eq!(log.turn_on(far), Lsn::new(2));
        commit(&mut threads[0], 2, Stamp::NONE);
        let later = log.cut();
        let closed: Vec<Slice> = std::iter::from_fn(|| match collector.close(true, Vec::new) {
            Closing::Done(slice) => Some(slice),
            Closing::Busy | Closing::Nothing => None,
        })
        .collect();
        let numbers: Vec<u64> = closed.iter().map(|slice| slice.number.get()).collect();
        assert_eq!(
            (numbers, collector.next().get()),
            (vec![1, 2], 3),
            "no slice between, and none of those behind"
        );
        assert_eq!(cut.end(), Some(closed[0].end()));
        collector.begin(far, StreamPosition::new(7000));
        let Closing::Done(slice) = collector.close(false, Vec::new) else { panic!("there is something") };
        assert_eq!((slice.number, slice.position.get(), slice.db), (far, 7000, None));
        assert_eq!(later.end(), Some(slice.end()));
        assert_eq!(selected(&mut collector), None);
    }

    #[test]
    fn a_beginning_may_come_before_the_log_is_turned_on() {
        let (log, mut threads, mut collector) = log(1);
        assert_eq!(log.turn_off(), Lsn::new(1));
        assert_eq!(selected(&mut collector), Some((1, vec![])));
        collector.begin(Lsn::new(50), StreamPosition::START);
        assert_eq!(collector.close(true, Vec::new), Closing::Nothing, "it has not begun");
        assert_eq!(log.turn_on(Lsn::new(50)), Lsn::new(2));
        commit(&mut threads[0], 3, Stamp::NONE);
        assert_eq!(selected(&mut collector), Some((50, vec![3])));
    }

    #[test]
    fn a_copy_adds_nothing_and_its_slices_know_what_is_selected() {
        let (log, mut threads, mut collector) = log(1);
        commit(&mut threads[0], 1, Stamp::NONE);
        assert!(threads[0].is_on());
        log.set_copying(true);
        assert!(!threads[0].is_on() && log.is_on());
        let mut slices = Vec::new();
        for (db, piece) in [(crate::NO_DB, &b"one"[..]), (4, b"two"), (5, b"three")] {
            threads[0].push_copy(db, piece);
            threads[0].commit(Stamp::NONE);
            log.cut();
        }
        log.set_copying(false);
        commit(&mut threads[0], 5, Stamp::NONE);
        while let Closing::Done(slice) = collector.close(false, Vec::new) {
            slices.push((slice.db, String::from_utf8(slice.payload).expect("it is text")));
        }
        let selects = |db: u32| format!("*2\r\n$6\r\nSELECT\r\n$1\r\n{db}\r\n*1\r\n$1\r\nA\r\n");
        let expected = [
            (None, selects(1)),
            (None, "one".to_owned()),
            (Some(4), "two".to_owned()),
            (Some(5), "three".to_owned()),
            (None, String::new()),
            (None, selects(5)),
        ];
        assert_eq!(slices, expected);
    }

    #[test]
    #[should_panic(expected = "does not go on with slice 8")]
    fn a_log_begins_with_the_slice_that_it_was_turned_on_with() {
        let (log, _threads, mut collector) = log(1);
        log.turn_on(Lsn::new(7));
        assert_eq!(selected(&mut collector), Some((1, vec![])));
        collector.begin(Lsn::new(8), StreamPosition::START);
    }

    #[test]
    fn a_log_that_is_off_records_nothing() {
        let (log, mut threads, mut collector) = log(1);
        assert_eq!(log.turn_off(), Lsn::new(1));
        assert_eq!(selected(&mut collector), Some((1, vec![])));
        assert!(!threads[0].is_on());
        assert_eq!(selected(&mut collector), None);
        assert_eq!(log.turn_on(Lsn::new(7)), Lsn::new(2));
        assert_eq!(selected(&mut collector), Some((2, vec![])));
        collector.begin(Lsn::new(7), StreamPosition::START);
        assert!(threads[0].is_on() && commit(&mut threads[0], 0, Stamp::NONE).slice == Lsn::new(7));
        assert_eq!(selected(&mut collector), Some((7, vec![0])));
    }
}
