//! Owns what a thread needs to reach clients and other threads: its driver, its connections, its messages, and the time.
//!
//! Invariants: a connection is in `connections` exactly while the driver has it. A thread answers questions to all
//! threads in their order.

use std::collections::VecDeque;

use background::timers::Timers;
use clients::{Connections, Moves, Registry};
use proactor::{ConnId, Driver, Event};

use crate::mailroom::{Mailroom, Remote};

/// If the last reading of the clock is older than this when a command begins, the thread reads the clock again.
const CLOCK_AGE_NS_MAX: u64 = 1_000_000;

/// See the head of this file.
pub(crate) struct Network {
    /// The number of the thread.
    pub(crate) id: u16,
    pub(crate) driver: Driver,
    pub(crate) connections: Connections,
    /// The ends of waits of clients.
    pub(crate) timers: Timers,
    pub(crate) mailroom: Mailroom,
    /// All clients of the server.
    pub(crate) registry: &'static Registry,
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
    ) -> Network {
        let clock = driver.clock();
        Network {
            id,
            connections: Connections::default(),
            timers: Timers::default(),
            mailroom: Mailroom::new(id, threads),
            registry,
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
}
