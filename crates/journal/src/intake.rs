//! Closes slices of the changes that threads commit, and keeps them for replicas and for the log thread.
//!
//! ```text
//!   threads ──lanes──▶ collector ──▶ closed slices ──▶ the log thread, which writes them
//!                                        └──▶ backlog, read by replicas
//! ```
//!
//! The log thread closes the slices that it writes next. A thread that must know the end of the stream closes the open
//! slice itself ([`Intake::position`]), because the log thread may be in a write. A position that lacks acknowledged
//! changes would be wrong: a replica that has reached it would seem to have everything. Both threads use one lock, and
//! never hold it during a write.
//!
//! Orders come here first. A change that concerns only the readers of the stream happens as soon as the slice before it
//! is closed, whether that slice is written or not.
//!
//! Not here: writing, and the changes between two journals (`log_thread.rs`).

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use effectlog::{Backlog, Closing, Collector, Log, Lsn, SharedSlice, StreamPosition};
use heap::{Exempt, Exemption};

use crate::log_thread::Order;
use crate::progress::Progress;

/// The number and the size of payloads that are kept for later slices.
const SPARE_PAYLOADS: usize = 16;
const SPARE_PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// The bytes of closed slices that are written at a time.
const BATCH_BYTES: usize = 2 << 20;

/// See the head of this file.
pub struct Intake {
    log: Arc<Log>,
    progress: Arc<Progress>,
    state: Mutex<IntakeState>,
}

struct IntakeState {
    collector: Collector,
    backlog: Arc<Backlog>,
    /// Whether slices go into the backlog.
    is_streaming: bool,
    obeyed: Receiver<Order>,
    /// Orders for the log thread.
    orders: VecDeque<Order>,
    /// Changes for the readers of the stream, with the slices after which they happen.
    turns: VecDeque<(Lsn, Turn)>,
    /// Closed slices that have not been taken to be written.
    closed: VecDeque<SharedSlice>,
    closed_bytes: usize,
    /// The bytes of closed slices that are not written, whether they have been taken or not.
    unwritten_bytes: usize,
    spare_payloads: Vec<Vec<u8>>,
    spare_bytes: usize,
    /// The fewest spare payloads since the last [`Intake::give_back_unused`]: as many were not needed. And the longest payload.
    unused_count: usize,
    payload_bytes_max: usize,
    /// The memory of spare payloads.
    spare_memory: Exemption,
}

/// A change for the readers of the stream.
enum Turn {
    Stream(bool),
    Copy(Lsn, StreamPosition),
}

/// Facts that the log thread must know before it takes slices.
pub(crate) struct Outlook {
    /// The number of the next slice to close.
    pub(crate) next: Lsn,
    /// Whether slices can be taken already, or readers of the stream wait for a change.
    pub(crate) is_awaited: bool,
}

/// The outcome of taking slices.
pub(crate) struct Taken {
    /// Whether a committing thread was in the way.
    pub(crate) is_busy: bool,
    /// Whether slices are left that were not taken.
    pub(crate) has_more: bool,
}

impl Intake {
    /// Creates the intake of the records that `collector` takes out of `log`. Slices go into `backlog` if the orders
    /// say so.
    pub fn new(
        (log, collector, backlog): (&Arc<Log>, Collector, &Arc<Backlog>),
        progress: &Arc<Progress>,
        obeyed: Receiver<Order>,
    ) -> Arc<Intake> {
        let state = IntakeState {
            collector,
            backlog: Arc::clone(backlog),
            is_streaming: false,
            obeyed,
            orders: VecDeque::new(),
            turns: VecDeque::new(),
            closed: VecDeque::new(),
            closed_bytes: 0,
            unwritten_bytes: 0,
            spare_payloads: Vec::new(),
            spare_bytes: 0,
            unused_count: 0,
            payload_bytes_max: 0,
            spare_memory: Exemption::none(Exempt::Journal),
        };
        Arc::new(Intake { log: Arc::clone(log), progress: Arc::clone(progress), state: Mutex::new(state) })
    }

    /// The position at the end of the stream. Everything that was acknowledged before this call is before it.
    pub fn position(&self) -> StreamPosition {
        let mut state = self.lock();
        state.hear();
        let open = self.log.slice();
        let mut has_closed = false;
        while self.log.has_pending() && state.collector.next() <= open {
            match state.close(&self.log, &self.progress, false) {
                Closing::Done(_) => has_closed = true,
                // A commit takes no time unless its thread has lost its core.
                Closing::Busy => std::thread::yield_now(),
                Closing::Nothing => break,
            }
        }
        state.turn_over();
        let position = state.collector.position();
        drop(state);
        if has_closed {
            self.progress.wake_log_thread();
        }
        position
    }

    /// Whether the log thread can take something.
    pub fn has_work(&self) -> bool {
        self.log.has_pending() || self.progress.counts.taken_bytes.load(Ordering::Acquire) > 0
    }

    /// The next order for the log thread.
    pub(crate) fn next_order(&self) -> Option<Order> {
        let mut state = self.lock();
        state.hear();
        state.orders.pop_front()
    }

    pub(crate) fn outlook(&self) -> Outlook {
        let state = self.lock();
        let is_awaited = !state.closed.is_empty() || !state.turns.is_empty();
        Outlook { next: state.collector.next(), is_awaited }
    }

    /// The bytes of closed slices that are not written.
    pub(crate) fn unwritten_bytes(&self) -> u64 {
        self.lock().unwritten_bytes as u64
    }

    /// Closes slices and adds them to `batch`, but none after `last`. An empty slice is closed only if there is no
    /// other and `may_be_empty` allows it.
    pub(crate) fn take(
        &self,
        last: Option<Lsn>,
        batch: &mut Vec<SharedSlice>,
        may_be_empty: impl FnOnce(Lsn) -> bool,
    ) -> Taken {
        let mut state = self.lock();
        state.hear();
        // An order may have come since the log thread looked. What follows its slice is for the next journal.
        let last = last.or_else(|| state.orders.iter().find_map(Order::last_slice));
        let batch_bytes = batch.iter().map(|slice| slice.payload.len()).sum::<usize>();
        let mut is_busy = false;
        while !is_busy && batch_bytes + state.closed_bytes < BATCH_BYTES && state.may_close(last) {
            match state.close(&self.log, &self.progress, false) {
                Closing::Done(_) => {}
                Closing::Busy => is_busy = true,
                Closing::Nothing => break,
            }
        }
        if batch.is_empty() && state.closed.is_empty() && may_be_empty(state.collector.next()) {
            state.close(&self.log, &self.progress, true);
        }
        state.turn_over();
        let mut left_bytes = BATCH_BYTES.saturating_sub(batch_bytes);
        while left_bytes > 0
            && let Some(slice) =
                state.closed.pop_front_if(|slice| last.is_none_or(|last| slice.number <= last))
        {
            assert!(
                state.closed_bytes >= slice.payload.len(),
                "closed slices have fewer bytes than one of them"
            );
            state.closed_bytes -= slice.payload.len();
            left_bytes = left_bytes.saturating_sub(slice.payload.len().max(1));
            batch.push(slice);
        }
        Taken { is_busy, has_more: !state.closed.is_empty() || self.log.has_pending() }
    }

    /// Notes that the taken slices are written, or need not be.
    pub(crate) fn note_written(&self, batch: &mut Vec<SharedSlice>) {
        let mut state = self.lock();
        let written_bytes = batch.iter().map(|slice| slice.payload.len()).sum::<usize>();
        assert!(written_bytes <= state.unwritten_bytes, "more is written than was closed");
        state.unwritten_bytes -= written_bytes;
        state.note_taken(&self.progress, 0);
        // The memory must not count between being a slice and being spare.
        heap::at_once(|| {
            while let Some(slice) = batch.pop() {
                if let Some(payload) = slice.into_payload() {
                    state.keep_spare(payload);
                }
            }
            let spare_bytes = state.spare_bytes;
            state.spare_memory.resize(spare_bytes);
        });
    }

    #[cfg(test)]
    pub(crate) fn spare_bytes(&self) -> usize {
        self.lock().spare_bytes
    }

    /// Frees memory of spare payloads that was not needed since the last call: for calls some seconds apart.
    pub(crate) fn give_back_unused(&self) {
        let mut state = self.lock();
        heap::at_once(|| state.give_back_unused());
    }

    /// Attaches a journal that continues with slice `first` at `position`. It takes up the stream after slice `last`,
    /// up to which everything was taken; or, if the stream is beyond that already, at the stream's current place.
    /// Returns the place.
    pub(crate) fn begin(&self, last: Lsn, (first, position): (Lsn, StreamPosition)) -> (Lsn, StreamPosition) {
        let mut state = self.lock();
        if let Some(slice) = state.closed.front() {
            assert!(slice.number > last, "slice {} was not taken", slice.number);
            return (slice.number, slice.position);
        }
        if first > state.collector.next() {
            state.collector.begin(first, position);
        } else {
            state.collector.go_on();
        }
        (state.collector.next(), state.collector.position())
    }

    fn lock(&self) -> MutexGuard<'_, IntakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IntakeState {
    /// Receives orders.
    fn hear(&mut self) {
        while let Ok(order) = self.obeyed.try_recv() {
            match order {
                Order::Stream(last, is_on) => self.turns.push_back((last, Turn::Stream(is_on))),
                Order::Copy(last, first, position) => {
                    self.turns.push_back((last, Turn::Copy(first, position)));
                }
                Order::Begin(..) | Order::End(_) | Order::Name(..) | Order::Policy(_) | Order::Stop => {
                    self.orders.push_back(order)
                }
            }
        }
    }

    /// Makes the changes for readers of the stream that are due.
    fn turn_over(&mut self) {
        let next = self.collector.next();
        while let Some((last, turn)) = self.turns.pop_front_if(|(last, _)| *last < next) {
            match turn {
                Turn::Copy(first, position) => {
                    self.collector.begin(first, position);
                    self.collector.tell_dialects(true);
                    self.is_streaming = true;
                    self.backlog.begin(position, last);
                }
                Turn::Stream(is_on) => {
                    self.collector.go_on();
                    self.collector.tell_dialects(is_on);
                    self.is_streaming = is_on;
                    if is_on {
                        self.backlog.begin(self.collector.position(), last);
                    } else {
                        self.backlog.close();
                    }
                }
            }
        }
    }

    /// Whether the next slice is not after `last`.
    fn may_close(&mut self, last: Option<Lsn>) -> bool {
        self.turn_over();
        last.is_none_or(|last| self.collector.next() <= last)
    }

    /// Closes the next slice. Replicas may have it at once: it does not matter whether they or the disk get it first.
    /// It never counts against `maxmemory`, neither before, as records, nor afterwards.
    fn close(&mut self, log: &Log, progress: &Progress, may_be_empty: bool) -> Closing {
        heap::at_once(|| self.close_next(log, progress, may_be_empty))
    }

    fn close_next(&mut self, log: &Log, progress: &Progress, may_be_empty: bool) -> Closing {
        self.turn_over();
        // The amount may be read at any time, and must never be too small.
        self.note_taken(progress, log.pending_bytes());
        let (spares, spare_bytes) = (&mut self.spare_payloads, &mut self.spare_bytes);
        let unused_count = &mut self.unused_count;
        let take = || {
            let payload = spares.pop().unwrap_or_default();
            *unused_count = spares.len().min(*unused_count);
            *spare_bytes -= payload.capacity();
            payload
        };
        let mut closing = self.collector.close(may_be_empty, take);
        if let Closing::Done(slice) = &mut closing {
            let mut slice = std::mem::take(slice);
            let is_next = self.closed.back().is_none_or(|last| last.number < slice.number);
            assert!(is_next, "slice {} is closed after a later one", slice.number);
            self.closed_bytes += slice.payload.len();
            self.unwritten_bytes += slice.payload.len();
            self.payload_bytes_max = self.payload_bytes_max.max(slice.payload.len());
            let mut kept_for = Exempt::Journal;
            if self.is_streaming {
                kept_for = Exempt::Stream;
                // The slice stays for a while, so it gets exactly the memory that it needs.
                let exact = slice.payload.clone();
                self.keep_spare(std::mem::replace(&mut slice.payload, exact));
            }
            let slice = SharedSlice::new(slice, kept_for);
            if self.is_streaming {
                self.backlog.push(slice.clone(), self.collector.dialect());
            }
            self.closed.push_back(slice);
        }
        self.spare_memory.resize(self.spare_bytes);
        self.note_taken(progress, 0);
        closing
    }

    /// Records how many bytes of closed slices are unwritten, including those that may be taken in a moment.
    fn note_taken(&self, progress: &Progress, soon_bytes: u64) {
        let taken_bytes = self.unwritten_bytes as u64 + soon_bytes;
        progress.counts.taken_bytes.store(taken_bytes, Ordering::Release);
    }

    /// Keeps the memory of a payload for later slices.
    fn keep_spare(&mut self, mut payload: Vec<u8>) {
        if self.spare_payloads.len() < SPARE_PAYLOADS {
            payload.clear();
            payload.shrink_to(SPARE_PAYLOAD_BYTES_MAX);
            // The size of the block would depend on the thread that asks.
            self.spare_bytes += payload.capacity();
            self.spare_payloads.push(payload);
        }
    }

    /// See [`Intake::give_back_unused`].
    fn give_back_unused(&mut self) {
        let spares = &mut self.spare_payloads;
        drop(spares.drain(..self.unused_count.min(spares.len())));
        spares.iter_mut().for_each(|payload| payload.shrink_to(2 * self.payload_bytes_max));
        self.unused_count = spares.len();
        self.payload_bytes_max = 0;
        self.spare_bytes = spares.iter().map(Vec::capacity).sum();
        self.spare_memory.resize(self.spare_bytes);
    }
}
