//! The simulated world: one server, its threads on stacks of their own, clients, and the order of everything.
//!
//! An *event* is a step of one thread, to its next interruption or the end of its turn, or a move of the clock. Events
//! are counted, and their numbers are the real time of histories. Time passes when no thread has anything to do, while
//! all that have are stalled (if the setup wants that), and a little with every turn. What writes a snapshot is a thread, too, in this
//! respect.

use std::collections::BTreeMap;

use proactor::{Entropy, SimDisk, SimNet};
use resp::Value;
use server::SimulatedServer;

use crate::client::{Client, Request};
use crate::setup::{OFF_CORE_EVENTS_MAX, Setup};
use crate::stack::{self, Pause, Stack, StackOf};

const ADDRESS: &str = "10.0.0.1:6379";
/// A world that needs more events than this for what a test waits for is stuck.
const EVENTS_MAX: u64 = 3_000_000;
/// Long enough for every timeout of the tests.
const SETTLE_MS: u64 = 3_000;
/// Operations of the disk before which a server dies that dies while it starts.
const START_OPERATIONS_MAX: usize = 40;
/// So long an interruption may take while the disk hangs.
const WAIT_NS: u64 = 200_000;
/// The clock moves no further in one event: threads with nothing to do work in the background ten times a second.
const MOVE_NS_MAX: u64 = 100_000_000;

/// A server and its surroundings.
pub struct World {
    /// What follows from the seed and is not the network's or the scheduler's.
    pub entropy: Entropy,
    /// The server, to be looked into.
    pub server: SimulatedServer,
    /// Its disk, which outlives it.
    pub disk: SimDisk,
    net: SimNet,
    setup: Setup,
    /// The threads of the server, then what writes its journal, then writers of snapshots.
    stacks: Vec<Stack>,
    stalls_take_time: bool,
    /// How many events there were.
    pub event: u64,
    /// How often a thread was interrupted.
    pub interruptions: u64,
    /// How many saves and checkpoints began in the background.
    pub saves: u64,
    /// How often the server died, of the power, of itself because its journal could not be written, or as it was told.
    pub life: u64,
    /// When it did so last.
    pub died_at: u64,
    /// The same on the world's clock, in nanoseconds.
    pub died_ns: u64,
    /// How often it did so while it started.
    pub deaths_in_start: u64,
}

/// How a server dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Death {
    /// The power fails: the disk has what was made durable, and of the rest what it likes.
    Power,
    /// The process ends, and the system goes on: what was written is there.
    Process,
}

/// Starts a server with what is on the disk.
fn start(setup: &Setup, net: &SimNet, disk: &SimDisk) -> Result<(SimulatedServer, Vec<Stack>), String> {
    let (server, mut threads) = server::simulate(&setup.args(), net, disk, ADDRESS)?;
    if let Some(tape) = &setup.tape {
        threads.iter_mut().for_each(|thread| thread.record(tape.track()));
    }
    let threads = threads.into_iter().enumerate();
    let mut stacks: Vec<Stack> = threads.map(|(number, thread)| Stack::of_thread(number, thread)).collect();
    if setup.journal.is_some()
        && let Some([log, disk]) = server.take_journal()
    {
        stacks.push(Stack::of_journal(StackOf::Log, log, net.clock()));
        stacks.push(Stack::of_journal(StackOf::Disk, disk, net.clock()));
    }
    Ok((server, stacks))
}

impl World {
    /// A world of this kind.
    pub fn new(mut entropy: Entropy, setup: &Setup) -> World {
        let seed = entropy.next_u64();
        let net = SimNet::new(seed, setup.net.clone());
        let disk = net.disk(!seed);
        disk.on_operation(stack::on_disk);
        stack::interrupt_one_in(setup.interrupt_one_in, net.entropy());
        let (server, stacks) = start(setup, &net, &disk).unwrap_or_else(|error| panic!("{error}"));
        World {
            entropy,
            server,
            disk,
            net,
            setup: setup.clone(),
            stacks,
            stalls_take_time: setup.stalls_take_time,
            event: 0,
            interruptions: 0,
            saves: 0,
            life: 0,
            died_at: 0,
            died_ns: 0,
            deaths_in_start: 0,
        }
    }

    /// The power fails, whatever threads are doing, and the server starts anew with what the disk has kept. It has loaded that
    /// when this returns. Clients find their connections cut.
    ///
    /// # Panics
    /// If the server refuses to start.
    pub fn crash(&mut self) {
        self.restart(Death::Power);
    }

    /// The server dies that way and starts anew, on a disk that is well again. It may die of another power failure while it
    /// does, if the setup wants that.
    ///
    /// # Panics
    /// If the server refuses to start.
    pub fn restart(&mut self, death: Death) {
        (self.died_at, self.died_ns) = (self.event, self.now_ns());
        self.die(death);
        while !self.starts() {
            self.deaths_in_start += 1;
            self.die(Death::Power);
        }
    }

    /// When the server starts next, it is of this kind.
    pub fn change_setup(&mut self, change: impl FnOnce(&mut Setup)) {
        change(&mut self.setup);
    }

    fn die(&mut self, death: Death) {
        self.life += 1;
        self.stacks.clear();
        self.net.crash();
        match death {
            Death::Power => self.disk.crash(),
            Death::Process => self.disk.end_process(),
        }
        self.disk.heal();
    }

    /// Starts the server, until it has loaded what there is; false if it died meanwhile.
    fn starts(&mut self) -> bool {
        let one_in = self.setup.dies_in_start_one_in;
        if one_in > 0 && self.one_in(one_in) {
            let spared = self.below(START_OPERATIONS_MAX);
            self.disk.fail_power_after(spared as u64);
        }
        match start(&self.setup, &self.net, &self.disk) {
            Ok(started) => (self.server, self.stacks) = started,
            Err(_) if !self.disk.has_power() => return false,
            Err(error) => panic!("{error}"),
        }
        while self.server.is_loading() {
            self.event += 1;
            assert!(self.event < EVENTS_MAX, "it does not come to an end of loading");
            self.move_on(self.now_ns() + MOVE_NS_MAX);
            if self.is_dead() {
                return false;
            }
        }
        self.disk.keep_power();
        !self.is_dead()
    }

    fn is_dead(&self) -> bool {
        !self.disk.has_power() || self.server.has_ended()
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
        if self.event >= EVENTS_MAX {
            let stacks: Vec<_> = self.stacks.iter().map(|stack| (stack.kind, stack.pause)).collect();
            panic!("the world is stuck at {} ns: {stacks:?}", self.now_ns());
        }
        self.move_on(end_ns);
        if self.is_dead() {
            self.restart(if self.disk.has_power() { Death::Process } else { Death::Power });
        }
    }

    fn move_on(&mut self, end_ns: u64) {
        match self.next_stack() {
            Some(number) => self.resume(number),
            None => {
                let now_ns = self.now_ns();
                let hanging = self.stacks.iter().filter_map(|stack| match stack.pause {
                    Some(Pause::Hanging(until_ns)) => Some(until_ns),
                    Some(Pause::Asleep(until_ns) | Pause::Resting(until_ns)) if until_ns < end_ns => {
                        Some(until_ns)
                    }
                    _ => None,
                });
                // What hangs is waited for even after the end.
                let end = (end_ns > now_ns).then_some(end_ns);
                self.net.advance_to(hanging.chain(end).min().unwrap_or(end_ns));
            }
        }
    }

    /// Lets a thread or a writer go on.
    fn resume(&mut self, number: usize) {
        self.stacks[number].resume();
        let kind = self.stacks[number].kind;
        // There may be something for them now.
        for stack in &mut self.stacks {
            let wakes = match (kind, stack.pause) {
                (StackOf::Thread(_), Some(Pause::Idle)) => true,
                // It is told by messages, and soon looks for them.
                (StackOf::Thread(_) | StackOf::Log, Some(Pause::Asleep(_)))
                    if stack.kind == StackOf::Disk =>
                {
                    self.entropy.one_in(4)
                }
                _ => false,
            };
            if wakes {
                stack.pause = Some(Pause::TurnOver);
            }
        }
        match self.stacks[number].pause {
            Some(Pause::Interrupted) => {
                self.interruptions += 1;
                self.stacks[number].stalled_until = self.event + self.stall_events();
                // It may wait for the one for whom the disk hangs, and nothing else moves the clock.
                let hangs = |stack: &Stack| matches!(stack.pause, Some(Pause::Hanging(_)));
                if self.stacks.iter().any(hangs) && self.one_in(2) {
                    self.net.advance_to(self.now_ns() + WAIT_NS);
                }
            }
            Some(Pause::Hanging(_) | Pause::Asleep(_) | Pause::Resting(_)) => {}
            Some(Pause::TurnOver | Pause::Idle) => {}
            None if kind != StackOf::Writer => panic!("the server stopped"),
            None => drop(self.stacks.remove(number)),
        }
        if let Some(writer) = self.server.take_writer() {
            self.saves += 1;
            self.stacks.push(Stack::of_writer(writer));
        }
    }

    /// For how many events an interrupted thread sits still.
    fn stall_events(&mut self) -> u64 {
        if self.setup.off_core_one_in > 0 && self.entropy.one_in(self.setup.off_core_one_in) {
            return self.entropy.below(OFF_CORE_EVENTS_MAX);
        }
        // Most stalls are short, some long.
        let longest = 1 + self.entropy.below(self.setup.stall_events_max);
        self.entropy.below(longest)
    }

    fn next_stack(&mut self) -> Option<usize> {
        let (runnable, now_ns) = (self.net.runnable(), self.now_ns());
        let can_go_on = |number: &usize| match (self.stacks[*number].pause, self.stacks[*number].kind) {
            (Some(Pause::Interrupted), _) => true,
            (Some(Pause::Asleep(_)), StackOf::Log) if self.server.has_nudged_journal() => true,
            (Some(Pause::Hanging(until_ns) | Pause::Asleep(until_ns) | Pause::Resting(until_ns)), _) => {
                until_ns <= now_ns
            }
            (Some(Pause::TurnOver), StackOf::Thread(number)) => runnable.contains(&number),
            (Some(Pause::TurnOver), _) => true,
            (Some(Pause::Idle) | None, _) => false,
        };
        let is_stalled = |number: &usize| {
            let stack = &self.stacks[*number];
            stack.pause == Some(Pause::Interrupted) && stack.stalled_until > self.event
        };
        let (stalled, mut choice): (Vec<usize>, Vec<usize>) =
            (0..self.stacks.len()).filter(can_go_on).partition(is_stalled);
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
        while self.now_ns() < end_ns || self.stacks.iter().any(Stack::is_interrupted) {
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
        let has_work = |stack: &Stack| match stack.kind {
            StackOf::Thread(_) => false,
            StackOf::Log => {
                !matches!(stack.pause, Some(Pause::Asleep(_))) || self.server.has_nudged_journal()
            }
            StackOf::Disk => stack.pause == Some(Pause::TurnOver),
            StackOf::Writer => stack.pause != Some(Pause::Idle),
        };
        !self.net.runnable().is_empty()
            || self.stacks.iter().any(|stack| stack.is_interrupted() || has_work(stack))
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
