//! The backlog: the last slices of the stream, in memory, for replicas.
//!
//! ```text
//!   log thread ──push──▶ slice │ slice │ slice │ slice ──▶ readers, each at its own place
//!                        ▲ first                    ▲ end
//!              kept: a fixed number of bytes, and more for readers that are behind, up to a limit
//! ```
//!
//! Readers share the slices, so a slow replica costs the slices that it has not fetched, once. A reader that falls
//! further behind than the limit loses its place ([`Found::Gone`]): nothing is held up for it. A thread that has
//! nothing to read announces that before it sleeps, and the next slice wakes it ([`Backlog::awaits`]).
//!
//! Not here: sockets, and the journal's segments, which reach further back.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::dialect::{self, Dialect, RedisVersion};
use crate::line::CacheLine;
use crate::places::{AtomicStreamPosition, Lsn, StreamPosition};
use crate::slice::SharedSlice;

/// See the head of this file.
pub struct Backlog {
    kept: Mutex<Kept>,
    /// The position at the end of the stream.
    end: CacheLine<AtomicStreamPosition>,
    /// For each thread, whether the next slice must wake it.
    sleepers: Box<[CacheLine<AtomicBool>]>,
    wake: Box<dyn Fn(usize) + Send + Sync>,
}

/// Greater than every position.
const CLOSED: StreamPosition = StreamPosition::MAX;

/// The part of the stream that is in memory.
#[derive(Default)]
struct Kept {
    /// Slices without gaps. Empty slices are left out.
    slices: VecDeque<Entry>,
    /// The position of the first slice, or of the next one if there is none; [`CLOSED`] if the backlog is closed.
    first: StreamPosition,
    /// The number of the last slice, even if it is no longer kept.
    last: Lsn,
    /// How many bytes are kept for future replicas.
    bytes_min: u64,
    /// How many bytes are kept for readers that lag.
    bytes_max: u64,
    /// The positions of the readers. A reader is gone when this list has the last reference to its position.
    places: Vec<Arc<AtomicStreamPosition>>,
}

/// A slice and its dialect.
#[derive(Clone)]
struct Entry {
    slice: SharedSlice,
    dialect: Dialect,
}

/// The result of a read.
#[derive(Debug)]
pub enum Found<'r> {
    /// Bytes of the stream, in the dialect of the reader.
    Bytes(&'r [u8]),
    /// No bytes: the reader is at the end of the stream.
    Nothing,
    /// No bytes: the next ones are no longer kept.
    Gone,
}

/// While this exists, slices that were added after it was made are kept, up to the limit. For a caller that will start
/// to read from there.
#[derive(Clone, Debug)]
pub struct Held(#[expect(dead_code, reason = "that it is there counts")] Arc<AtomicStreamPosition>);

/// Reads the stream. Bytes that it has not read are kept, up to the limit.
pub struct Reader {
    backlog: Arc<Backlog>,
    place: Arc<AtomicStreamPosition>,
    /// The release of Redis that the bytes are for; `None`: Darter, which knows all commands.
    version: Option<RedisVersion>,
    /// The slice at its position, once it was found; and the translation of its payload, if the reader needs one.
    entry: Option<Entry>,
    translated: Option<Vec<u8>>,
    /// How many commands translations have left out.
    left_out: u64,
}

impl Backlog {
    /// A closed backlog for `threads` threads. `wake` wakes a thread by its number.
    pub fn new(threads: usize, wake: Box<dyn Fn(usize) + Send + Sync>) -> Backlog {
        Backlog {
            kept: Mutex::new(Kept { first: CLOSED, ..Kept::default() }),
            end: CacheLine::default(),
            sleepers: (0..threads).map(|_| CacheLine::default()).collect(),
            wake,
        }
    }

    /// Sets how many bytes are kept for future replicas, and for readers that lag.
    pub fn set_limits(&self, bytes_min: u64, bytes_max: u64) {
        let mut kept = self.lock();
        (kept.bytes_min, kept.bytes_max) = (bytes_min, bytes_max.max(bytes_min));
        let end = self.end();
        kept.trim(end);
    }

    /// Drops all slices. The stream continues, or starts again, at `position` after slice `last`. Bytes that
    /// a [hold](Self::hold) keeps are kept from there on.
    pub fn begin(&self, position: StreamPosition, last: Lsn) {
        let mut kept = self.lock();
        kept.slices.clear();
        for place in &kept.places {
            place.fetch_min(position, Ordering::Relaxed);
        }
        (kept.first, kept.last) = (position, last);
        self.end.0.store(position, Ordering::Release);
        drop(kept);
        self.wake_sleepers();
    }

    /// Drops all slices. No reader can start before the next [`begin`](Self::begin): changes until then are missing
    /// here.
    pub fn close(&self) {
        let mut kept = self.lock();
        kept.slices.clear();
        kept.first = CLOSED;
    }

    /// Adds the next slice with its dialect.
    ///
    /// # Panics
    /// If the slice does not begin at the end of the stream.
    pub fn push(&self, slice: SharedSlice, dialect: Dialect) {
        let end = slice.end();
        assert_eq!(slice.position, self.end(), "slices have no gap");
        let mut kept = self.lock();
        kept.last = slice.number;
        if slice.payload.is_empty() {
            return;
        }
        kept.slices.push_back(Entry { slice, dialect });
        kept.trim(end);
        self.end.0.store(end, Ordering::Release);
        drop(kept);
        self.wake_sleepers();
    }

    /// The position at the end of the stream.
    pub fn end(&self) -> StreamPosition {
        self.end.0.load(Ordering::Acquire)
    }

    /// The end of slice `number`. If that slice is no longer kept, a later position, at most the beginning of a later
    /// slice. `None`: the slice has not been added yet.
    pub fn end_of(&self, number: Lsn) -> Option<StreamPosition> {
        let kept = self.lock();
        if number > kept.last {
            return None;
        }
        let behind = kept.slices.partition_point(|entry| entry.slice.number <= number);
        let first = || kept.first.min(self.end());
        Some(behind.checked_sub(1).map_or_else(first, |last| kept.slices[last].slice.end()))
    }

    /// The end of slice `number`; `None` if the slice is no longer kept or has not been added yet.
    pub fn known_end_of(&self, number: Lsn) -> Option<StreamPosition> {
        let kept = self.lock();
        let behind = kept.slices.partition_point(|entry| entry.slice.number <= number);
        let last = behind.checked_sub(1).filter(|_| number <= kept.last)?;
        Some(kept.slices[last].slice.end())
    }

    /// The number of the last slice.
    pub fn last(&self) -> Lsn {
        self.lock().last
    }

    /// The number of the last slice that ends at or before `position`; [`Lsn::NONE`] if it is no longer known.
    pub fn last_before(&self, position: StreamPosition) -> Lsn {
        let kept = self.lock();
        if position < kept.first {
            return Lsn::NONE;
        }
        let behind = kept.slices.partition_point(|entry| entry.slice.end() <= position);
        kept.slices.get(behind).map_or(kept.last, |entry| entry.slice.number.before())
    }

    /// The position of the first byte that is kept. If there is none, the end of the stream.
    pub fn first(&self) -> StreamPosition {
        self.lock().first.min(self.end())
    }

    /// How much of the stream is kept.
    pub fn bytes(&self) -> u64 {
        self.end().since(self.first())
    }

    /// Whether the stream from `position` to its end is kept.
    pub fn has(&self, position: StreamPosition) -> bool {
        let first = self.lock().first;
        (first..=self.end()).contains(&position)
    }

    /// Call this before thread number `thread` sleeps, having read up to `position`: the next slice will wake
    /// it. False: there already is more to read.
    pub fn awaits(&self, thread: usize, position: StreamPosition) -> bool {
        self.sleepers[thread].0.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.end() <= position
    }

    /// Whether the stream has come to `position`, at which a reader will start. It has not until the slice
    /// before it is added, or the backlog begins there.
    pub fn has_reached(&self, position: StreamPosition) -> bool {
        self.lock().first != CLOSED && position <= self.end()
    }

    /// A reader that starts at `position`; `None` if that position is not kept.
    pub fn read_from(
        self: &Arc<Self>,
        position: StreamPosition,
        version: Option<RedisVersion>,
    ) -> Option<Reader> {
        self.read_from_coming(position, StreamPosition::START, version)
    }

    /// Like [`read_from`](Self::read_from), but `position` may be up to `coming`, which the stream will certainly
    /// reach: changes arrive here a little after they are committed.
    pub fn read_from_coming(
        self: &Arc<Self>,
        position: StreamPosition,
        coming: StreamPosition,
        version: Option<RedisVersion>,
    ) -> Option<Reader> {
        let mut kept = self.lock();
        if !(kept.first..=self.end().max(coming)).contains(&position) {
            return None;
        }
        let place = Arc::new(AtomicStreamPosition::new(position));
        kept.places.push(Arc::clone(&place));
        drop(kept);
        Some(Reader { backlog: Arc::clone(self), place, version, entry: None, translated: None, left_out: 0 })
    }

    /// Keeps slices that are added from now on.
    pub fn hold(&self) -> Held {
        let place = Arc::new(AtomicStreamPosition::new(self.end()));
        self.lock().places.push(Arc::clone(&place));
        Held(place)
    }

    fn wake_sleepers(&self) {
        fence(Ordering::SeqCst);
        for (thread, is_asleep) in self.sleepers.iter().enumerate() {
            if is_asleep.0.load(Ordering::Relaxed) && is_asleep.0.swap(false, Ordering::Relaxed) {
                (self.wake)(thread);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Drops slices beyond the limits. `end`: the end of the stream.
    fn trim(&mut self, end: StreamPosition) {
        self.places.retain(|place| Arc::strong_count(place) > 1);
        let read = self.places.iter().map(|place| place.load(Ordering::Relaxed)).min().unwrap_or(end);
        let first = read.min(end.minus(self.bytes_min)).max(end.minus(self.bytes_max));
        while let Some(entry) = self.slices.pop_front_if(|entry| entry.slice.end() <= first) {
            self.first = entry.slice.end();
        }
    }

    /// The slice that contains `position`.
    fn find(&self, position: StreamPosition) -> Option<&Entry> {
        let index = self.slices.partition_point(|entry| entry.slice.end() <= position);
        self.slices.get(index).filter(|entry| entry.slice.position <= position)
    }
}

impl Reader {
    /// The reader's position in the stream.
    pub fn position(&self) -> StreamPosition {
        self.place.load(Ordering::Relaxed)
    }

    /// The next bytes, at most `bytes_max`.
    pub fn next(&mut self, bytes_max: usize) -> Found<'_> {
        let position = self.position();
        if self.entry.as_ref().is_none_or(|entry| entry.slice.end() <= position) {
            let kept = self.backlog.lock();
            self.entry = kept.find(position).cloned();
            let is_kept = position >= kept.first;
            drop(kept);
            self.translated = None;
            let Some(Entry { slice, dialect }) = &self.entry else {
                return if is_kept { Found::Nothing } else { Found::Gone };
            };
            self.translated = self
                .version
                .filter(|version| dialect.has_own || dialect.version > *version)
                .map(|version| dialect::translated(&slice.payload, version))
                .map(|(bytes, left_out)| {
                    self.left_out += left_out;
                    bytes
                });
        }
        let slice = &self.entry.as_ref().expect("it was found").slice;
        let bytes = self.translated.as_ref().unwrap_or(&slice.payload);
        let rest = &bytes[position.since(slice.position) as usize..];
        Found::Bytes(&rest[..rest.len().min(bytes_max)])
    }

    /// How many commands were left out since the last call, because the reader's release of Redis does not know them.
    pub fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }

    /// Moves the reader forward by `bytes` of the bytes that it got.
    pub fn advance(&self, bytes: usize) {
        self.place.store(self.position().plus(bytes), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slice::Slice;
    use heap::Exempt;
    use std::sync::atomic::AtomicUsize;

    fn at(position: u64) -> StreamPosition {
        StreamPosition::new(position)
    }

    fn shared(slice: Slice) -> SharedSlice {
        SharedSlice::new(slice, Exempt::Stream)
    }

    fn backlog(bytes_min: u64, bytes_max: u64) -> (Arc<Backlog>, Arc<AtomicUsize>) {
        let woken: Arc<AtomicUsize> = Arc::default();
        let bell = Arc::clone(&woken);
        let wake = Box::new(move |_thread| {
            bell.fetch_add(1, Ordering::Relaxed);
        });
        let backlog = Backlog::new(2, wake);
        backlog.set_limits(bytes_min, bytes_max);
        backlog.begin(at(1000), Lsn::NONE);
        (Arc::new(backlog), woken)
    }

    fn push(backlog: &Backlog, text: &str) {
        push_in(backlog, text, Dialect::default());
    }

    fn push_in(backlog: &Backlog, text: &str, dialect: Dialect) {
        let payload = text.replace(' ', "\r\n").into_bytes();
        backlog.push(shared(Slice { position: backlog.end(), payload, ..Slice::default() }), dialect);
    }

    /// Reads all that is there.
    fn read(reader: &mut Reader, bytes_max: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while let Found::Bytes(bytes) = reader.next(bytes_max) {
            all.extend_from_slice(bytes);
            let count = bytes.len();
            reader.advance(count);
        }
        all
    }

    #[test]
    fn readers_go_through_the_stream_at_their_own_pace() {
        let (backlog, _) = backlog(10, 1000);
        let mut slow = backlog.read_from(at(1000), None).expect("it begins there");
        push(&backlog, "0123456789");
        push(&backlog, "");
        let mut late = backlog.read_from(at(1005), None).expect("it is kept");
        push(&backlog, "abcdefghijklm");
        assert_eq!(read(&mut late, 4), b"56789abcdefghijklm");
        assert!(matches!(late.next(4), Found::Nothing));
        assert_eq!(
            (backlog.first().get(), backlog.end().get()),
            (1000, 1023),
            "all is kept for the slow one"
        );
        assert_eq!(read(&mut slow, 100), b"0123456789abcdefghijklm");
        push(&backlog, "x");
        assert_eq!(
            (backlog.first().get(), slow.position().get()),
            (1010, 1023),
            "ten bytes and the slice they are in"
        );

        assert!(
            backlog.has(at(1010))
                && !backlog.has(at(1009))
                && backlog.has(at(1024))
                && !backlog.has(at(1025))
        );
        assert!(backlog.read_from(at(1009), None).is_none());
        backlog.close();
        assert!(!backlog.has(at(1024)) && backlog.end() == at(1024), "what comes behind that is not here");
    }

    #[test]
    fn a_reader_too_far_behind_loses_its_place_and_one_that_is_gone_holds_nothing() {
        let (backlog, _) = backlog(5, 20);
        let mut slow = backlog.read_from(at(1000), None).expect("it begins there");
        (0..4).for_each(|_| push(&backlog, "0123456789"));
        assert_eq!(backlog.first(), at(1020));
        assert!(matches!(slow.next(100), Found::Gone));
        drop(slow);
        let inside = backlog.read_from(at(1020), None).expect("it is kept");
        drop(inside);
        push(&backlog, "0123456789");
        assert_eq!(backlog.first(), at(1040));
    }

    #[test]
    fn slices_end_where_the_last_one_that_is_not_newer_ends() {
        let (backlog, _) = backlog(25, 25);
        backlog.begin(at(1000), Lsn::new(7));
        let end_of = |number| backlog.end_of(Lsn::new(number)).map(StreamPosition::get);
        let last_before = |end| backlog.last_before(at(end)).get();
        assert_eq!([6, 7, 8].map(end_of), [Some(1000), Some(1000), None]);
        for (number, text) in [(8, "0123456789"), (9, ""), (10, "0123456789"), (12, "0123456789")] {
            let slice =
                Slice { number: Lsn::new(number), position: backlog.end(), payload: text.into(), db: None };
            backlog.push(shared(slice), Dialect::default());
        }
        assert_eq!([8, 9, 10].map(end_of), [Some(1010), Some(1010), Some(1020)]);
        assert_eq!([12, 13].map(end_of), [Some(1030), None]);
        assert_eq!((backlog.last().get(), [999, 1009, 1010, 1019].map(last_before)), (12, [0, 7, 9, 9]));
        assert_eq!([1020, 1029, 1030, 1031].map(last_before), [11, 11, 12, 12]);
        let slice =
            Slice { number: Lsn::new(13), position: at(1030), payload: b"0123456789".into(), db: None };
        backlog.push(shared(slice), Dialect::default());
        assert_eq!((backlog.first().get(), end_of(8)), (1010, Some(1010)), "it is forgotten");
    }

    #[test]
    fn what_is_held_is_there_for_who_begins_late() {
        let (backlog, _) = backlog(5, 50);
        let held = backlog.hold();
        (0..3).for_each(|_| push(&backlog, "0123456789"));
        let reader = backlog.read_from(at(1010), None).expect("it is held");
        drop(held);
        push(&backlog, "0123456789");
        assert_eq!(backlog.first(), at(1010));
        drop(reader);
        let held = backlog.hold();
        (0..6).for_each(|_| push(&backlog, "0123456789"));
        assert_eq!((backlog.first().get(), backlog.end().get()), (1050, 1100), "up to the limit");
        drop(held);
    }

    #[test]
    fn what_is_held_before_the_backlog_begins_is_there() {
        let (backlog, _) = backlog(5, 50);
        push(&backlog, "0123456789");
        backlog.close();
        let held = backlog.hold();
        assert!(!backlog.has_reached(at(1010)) && !backlog.has_reached(at(500)));
        // The backlog begins with another stream, all of whose positions are before the end of the last one.
        backlog.begin(at(500), Lsn::NONE);
        assert!(backlog.has_reached(at(500)) && !backlog.has_reached(at(510)));
        (0..3).for_each(|_| push(&backlog, "0123456789"));
        assert!(backlog.has_reached(at(510)) && backlog.read_from(at(500), None).is_some());
        drop(held);
    }

    #[test]
    fn a_slice_that_is_being_read_stays_though_it_is_forgotten() {
        let (backlog, _) = backlog(0, 10);
        let mut slow = backlog.read_from(at(1000), None).expect("it begins there");
        push(&backlog, "0123456789");
        assert!(matches!(slow.next(3), Found::Bytes(b"012")));
        slow.advance(3);
        push(&backlog, "0123456789");
        assert_eq!(backlog.first(), at(1010));
        assert_eq!(read(&mut slow, 100), b"34567890123456789");
    }

    #[test]
    fn each_reader_has_its_dialect_at_the_same_places() {
        let (backlog, _) = backlog(1000, 1000);
        let text = "*2 $11 darter.mark $1 k *1 $4 PING ";
        push_in(&backlog, text, Dialect { has_own: true, ..Dialect::default() });
        let own_bytes = "*2 $11 darter.mark $1 k ".replace(' ', "\r\n").len();
        let mut redis = backlog.read_from(at(1000), Some(RedisVersion::V7_0)).expect("it begins there");
        let expected = "\n".repeat(own_bytes) + "*1\r\n$4\r\nPING\r\n";
        assert_eq!(read(&mut redis, 7), expected.as_bytes());
        let mut darter = backlog.read_from(at(1000), None).expect("it begins there");
        assert_eq!(read(&mut darter, 7), text.replace(' ', "\r\n").as_bytes());
        assert_eq!(redis.position(), darter.position());
    }

    #[test]
    fn where_a_slice_ended_is_known_as_long_as_it_is_kept() {
        let (backlog, _) = backlog(0, 0);
        let reader = backlog.read_from(at(1000), None).expect("it begins there");
        backlog.set_limits(0, 1000);
        for (number, text) in [(1, "abc"), (2, ""), (3, "defg")] {
            let payload = text.as_bytes().to_vec();
            let slice =
                Slice { number: Lsn::new(number), position: backlog.end(), payload, ..Slice::default() };
            backlog.push(shared(slice), Dialect::default());
        }
        let known = |numbers: [u64; 5]| {
            numbers.map(|number| backlog.known_end_of(Lsn::new(number)).map(StreamPosition::get))
        };
        assert_eq!(known([0, 1, 2, 3, 4]), [None, Some(1003), Some(1003), Some(1007), None]);
        reader.advance(4);
        backlog.set_limits(0, 1000);
        assert_eq!(
            known([0, 1, 2, 3, 4]),
            [None, None, None, Some(1007), None],
            "what comes behind may not be durable"
        );
    }

    #[test]
    fn a_thread_that_has_read_everything_is_woken_once() {
        let (backlog, woken) = backlog(100, 100);
        assert!(backlog.awaits(1, at(1000)));
        push(&backlog, "");
        assert_eq!(woken.load(Ordering::Relaxed), 0);
        push(&backlog, "a");
        push(&backlog, "b");
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        assert!(!backlog.awaits(0, at(1001)), "there is more already");
    }
}
