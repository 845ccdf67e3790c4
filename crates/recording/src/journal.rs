//! The journal of a server: `effectlog` orders what threads commit, `journal` writes it. This crate connects both to
//! the server.
//!
//! Not here: how it is opened at the start (`opening.rs`), turned on and off later (`switch.rs`), checkpoints
//! (`checkpoint.rs`), and replies that wait for it (`turn.rs`).

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use effectlog::{Backlog, Collector, Cut, Log, Recorder};
use journal::{
    DiskOrders, DiskThread, LockedFolder, LogThread, OnFailure, Order, Policy, Progress, Refusal, StreamId,
    Trouble, Writer,
};
use proactor::{Clock, Waker};
use replication::{Following, Synced};
use settings::{APPENDFSYNC, JOURNAL_PENDING_MAX, REPL_SYNC_REPLICAS, SYNC_ALWAYS, SYNC_NEVER, Settings};

use crate::switch::{Ended, Making};

/// An open journal, and what writes into it.
pub type Opened = Box<(journal::Journal, Writer)>;

/// What all threads know of the journal.
pub struct Journal {
    /// How far it is.
    pub progress: Arc<Progress>,
    /// What threads commit while it, or the stream for replicas, is on.
    pub log: Arc<Log>,
    pub(crate) is_on: AtomicBool,
    /// What replicas read, while that is on.
    pub backlog: Arc<Backlog>,
    pub(crate) is_streaming: AtomicBool,
    /// How far replicas have it for which replies wait.
    pub synced: Synced,
    /// What records for each thread, until that thread takes it.
    pub(crate) recorders: Mutex<Vec<Recorder>>,
    pub(crate) orders: Sender<Order>,
    pub(crate) disk: DiskOrders,
    /// What writes, until it runs.
    pub(crate) idle: Mutex<Option<(LogThread, DiskThread)>>,
    pub(crate) running: Mutex<Vec<JoinHandle<()>>>,
    /// The folder that no other server may use, as long as it is needed.
    pub(crate) folder: Mutex<Option<Arc<LockedFolder>>>,
    pub(crate) files: Mutex<Option<Files>>,
    pub(crate) making: Mutex<Making>,
    pub(crate) ended: Mutex<Option<Ended>>,
    /// Of the journal that is made next.
    pub(crate) next_id: AtomicU64,
    /// When one could not be made, in seconds since 1970.
    pub(crate) failed_seconds: AtomicU64,
    /// What of it the log has told: a [`Refusal`].
    pub(crate) told: AtomicU8,
    /// Since when that is so, in milliseconds since 1970.
    pub(crate) told_ms: AtomicU64,
    /// Somebody wants a checkpoint as soon as possible.
    pub is_scheduled: AtomicBool,
    /// What was loaded counts as loaded when the journal has its base.
    pub(crate) is_first_base: AtomicBool,
    /// In a simulation: the process has ended because the journal cannot be written.
    pub(crate) has_ended: Arc<AtomicBool>,
}

/// The journal that is open.
pub(crate) struct Files {
    pub(crate) journal: journal::Journal,
    pub(crate) id: u64,
    /// The checkpoint that is under way, until its file is the base.
    pub(crate) checkpoint: Option<Checkpoint>,
    /// Bytes of the base, and where the stream was when it was made.
    pub(crate) base_bytes: u64,
    pub(crate) base_position: u64,
}

/// A checkpoint that is under way.
pub(crate) struct Checkpoint {
    pub(crate) cut: Cut,
    /// Its file.
    pub(crate) name: String,
    pub(crate) started_ms: u64,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `appendfsync` says.
pub fn policy(settings: &Settings) -> Policy {
    match settings.number(APPENDFSYNC) {
        SYNC_ALWAYS => Policy::Always,
        SYNC_NEVER => Policy::No,
        _ => Policy::Everysec,
    }
}

impl Journal {
    /// That of threads that these wake; it is off. The first one that is made gets this id, which is random.
    pub fn new(
        wakers: Vec<Arc<Waker>>,
        clock: &Clock,
        settings: &Settings,
        id: u64,
        is_simulated: bool,
    ) -> Journal {
        let threads = wakers.len();
        let ticks = clock.clone();
        let (log, recorders, ends) = Log::new(threads, Box::new(move || ticks.ticks()));
        let wakers = Arc::new(wakers);
        let wake = || {
            let wakers = Arc::clone(&wakers);
            Box::new(move |thread: usize| wakers[thread].wake())
        };
        let progress = Arc::new(Progress::new(threads, 0, policy(settings), wake()));
        let backlog = Arc::new(Backlog::new(threads, wake()));
        let (failed, has_ended) = (Arc::clone(&progress), Arc::<AtomicBool>::default());
        let ended = Arc::clone(&has_ended);
        let on_failure: OnFailure = Arc::new(move |trouble| {
            if note_failure(&failed, trouble) {
                if !is_simulated {
                    std::process::exit(1);
                }
                ended.store(true, Ordering::Relaxed);
            }
        });
        let (disk, disk_thread) = DiskThread::new(&progress, clock, Arc::clone(&on_failure));
        let (orders, obeyed) = channel();
        let collector = Collector::new(&log, ends);
        let log_thread =
            LogThread::new((&log, collector, &backlog), &progress, clock, obeyed, disk.clone(), on_failure);
        let journal = Journal {
            progress,
            log,
            is_on: AtomicBool::new(false),
            backlog,
            is_streaming: AtomicBool::new(false),
            synced: Synced::new(settings.number(REPL_SYNC_REPLICAS) as u64, threads),
            recorders: Mutex::new(recorders),
            orders,
            disk,
            idle: Mutex::new(Some((log_thread, disk_thread))),
            running: Mutex::default(),
            folder: Mutex::default(),
            files: Mutex::default(),
            making: Mutex::default(),
            ended: Mutex::default(),
            next_id: AtomicU64::new(id),
            failed_seconds: AtomicU64::new(0),
            told: AtomicU8::new(Refusal::None as u8),
            told_ms: AtomicU64::new(0),
            is_scheduled: AtomicBool::new(false),
            is_first_base: AtomicBool::new(false),
            has_ended,
        };
        journal.obey_settings(settings);
        journal
    }

    /// What records for thread number `thread`, which asks once.
    pub fn take_recorder(&self, thread: u16) -> Recorder {
        std::mem::take(&mut locked(&self.recorders)[usize::from(thread)])
    }

    /// Whether replies wait until what they tell of is durable, or replicas have it.
    #[inline]
    pub fn holds_replies(&self) -> bool {
        self.holds_for_disk() || self.synced.holds_replies()
    }

    /// Replies wait for so many replicas from now on.
    pub fn wait_for_replicas(&self, wanted: u64) {
        if wanted != self.synced.wanted() {
            self.synced.set_wanted(wanted, self.log.slice());
        }
    }

    #[inline]
    pub(crate) fn holds_for_disk(&self) -> bool {
        self.is_on() && self.progress.policy() == Policy::Always
    }

    /// Whether what is committed goes into it.
    #[inline]
    pub fn is_on(&self) -> bool {
        // Relaxed: whoever has changed it held the shards that are held now.
        self.is_on.load(Ordering::Relaxed)
    }

    /// Its files, if it is on.
    pub fn open(&self) -> Option<journal::Journal> {
        Some(locked(&self.files).as_ref()?.journal.clone())
    }

    /// Whether what is committed goes into the backlog.
    pub fn is_streaming(&self) -> bool {
        self.is_streaming.load(Ordering::Relaxed)
    }

    /// Where the stream ends, as far as it has been written anywhere.
    pub fn position(&self) -> u64 {
        let written =
            if self.is_streaming() { 0 } else { self.progress.counts.position.load(Ordering::Relaxed) };
        written.max(self.backlog.end())
    }

    /// Tells what writes what the settings say by now.
    pub fn obey_settings(&self, settings: &Settings) {
        self.order(Order::PendingMax(settings.number(JOURNAL_PENDING_MAX) as u64));
        self.order(Order::Policy(policy(settings)));
    }

    fn order(&self, order: Order) {
        // It has ended if the server has.
        let _ = self.orders.send(order);
        self.progress.wake_log_thread();
    }

    /// From now on everything that is committed goes into this journal. All shards are held, or nobody serves yet.
    pub fn begin(&self, folder: Arc<LockedFolder>, opened: Opened) {
        let facts = opened.0.facts();
        let base_bytes = facts.base.file.as_ref().map_or(0, |file| folder.base_bytes(file));
        *locked(&self.files) = Some(Files {
            journal: opened.0.clone(),
            id: facts.id,
            checkpoint: None,
            base_bytes,
            base_position: facts.base.position,
        });
        *locked(&self.folder) = Some(folder);
        self.is_first_base.store(facts.is_pending, Ordering::Relaxed);
        let last = if self.log.is_on() {
            self.log.cut().slice()
        } else {
            let (first, _) = opened.1.next();
            self.log.turn_on(first.max(self.log.slice() + 1))
        };
        self.is_on.store(true, Ordering::Relaxed);
        self.order(Order::Begin(last, opened));
    }

    /// From now on nothing goes into it. All shards are held, or nobody serves any more. Returns its last slice.
    pub(crate) fn end(&self) -> u64 {
        let last = if self.is_streaming() { self.log.cut().slice() } else { self.log.turn_off() };
        self.is_on.store(false, Ordering::Relaxed);
        self.order(Order::End(last));
        *locked(&self.files) = None;
        self.is_scheduled.store(false, Ordering::Relaxed);
        // One that ends before it has its base keeps nothing: that does not change until another one has a base.
        self.progress.wake_all();
        last
    }

    /// From now on what is committed goes into the backlog, too. All shards are held.
    fn begin_stream(&self) {
        let last =
            if self.log.is_on() { self.log.cut().slice() } else { self.log.turn_on(self.log.slice() + 1) };
        self.is_streaming.store(true, Ordering::Relaxed);
        self.order(Order::Stream(last, true));
    }

    /// From now on nothing goes into the backlog. All shards are held, or nobody serves any more.
    pub fn end_stream(&self) {
        let last = if self.is_on() { self.log.cut().slice() } else { self.log.turn_off() };
        self.is_streaming.store(false, Ordering::Relaxed);
        self.order(Order::Stream(last, false));
    }

    /// From now on the log is a copy of another stream, or has what threads do; all shards are held, or nobody serves yet. Where it ended before,
    /// if it was on.
    pub fn set_copying(&self, copies: bool) -> Option<Cut> {
        let cut = self.log.set_copying(copies);
        self.progress.wake_log_thread();
        cut
    }

    /// The role with which the server starts: nobody serves yet.
    pub fn begin_role(&self, following: &Following) {
        self.set_copying(following.is_replica());
        self.synced.begin_role(following.role());
    }

    /// The copy begins anew at `position`, and so does what replicas read; all shards are held. A journal ends here, because what comes does not
    /// continue it: it is made anew, with a base of its own, and until that is there a start goes on with the old one.
    pub fn begin_copy(&self, position: u64) {
        if self.is_on() {
            self.end();
        }
        if self.log.is_on() {
            self.log.turn_off();
        }
        let first = self.log.slice() + 1;
        let last = self.log.turn_on(first);
        self.is_streaming.store(true, Ordering::Relaxed);
        self.order(Order::Copy(last, first, position));
    }

    /// The stream is known by this id from now on; all shards are held.
    pub fn name_stream(&self, id: StreamId) {
        if self.is_on() {
            let last = self.log.cut().slice();
            self.order(Order::Name(last, id));
        }
    }

    /// The copy goes on where the log is, and replicas read it; all shards are held.
    pub fn go_on_copying(&self) {
        if !self.is_streaming() {
            self.begin_stream();
        }
    }

    /// Whether what is committed is recorded, for whomever.
    pub fn is_recording(&self) -> bool {
        self.log.is_on()
    }

    /// The place in the stream where replicas begin with what there is now. All shards are held.
    pub fn cut_for_replicas(&self) -> Cut {
        if !self.is_streaming() {
            self.begin_stream();
        }
        let cut = self.log.cut();
        self.progress.wake_log_thread();
        cut
    }

    /// Whether what was loaded is still to become the base.
    pub fn awaits_first_base(&self) -> bool {
        self.is_first_base.load(Ordering::Relaxed)
    }

    /// Gives what writes threads of their own.
    pub fn run(&self) -> std::io::Result<()> {
        let Some((log_thread, disk_thread)) = locked(&self.idle).take() else { return Ok(()) };
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(work)
        };
        let log_thread = spawn("journal", Box::new(move || log_thread.run()))?;
        let disk_thread = spawn("journal-disk", Box::new(move || disk_thread.run()))?;
        locked(&self.running).extend([log_thread, disk_thread]);
        Ok(())
    }

    /// The same for a simulation, which runs them step by step.
    pub fn take_machines(&self) -> Option<(LogThread, DiskThread)> {
        locked(&self.idle).take()
    }

    /// In a simulation: whether the process has ended because the journal cannot be written.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Has the log thread of a simulation sleep until somebody nudges it; false: there is something to do already.
    pub fn fall_asleep(&self) -> bool {
        self.progress.fall_asleep(|| self.log.has_pending())
    }

    /// Writes what there is, makes it durable, and ends. Nobody commits any more.
    pub fn stop(&self) {
        if self.is_on() {
            self.end();
        }
        if self.is_streaming() {
            self.end_stream();
        }
        self.order(Order::Stop);
        let mut running = locked(&self.running);
        let mut end_first = |count: usize| {
            for thread in running.drain(..count) {
                // If it panicked, it said so.
                let _ = thread.join();
            }
        };
        end_first(1);
        self.disk.stop();
        end_first(1);
    }
}

/// A write or a sync has failed: whether the process ends. Whoever was promised that replies are durable gets no more of them.
fn note_failure(progress: &Progress, trouble: &Trouble) -> bool {
    tracing::error!("the journal cannot be written: {trouble}");
    let ends = progress.policy() == Policy::Always;
    debug_assert_eq!(progress.refusal(), Refusal::Failed);
    if ends {
        tracing::error!(
            "appendfsync is always, so the server stops: everything it acknowledged is on the disk"
        );
    }
    ends
}
