//! The journal of a server: connects the order of commits (`effectlog`) and the files (`journal`) to the
//! server.
//!
//! Not here: opening the journal at the start (`opening.rs`), turning it on and off later (`switch.rs`),
//! checkpoints (`checkpoint.rs`), and replies that wait for it (`turn.rs`).

#![expect(
    clippy::disallowed_types,
    reason = "the journal is opened, switched and closed rarely; no command takes these locks"
)]

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::{Following, RoleChange, Synced};
use config::{
    APPENDFSYNC, APPENDONLY, JOURNAL_PENDING_MAX, JOURNAL_PENDING_MS, REPL_SYNC_REPLICAS, SYNC_ALWAYS,
    SYNC_NEVER, Settings,
};
use effectlog::{Backlog, Collector, Cut, Log, Lsn, Recorder, StreamPosition};
use journal::{
    DiskOrders, DiskThread, Intake, LockedFolder, LogThread, OnFailure, Order, Policy, Progress, Refusal,
    StreamId, Trouble, Writer,
};
use proactor::{Clock, Waker};

use crate::log::opening::Begun;
use crate::log::switch::{Ended, Making};

/// An open journal and its writer.
pub type Opened = Box<(journal::Journal, Writer)>;

/// State of the journal that all threads share.
pub struct ServerLog {
    /// The progress of writing.
    pub progress: Arc<Progress>,
    /// The log of commits. It is on while the journal is on or replicas read the stream.
    pub log: Arc<Log>,
    /// Closes slices of the log.
    intake: Arc<Intake>,
    pub(crate) is_on: AtomicBool,
    /// The stream for replicas, while they read it.
    pub backlog: Arc<Backlog>,
    pub(crate) is_streaming: AtomicBool,
    /// How far the replicas that replies wait for have received the stream.
    pub synced: Synced,
    /// The recorder of each thread, until that thread takes it.
    pub(crate) recorders: Mutex<Vec<Recorder>>,
    pub(crate) orders: Sender<Order>,
    pub(crate) disk: DiskOrders,
    /// The two writer threads, until they run.
    pub(crate) idle: Mutex<Option<(LogThread, DiskThread)>>,
    pub(crate) running: Mutex<Vec<JoinHandle<()>>>,
    /// The locked folder, while it is needed. No other server may use it.
    pub(crate) folder: Mutex<Option<Arc<LockedFolder>>>,
    pub(crate) files: Mutex<Option<Files>>,
    pub(crate) making: Mutex<Making>,
    pub(crate) ended: Mutex<Option<Ended>>,
    /// The id of the next new journal.
    pub(crate) next_id: AtomicU64,
    /// When creating a journal last failed, in seconds since 1970.
    pub(crate) failed_seconds: AtomicU64,
    /// The last [`Refusal`] that was logged.
    pub(crate) told: AtomicU8,
    /// When that refusal began, in milliseconds since 1970.
    pub(crate) told_ms: AtomicU64,
    /// Whether a checkpoint should begin as soon as possible.
    pub is_scheduled: AtomicBool,
    /// Whether the journal still lacks its first base; loading is complete only once it has one.
    pub(crate) is_first_base: AtomicBool,
    /// Whether the data came as a copy that the journal still lacks: until its first base is durable, a start loads
    /// what was there before the copy.
    pub(crate) lacks_copy: AtomicBool,
    /// In a simulation: the process has ended because the journal cannot be written.
    pub(crate) has_ended: Arc<AtomicBool>,
}

/// The open journal.
pub(crate) struct Files {
    pub(crate) journal: journal::Journal,
    pub(crate) id: u64,
    /// The current checkpoint, until its file is the base.
    pub(crate) checkpoint: Option<Checkpoint>,
    /// The size of the base, and the position in the stream when it was made.
    pub(crate) base_bytes: u64,
    pub(crate) base_position: StreamPosition,
}

/// A checkpoint in progress.
pub(crate) struct Checkpoint {
    pub(crate) cut: Cut,
    /// The name of its file.
    pub(crate) name: String,
    pub(crate) started_ms: u64,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The policy of `appendfsync`.
pub fn policy(settings: &Settings) -> Policy {
    match settings.number(APPENDFSYNC) {
        SYNC_ALWAYS => Policy::Always,
        SYNC_NEVER => Policy::No,
        _ => Policy::Everysec,
    }
}

impl ServerLog {
    /// Creates the journal of the threads that `wakers` wake; it is off. The first journal to be created gets
    /// this random id.
    pub fn new(
        wakers: Vec<Arc<Waker>>,
        clock: &Clock,
        settings: &Settings,
        id: u64,
        is_simulated: bool,
    ) -> ServerLog {
        let threads = wakers.len();
        let ticks = clock.clone();
        let (log, recorders, ends) = Log::new(threads, Box::new(move || ticks.ticks()));
        let wakers = Arc::new(wakers);
        let wake = || {
            let wakers = Arc::clone(&wakers);
            Box::new(move |thread: usize| wakers[thread].wake())
        };
        let progress = Arc::new(Progress::new(threads, Lsn::NONE, policy(settings), wake()));
        let watched = Arc::clone(&progress);
        log.set_watch(Box::new(move |log| watched.look_at_bytes(log)));
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
        let intake = Intake::new((&log, collector, &backlog), &progress, obeyed);
        let log_thread = LogThread::new((&log, &intake), &progress, clock, disk.clone(), on_failure);
        let journal = ServerLog {
            progress,
            log,
            intake,
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
            lacks_copy: AtomicBool::new(false),
            has_ended,
        };
        journal.obey_settings(settings);
        journal
    }

    /// Takes the recorder of thread number `thread`. Each thread does so once.
    pub fn take_recorder(&self, thread: u16) -> Recorder {
        let recorder = std::mem::take(&mut locked(&self.recorders)[usize::from(thread)]);
        assert!(recorder.has_sink(), "thread {thread} takes its recorder a second time");
        recorder
    }

    /// Whether replies wait until the changes that they report are durable or on replicas.
    #[inline]
    pub fn holds_replies(&self) -> bool {
        self.holds_for_disk() || self.synced.holds_replies()
    }

    /// Lets a transaction gather for which slices its replies wait.
    pub fn set_holds(&self, tx: &mut engine::Tx<'_>) {
        (tx.holds_replies, tx.held_from) = (self.holds_replies(), self.synced.group.held_from());
    }

    /// Makes replies wait for `wanted` replicas.
    pub fn wait_for_replicas(&self, wanted: u64) {
        if wanted != self.synced.wanted() {
            self.synced.set_wanted(wanted, self.log.slice());
        }
    }

    #[inline]
    pub(crate) fn holds_for_disk(&self) -> bool {
        self.is_on() && (self.progress.policy() == Policy::Always || self.synced.group.needs_disk())
    }

    /// Whether the journal is on.
    #[inline]
    pub fn is_on(&self) -> bool {
        // Relaxed: a thread that changed it held the shards that are held now.
        self.is_on.load(Ordering::Relaxed)
    }

    /// The journal, if it is on.
    pub fn open(&self) -> Option<journal::Journal> {
        Some(locked(&self.files).as_ref()?.journal.clone())
    }

    /// Whether commits go into the backlog.
    pub fn is_streaming(&self) -> bool {
        self.is_streaming.load(Ordering::Relaxed)
    }

    /// The end of the stream. Everything acknowledged before this call is before it; comparisons of offsets
    /// rely on that.
    pub fn position(&self) -> StreamPosition {
        self.intake.position()
    }

    /// Turns on the journal with which the server starts. If it cannot be written, write commands are refused
    /// until there is a new journal with a base; creating one is retried until it succeeds.
    pub fn start(&self, begun: Begun) {
        let error = match begun {
            Begun::Open(folder, opened) => return self.begin(folder, opened),
            Begun::ReadOnly(error) => error,
        };
        tracing::error!(
            "the journal cannot be written, so write commands are refused, and reads are served: {error}"
        );
        self.progress.set_refusal(Refusal::Failed, &error.to_string());
    }

    /// Passes changed settings on to the log thread.
    pub fn obey_settings(&self, settings: &Settings) {
        // Not through the log thread, which may itself be what writers wait for.
        let limits = [JOURNAL_PENDING_MAX, JOURNAL_PENDING_MS].map(|limit| settings.number(limit) as u64);
        self.progress.pressure.set_limits(limits[0], limits[1]);
        let policy = if self.synced.group.needs_disk() { Policy::Always } else { policy(settings) };
        self.order(Order::Policy(policy));
    }

    fn order(&self, order: Order) {
        // Sending fails only if the thread has ended with the server.
        let _ = self.orders.send(order);
        self.progress.wake_log_thread();
    }

    /// Turns the journal on, so that all commits go into it. All shards are held, or no clients are served
    /// yet.
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
            self.log.turn_on(first.max(self.log.slice().next()))
        };
        assert!(self.progress.written() <= last, "a journal begins behind what is written");
        self.is_on.store(true, Ordering::Relaxed);
        self.order(Order::Begin(last, opened));
    }

    /// Turns the journal off. All shards are held, or clients are no longer served. Returns the journal's
    /// last slice.
    pub(crate) fn end(&self) -> Lsn {
        let last = if self.is_streaming() { self.log.cut().slice() } else { self.log.turn_off() };
        assert!(self.progress.written() <= last, "a journal ends behind what is written");
        self.is_on.store(false, Ordering::Relaxed);
        self.order(Order::End(last));
        *locked(&self.files) = None;
        self.is_scheduled.store(false, Ordering::Relaxed);
        // A journal that ends before its first base keeps nothing, and this stays so until another one has a
        // base.
        self.progress.wake_all();
        last
    }

    /// Lets commits go into the backlog too. All shards are held.
    fn begin_stream(&self) {
        let last =
            if self.log.is_on() { self.log.cut().slice() } else { self.log.turn_on(self.log.slice().next()) };
        self.is_streaming.store(true, Ordering::Relaxed);
        self.order(Order::Stream(last, true));
    }

    /// Stops commits from going into the backlog. All shards are held, or clients are no longer served.
    pub fn end_stream(&self) {
        let last = if self.is_on() { self.log.cut().slice() } else { self.log.turn_off() };
        self.is_streaming.store(false, Ordering::Relaxed);
        self.order(Order::Stream(last, false));
    }

    /// Sets whether the log holds a copy of another stream or the effects of threads. All shards are held, or
    /// no clients are served yet. Returns the end of the log's former content, if it was on.
    pub fn set_copying(&self, copies: bool) -> Option<Cut> {
        let cut = self.log.set_copying(copies);
        self.progress.wake_log_thread();
        cut
    }

    /// Sets the role with which the server starts. No clients are served yet.
    pub fn begin_role(&self, following: &Following) {
        self.set_copying(following.is_replica());
        self.synced.begin_role(following.role());
    }

    /// Notes that the role has changed. All shards are held. Data of a former primary that its replicas lack
    /// is in doubt, until this server has its new primary's data.
    pub fn note_role(&self, following: &Following, change: RoleChange, settings: &Settings) {
        let former_end = (change == RoleChange::Demoted).then(|| self.log.slice().before());
        self.synced.set_role(following.role(), former_end);
        let is_covered = || self.backlog.end_of(self.synced.slice()) == Some(self.position());
        match change {
            RoleChange::Demoted if !is_covered() => self.synced.begin_doubt(self.log.slice()),
            // It never got its primary's data, so its own data counts after all.
            RoleChange::Promoted if self.synced.is_in_doubt() => self.doubt_all(),
            RoleChange::Demoted | RoleChange::Moved | RoleChange::Promoted => {}
        }
        if change == RoleChange::Promoted && self.lacks_copy(settings) {
            let why = "the journal has not got the copy of the former primary yet";
            tracing::warn!("{why}: until it has, a restart loads what was here before");
            if policy(settings) == Policy::Always {
                self.progress.set_refusal(Refusal::Failed, why);
            }
        }
    }

    /// Puts all data of this primary in doubt, because replicas may have less. All shards are held.
    pub fn doubt_all(&self) {
        self.synced.begin_doubt(self.log.slice().before());
    }

    /// Begins a new copy of a stream at `position`, and the backlog with it. All shards are held. The journal
    /// ends, because the copy does not continue it. A new one with its own base will be created; until then,
    /// a start uses the old one.
    pub fn begin_copy(&self, position: StreamPosition) {
        if self.is_on() {
            self.end();
            self.lacks_copy.store(true, Ordering::Relaxed);
        }
        if self.log.is_on() {
            self.log.turn_off();
        }
        let first = self.log.slice().next();
        let last = self.log.turn_on(first);
        self.is_streaming.store(true, Ordering::Relaxed);
        self.order(Order::Copy(last, first, position));
        self.synced.end_doubt("they are those of the primary");
    }

    /// Gives the stream this id. All shards are held.
    pub fn name_stream(&self, id: StreamId) {
        if self.is_on() {
            let last = self.log.cut().slice();
            self.order(Order::Name(last, id));
        }
    }

    /// Continues the copy at the end of the log, and lets it go into the backlog too. All shards are held.
    pub fn go_on_copying(&self) {
        if !self.is_streaming() {
            self.begin_stream();
        }
        self.synced.end_doubt("they are those of the primary");
    }

    /// Whether commits are recorded, for the journal or for replicas.
    pub fn is_recording(&self) -> bool {
        self.log.is_on()
    }

    /// The position in the stream that matches the present data, for a replica that gets this data. All
    /// shards are held.
    pub fn cut_for_replicas(&self) -> Cut {
        if !self.is_streaming() {
            self.begin_stream();
        }
        let cut = self.log.cut();
        self.progress.wake_log_thread();
        cut
    }

    /// Whether loaded data still has to become the journal's first base.
    pub fn awaits_first_base(&self) -> bool {
        self.is_first_base.load(Ordering::Relaxed)
    }

    /// Whether the journal still lacks the last full copy of a primary, so that a start would load what was there
    /// before it.
    pub fn lacks_copy(&self, settings: &Settings) -> bool {
        settings.is_on(APPENDONLY) && self.lacks_copy.load(Ordering::Relaxed)
    }

    /// Starts the two writer threads.
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

    /// Takes the two writers for a simulation, which runs them step by step.
    pub fn take_machines(&self) -> Option<(LogThread, DiskThread)> {
        locked(&self.idle).take()
    }

    /// In a simulation: whether the process has ended because the journal cannot be written.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// In a simulation: lets the log thread sleep until it is woken. False if it has work to do.
    pub fn fall_asleep(&self) -> bool {
        self.progress.fall_asleep(|| self.intake.has_work())
    }

    /// Writes everything, makes it durable, and ends the writer threads. There are no more commits.
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
                // If it panicked, it has said so.
                let _ = thread.join();
            }
        };
        end_first(1);
        self.disk.stop();
        end_first(1);
    }
}

/// Handles a failed write or sync. Returns whether the process ends, so that no more replies are sent if they
/// promise durability.
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
