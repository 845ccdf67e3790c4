//! The log thread: closes slices of the changes that threads commit, and writes them.
//!
//! ```text
//!   closed slices (intake.rs) ──▶ append ──▶ durable (always)
//!                                       └──▶ written, and later durable (disk_thread.rs)
//! ```
//!
//! While a write is in progress, the next slices fill. This is the group commit, without a timer. If no client waits
//! for a write, there is at most one every [`WRITE_PAUSE_NS`], so that commands do not each wake a thread. The same
//! applies to the threads that feed replicas, because each slice wakes each of them once. Without a journal there is at
//! most one slice every [`STREAM_PAUSE_NS`]. If a client waits for replicas ([`Progress::hurry`]), slices are closed at
//! once.
//!
//! It is a state machine, stepped by its own thread or by a simulation. Only [`Writer::append`] blocks it.
//!
//! Not here: spares, syncs and bases (`disk_thread.rs`), and the reaction of others to a failure.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use effectlog::{Log, Lsn, SharedSlice, StreamPosition};
use proactor::Clock;

use crate::disk_thread::{DiskOrders, OnFailure};
use crate::error::Trouble;
use crate::intake::Intake;
use crate::journal::Journal;
use crate::manifest::{Stream, StreamId};
use crate::progress::{Progress, Refusal};
use crate::writer::{Policy, Writer};

/// The pause between two writes for which no client waits. Changes committed meanwhile are lost if the process is
/// killed.
const WRITE_PAUSE_NS: u64 = 500_000;
/// The pause between two slices for which no client waits, if nothing is written and only replicas read the stream.
const STREAM_PAUSE_NS: u64 = 1_000_000;
/// How often memory is freed that was not needed meanwhile: what a disk that hung for a moment has made grow.
const GIVE_BACK_MS: u64 = 1000;
/// The interval at which it checks for work if there is nothing to write.
const LOOK: Duration = Duration::from_millis(100);
/// The delay before it retries an operation that could not be done at once.
const RETRY: Duration = Duration::from_millis(1);
/// After this time without a write, an empty slice confirms the last one that is not empty.
const CONFIRM_MS: u64 = 1000;

/// An order to the log thread.
pub enum Order {
    /// Slices after this one go into this journal. Slices up to it still belong to the previous one, if there was one.
    Begin(Lsn, Box<(Journal, Writer)>),
    /// This is the last slice that is written.
    End(Lsn),
    /// Slices after this one go into the backlog as well, or no longer.
    Stream(Lsn, bool),
    /// The slice with the second number follows the slice with the first. From there on, another stream is copied,
    /// which begins at this position and goes into the backlog.
    Copy(Lsn, Lsn, StreamPosition),
    /// The stream has this id after this slice.
    Name(Lsn, StreamId),
    /// The policy has changed.
    Policy(Policy),
    /// Writes everything and ends.
    Stop,
}

impl Order {
    /// The last slice before the change, if this orders one that the log thread makes.
    pub(crate) fn last_slice(&self) -> Option<Lsn> {
        match self {
            Order::Begin(last, _) | Order::End(last) | Order::Name(last, _) => Some(*last),
            Order::Stream(..) | Order::Copy(..) | Order::Policy(_) | Order::Stop => None,
        }
    }
}

/// The outcome of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It has done something. There may be more to do.
    Worked,
    /// It has nothing to do until it is nudged or this time has passed.
    Waits(Duration),
    /// It has nothing to do for this time, even if it is nudged. If it is stepped earlier, it rests for the remainder.
    Rests(Duration),
    /// The thread has ended.
    Ended,
}

/// A change at the end of a slice.
enum Change {
    Begin(Box<(Journal, Writer)>),
    End,
    Name(StreamId),
}

/// See the head of this file.
pub struct LogThread {
    log: Arc<Log>,
    intake: Arc<Intake>,
    progress: Arc<Progress>,
    clock: Clock,
    disk: DiskOrders,
    on_failure: OnFailure,
    policy: Policy,
    open: Option<(Journal, Writer)>,
    /// The next change, and the slice after which it takes effect.
    next: Option<(Lsn, Change)>,
    /// Slices that were taken and are not written yet.
    batch: Vec<SharedSlice>,
    /// The time of the last write, on the monotonic clock.
    wrote_ns: u64,
    /// The time at which it last asked for a mark, on the same clock, and the slice of that mark.
    marked: (u64, Lsn),
    /// When memory was freed that was not needed, on the same clock.
    gave_back_ms: u64,
    is_stopping: bool,
}

impl LogThread {
    /// Creates a log thread that takes slices of `log` from `intake` and writes them as ordered. No journal is open
    /// yet.
    pub fn new(
        (log, intake): (&Arc<Log>, &Arc<Intake>),
        progress: &Arc<Progress>,
        clock: &Clock,
        disk: DiskOrders,
        on_failure: OnFailure,
    ) -> LogThread {
        LogThread {
            log: Arc::clone(log),
            intake: Arc::clone(intake),
            progress: Arc::clone(progress),
            clock: clock.clone(),
            disk,
            on_failure,
            policy: progress.policy(),
            open: None,
            next: None,
            batch: Vec::new(),
            wrote_ns: 0,
            marked: (0, Lsn::NONE),
            gave_back_ms: 0,
            is_stopping: false,
        }
    }

    /// Runs until it is stopped.
    pub fn run(mut self) {
        self.progress.set_log_thread();
        loop {
            match self.step() {
                Step::Worked => {}
                Step::Waits(timeout) => self.progress.sleep(timeout, || self.intake.has_work()),
                Step::Rests(time) => self.progress.rest(time),
                Step::Ended => return,
            }
        }
    }

    /// Does the work that there is, including at most one write.
    pub fn step(&mut self) -> Step {
        while self.next.is_none()
            && let Some(order) = self.intake.next_order()
        {
            self.obey(order);
        }
        let now_ns = self.clock.monotonic_ns();
        self.look_at_pending(now_ns / 1_000_000);
        self.order_mark(now_ns);
        self.give_back_unused(now_ns / 1_000_000);
        let since_ns = now_ns.saturating_sub(self.wrote_ns);
        let outlook = self.intake.outlook();
        let is_awaited = self.policy == Policy::Always && self.open.is_some()
            || self.progress.hurried() >= outlook.next
            || outlook.is_awaited;
        let is_paced = !is_awaited && !self.is_stopping && self.next.is_none();
        let pause_ns = if self.open.is_some() { WRITE_PAUSE_NS } else { STREAM_PAUSE_NS };
        if is_paced && since_ns < pause_ns && self.batch.is_empty() {
            return Step::Rests(Duration::from_nanos(pause_ns - since_ns));
        }
        self.progress.pressure.take();
        let last = self.next.as_ref().map(|(last, _)| *last);
        let mut batch = std::mem::take(&mut self.batch);
        let taken = self.intake.take(last, &mut batch, |next| {
            let is_asked = self.open.is_some() && self.progress.asked() >= next;
            is_asked || self.wants_confirmation(since_ns / 1_000_000)
        });
        self.batch = batch;
        if taken.has_more {
            // The time of the commit is unknown.
            self.progress.pressure.note_commit(|| now_ns / 1_000_000);
        }
        if !self.batch.is_empty() {
            return self.write();
        }
        if taken.is_busy {
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
        assert!(self.next.is_none(), "one change is made before the next order is heard");
        match order {
            Order::Begin(last, opened) => self.next = Some((last, Change::Begin(opened))),
            Order::End(last) => self.next = Some((last, Change::End)),
            Order::Stream(..) | Order::Copy(..) => unreachable!("the intake obeys these"),
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

    /// Determines whether too much waits, or for too long, so that commands that write are held back.
    fn look_at_pending(&mut self, now_ms: u64) {
        let (progress, pressure) = (&self.progress, &self.progress.pressure);
        let pending_bytes = self.log.pending_bytes() + self.intake.unwritten_bytes();
        let is_late = !progress.is_refused() && pressure.is_late(self.policy, now_ms);
        let is_tight = self.is_tight(pending_bytes);
        if is_tight && let Some((journal, _)) = &self.open {
            // All spares may be ready and still be too small, and no write would ask for more.
            self.disk.want_spares(journal.spare_count() + 1);
        }
        let is_full = is_late || pressure.is_too_much(pending_bytes) || is_tight;
        let has_changed = if is_full { progress.note_full(now_ms) } else { pressure.set_full(false) };
        if has_changed {
            progress.wake_all();
        }
    }

    /// Makes the disk thread mark the last durable slice, when this thread rests and at intervals while it does not.
    fn order_mark(&mut self, now_ns: u64) {
        let (durable, (marked_ns, marked)) = (self.progress.durable(), self.marked);
        if durable > marked
            && now_ns.saturating_sub(marked_ns) >= LOOK.as_nanos() as u64
            && self.open.is_some()
        {
            self.marked = (now_ns, durable);
            self.disk.mark();
        }
    }

    fn give_back_unused(&mut self, now_ms: u64) {
        if now_ms.saturating_sub(self.gave_back_ms) >= GIVE_BACK_MS {
            self.gave_back_ms = now_ms;
            self.intake.give_back_unused();
            if let Some((_, writer)) = &mut self.open {
                writer.give_back_unused();
            }
        }
    }

    /// Whether the prepared space might not suffice for what is committed soon, while it is not yet known whether more
    /// can be prepared. (If it cannot, commands that write are refused.)
    fn is_tight(&self, pending_bytes: u64) -> bool {
        let Some((_, writer)) = &self.open else { return false };
        !self.progress.is_refused() && pending_bytes + writer.margin_bytes() > writer.room_bytes()
    }

    fn wants_confirmation(&self, since_ms: u64) -> bool {
        let is_wanted = self.open.as_ref().is_some_and(|(_, writer)| writer.wants_confirmation());
        is_wanted && self.next.is_none() && since_ms >= CONFIRM_MS
    }

    /// Writes the taken slices. Without an open journal they are dropped.
    fn write(&mut self) -> Step {
        let started_ns = self.clock.monotonic_ns();
        if let Some((journal, writer)) = &mut self.open {
            self.progress.counts.write_since_ms.store((started_ns / 1_000_000).max(1), Ordering::Relaxed);
            let spares_before = journal.spare_count();
            let appended = writer.append(&self.batch, self.clock.now_ms());
            self.progress.counts.write_since_ms.store(0, Ordering::Relaxed);
            match appended {
                Ok(last) => {
                    self.progress.counts.position.store(writer.next().1, Ordering::Relaxed);
                    self.progress.note_written(last);
                    if self.policy == Policy::Everysec {
                        self.progress.pressure.note_unsynced(started_ns / 1_000_000);
                    }
                    // Spares must be ready before this segment is full, so that replies sent by then have room.
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
        self.intake.note_written(&mut self.batch);
        self.progress.pressure.end_write();
        Step::Worked
    }

    /// Records the slices that are durable without a sync.
    fn note_durable(&self) {
        if let Some((journal, _)) = &self.open {
            self.progress.note_durable(journal.durable_slice());
        }
    }

    /// Makes the next change if everything before it is written. Returns false if there is none.
    fn change_over(&mut self) -> bool {
        let next = self.intake.outlook().next;
        let Some((last, change)) = self.next.take_if(|(last, _)| next > *last) else { return false };
        assert!(self.batch.is_empty(), "slices before the change are written to the former journal");
        match change {
            Change::Begin(opened) => self.begin(last, *opened),
            Change::End => {
                self.end_former();
                self.disk.end();
                self.progress.note_ended(last);
            }
            Change::Name(id) => self.name_stream(id),
        }
        true
    }

    /// Names the stream. Frames contain the new id at once, the manifest when the disk thread gets to it.
    fn name_stream(&mut self, id: StreamId) {
        let Some((journal, writer)) = &mut self.open else { return };
        writer.name_stream(&id);
        let (journal, stream) = (journal.clone(), Stream { id, from: Some(writer.next().1) });
        // If the manifest cannot be written now, the next one has the id. Until then, no reader trusts the former id.
        self.disk.run(Box::new(move || drop(journal.name_stream(stream))));
    }

    /// Directs slices into this journal. A new one begins at the stream's current position.
    fn begin(&mut self, last: Lsn, (journal, mut writer): (Journal, Writer)) {
        self.end_former();
        let here = self.intake.begin(last, writer.next());
        if writer.next() != here {
            writer.begin_at(here);
        }
        let (first, position) = writer.next();
        self.progress.begin(first.before(), position);
        if writer.policy() != self.policy
            && let Err(trouble) = writer.set_policy(self.policy)
        {
            self.fail(&trouble);
        }
        self.disk.open(&journal);
        self.progress.pressure.set_open(true);
        self.open = Some((journal, writer));
    }

    /// Makes everything that was written to the open journal durable, and closes it.
    fn end_former(&mut self) {
        if let Some((former, _)) = self.open.take() {
            self.progress.pressure.set_open(false);
            match former.sync() {
                Ok(durable) => self.progress.note_durable(durable),
                Err(trouble) => self.fail(&trouble),
            }
        }
    }

    /// Notes that nothing more is written.
    fn fail(&mut self, trouble: &Trouble) {
        self.open = None;
        self.progress.pressure.set_open(false);
        self.progress.set_refusal(Refusal::Failed, &trouble.to_string());
        (self.on_failure)(trouble);
    }
}
