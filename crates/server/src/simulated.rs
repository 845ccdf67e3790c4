//! A server on a simulated network, whose threads are stepped one by one, for the crate `sim`.
//!
//! The threads are real, including their turns. Only drivers, clock and randomness are simulated, and the caller of
//! [`SimulatedThread::turn`] decides the order.

use std::rc::Rc;
use std::sync::Arc;

use config::Invocation;
use config::{Settings, StartConfig, TABLE};
use effectlog::{Recorder, Sink};
use journal::Step;
use persistence::{Spool, WriterStep};
use proactor::{BlockingStep, BlockingTasks, SimDisk, SimNet};
use process::processors::ThreadCount;
use replication::CopyContent;
use replication::log::Tuning;
use shard::{Hold, ShardId};

use crate::commands::functions::functions;
use crate::shared::{Lease, Machine, Shared};
use crate::snapshot::Loader;
use crate::start::rename;
use crate::thread::Thread;
use crate::users::default_users;

/// The shared part of a simulated server, to be examined between turns.
pub struct SimulatedServer(Rc<Lease>);

/// One thread of a simulated server.
pub struct SimulatedThread {
    thread: Thread,
    /// Dropped after the thread, which refers to the shared part that the lease holds.
    _lease: Rc<Lease>,
}

/// Starts a server on `net`, as the command line `args` says. Its first thread accepts at `address`. Its threads are
/// the next ones of `net`. Loads the data on `disk`, which the first thread puts in place. The error is a sentence: the
/// server refuses to start with the files on the disk, or cannot read them.
///
/// # Panics
///
/// If the command line is wrong.
pub fn simulate(
    args: &[String],
    net: &SimNet,
    disk: &SimDisk,
    address: &str,
) -> Result<(SimulatedServer, Vec<SimulatedThread>), String> {
    let (settings, found) = settings(args);
    let tuning = Tuning::drawn(&mut net.entropy());
    let (dialer, blocking_tasks) = (net.dialer(), BlockingTasks::simulated());
    let machine = Machine { clock: net.clock(), disk: disk.disk(), tuning, dialer, blocking_tasks };
    let choice = persistence::choose(&settings, &machine.disk).map_err(|error| error.to_string())?;
    let config = settings.driver_config();
    let mut drivers: Vec<_> = (0..ThreadCount::of(&settings).count).map(|_| net.driver(&config)).collect();
    drivers[0].listen(net.listener(address)).expect("a simulated driver listens on a simulated address");
    let wakers = drivers.iter_mut().map(proactor::Driver::waker).collect();
    let mut table = crate::commands::table();
    rename(&mut table, &found.renames).unwrap_or_else(|error| panic!("{error}"));
    let seed = net.entropy().next_u64();
    let users = default_users(&settings, &table);
    let shared = Shared::create(settings, table, users, wakers, drivers[0].name(), seed, machine);
    heap::fix();
    let server = SimulatedServer(Rc::new(Lease(shared)));
    let thread = |(id, driver)| SimulatedThread {
        thread: Thread::new(id as u16, shared, functions(), driver),
        _lease: server.0.clone(),
    };
    let threads = (0..).zip(drivers).map(thread).collect();
    let mut loader = Loader::of(shared);
    loader.begin(&choice, &shared.journal).map_err(|error| error.to_string())?;
    loader.load_simulated(&shared.threads[0], &choice).map_err(|error| error.to_string())?;
    Ok((server, threads))
}

fn settings(args: &[String]) -> (Settings, StartConfig) {
    match Invocation::parse(&TABLE, args) {
        Ok(Invocation::Serve(arguments)) => {
            let (settings, mut found) = Settings::read(&arguments).unwrap_or_else(|error| panic!("{error}"));
            found.check().unwrap_or_else(|error| panic!("{error}"));
            (settings, found)
        }
        other => panic!("no command line of a server: {other:?}"),
    }
}

/// Drops `step` before the lease that it refers to.
fn with_lease<T>(lease: Rc<Lease>, mut step: impl FnMut() -> T) -> impl FnMut() -> T {
    move || (step(), &lease).0
}

impl SimulatedThread {
    /// Runs one turn. Returns false when the server stops.
    pub fn turn(&mut self) -> bool {
        self.thread.turn(None).expect("a simulated driver does not fail")
    }

    /// Records all changes. Must be called before the first turn of any thread.
    pub fn record(&mut self, sink: Box<dyn Sink>) {
        self.thread.tx.record = Recorder::new(sink);
    }
}

impl SimulatedServer {
    /// The shards that are held or have tasks in their mailbox, and the threads with unread messages. Between turns of
    /// idle threads, there must be none.
    pub fn unfinished(&self) -> Vec<String> {
        let (shards, threads) = (&self.0.0.shards, &self.0.0.threads);
        let held = shards.ids().chain([shards.roaming()]).filter(|id| shards.is_held(*id));
        let held = held.map(|id| format!("{id:?} is held"));
        let unread = (0..threads.len()).filter(|id| threads[*id].has_messages());
        held.chain(unread.map(|id| format!("thread {id} has not taken its mail"))).collect()
    }

    /// The number of times that commands on several shards left them and tried again.
    pub fn retries(&self) -> u64 {
        self.0.0.observed.sum(|stats| &stats.retries)
    }

    /// The number of shards that scripts lent while they waited.
    pub fn lent(&self) -> u64 {
        self.0.0.observed.sum(|stats| &stats.lent)
    }

    /// The number of times that a connection moved between threads.
    pub fn moved(&self) -> u64 {
        self.0.0.observed.sum(|stats| &stats.connections_moved)
    }

    /// Memory of the process that counts against `maxmemory`, including the simulation's.
    pub fn used_bytes(&self) -> u64 {
        heap::counted_bytes()
    }

    /// The number of times that commands were held back because a snapshot was being saved.
    pub fn held_back(&self) -> u64 {
        self.0.0.observed.sum(|stats| &stats.held_back)
    }

    /// The steps of a background save that has just begun.
    pub fn take_writer(&self) -> Option<impl FnMut() -> WriterStep + use<>> {
        let mut writer = self.0.0.snapshots.take_simulated_writer()?;
        Some(with_lease(self.0.clone(), move || writer.step()))
    }

    /// The steps of a blocking task that has just begun.
    pub fn take_blocking_task(&self) -> Option<impl FnMut() -> BlockingStep + use<>> {
        let mut work = self.0.0.machine.blocking_tasks.take()?;
        Some(with_lease(self.0.clone(), move || work(false)))
    }

    /// Begins a snapshot for replicas; `None` if that is not possible now.
    pub fn begin_spool(&self, content: CopyContent) -> Option<Arc<Spool>> {
        let shared = self.0.0;
        let ids: Vec<ShardId> = shared.shards.ids().collect();
        let mut hold = Hold::new(&shared.shards);
        let may_begin = hold.try_enter_all(&ids, false).is_ok() && shared.may_begin_spool();
        let spool = may_begin.then(|| shared.begin_spool(&mut hold, content).expect("memory takes all"));
        let left = hold.leave_or_keep_all();
        assert!(left, "no thread runs meanwhile that could have left something to be done");
        spool
    }

    /// The steps of the log thread and of the disk thread, which write the journal. Returned once. A log thread that
    /// waits sleeps until it is nudged, see [`has_nudged_journal`](Self::has_nudged_journal).
    pub fn take_journal(&self) -> Option<[Box<dyn FnMut() -> Step>; 2]> {
        let shared = self.0.0;
        let (mut log, mut disk) = shared.journal.take_machines()?;
        let step_log = move || {
            let step = log.step();
            let is_awake = matches!(step, Step::Waits(_)) && !shared.journal.fall_asleep();
            if is_awake { Step::Worked } else { step }
        };
        let step_disk = move || disk.step();
        Some([
            Box::new(with_lease(self.0.clone(), step_log)),
            Box::new(with_lease(self.0.clone(), step_disk)),
        ])
    }

    /// Whether the log thread has work, and no longer sleeps.
    pub fn has_nudged_journal(&self) -> bool {
        !self.0.0.journal.progress.is_asleep()
    }

    /// Whether the process has ended because its journal could not be written.
    pub fn has_ended(&self) -> bool {
        self.0.0.journal.has_ended()
    }

    /// Whether the server is still loading its data.
    pub fn is_loading(&self) -> bool {
        self.0.0.snapshots.progress.is_loading()
    }

    /// The number of shards.
    pub fn shard_count(&self) -> usize {
        self.0.0.shards.len()
    }

    /// The number of the shard of a key.
    pub fn shard_of(&self, key: &[u8]) -> usize {
        self.0.0.shards.placement().shard(key).index()
    }
}
