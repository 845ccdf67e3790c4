//! The disk thread: what may take long, beside the log thread. It keeps spare segments ready, syncs once a second, and gives the
//! journal a new base when a checkpoint is done.
//!
//! It is a machine of steps, as the log thread is.

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

/// Between two syncs.
const SYNC_MS: u64 = 1000;
/// How soon it tries again to make a spare for which there was no room: until it knows that, it fills what is left.
const RETRY_MS: u64 = 1000;

/// Called when a write or a sync has failed, and nothing more is durable.
pub type OnFailure = Arc<dyn Fn(&Trouble) + Send + Sync>;

/// Called when a base is set, or cannot be.
pub type OnBase = Box<dyn FnOnce(Result<(), Trouble>) + Send>;

/// Something that takes long.
pub type DiskWork = Box<dyn FnOnce() + Send>;

enum DiskOrder {
    Run(DiskWork),
    Open(Journal),
    Spares(usize),
    Sync,
    Base(Base, OnBase),
    End,
    Stop,
}

/// Where orders for the disk thread go.
#[derive(Clone)]
pub struct DiskOrders(Sender<DiskOrder>);

impl DiskOrders {
    /// This base is complete and durable; `then` hears whether the journal begins with it now.
    pub fn set_base(&self, base: Base, then: OnBase) {
        self.send(DiskOrder::Base(base, then));
    }

    /// The thread does this, beside what it does by itself.
    pub fn run(&self, work: DiskWork) {
        self.send(DiskOrder::Run(work));
    }

    /// What is ordered is done, and then it ends.
    pub fn stop(&self) {
        self.send(DiskOrder::Stop);
    }

    pub(crate) fn open(&self, journal: &Journal) {
        self.send(DiskOrder::Open(journal.clone()));
    }

    pub(crate) fn want_spares(&self, count: usize) {
        self.send(DiskOrder::Spares(count));
    }

    pub(crate) fn sync(&self) {
        self.send(DiskOrder::Sync);
    }

    pub(crate) fn end(&self) {
        self.send(DiskOrder::End);
    }

    fn send(&self, order: DiskOrder) {
        // One that has ended has said so.
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
    /// How many spares the log thread waits for; 0: it does not.
    wanted_spares: usize,
    bases: VecDeque<(Base, OnBase)>,
    /// Somebody waits for a sync.
    is_asked: bool,
    /// On the monotonic clock.
    synced_ms: u64,
    retry_ms: u64,
    is_stopping: bool,
}

impl DiskThread {
    /// What obeys the orders that are given there.
    pub fn new(progress: &Arc<Progress>, clock: &Clock, on_failure: OnFailure) -> (DiskOrders, DiskThread) {
        let (sender, orders) = std::sync::mpsc::channel();
        let thread = DiskThread {
            progress: Arc::clone(progress),
            clock: clock.clone(),
            orders,
            on_failure,
            journal: None,
            wanted_spares: 0,
            bases: VecDeque::new(),
            is_asked: false,
            synced_ms: 0,
            retry_ms: 0,
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

    /// Does what there is to do, at most one thing that blocks.
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
        let due_ms =
            (self.synced_ms + SYNC_MS).min(if self.retry_ms > now_ms { self.retry_ms } else { u64::MAX });
        Step::Waits(Duration::from_millis(due_ms.saturating_sub(now_ms).clamp(1, SYNC_MS)))
    }

    fn obey(&mut self, order: DiskOrder) {
        match order {
            DiskOrder::Run(work) => work(),
            DiskOrder::Open(journal) => {
                self.journal = Some(journal);
                // Those were for the one before it.
                self.bases.clear();
            }
            DiskOrder::Sync => self.is_asked = true,
            DiskOrder::Spares(count) => self.wanted_spares = count,
            DiskOrder::Base(base, then) => self.bases.push_back((base, then)),
            DiskOrder::End => self.journal = None,
            DiskOrder::Stop => self.is_stopping = true,
        }
    }

    fn prepares_spare(&mut self, journal: &Journal, now_ms: u64) -> bool {
        if self.is_stopping && self.wanted_spares == 0 || now_ms < self.retry_ms {
            return false;
        }
        match journal.prepare_spare(self.wanted_spares) {
            Ok(has_made) => {
                if !has_made && std::mem::take(&mut self.wanted_spares) > 0 {
                    self.progress.wake_log_thread();
                }
                if self.progress.refusal() == Refusal::NoRoom {
                    self.progress.set_refusal(Refusal::None, "");
                }
                has_made
            }
            Err(Trouble::NotReady(error)) => {
                // As long as there are others nobody has to know.
                if self.wanted_spares > 0 && self.progress.refusal() != Refusal::Failed {
                    self.progress.set_refusal(Refusal::NoRoom, &error.to_string());
                }
                self.retry_ms = now_ms + RETRY_MS;
                false
            }
            Err(trouble) => self.fail(&trouble),
        }
    }

    fn syncs(&mut self, journal: &Journal, now_ms: u64) -> bool {
        let is_due = self.progress.policy() == Policy::Everysec && now_ms >= self.synced_ms + SYNC_MS;
        let is_asked = std::mem::take(&mut self.is_asked);
        if !(is_due || is_asked) || journal.written_slice() == journal.durable_slice() {
            return false;
        }
        self.synced_ms = now_ms;
        self.progress.sync_since_ms.store(now_ms.max(1), Ordering::Relaxed);
        let started_ns = self.clock.monotonic_ns();
        let synced = journal.sync();
        let took_ns = self.clock.monotonic_ns().saturating_sub(started_ns);
        self.progress.slowest_sync_ns.fetch_max(took_ns, Ordering::Relaxed);
        self.progress.sync_since_ms.store(0, Ordering::Relaxed);
        match synced {
            Ok(durable) => self.progress.note_durable(durable),
            Err(trouble) => return self.fail(&trouble),
        }
        true
    }

    fn sets_base(&mut self, journal: &Journal, now_ms: u64) -> bool {
        if now_ms < self.retry_ms {
            return false;
        }
        let Some((base, then)) = self.bases.pop_front() else { return false };
        match journal.set_base(&base, 0) {
            Err(Trouble::Behind) => {
                self.bases.push_front((base, then));
                self.retry_ms = now_ms + 1;
                return false;
            }
            outcome => {
                let failed = match &outcome {
                    Err(trouble @ Trouble::Failed(_)) => Some(trouble.clone()),
                    _ => None,
                };
                // It may have left segments that can be used again.
                self.retry_ms = 0;
                then(outcome);
                if let Some(trouble) = failed {
                    self.fail(&trouble);
                }
            }
        }
        true
    }

    /// Nothing more is durable; true, as something has happened.
    fn fail(&mut self, trouble: &Trouble) -> bool {
        self.journal = None;
        self.progress.set_refusal(Refusal::Failed, &trouble.to_string());
        (self.on_failure)(trouble);
        true
    }
}
