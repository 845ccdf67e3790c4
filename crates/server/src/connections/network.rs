//! Owns what a thread needs to reach clients and other threads: its driver, its connections, its messages, and the time.
//!
//! Invariants: a connection is in `connections` exactly while the driver has it. A thread answers questions to all
//! threads in their order.

use std::collections::VecDeque;

use clients::{Connections, Moves, Registry, Timeouts};
use observe::{Observed, ThreadStats};
use proactor::{ConnId, Driver, Event};

use crate::messages::{Messages, Remote};

/// If the last reading of the clock is older than this when a command begins, the thread reads the clock again.
const CLOCK_AGE_NS_MAX: u64 = 1_000_000;

/// See the head of this file.
pub(crate) struct Network {
    /// The number of the thread.
    pub(crate) id: u16,
    pub(crate) driver: Driver,
    pub(crate) connections: Connections,
    /// The ends of waits of clients.
    pub(crate) timeouts: Timeouts,
    pub(crate) messages: Messages,
    /// All clients of the server.
    pub(crate) registry: &'static Registry,
    /// The counters of the thread.
    pub(crate) stats: &'static ThreadStats,
    /// Connections that are moving to other threads, and those that have moved.
    pub(crate) moves: Moves,
    /// Events of the driver that have not been handled yet.
    pub(crate) events: VecDeque<Event>,
    /// Connections whose turn ended while they had complete commands left.
    pub(crate) unserved: VecDeque<ConnId>,
    /// The number of the last question to all threads that it has answered.
    pub(crate) answered: u64,
    /// The last reading of the monotonic clock: at the beginning of this turn, or later in a long one.
    pub(crate) now_ms: u64,
    /// The time of that reading in ticks, and the number of ticks after which the clock is read again.
    pub(crate) read_ticks: u64,
    pub(crate) read_again_ticks: u64,
}

impl Network {
    /// The network of thread number `id`, which `driver` drives.
    pub(crate) fn new(
        id: u16,
        mut driver: Driver,
        threads: &'static [Remote],
        registry: &'static Registry,
        observed: &'static Observed,
    ) -> Network {
        let clock = driver.clock();
        Network {
            id,
            connections: Connections::default(),
            timeouts: Timeouts::default(),
            messages: Messages::new(id, threads),
            registry,
            stats: &observed.threads()[usize::from(id)],
            moves: Moves::default(),
            events: VecDeque::new(),
            unserved: VecDeque::new(),
            answered: 0,
            now_ms: clock.monotonic_ms(),
            read_ticks: 0,
            read_again_ticks: clock.ns_to_ticks(CLOCK_AGE_NS_MAX),
            driver,
        }
    }

    /// Whether a client that has sent something is served after the others, because it was put off, or took long the
    /// last time.
    pub(crate) fn has_to_wait(&mut self, conn: ConnId) -> bool {
        let Some(session) = self.connections.session(conn) else { return false };
        if session.takes_long && !session.has_to_wait {
            session.has_to_wait = true;
            self.unserved.push_back(conn);
        }
        session.has_to_wait
    }

    /// Counts a turn that began, after its sleep, at `began` in ticks.
    pub(crate) fn count_turn(&mut self, began: u64) {
        let clock = self.driver.clock();
        let ns = clock.ticks_to_ns(began, clock.ticks());
        let sent = self.driver.send_count();
        self.stats.cycles.add(1);
        self.stats.cycles_ns.add(ns);
        self.stats.writes_processed.set(sent);
    }
}
