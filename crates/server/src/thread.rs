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

use std::sync::atomic::Ordering;
use std::time::Duration;

use background::Visits;
use clients::GivingWay;
use clients::session::Session;
use effectlog::Lsn;
use engine::{OwnFunctions, Tx};
use proactor::{CloseMode, Driver, Event, sooner};
use shard::{Hold, ShardId};

use crate::background::Background;
use crate::connections::balancing::Balancing;
use crate::connections::network::Network;
use crate::connections::outputs::Outputs;
use crate::life::syncing::{end_syncs, held_for_replicas};
use crate::life::waits::Waits;
use crate::message::Message;
use crate::replication::Roles;
use crate::reports::Reports;
use crate::scripts::ThreadScripts;
use crate::shared::Shared;

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
    pub(crate) shared: &'static Shared,
    /// The functions of commands that use more than the data.
    pub(crate) functions: &'static OwnFunctions<ThreadHost>,
    /// The client whose command runs.
    pub(crate) current: Option<Box<Session>>,
    pub(crate) net: Network,
    pub(crate) outputs: Outputs,
    pub(crate) balancing: Balancing,
    pub(crate) waits: Waits,
    pub(crate) scripts: ThreadScripts,
    pub(crate) reports: Reports,
    pub(crate) background: Background,
    pub(crate) roles: Roles,
}

impl Visits for Thread {
    fn visit<R>(&mut self, id: ShardId, work: impl FnOnce(&mut Tx) -> R) -> Option<R> {
        if !self.tx.hold.try_enter(id) {
            return None;
        }
        keep_time_now(&mut self.tx, &mut self.host.net);
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
        keep_time_now(&mut self.tx, &mut self.host.net);
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
        running(&mut self.current)
    }
}

/// The client whose command runs.
#[inline]
pub(crate) fn running(current: &mut Option<Box<Session>>) -> &mut Session {
    current.as_deref_mut().expect("a command runs for a client")
}

impl Thread {
    /// Thread number `id`, driven by `driver`.
    pub(crate) fn new(
        id: u16,
        shared: &'static Shared,
        functions: &'static OwnFunctions<ThreadHost>,
        mut driver: Driver,
    ) -> Thread {
        let hold = Hold::new(&shared.shards);
        let clock = driver.clock().clone();
        let now = clock.now_ms() as i64;
        let mut tx = Tx::new(hold, &shared.table, shared.data_config.get(), now);
        tx.record = shared.journal.take_recorder(id);
        Thread {
            tx,
            host: ThreadHost {
                shared,
                functions,
                current: None,
                net: Network::new(id, driver, &shared.threads, &shared.registry, &shared.observed),
                outputs: Outputs::default(),
                balancing: Balancing::new(&clock, shared.machine.tuning.serving_ns_max),
                waits: Waits::default(),
                scripts: ThreadScripts::new(id, shared, clock.clone()),
                reports: Reports::new(id, &shared.observed),
                background: Background::new(id, shared, clock),
                roles: Roles::default(),
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
        self.host.net.driver.turn(wait, &mut self.reported)?;
        self.host.net.events.extend(self.reported.drain(..));
        self.host.background.is_busy = !self.host.net.events.is_empty();
        tick(&mut self.tx, &mut self.host.net, self.host.shared);
        let (began, now_ms) = (self.host.net.read_ticks, self.host.net.now_ms);
        self.host.outputs.delivery.check_news(now_ms, &mut self.host.net);
        // Messages come before input. So a client that knows of an event finds it done, and is told of it before the
        // reply to what it sends next.
        self.host.net.messages.fetch();
        self.take_messages();
        self.take_events();
        self.host.net.messages.end_wait();
        self.host.net.messages.fetch();
        self.take_messages();
        serve_rest(self);
        if !self.tx.hold.kept().is_empty() {
            self.drain_kept();
        }
        self.run_timeouts();
        if !self.host.waits.syncing.is_empty()
            || held_for_replicas(&mut self.host.net.driver, &self.host.shared.journal).is_some()
        {
            end_syncs(self);
        }
        self.background();
        if !self.host.background.stale_watches.is_empty() {
            self.forget_watches();
        }
        self.take_messages();
        if !self.host.outputs.delivery.broadcasts.is_empty() {
            self.host.outputs.delivery.send_broadcasts(&mut self.host.net);
        }
        if std::mem::take(&mut self.tx.committed) != Lsn::NONE {
            let shared = self.host.shared;
            shared.journal.progress.nudge(|| shared.machine.clock.monotonic_ms());
        }
        while let Some(conn) = self.host.outputs.pop_exceeding(&mut self.host.net, self.host.shared) {
            self.close(conn, CloseMode::Now);
        }
        self.host.net.messages.balance(&mut self.tx.handoffs, &self.host.shared.message_pool);
        self.host.background.has_blocks_to_sort = heap::settle();
        self.host.net.count_turn(began);
        Ok(!self.host.shared.stopping.load(Ordering::Acquire))
    }

    /// Handles events one after the other. If one starts a slow script, that script handles the rest.
    fn take_events(&mut self) {
        while let Some(event) = self.host.net.events.pop_front() {
            match event {
                Event::Accepted { socket, listener } => {
                    let ThreadHost { balancing, net, shared, .. } = &mut self.host;
                    balancing.deal(net, shared, socket, listener);
                }
                Event::Data { conn } if self.host.net.has_to_wait(conn) => {}
                Event::Data { conn } => self.serve(conn),
                Event::Closed { conn, error: Some(_) } => self.close(conn, CloseMode::Now),
                Event::Closed { conn, error: None } => {
                    // A client that only closed its sending side still gets the replies to what it sent.
                    if let Some(session) = self.host.net.connections.session(conn) {
                        session.has_hung_up = true;
                    }
                    let ThreadHost { outputs, net, shared, .. } = &mut self.host;
                    if let Some(mode) = outputs.settle(net, shared, conn) {
                        self.close(conn, mode);
                    }
                }
                Event::Detached { conn } => {
                    self.host.net.messages.send(self.host.net.id, Message::Depart(conn))
                }
                Event::Wake => {}
            }
        }
    }

    /// The time that the next turn may sleep.
    fn wait(&mut self, timeout: Option<Duration>) -> Option<Duration> {
        // The changes that they wait for may be lost, because not enough replicas had them. No client may be told that
        // they were made.
        self.host.net.driver.losers().into_iter().for_each(|conn| self.close(conn, CloseMode::Now));
        let of_link = self.host.roles.follower.awaited_slice();
        let awaited = sooner(self.host.waits.syncing.first(), of_link);
        if !self.host.shared.journal.release(self.host.net.id, &mut self.host.net.driver, awaited) {
            return Some(Duration::ZERO);
        }
        let busy = !self.tx.hold.kept().is_empty()
            || self.host.net.messages.is_busy()
            || !self.host.net.unserved.is_empty()
            || !self.host.net.events.is_empty()
            || self.host.background.garbage.has_work(self.host.background.snapshot.has_room())
            || self.host.background.has_blocks_to_sort
            || self.host.background.snapshot.is_busy()
            || self.host.background.eviction.is_behind();
        if busy {
            return Some(Duration::ZERO);
        }
        let (backlog, thread) = (&self.host.shared.journal.backlog, usize::from(self.host.net.id));
        let of_replicas = self.host.roles.replicas.wait(|place| backlog.awaits(thread, place));
        let held = held_for_replicas(&mut self.host.net.driver, &self.host.shared.journal);
        let of_acks = self.host.waits.syncing.wait(self.host.shared, thread, held);
        let now_ns = self.host.net.driver.clock().monotonic_ns();
        let of_jobs = self.host.background.jobs.wait(|| self.host.net.driver.clock().now_us());
        let due_ms = [
            self.host.net.timeouts.next_ms(),
            self.host.waits.pausing.end_ms(),
            self.host.background.cron.next_ms(),
            self.host.background.defrag.next_ms(),
            self.host.background.hashes.next_ms(),
            self.host.roles.follower.says_ms(),
            self.host.shared.following.failover.wakes_ms().filter(|_| self.host.net.id == 0),
        ];
        let due_ms = due_ms.into_iter().fold(None, sooner);
        let until_due = due_ms
            .map(|due_ms| Duration::from_nanos(due_ms.saturating_mul(1_000_000).saturating_sub(now_ns)));
        [until_due, of_jobs, of_replicas, of_acks].into_iter().fold(timeout, sooner)
    }

    /// Handles its messages.
    pub(crate) fn take_messages(&mut self) {
        while let Some(message) = self.host.net.messages.pop() {
            self.receive(message);
        }
    }
}

/// Reads the clock and the settings. Later commands run at this time and with these settings.
fn tick(tx: &mut Tx<'_>, net: &mut Network, shared: &'static Shared) {
    shared.data_config.refresh(&mut tx.config);
    shared.journal.set_holds(tx);
    read_clock(tx, net);
    shared.journal.progress.look(net.now_ms);
}

fn read_clock(tx: &mut Tx<'_>, net: &mut Network) {
    let moment = net.driver.clock().moment();
    (tx.now, tx.steady) = (moment.now_ms.cast_signed(), moment.steady_ms.cast_signed());
    (net.now_ms, net.read_ticks) = (moment.monotonic_ms, moment.ticks);
}

/// Completes a command: serves the waiters of its keys, by the current time.
#[inline(always)]
pub(crate) fn finish(thread: &mut Thread) {
    if thread.tx.has_ready {
        keep_time_now(&mut thread.tx, &mut thread.host.net);
    }
    thread.tx.finish(&mut thread.host);
    if thread.host.balancing.way.end() {
        thread.host.balancing.come_back(&mut thread.host.net, thread.host.shared);
    }
}

/// Keeps the time for waiters, and for work of the thread's own: the turn may have begun long ago.
#[cold]
fn keep_time_now(tx: &mut Tx<'_>, net: &mut Network) {
    let ticks = net.driver.clock().ticks();
    keep_time(tx, net, ticks);
}

/// Begins a command at `ticks`.
#[inline]
pub(crate) fn begin(tx: &mut Tx<'_>, net: &mut Network, way: &mut GivingWay, ticks: u64) {
    keep_time(tx, net, ticks);
    way.begin(ticks);
}

/// Reads the clock again if the last reading is too old for a command that begins now (`ticks`). Otherwise leases and
/// times to live that are set after a slow command would end too early.
#[inline]
fn keep_time(tx: &mut Tx<'_>, net: &mut Network, ticks: u64) {
    if ticks.saturating_sub(net.read_ticks) > net.read_again_ticks {
        read_clock(tx, net);
    }
}

/// Continues with clients that have work for more than one turn. When this has taken a while, clients that have sent
/// something meanwhile come first.
fn serve_rest(thread: &mut Thread) {
    if thread.host.net.unserved.is_empty() {
        return;
    }
    let until =
        thread.host.net.driver.clock().ticks().saturating_add(thread.host.balancing.serving_ticks_max);
    for _ in 0..thread.host.net.unserved.len() {
        let Some(conn) = thread.host.net.unserved.pop_front() else { break };
        if let Some(session) = thread.host.net.connections.session(conn) {
            session.has_to_wait = false;
        }
        thread.serve(conn);
        if thread.host.net.driver.clock().ticks() >= until {
            break;
        }
    }
}
