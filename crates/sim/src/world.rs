//! The simulated world: one server, its threads on stacks of their own, clients, and the order of everything.
//!
//! An *event* is a step of one thread, to its next interruption or the end of its turn, or a move of the clock. Events
//! are counted, and their numbers are the real time of histories. Time passes when no thread has anything to do, while
//! all that have are stalled (if the setup wants that), and a little with every turn.

use std::collections::BTreeMap;

use proactor::{Entropy, SimNet};
use resp::Value;
use server::SimulatedServer;

use crate::client::{Client, Request};
use crate::setup::{OFF_CORE_EVENTS_MAX, Setup};
use crate::stack::{self, Stack};

const ADDRESS: &str = "10.0.0.1:6379";
/// A world that needs more events than this for what a test waits for is stuck.
const EVENTS_MAX: u64 = 3_000_000;
/// Long enough for every timeout of the tests.
const SETTLE_MS: u64 = 3_000;
/// The clock moves no further in one event: threads with nothing to do work in the background ten times a second.
const MOVE_NS_MAX: u64 = 100_000_000;

/// A server and its surroundings.
pub struct World {
    /// What follows from the seed and is not the network's or the scheduler's.
    pub entropy: Entropy,
    /// The server, to be looked into.
    pub server: SimulatedServer,
    net: SimNet,
    stacks: Vec<Stack>,
    /// Until which event an interrupted thread sits still.
    stalled_until: Vec<u64>,
    stall_events_max: u64,
    off_core_one_in: u64,
    stalls_take_time: bool,
    /// How many events there were.
    pub event: u64,
    /// How often a thread was interrupted.
    pub interruptions: u64,
}

impl World {
    /// A world of this kind.
    pub fn new(mut entropy: Entropy, setup: &Setup) -> World {
        let net = SimNet::new(entropy.next_u64(), setup.net.clone());
        stack::interrupt_one_in(setup.interrupt_one_in, net.entropy());
        let (server, mut threads) = server::simulate(&setup.args(), &net, ADDRESS);
        if let Some(tape) = &setup.tape {
            threads.iter_mut().for_each(|thread| thread.record(tape.track()));
        }
        let stacks: Vec<Stack> = threads.into_iter().map(Stack::new).collect();
        World {
            entropy,
            server,
            net,
            stalled_until: vec![0; stacks.len()],
            stacks,
            stall_events_max: setup.stall_events_max,
            off_core_one_in: setup.off_core_one_in,
            stalls_take_time: setup.stalls_take_time,
            event: 0,
            interruptions: 0,
        }
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.entropy.below(bound as u64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.entropy.one_in(n)
    }

    /// The clock, in nanoseconds since the world began.
    pub fn now_ns(&self) -> u64 {
        self.net.clock().monotonic_ns()
    }

    /// A new client.
    pub fn connect(&self) -> Client {
        Client::new(self.net.connect(ADDRESS).expect("the server listens"))
    }

    /// From now on the network cuts no connection.
    pub fn stop_cuts(&self) {
        self.net.cut_one_in(0);
    }

    /// One event.
    pub fn step(&mut self) {
        self.step_to(self.now_ns() + MOVE_NS_MAX);
    }

    /// One event, but the clock moves no further than `end_ns`.
    fn step_to(&mut self, end_ns: u64) {
        self.event += 1;
        assert!(self.event < EVENTS_MAX, "the world is stuck");
        match self.next_thread() {
            Some(thread) => {
                self.stacks[thread].resume();
                if self.stacks[thread].is_interrupted {
                    self.interruptions += 1;
                    self.stalled_until[thread] = self.event + self.stall_events();
                }
            }
            None => self.net.advance_to(end_ns),
        }
    }

    /// For how many events an interrupted thread sits still.
    fn stall_events(&mut self) -> u64 {
        if self.off_core_one_in > 0 && self.entropy.one_in(self.off_core_one_in) {
            return self.entropy.below(OFF_CORE_EVENTS_MAX);
        }
        // Most stalls are short, some long.
        let longest = 1 + self.entropy.below(self.stall_events_max);
        self.entropy.below(longest)
    }

    fn next_thread(&mut self) -> Option<usize> {
        let runnable = self.net.runnable();
        let (stalled, mut choice): (Vec<usize>, Vec<usize>) = (0..self.stacks.len())
            .filter(|thread| self.stacks[*thread].is_interrupted || runnable.contains(thread))
            .partition(|thread| {
                self.stacks[*thread].is_interrupted && self.stalled_until[*thread] > self.event
            });
        if choice.is_empty() && !(self.stalls_take_time && self.one_in(2)) {
            choice = stalled;
        }
        let count = choice.len();
        (count > 0).then(|| choice[self.below(count)])
    }

    /// Moves the bytes of `client`; the replies that have come.
    pub fn pump(&self, client: &mut Client) -> Vec<Value> {
        client.pump()
    }

    /// Goes on for so long on the world's clock, and then until every thread is between two turns; `act` is called
    /// first and after every event.
    pub fn run_for(&mut self, ms: u64, act: impl FnMut(&mut World)) {
        self.run_to(self.now_ns() + ms * 1_000_000, act);
    }

    /// The same to a point on the clock.
    pub fn run_to(&mut self, end_ns: u64, mut act: impl FnMut(&mut World)) {
        act(self);
        while self.now_ns() < end_ns || self.stacks.iter().any(|stack| stack.is_interrupted) {
            self.step_to(end_ns);
            act(self);
        }
    }

    /// Goes on until there is nothing left to do, and checks that nothing was left behind: no thread in a turn, no
    /// held baton, no task in a mailbox, no message untaken.
    ///
    /// `act` is called as for [`World::run_for`]; it should let clients read.
    pub fn settle(&mut self, act: impl FnMut(&mut World)) {
        self.stalls_take_time = false;
        self.run_for(SETTLE_MS, act);
        while self.next_thread_is_there() {
            self.step();
        }
        let unfinished = self.server.unfinished();
        assert!(unfinished.is_empty(), "nothing happens any more, but {unfinished:?}");
    }

    fn next_thread_is_there(&self) -> bool {
        !self.net.runnable().is_empty() || self.stacks.iter().any(|stack| stack.is_interrupted)
    }

    /// Sends a request and waits for its reply, whatever else happens.
    pub fn call(&mut self, client: &mut Client, request: &Request) -> Value {
        client.send(request);
        loop {
            if let Some(reply) = self.pump(client).pop() {
                return reply;
            }
            assert!(!client.has_ended, "the server closed the connection");
            self.step();
        }
    }

    /// The numbers of `INFO ALL`.
    pub fn info(&mut self, client: &mut Client) -> BTreeMap<String, u64> {
        let reply = self.call(client, &crate::request("INFO", ["everything"]));
        let text = match reply {
            Value::Bulk(text) => String::from_utf8(text).expect("INFO is text"),
            other => panic!("INFO answered {other:?}"),
        };
        let number = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        text.lines().filter_map(number).collect()
    }
}
