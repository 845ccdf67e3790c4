//! Runs one thread of the server: its loop, its connections, and its transactions.
//!
//! ```text
//!   turn:  driver ──▶ new sockets, bytes, hang-ups      serve each connection: parse, dispatch, reply
//!          inbox  ──▶ replies of delegated commands, hops, served waiters, messages
//!          kept shards ──▶ the rest of their backlog
//!          timers ──▶ blocking timeouts, background slices
//! ```
//!
//! Invariants: the thread never waits for another one, and never sleeps while it keeps a baton. Two exceptions are a
//! script that has written (`scripting/roaming.rs`) and a wide round on a replica (`replication/wide.rs`).
//!
//! Not here: turning input into commands (`life/pipeline.rs`), getting a command its shards (`life/dispatch.rs`), and
//! handling what comes back from other threads (`life/homecoming.rs`).

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use background::Visits;
use clients::session::{Aside, Pausing, Session, Watching};
use clients::{Dealer, GivingWay, Moves, Watchlist, Workload};
use engine::Tx;
use observe::{Accounting, Monitors};
use proactor::{CloseMode, ConnId, Driver, Event, sooner};
use replication::{Follower, Replicas};
use scripting::States;
use shard::{Hold, ShardId};

use crate::commands::own::Functions;
use crate::connections::Connections;
use crate::life::syncing::{Syncing, end_syncs, held_for_replicas};
use crate::mailroom::Mailroom;
use crate::message::Message;
use crate::shared::Shared;
use crate::snapshot::Loaded;
use crate::subscribers::Delivery;
use background::eviction::Eviction;
use background::garbage::Bin;
use background::timers::Timers;

/// If the last reading of the clock is older than this when a command begins, the thread reads the clock again.
const CLOCK_AGE_NS_MAX: u64 = 1_000_000;

/// A thread: its part of the store, and everything else.
pub(crate) struct Thread {
    pub(crate) tx: Tx<'static>,
    pub(crate) host: ThreadHost,
    /// The number of commands run under the current baton, because the run of a pipeline is bounded.
    pub(crate) run_length: u32,
    /// The driver's latest events, kept for their memory.
    reported: Vec<Event>,
}

/// Everything of the thread except the shards, which commands of the server may use.
pub(crate) struct ThreadHost {
    pub(crate) id: u16,
    pub(crate) shared: &'static Shared,
    /// The functions of commands that use more than the data.
    pub(crate) functions: &'static Functions,
    pub(crate) driver: Driver,
    pub(crate) connections: Connections,
    /// The client whose command runs.
    pub(crate) current: Option<Box<Session>>,
    pub(crate) timers: Timers,
    pub(crate) cron: background::cron::Cron,
    pub(crate) defrag: background::defrag::Defrag,
    pub(crate) queues: jobs::queues::QueueUpkeep,
    pub(crate) hashes: background::hashes::HashUpkeep,
    /// The times at which leases end, delays are over, and jobs of Sidekiq's join their queues.
    pub(crate) jobs: jobs::JobTimers,
    /// The watch over Sidekiq's processes, on the first thread.
    pub(crate) job_watch: jobs::recovery::Watch,
    /// Whether clients had sent something before this turn.
    pub(crate) is_busy: bool,
    /// The Lua states of scripts and functions.
    pub(crate) lua: States,
    /// Sessions that are put aside while a script runs.
    pub(crate) aside: Aside,
    pub(crate) mailroom: Mailroom,
    /// Watches that ended, to be removed from the shards.
    pub(crate) stale_watches: Vec<Watching>,
    /// The memory of all threads, as this thread knows it.
    pub(crate) eviction: Eviction,
    /// Clients that exceed a bound.
    pub(crate) watchlist: Watchlist,
    pub(crate) pausing: Pausing,
    /// Connections that are replicas.
    pub(crate) replicas: Replicas,
    /// The link to this server's primary; only on the first thread.
    pub(crate) follower: Follower<Loaded>,
    /// Clients that wait for the journal, or for replicas.
    pub(crate) syncing: Syncing,
    /// Connections that get a line for every command.
    pub(crate) monitors: Monitors,
    /// The counters and logs of its commands.
    pub(crate) accounting: Accounting,
    /// Messages to clients without a request.
    pub(crate) delivery: Delivery,
    /// Events of the driver that have not been handled yet.
    pub(crate) events: VecDeque<Event>,
    /// Large values and databases that are being freed.
    pub(crate) garbage: Bin,
    /// Whether other threads have freed memory of this thread, which it must take back.
    has_blocks_to_sort: bool,
    /// Its share of the snapshot that is being saved.
    pub(crate) snapshot: crate::snapshot::Share,
    /// Connections whose turn ended while they had complete commands left.
    pub(crate) unserved: VecDeque<ConnId>,
    /// The time for which commands of one client may run before others get their turn, in ticks of the clock.
    pub(crate) serving_ticks_max: u64,
    /// The dealer of new connections, on the accepting thread.
    pub(crate) dealer: Dealer,
    /// Connections that are moving to other threads, and those that have moved.
    pub(crate) moves: Moves,
    /// The number of the last question to all threads that it has answered.
    pub(crate) answered: u64,
    /// The load of the thread.
    pub(crate) workload: Workload,
    /// The state of giving way to other clients while a long command runs.
    pub(crate) way: GivingWay,
    /// The last reading of the monotonic clock: at the beginning of this turn, or later in a long one.
    pub(crate) now_ms: u64,
    /// The time of that reading in ticks, and the number of ticks after which the clock is read again.
    read_ticks: u64,
    read_again_ticks: u64,
}

impl Visits for Thread {
    fn visit<R>(&mut self, id: ShardId, work: impl FnOnce(&mut Tx) -> R) -> Option<R> {
        if !self.tx.hold.try_enter(id) {
            return None;
        }
        // The turn may have begun long ago.
        let ticks = self.host.driver.clock().ticks();
        keep_time(self, ticks);
        let result = work(&mut self.tx);
        self.tx.finish(&mut self.host);
        self.leave_all();
        Some(result)
    }

    fn visit_all<R>(
        &mut self,
        ids: &[ShardId],
        is_patient: bool,
        work: impl FnOnce(&mut Tx) -> R,
    ) -> Option<R> {
        let patience = self.host.shared.shards.patience();
        let is_patient = is_patient && patience.try_take();
        let has_all = self.tx.hold.try_enter_all(ids, is_patient).is_ok();
        if is_patient {
            patience.put_back();
        }
        let result = has_all.then(|| work(&mut self.tx));
        self.tx.finish(&mut self.host);
        self.leave_all();
        result
    }
}

impl ThreadHost {
    /// The client whose command runs.
    #[inline]
    pub(crate) fn session(&mut self) -> &mut Session {
        self.current.as_deref_mut().expect("a command runs for a client")
    }

    /// Frees a slice of removed data. Returns false if nothing is left.
    pub(crate) fn free_slice(&mut self) -> bool {
        let stats = self.accounting.stats();
        let snapshot = &self.snapshot;
        self.garbage.free_slice(|| snapshot.slice(), stats)
    }
}

impl Thread {
    /// Thread number `id`, driven by `driver`.
    pub(crate) fn new(id: u16, shared: &'static Shared, mut driver: Driver) -> Thread {
        let hold = Hold::new(&shared.shards);
        let now = driver.clock().now_ms() as i64;
        let now_ms = driver.clock().monotonic_ms();
        let lua_bytes_max = shared.settings.script_memory_bytes_max();
        let lua = States::new(&shared.scripts, usize::from(id), driver.clock().clone(), lua_bytes_max);
        let stats = &shared.observed.threads()[usize::from(id)];
        let clock = driver.clock().clone();
        let (workload, way) = (Workload::new(&clock), GivingWay::new(&clock));
        let serving_ticks_max = clock.ns_to_ticks(shared.machine.tuning.serving_ns_max);
        let read_again_ticks = clock.ns_to_ticks(CLOCK_AGE_NS_MAX);
        let mut tx = Tx::new(hold, &shared.table, shared.data_config.get(), now);
        tx.record = shared.journal.take_recorder(id);
        Thread {
            tx,
            host: ThreadHost {
                id,
                shared,
                functions: crate::commands::functions(),
                driver,
                connections: Connections::default(),
                current: None,
                timers: Timers::default(),
                cron: background::cron::Cron::new(id),
                defrag: background::defrag::Defrag::default(),
                queues: jobs::queues::QueueUpkeep::default(),
                jobs: jobs::JobTimers::default(),
                job_watch: jobs::recovery::Watch::default(),
                hashes: background::hashes::HashUpkeep::default(),
                is_busy: false,
                lua,
                aside: Aside::default(),
                mailroom: Mailroom::new(id, &shared.threads),
                stale_watches: Vec::new(),
                eviction: Eviction::new(shared.started_ms ^ u64::from(id), shared.shards.len()),
                watchlist: Watchlist::default(),
                pausing: Pausing::default(),
                replicas: Replicas::default(),
                follower: Follower::default(),
                syncing: Syncing::default(),
                monitors: Monitors::new(stats, &shared.observed),
                accounting: Accounting::new(stats, &shared.observed),
                delivery: Delivery::default(),
                events: VecDeque::new(),
                garbage: Bin::default(),
                has_blocks_to_sort: false,
                snapshot: crate::snapshot::Share::new(
                    clock,
                    shared.machine.tuning.slice_records_max,
                    shared.journal.progress.clone(),
                ),
                unserved: VecDeque::new(),
                serving_ticks_max,
                dealer: Dealer::default(),
                moves: Moves::default(),
                answered: 0,
                workload,
                way,
                now_ms,
                read_ticks: 0,
                read_again_ticks,
            },
            run_length: 0,
            reported: Vec::new(),
        }
    }

    /// Runs until the server stops.
    pub(crate) fn run(&mut self) -> std::io::Result<()> {
        let ended = loop {
            match self.turn(None) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        // Delegated tasks end with their clients. The thread that saves the data needs the shards.
        while let Some(&id) = self.tx.hold.kept().last() {
            drop(self.tx.hold.next_task_or_leave(id));
        }
        ended
    }

    /// Runs one turn: waits at most `timeout` (`None`: until something is due), then does the work that there is.
    /// Returns false when the server stops.
    pub(crate) fn turn(&mut self, timeout: Option<Duration>) -> std::io::Result<bool> {
        let wait = self.wait(timeout);
        self.host.driver.turn(wait, &mut self.reported)?;
        self.host.events.extend(self.reported.drain(..));
        self.host.is_busy = !self.host.events.is_empty();
        self.tick();
        let (began, now_ms) = (self.host.read_ticks, self.host.now_ms);
        let (delivery, _, mut around) = self.host.delivery();
        delivery.check_news(now_ms, &mut around);
        // Messages come before input. So a client that knows of an event finds it done, and is told of it before the
        // reply to what it sends next.
        self.host.mailroom.fetch();
        self.take_mail();
        self.take_events();
        self.host.mailroom.end_wait();
        self.host.mailroom.fetch();
        self.take_mail();
        serve_rest(self);
        if !self.tx.hold.kept().is_empty() {
            self.drain_kept();
        }
        self.run_timers();
        if !self.host.syncing.is_empty() || held_for_replicas(&mut self.host).is_some() {
            end_syncs(self);
        }
        self.background();
        if !self.host.stale_watches.is_empty() {
            self.forget_watches();
        }
        self.take_mail();
        if !self.host.delivery.broadcasts.is_empty() {
            let (delivery, _, mut around) = self.host.delivery();
            delivery.send_broadcasts(&mut around);
        }
        if std::mem::take(&mut self.tx.committed) > 0 {
            let shared = self.host.shared;
            shared.journal.progress.nudge(|| shared.machine.clock.monotonic_ms());
        }
        self.look_at_written();
        self.host.mailroom.balance(&mut self.tx.parcels, &self.host.shared.spares);
        self.host.has_blocks_to_sort = heap::settle();
        count_turn(&mut self.host, began);
        Ok(!self.host.shared.stopping.load(Ordering::Acquire))
    }

    /// Handles events one after the other. If one starts a slow script, that script handles the rest.
    fn take_events(&mut self) {
        while let Some(event) = self.host.events.pop_front() {
            match event {
                Event::Accepted { socket, listener } => self.host.deal(socket, listener),
                Event::Data { conn } if has_to_wait(&mut self.host, conn) => {}
                Event::Data { conn } => self.serve(conn),
                Event::Closed { conn, error } => self.hang_up(conn, error),
                Event::Detached { conn } => self.host.mailroom.send(self.host.id, Message::Depart(conn)),
                Event::Wake => {}
            }
        }
    }

    /// The time that the next turn may sleep.
    fn wait(&mut self, timeout: Option<Duration>) -> Option<Duration> {
        // The changes that they wait for may be lost, because not enough replicas had them. No client may be told that
        // they were made.
        self.host.driver.losers().into_iter().for_each(|conn| self.close(conn, CloseMode::Now));
        let of_link = self.host.follower.awaited_slice();
        let awaited = sooner(self.host.syncing.first(), of_link);
        if !self.host.shared.journal.release(self.host.id, &mut self.host.driver, awaited) {
            return Some(Duration::ZERO);
        }
        let busy = !self.tx.hold.kept().is_empty()
            || self.host.mailroom.is_busy()
            || !self.host.unserved.is_empty()
            || !self.host.events.is_empty()
            || self.host.garbage.has_work(self.host.snapshot.has_room())
            || self.host.has_blocks_to_sort
            || self.host.snapshot.is_busy()
            || self.host.eviction.is_behind();
        if busy {
            return Some(Duration::ZERO);
        }
        let (backlog, thread) = (&self.host.shared.journal.backlog, usize::from(self.host.id));
        let of_replicas = self.host.replicas.wait(|place| backlog.awaits(thread, place));
        let held = held_for_replicas(&mut self.host);
        let of_acks = self.host.syncing.wait(self.host.shared, thread, held);
        let now_ns = self.host.driver.clock().monotonic_ns();
        let of_jobs = self.host.jobs.wait(|| self.host.driver.clock().now_us());
        let due_ms = [
            self.host.timers.next_ms(),
            self.host.pausing.end_ms(),
            self.host.cron.next_ms(),
            self.host.defrag.next_ms(),
            self.host.hashes.next_ms(),
            self.host.follower.says_ms(),
        ];
        let due_ms = due_ms.into_iter().fold(None, sooner);
        let until_due = due_ms
            .map(|due_ms| Duration::from_nanos(due_ms.saturating_mul(1_000_000).saturating_sub(now_ns)));
        [until_due, of_jobs, of_replicas, of_acks].into_iter().fold(timeout, sooner)
    }

    /// Reads the clock and the settings. Later commands run at this time and with these settings.
    pub(crate) fn tick(&mut self) {
        self.host.shared.data_config.refresh(&mut self.tx.config);
        self.tx.holds_replies = self.host.shared.journal.holds_replies();
        read_clock(self);
        self.host.shared.journal.progress.look(self.host.now_ms);
    }

    /// Handles its messages.
    pub(crate) fn take_mail(&mut self) {
        while let Some(message) = self.host.mailroom.pop() {
            self.receive(message);
        }
    }
}

fn read_clock(thread: &mut Thread) {
    let moment = thread.host.driver.clock().moment();
    (thread.tx.now, thread.tx.steady) = (moment.now_ms.cast_signed(), moment.steady_ms.cast_signed());
    (thread.host.now_ms, thread.host.read_ticks) = (moment.monotonic_ms, moment.ticks);
}

/// Completes a command: serves the waiters of its keys, by the current time.
#[inline(always)]
pub(crate) fn finish(thread: &mut Thread) {
    if thread.tx.has_ready {
        keep_time_for_waiters(thread);
    }
    thread.tx.finish(&mut thread.host);
    if thread.host.way.end() {
        come_back(&mut thread.host);
    }
}

#[cold]
fn keep_time_for_waiters(thread: &mut Thread) {
    let ticks = thread.host.driver.clock().ticks();
    keep_time(thread, ticks);
}

/// Begins a command at `ticks`.
#[inline]
pub(crate) fn begin(thread: &mut Thread, ticks: u64) {
    keep_time(thread, ticks);
    thread.host.way.begin(ticks);
}

/// Serves clients again after a command during which the thread gave way to them.
#[cold]
fn come_back(host: &mut ThreadHost) {
    host.shared.threads[usize::from(host.id)].note_away(false);
    for conn in host.way.come_back() {
        host.driver.resume_reading(conn);
    }
}

/// Reads the clock again if the last reading is too old for a command that begins now (`ticks`). Otherwise leases and
/// times to live that are set after a slow command would end too early.
#[inline]
pub(crate) fn keep_time(thread: &mut Thread, ticks: u64) {
    if ticks.saturating_sub(thread.host.read_ticks) > thread.host.read_again_ticks {
        read_clock(thread);
    }
}

/// Counts a turn that began, after its sleep, at `began` in ticks.
fn count_turn(host: &mut ThreadHost, began: u64) {
    let clock = host.driver.clock();
    let ns = clock.ticks_to_ns(began, clock.ticks());
    let sent = host.driver.send_count();
    let stats = host.accounting.stats();
    stats.cycles.add(1);
    stats.cycles_ns.add(ns);
    stats.writes_processed.set(sent);
}

/// Whether a client that has sent something is served after the others, because it was put off, or took long the last
/// time.
fn has_to_wait(host: &mut ThreadHost, conn: ConnId) -> bool {
    let Some(session) = host.connections.session(conn) else { return false };
    if session.takes_long && !session.has_to_wait {
        session.has_to_wait = true;
        host.unserved.push_back(conn);
    }
    session.has_to_wait
}

/// Continues with clients that have work for more than one turn. When this has taken a while, clients that have sent
/// something meanwhile come first.
fn serve_rest(thread: &mut Thread) {
    if thread.host.unserved.is_empty() {
        return;
    }
    let until = thread.host.driver.clock().ticks().saturating_add(thread.host.serving_ticks_max);
    for _ in 0..thread.host.unserved.len() {
        let Some(conn) = thread.host.unserved.pop_front() else { break };
        if let Some(session) = thread.host.connections.session(conn) {
            session.has_to_wait = false;
        }
        thread.serve(conn);
        if thread.host.driver.clock().ticks() >= until {
            break;
        }
    }
}
