//! The log thread: closes slices of what threads commit, writes them, and keeps them for replicas.
//!
//! ```text
//!   threads ──lanes──▶ collect ──▶ closed slices ──▶ append ──▶ durable (always)
//!                                       │                  └──▶ written, and later durable (disk_thread.rs)
//!                                       └──▶ backlog, read by replicas
//! ```
//!
//! While a write is in progress the next slices fill. That is the group commit, without a timer. If nobody waits for a
//! write, there is at most one every [`WRITE_PAUSE_NS`], so that a thread is not woken for each command. The same goes
//! for the threads that feed replicas: each slice wakes each of them once, and without a journal there is at most one
//! slice every [`STREAM_PAUSE_NS`]. If somebody waits for replicas ([`Progress::hurry`]), slices are closed at once.
//!
//! It is a state machine that is stepped by its own thread or by a simulation. Only [`Writer::append`] blocks it.
//!
//! Not here: spares, syncs and bases (`disk_thread.rs`), and what others do about a failure.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use effectlog::{Backlog, Closing, Collector, Log, Slice};
use proactor::Clock;

use crate::disk_thread::{DiskOrders, OnFailure};
use crate::error::Trouble;
use crate::journal::Journal;
use crate::manifest::{Stream, StreamId};
use crate::progress::{Progress, Refusal};
use crate::writer::{Policy, Writer};

/// The pause between two writes that nobody waits for. What is committed meanwhile is lost if the process is killed.
const WRITE_PAUSE_NS: u64 = 500_000;
/// The pause between two slices that nobody waits for, if nothing is written and only replicas read the stream.
const STREAM_PAUSE_NS: u64 = 1_000_000;
/// With nothing to write, it checks for work this often.
const LOOK: Duration = Duration::from_millis(100);
/// How soon it retries what could not be done at once.
const RETRY: Duration = Duration::from_millis(1);
/// After this time without a write, an empty slice confirms the last one that is not empty.
const CONFIRM_MS: u64 = 1000;
/// Payloads that are kept for slices to come, and of what size.
const SPARE_PAYLOADS: usize = 16;
const SPARE_PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// Bytes of closed slices that are written at a time.
const BATCH_BYTES: usize = 2 << 20;

/// An order to the log thread.
pub enum Order {
    /// Slices behind this one go into this journal. Those up to it still belong to the previous one, if there was one.
    Begin(u64, Box<(Journal, Writer)>),
    /// This is the last slice that is written.
    End(u64),
    /// Slices behind this one go into the backlog as well, or no longer.
    Stream(u64, bool),
    /// After the slice with the first number comes the one with the second, from which on another stream is copied,
    /// beginning at this position; it goes into the backlog.
    Copy(u64, u64, u64),
    /// Behind this slice the stream has this id.
    Name(u64, StreamId),
    /// The policy has changed.
    Policy(Policy),
    /// Write everything, and end.
    Stop,
}

/// The outcome of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It has done something; there may be more to do.
    Worked,
    /// It has nothing to do until it is nudged, or for this time.
    Waits(Duration),
    /// It has nothing to do for this time, even if it is nudged. It may be called earlier, and then rests for the
    /// remainder.
    Rests(Duration),
    /// It is over.
    Ended,
}

/// What changes at the end of a slice.
enum Change {
    Begin(Box<(Journal, Writer)>),
    End,
    Stream(bool),
    Copy(u64, u64),
    Name(StreamId),
}

/// See the head of this file.
pub struct LogThread {
    log: Arc<Log>,
    collector: Collector,
    progress: Arc<Progress>,
    clock: Clock,
    orders: Receiver<Order>,
    disk: DiskOrders,
    on_failure: OnFailure,
    policy: Policy,
    open: Option<(Journal, Writer)>,
    /// Whether slices go into the backlog.
    is_streaming: bool,
    backlog: Arc<Backlog>,
    /// A change that takes effect behind this slice.
    next: Option<(u64, Change)>,
    /// Not written yet.
    closed: Vec<Arc<Slice>>,
    closed_bytes: usize,
    spare_payloads: Vec<Vec<u8>>,
    /// On the monotonic clock.
    wrote_ns: u64,
    is_stopping: bool,
}

impl LogThread {
    /// A log thread that takes slices from `collector` and `log`, writes them as ordered, and puts them into `backlog`.
    /// No journal is open yet.
    pub fn new(
        (log, collector, backlog): (&Arc<Log>, Collector, &Arc<Backlog>),
        progress: &Arc<Progress>,
        clock: &Clock,
        orders: Receiver<Order>,
        disk: DiskOrders,
        on_failure: OnFailure,
    ) -> LogThread {
        LogThread {
            log: Arc::clone(log),
            collector,
            progress: Arc::clone(progress),
            clock: clock.clone(),
            orders,
            disk,
            on_failure,
            policy: progress.policy(),
            open: None,
            is_streaming: false,
            backlog: Arc::clone(backlog),
            next: None,
            closed: Vec::new(),
            closed_bytes: 0,
            spare_payloads: Vec::new(),
            wrote_ns: 0,
            is_stopping: false,
        }
    }

    /// Runs until it is stopped.
    pub fn run(mut self) {
        self.progress.set_log_thread();
        loop {
            match self.step() {
                Step::Worked => {}
                Step::Waits(timeout) => self.progress.sleep(timeout, || self.log.has_pending()),
                Step::Rests(time) => self.progress.rest(time),
                Step::Ended => return,
            }
        }
    }

    /// Does what there is to do, including at most one write.
    pub fn step(&mut self) -> Step {
        while self.next.is_none()
            && let Ok(order) = self.orders.try_recv()
        {
            self.obey(order);
        }
        let now_ns = self.clock.monotonic_ns();
        self.look_at_pending(now_ns / 1_000_000);
        let since_ns = now_ns.saturating_sub(self.wrote_ns);
        let is_awaited = self.policy == Policy::Always && self.open.is_some()
            || self.progress.hurried() >= self.collector.next();
        let is_paced = !is_awaited && !self.is_stopping && self.next.is_none();
        let pause_ns = if self.open.is_some() { WRITE_PAUSE_NS } else { STREAM_PAUSE_NS };
        if is_paced && since_ns < pause_ns && self.closed.is_empty() {
            return Step::Rests(Duration::from_nanos(pause_ns - since_ns));
        }
        // What waits may be asked at any time, and is never said to be less than it is.
        self.note_taken(self.log.pending_bytes());
        self.progress.pressure.take();
        let is_busy = self.collect();
        self.note_taken(0);
        if self.closed_bytes >= BATCH_BYTES {
            // There may be more, of which it is not known since when.
            self.progress.pressure.note_commit(now_ns / 1_000_000);
        }
        let is_asked = self.open.is_some() && self.progress.asked() >= self.collector.next();
        if self.closed.is_empty() && (is_asked || self.wants_confirmation(since_ns / 1_000_000)) {
            self.close(true);
        }
        if !self.closed.is_empty() {
            return self.write();
        }
        if is_busy {
            return Step::Rests(Duration::ZERO);
        }
        self.progress.pressure.end_write();
        if self.change_over() {
            return Step::Worked;
        }
        if self.is_stopping {
            return Step::Ended;
        }
        Step::Waits(LOOK)
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Begin(last, opened) => self.next = Some((last, Change::Begin(opened))),
            Order::End(last) => self.next = Some((last, Change::End)),
            Order::Stream(last, is_on) => self.next = Some((last, Change::Stream(is_on))),
            Order::Copy(last, first, position) => self.next = Some((last, Change::Copy(first, position))),
            Order::Name(last, id) => self.next = Some((last, Change::Name(id))),
            Order::Stop => self.is_stopping = true,
            Order::Policy(policy) => {
                self.policy = policy;
                let changed = self.open.as_mut().map(|(_, writer)| writer.set_policy(policy));
                if let Some(Err(trouble)) = changed {
                    self.fail(&trouble);
                }
                self.progress.set_policy(policy);
                self.note_durable();
            }
        }
    }

    /// Determines whether so much waits, or for so long, that commands that write are held back.
    fn look_at_pending(&mut self, now_ms: u64) {
        let (progress, pressure) = (&self.progress, &self.progress.pressure);
        let pending_bytes = self.log.pending_bytes() + self.closed_bytes as u64;
        let is_late = !progress.is_refused() && pressure.is_late(self.policy, now_ms);
        let is_full = is_late || pressure.is_too_much(pending_bytes) || self.is_tight(pending_bytes);
        let has_changed = if is_full { progress.note_full(now_ms) } else { pressure.set_full(false) };
        if has_changed {
            progress.wake_all();
        }
    }

    /// Whether the prepared space might not suffice for what is committed soon, while it is not known yet whether more
    /// space can be prepared. (If it cannot, commands that write are refused.)
    fn is_tight(&self, pending_bytes: u64) -> bool {
        let Some((_, writer)) = &self.open else { return false };
        !self.progress.is_refused() && pending_bytes + writer.margin_bytes() > writer.room_bytes()
    }

    /// Records how much of closed slices is unwritten, including what may be taken in a moment.
    fn note_taken(&self, soon_bytes: u64) {
        let taken_bytes = self.closed_bytes as u64 + soon_bytes;
        self.progress.counts.taken_bytes.store(taken_bytes, Ordering::Release);
    }

    /// Closes slices, up to the next change of journals; returns whether a committing thread was in the way.
    fn collect(&mut self) -> bool {
        while self.closed_bytes < BATCH_BYTES {
            if self.next.as_ref().is_some_and(|(last, _)| self.collector.next() > *last) {
                return false;
            }
            match self.close(false) {
                Closing::Done(_) => {}
                Closing::Busy => return true,
                Closing::Nothing => return false,
            }
        }
        false
    }

    /// Closes the next slice. Replicas may have it at once: it does not matter whether they or the disk get it first.
    fn close(&mut self, may_be_empty: bool) -> Closing {
        let spares = &mut self.spare_payloads;
        let mut closing = self.collector.close(may_be_empty, || spares.pop().unwrap_or_default());
        if let Closing::Done(slice) = &mut closing {
            let mut slice = std::mem::take(slice);
            self.closed_bytes += slice.payload.len();
            if self.is_streaming {
                // It stays for a while, in no more memory than it has bytes.
                let exact = slice.payload.clone();
                self.keep_spare(std::mem::replace(&mut slice.payload, exact));
            }
            let slice = Arc::new(slice);
            if self.is_streaming {
                self.backlog.push(Arc::clone(&slice), self.collector.dialect());
            }
            self.closed.push(slice);
        }
        closing
    }

    fn wants_confirmation(&self, since_ms: u64) -> bool {
        let is_wanted = self.open.as_ref().is_some_and(|(_, writer)| writer.wants_confirmation());
        is_wanted && self.next.is_none() && since_ms >= CONFIRM_MS
    }

    /// Writes the closed slices. Without an open journal they are dropped.
    fn write(&mut self) -> Step {
        let started_ns = self.clock.monotonic_ns();
        if let Some((journal, writer)) = &mut self.open {
            self.progress.counts.write_since_ms.store((started_ns / 1_000_000).max(1), Ordering::Relaxed);
            let spares_before = journal.spare_count();
            let appended = writer.append(&self.closed, self.clock.now_ms());
            self.progress.counts.write_since_ms.store(0, Ordering::Relaxed);
            match appended {
                Ok(last) => {
                    self.progress.counts.position.store(writer.next().1, Ordering::Relaxed);
                    self.progress.note_written(last);
                    if self.policy == Policy::Everysec {
                        self.progress.pressure.note_unsynced();
                    }
                    // Not only when this segment is full: what has been answered by then is to have room.
                    match journal.spare_count() {
                        0 => self.disk.want_spares(1),
                        spares if spares < spares_before => self.disk.look(),
                        _ => {}
                    }
                    self.note_durable();
                    if self.progress.asked() > self.progress.durable() {
                        self.disk.sync();
                    }
                }
                Err(Trouble::NoSpare { needed }) => {
                    self.disk.want_spares(needed);
                    return Step::Rests(RETRY);
                }
                Err(trouble) => self.fail(&trouble),
            }
        }
        self.wrote_ns = self.clock.monotonic_ns();
        self.progress.counts.write_count.fetch_add(1, Ordering::Relaxed);
        let took_ns = self.wrote_ns.saturating_sub(started_ns);
        self.progress.counts.write_us.fetch_add(took_ns / 1000, Ordering::Relaxed);
        self.progress.counts.slowest_write_ns.fetch_max(took_ns, Ordering::Relaxed);
        self.closed_bytes = 0;
        self.note_taken(0);
        self.progress.pressure.end_write();
        while let Some(slice) = self.closed.pop() {
            if let Some(Slice { payload, .. }) = Arc::into_inner(slice) {
                self.keep_spare(payload);
            }
        }
        Step::Worked
    }

    /// Keeps the memory of a payload for later slices.
    fn keep_spare(&mut self, mut payload: Vec<u8>) {
        if self.spare_payloads.len() < SPARE_PAYLOADS {
            payload.clear();
            payload.shrink_to(SPARE_PAYLOAD_BYTES_MAX);
            self.spare_payloads.push(payload);
        }
    }

    /// Records what is durable without a sync.
    fn note_durable(&self) {
        if let Some((journal, _)) = &self.open {
            self.progress.note_durable(journal.durable_slice());
        }
    }

    /// Makes the next change if everything before it is written. False: there is none.
    fn change_over(&mut self) -> bool {
        if self.next.as_ref().is_none_or(|(last, _)| self.collector.next() <= *last) {
            return false;
        }
        let Some((last, change)) = self.next.take() else { return false };
        match change {
            Change::Begin(opened) => self.begin(*opened),
            Change::End => {
                self.end_former();
                self.disk.end();
                self.progress.note_ended(last);
            }
            Change::Copy(first, position) => {
                self.collector.begin(first, position);
                self.collector.tell_dialects(true);
                self.is_streaming = true;
                self.backlog.begin(position, last);
            }
            Change::Name(id) => self.name_stream(id),
            Change::Stream(is_on) => {
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
        true
    }

    /// Frames contain the new id at once, the manifest when the disk thread gets to it.
    fn name_stream(&mut self, id: StreamId) {
        let Some((journal, writer)) = &mut self.open else { return };
        writer.name_stream(&id);
        let (journal, stream) = (journal.clone(), Stream { id, from: Some(writer.next().1) });
        // If it cannot be written now the next one says so, and until then nobody takes the stream for what it was.
        self.disk.run(Box::new(move || drop(journal.name_stream(stream))));
    }

    /// Slices go into this journal from now on. A new one begins at the stream's current position.
    fn begin(&mut self, (journal, mut writer): (Journal, Writer)) {
        self.end_former();
        let (first, position) = writer.next();
        if first > self.collector.next() {
            self.collector.begin(first, position);
        } else {
            self.collector.go_on();
            let here = (self.collector.next(), self.collector.position());
            if writer.next() != here {
                writer.begin_at(here);
            }
        }
        let (first, position) = writer.next();
        self.progress.begin(first - 1, position);
        if writer.policy() != self.policy
            && let Err(trouble) = writer.set_policy(self.policy)
        {
            self.fail(&trouble);
        }
        self.disk.open(&journal);
        self.progress.pressure.set_open(true);
        self.open = Some((journal, writer));
    }

    /// Makes durable what was written to the open journal, and closes it.
    fn end_former(&mut self) {
        if let Some((former, _)) = self.open.take() {
            self.progress.pressure.set_open(false);
            match former.sync() {
                Ok(durable) => self.progress.note_durable(durable),
                Err(trouble) => self.fail(&trouble),
            }
        }
    }

    /// Nothing more is written.
    fn fail(&mut self, trouble: &Trouble) {
        self.open = None;
        self.progress.pressure.set_open(false);
        self.progress.set_refusal(Refusal::Failed, &trouble.to_string());
        (self.on_failure)(trouble);
    }
}
