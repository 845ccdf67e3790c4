//! The disk thread does the slow work, beside the log thread. It keeps spare segments ready, syncs once a second, and
//! gives the journal a new base when a checkpoint is complete.
//!
//! Like the log thread, it is a state machine that its caller steps.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use proactor::Clock;

use crate::error::Trouble;
use crate::journal::Journal;
use crate::log_thread::Step;
use crate::manifest::Base;
use crate::progress::{Progress, Refusal};
use crate::writer::Policy;

/// The interval of syncs.
const SYNC_MS: u64 = 1000;
/// The delay before it tries again to create a spare for which there was no space. Meanwhile the log fills the
/// remaining space.
const RETRY_MS: u64 = 1000;

/// Called when a write or a sync has failed, so that nothing more becomes durable.
pub type OnFailure = Arc<dyn Fn(&Trouble) + Send + Sync>;

/// Called when a base was set, or could not be set.
pub type OnBase = Box<dyn FnOnce(Result<(), Trouble>) + Send>;

/// Slow work.
pub type DiskWork = Box<dyn FnOnce() + Send>;

enum DiskOrder {
    Run(DiskWork),
    Open(Journal),
    Spares(usize),
    Look,
    Sync,
    Mark,
    Base(NextBase),
    End,
    Stop,
}

/// See [`DiskOrders::set_base`].
struct NextBase {
    base: Base,
    backlog_bytes: u64,
    then: OnBase,
}

/// The queue of orders for the disk thread.
#[derive(Clone)]
pub struct DiskOrders(Sender<DiskOrder>);

impl DiskOrders {
    /// Sets this base, which is complete and durable. `then` is told whether the journal begins with it now. About
    /// `backlog_bytes` of the stream before it are kept.
    pub fn set_base(&self, base: Base, backlog_bytes: u64, then: OnBase) {
        self.send(DiskOrder::Base(NextBase { base, backlog_bytes, then }));
    }

    /// Makes the thread do this in addition to its own work.
    pub fn run(&self, work: DiskWork) {
        self.send(DiskOrder::Run(work));
    }

    /// Makes the thread end after the orders before this one.
    pub fn stop(&self) {
        self.send(DiskOrder::Stop);
    }

    pub(crate) fn open(&self, journal: &Journal) {
        self.send(DiskOrder::Open(journal.clone()));
    }

    pub(crate) fn want_spares(&self, count: usize) {
        self.send(DiskOrder::Spares(count));
    }

    /// Notes that a spare was taken, so that another one may have to be prepared.
    pub(crate) fn look(&self) {
        self.send(DiskOrder::Look);
    }

    pub(crate) fn sync(&self) {
        self.send(DiskOrder::Sync);
    }

    pub(crate) fn mark(&self) {
        self.send(DiskOrder::Mark);
    }

    pub(crate) fn end(&self) {
        self.send(DiskOrder::End);
    }

    fn send(&self, order: DiskOrder) {
        // A thread that has ended has reported why.
        let _ = self.0.send(order);
    }
}

/// See the head of this file.
pub struct DiskThread {
    progress: Arc<Progress>,
    clock: Clock,
    orders: Receiver<DiskOrder>,
    on_failure: OnFailure,
    journal: Option<Journal>,
    /// The number of spares that must be ready. If there is no space for them, commands that write are refused. The log
    /// thread waits for the spares, or is writing to the last segment, which has room for what is in progress. 0: there
    /// is no problem.
    wanted_spares: usize,
    /// The reason why the last attempt to create a spare failed.
    no_room: Option<String>,
    bases: VecDeque<NextBase>,
    /// Whether a sync was requested.
    is_asked: bool,
    /// The time of its last sync, on the monotonic clock.
    synced_ms: u64,
    /// The time before which no spare and no base is tried again.
    retry_ms: u64,
    base_retry_ms: u64,
    is_stopping: bool,
}

impl DiskThread {
    /// Creates the thread and the queue of its orders.
    pub fn new(progress: &Arc<Progress>, clock: &Clock, on_failure: OnFailure) -> (DiskOrders, DiskThread) {
        let (sender, orders) = std::sync::mpsc::channel();
        let thread = DiskThread {
            progress: Arc::clone(progress),
            clock: clock.clone(),
            orders,
            on_failure,
            journal: None,
            wanted_spares: 0,
            no_room: None,
            bases: VecDeque::new(),
            is_asked: false,
            synced_ms: 0,
            retry_ms: 0,
            base_retry_ms: 0,
            is_stopping: false,
        };
        (DiskOrders(sender), thread)
    }

    /// Runs until it is stopped.
    pub fn run(mut self) {
        loop {
            match self.step() {
                Step::Worked => {}
                Step::Waits(timeout) | Step::Rests(timeout) => match self.orders.recv_timeout(timeout) {
                    Ok(order) => self.obey(order),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                },
                Step::Ended => return,
            }
        }
    }

    /// Does the work that there is, including at most one step that blocks.
    pub fn step(&mut self) -> Step {
        while let Ok(order) = self.orders.try_recv() {
            self.obey(order);
        }
        let now_ms = self.clock.monotonic_ms();
        if let Some(journal) = self.journal.clone()
            && (self.prepares_spare(&journal, now_ms)
                || self.syncs(&journal, now_ms)
                || self.sets_base(&journal, now_ms))
        {
            return Step::Worked;
        }
        if self.is_stopping {
            return Step::Ended;
        }
        // A sync that was due had nothing to do, so data written after it are at most a second old at the next check.
        let due_ms = [self.synced_ms + SYNC_MS, self.retry_ms, self.base_retry_ms];
        let due_ms = due_ms.into_iter().filter(|due_ms| *due_ms > now_ms).min();
        let wait_ms = due_ms.map_or(SYNC_MS, |due_ms| due_ms - now_ms);
        Step::Waits(Duration::from_millis(wait_ms))
    }

    fn obey(&mut self, order: DiskOrder) {
        match order {
            DiskOrder::Run(work) => work(),
            DiskOrder::Open(journal) => {
                self.journal = Some(journal);
                // Those were for the previous journal.
                self.bases.clear();
                self.no_room = None;
            }
            DiskOrder::Look => {}
            DiskOrder::Sync => self.is_asked = true,
            DiskOrder::Spares(count) => self.wanted_spares = self.wanted_spares.max(count),
            DiskOrder::Base(next) => self.bases.push_back(next),
            DiskOrder::Mark => self.journal.iter().for_each(Journal::mark),
            DiskOrder::End => {
                if let Some(journal) = self.journal.take() {
                    journal.seal();
                }
            }
            DiskOrder::Stop => self.is_stopping = true,
        }
    }

    fn prepares_spare(&mut self, journal: &Journal, now_ms: u64) -> bool {
        self.refuse_without_room(journal);
        if self.is_stopping && self.wanted_spares == 0 || now_ms < self.retry_ms {
            return false;
        }
        match journal.prepare_spare(self.wanted_spares) {
            Ok(has_made) => {
                self.no_room = None;
                if self.wanted_spares > 0 && journal.spare_count() >= self.wanted_spares {
                    self.wanted_spares = 0;
                    self.progress.wake_log_thread();
                }
                if self.wanted_spares == 0 && self.progress.refusal() == Refusal::NoRoom {
                    self.progress.set_refusal(Refusal::None, "");
                }
                has_made
            }
            Err(Trouble::NotReady(error)) => {
                self.no_room = Some(error.to_string());
                self.refuse_without_room(journal);
                self.retry_ms = now_ms + RETRY_MS;
                false
            }
            Err(trouble) => self.fail(&trouble),
        }
    }

    /// Refuses commands that write if no spare can be created and none is left.
    fn refuse_without_room(&self, journal: &Journal) {
        if let Some(why) = &self.no_room
            && journal.spare_count() < self.wanted_spares
            && !matches!(self.progress.refusal(), Refusal::NoRoom | Refusal::Failed)
        {
            self.progress.set_refusal(Refusal::NoRoom, why);
        }
    }

    fn syncs(&mut self, journal: &Journal, now_ms: u64) -> bool {
        let is_due = self.progress.policy() == Policy::Everysec && now_ms >= self.synced_ms + SYNC_MS;
        let is_asked = std::mem::take(&mut self.is_asked);
        if !(is_due || is_asked) {
            return false;
        }
        self.progress.pressure.begin_sync();
        if journal.written_slice() == journal.durable_slice() {
            self.progress.pressure.end_sync();
            return false;
        }
        self.synced_ms = now_ms;
        self.progress.counts.sync_since_ms.store(now_ms.max(1), Ordering::Relaxed);
        let started_ns = self.clock.monotonic_ns();
        let synced = journal.sync();
        let took_ns = self.clock.monotonic_ns().saturating_sub(started_ns);
        self.progress.counts.slowest_sync_ns.fetch_max(took_ns, Ordering::Relaxed);
        self.progress.counts.sync_since_ms.store(0, Ordering::Relaxed);
        match synced {
            Ok(durable) => {
                self.progress.pressure.end_sync();
                self.progress.note_durable(durable);
            }
            Err(trouble) => return self.fail(&trouble),
        }
        true
    }

    fn sets_base(&mut self, journal: &Journal, now_ms: u64) -> bool {
        if now_ms < self.base_retry_ms {
            return false;
        }
        let Some(next) = self.bases.pop_front() else { return false };
        match journal.set_base(&next.base, next.backlog_bytes) {
            Err(Trouble::Behind) => {
                self.bases.push_front(next);
                self.base_retry_ms = now_ms + 1;
                return false;
            }
            outcome => {
                let failed = match &outcome {
                    Err(trouble @ Trouble::Failed(_)) => Some(trouble.clone()),
                    _ => None,
                };
                // The previous base may have left segments that can be reused.
                self.retry_ms = 0;
                (next.then)(outcome);
                if let Some(trouble) = failed {
                    self.fail(&trouble);
                }
            }
        }
        true
    }

    /// Notes that nothing more becomes durable. Returns true, because something has happened.
    fn fail(&mut self, trouble: &Trouble) -> bool {
        self.journal = None;
        self.progress.set_refusal(Refusal::Failed, &trouble.to_string());
        (self.on_failure)(trouble);
        true
    }
}
