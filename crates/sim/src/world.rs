//! The simulated world: one or several servers on machines of their own, their threads on stacks of their own, clients, and
//! the order of everything.
//!
//! An *event* is a step of one thread, up to its next interruption or the end of its turn, or a move of the clock. Events are
//! counted, and their numbers are the real time of histories. Time passes when no thread has anything to do, when all threads
//! that do are stalled (if the setup allows that), and a little with every turn. Writers of snapshots and blocking tasks count as
//! threads here.
//!
//! Servers of a world reach each other over the same network as clients. Each can die and come back while the others continue.

use std::collections::BTreeMap;

use proactor::{Entropy, SimDisk, SimNet};
use resp::Value;
use server::SimulatedServer;

use crate::client::{Client, Request};
use crate::machine::{Death, Machine};
use crate::setup::{OFF_CORE_EVENTS_MAX, Setup};
use crate::stack::{self, Pause, Stack, StackOf};

/// A world that needs more events than this for what a test waits for is stuck.
const EVENTS_MAX: u64 = 3_000_000;
/// Longer than every timeout of the tests.
const SETTLE_MS: u64 = 3_000;
/// A server that is to die while it starts does so within this many operations of the disk.
const START_OPERATIONS_MAX: usize = 40;
/// How much time an interruption may take while the disk hangs.
const WAIT_NS: u64 = 200_000;
/// Most that the clock advances in one event: idle threads do background work ten times a second.
const MOVE_NS_MAX: u64 = 100_000_000;

/// Servers and their surroundings.
pub struct World {
    /// Randomness from the seed for everything but the network and the scheduler.
    pub entropy: Entropy,
    net: SimNet,
    machines: Vec<Machine>,
    stalls_take_time: bool,
    /// Number of events so far.
    pub event: u64,
    /// The request whose reply the test waits for.
    awaited: Request,
    /// How often a thread was interrupted.
    pub interruptions: u64,
    /// Number of saves and checkpoints that began in the background.
    pub saves: u64,
    /// Number of deaths: by power failure, by itself because its journal could not be written, or on request.
    pub life: u64,
    /// The event of the last death.
    pub died_at: u64,
    /// The time of the last death on the world's clock, in nanoseconds.
    pub died_ns: u64,
    /// How often a server died while it started.
    pub deaths_in_start: u64,
}

impl World {
    /// A world of this kind, with one server.
    pub fn new(mut entropy: Entropy, setup: &Setup) -> World {
        let seed = entropy.next_u64();
        let net = SimNet::new(seed, setup.net.clone());
        let disk = net.disk(!seed);
        stack::interrupt_one_in(setup.interrupt_one_in, net.entropy());
        let machine = Machine::new(0, &net, disk, setup);
        World {
            entropy,
            net,
            machines: vec![machine],
            stalls_take_time: setup.stalls_take_time,
            event: 0,
            awaited: Request::new(),
            interruptions: 0,
            saves: 0,
            life: 0,
            died_at: 0,
            died_ns: 0,
            deaths_in_start: 0,
        }
    }

    /// Adds a server and returns its number. The first one's setup determines the interruptions and the network of all.
    pub fn add(&mut self, setup: &Setup) -> usize {
        let number = self.machines.len();
        let disk = self.net.disk(self.entropy.next_u64());
        self.machines.push(Machine::new(number, &self.net, disk, setup));
        number
    }

    /// The machine with this number. The first one is 0.
    pub fn machine(&self, number: usize) -> &Machine {
        &self.machines[number]
    }

    /// The first server, for inspection.
    pub fn server(&self) -> &SimulatedServer {
        &self.machines[0].server
    }

    /// The first server's disk, which outlives it.
    pub fn disk(&self) -> &SimDisk {
        &self.machines[0].disk
    }

    /// The power fails, whatever threads are doing. The server starts again with what the disk has kept, and has loaded that
    /// when this returns. Clients find their connections cut.
    ///
    /// # Panics If the server refuses to start.
    pub fn crash(&mut self) {
        self.restart(Death::Power);
    }

    /// The first server dies this way and starts again, on a disk without faults. It may die of another power failure while it
    /// starts, if the setup says so.
    ///
    /// # Panics If the server refuses to start.
    pub fn restart(&mut self, death: Death) {
        self.restart_machine(0, death);
    }

    fn restart_machine(&mut self, number: usize, death: Death) {
        self.kill(number, death);
        while !self.starts(number) {
            self.deaths_in_start += 1;
            self.life += 1;
            self.machines[number].die(Death::Power);
        }
    }

    /// The server dies this way, and stays dead until it is [started](Self::start).
    pub fn kill(&mut self, number: usize, death: Death) {
        (self.died_at, self.died_ns) = (self.event, self.now_ns());
        self.life += 1;
        self.machines[number].die(death);
    }

    /// A dead server starts again, and loads its data while the world continues.
    ///
    /// # Panics If it refuses to start.
    pub fn start(&mut self, number: usize) {
        self.machines[number].start().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Changes the setup that the first server will start with next time.
    pub fn change_setup(&mut self, change: impl FnOnce(&mut Setup)) {
        self.change_setup_of(0, change);
    }

    /// Changes the setup that this server will start with next time.
    pub fn change_setup_of(&mut self, number: usize, change: impl FnOnce(&mut Setup)) {
        change(&mut self.machines[number].setup);
    }

    /// From now on nothing gets through between two servers, or everything does, including what was on its way.
    pub fn part(&self, one: usize, other: usize, is_parted: bool) {
        self.net.on_machine(one).part(other, is_parted);
    }

    /// Starts the server and runs until it has loaded its data. False if it died meanwhile.
    fn starts(&mut self, number: usize) -> bool {
        let one_in = self.machines[number].setup.dies_in_start_one_in;
        if one_in > 0 && self.one_in(one_in) {
            let spared = self.below(START_OPERATIONS_MAX);
            self.machines[number].disk.fail_power_after(spared as u64);
        }
        match self.machines[number].start() {
            Ok(()) => {}
            Err(_) if !self.machines[number].disk.has_power() => return false,
            Err(error) => panic!("{error}"),
        }
        while self.machines[number].server.is_loading() {
            self.event += 1;
            assert!(self.event < EVENTS_MAX, "it does not come to an end of loading");
            self.move_on(self.now_ns() + MOVE_NS_MAX);
            if self.machines[number].has_died() {
                return false;
            }
        }
        self.machines[number].disk.keep_power();
        !self.machines[number].has_died()
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.entropy.below(bound as u64) as usize
    }

    /// True with a probability of 1 in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.entropy.one_in(n)
    }

    /// The world's clock, in nanoseconds since it began.
    pub fn now_ns(&self) -> u64 {
        self.net.clock().monotonic_ns()
    }

    /// A new client of the first server.
    pub fn connect(&self) -> Client {
        self.connect_to(0).expect("the server listens")
    }

    /// A new client of this server; `None` if the server is dead.
    pub fn connect_to(&self, number: usize) -> Option<Client> {
        Some(Client::new(self.net.connect(&self.machines[number].address())?))
    }

    /// From now on the network cuts no connections.
    pub fn stop_cuts(&self) {
        self.cut_one_in(0);
    }

    /// Sets whether the clock may advance while an interrupted thread is stalled. If so, such a thread can be arbitrarily
    /// slow. Returns what was set before.
    pub fn let_stalls_take_time(&mut self, take: bool) -> bool {
        std::mem::replace(&mut self.stalls_take_time, take)
    }

    /// From now on the network cuts a connection at one in this many arrivals.
    pub fn cut_one_in(&self, arrivals: u64) {
        self.net.cut_one_in(arrivals);
    }

    /// Runs one event.
    pub fn step(&mut self) {
        self.step_to(self.now_ns() + MOVE_NS_MAX);
    }

    /// Runs one event, in which the clock advances to `end_ns` at most.
    fn step_to(&mut self, end_ns: u64) {
        self.event += 1;
        if self.event >= EVENTS_MAX {
            let stacks: Vec<_> = self.stacks().map(|stack| (stack.kind, stack.pause)).collect();
            let awaited = self.awaited.join(&b' ');
            let (now_ns, awaited) = (self.now_ns(), awaited.escape_ascii());
            panic!("the world is stuck at {now_ns} ns, waiting for \"{awaited}\": {stacks:?}");
        }
        self.move_on(end_ns);
        for number in 0..self.machines.len() {
            let machine = &self.machines[number];
            if machine.has_died() {
                let death = if machine.disk.has_power() { Death::Process } else { Death::Power };
                self.restart_machine(number, death);
            }
        }
    }

    fn stacks(&self) -> impl Iterator<Item = &Stack> {
        self.machines.iter().flat_map(|machine| &machine.stacks)
    }

    fn move_on(&mut self, end_ns: u64) {
        match self.next_stack() {
            Some((machine, number)) => self.resume(machine, number),
            None if self.wake_called() => {}
            None => {
                let now_ns = self.now_ns();
                let hanging = self.stacks().filter_map(|stack| match stack.pause {
                    Some(Pause::Hanging(until_ns)) => Some(until_ns),
                    Some(Pause::Asleep(until_ns) | Pause::Resting(until_ns)) if until_ns < end_ns => {
                        Some(until_ns)
                    }
                    _ => None,
                });
                // Waits for what hangs even beyond the end.
                let end = (end_ns > now_ns).then_some(end_ns);
                self.net.advance_to(hanging.chain(end).min().unwrap_or(end_ns));
            }
        }
    }

    /// Wakes what sleeps although it may have messages. False if there is none.
    fn wake_called(&mut self) -> bool {
        let stacks = self.machines.iter_mut().flat_map(|machine| &mut machine.stacks);
        let mut has_woken = false;
        for stack in stacks.filter(|stack| stack.is_called) {
            stack.wake();
            has_woken = true;
        }
        has_woken
    }

    /// Resumes a thread, a writer or a blocking task.
    fn resume(&mut self, machine: usize, number: usize) {
        let Machine { stacks, server, .. } = &mut self.machines[machine];
        stacks[number].resume();
        let (kind, pause) = (stacks[number].kind, stacks[number].pause);
        // Others may have something to do now.
        for stack in &mut *stacks {
            let wakes = match (kind, stack.pause) {
                (StackOf::Thread(_), Some(Pause::Idle)) => true,
                // It gets messages, and checks for them soon: before time passes.
                (StackOf::Thread(_) | StackOf::Log, Some(Pause::Asleep(_)))
                    if stack.kind == StackOf::Disk =>
                {
                    stack.is_called = true;
                    self.entropy.one_in(4)
                }
                _ => false,
            };
            if wakes {
                stack.wake();
            }
        }
        if pause.is_none() {
            assert!(matches!(kind, StackOf::Writer | StackOf::BlockingTask), "the server stopped");
            drop(stacks.remove(number));
        }
        if let Some(writer) = server.take_writer() {
            self.saves += 1;
            stacks.push(Stack::of_writer(writer));
        }
        while let Some(task) = server.take_blocking_task() {
            stacks.push(Stack::of_blocking_task(task));
        }
        if pause == Some(Pause::Interrupted) {
            self.interruptions += 1;
            let until = self.event + self.stall_events(machine);
            self.machines[machine].stacks[number].stalled_until = until;
            // It may be waiting for the stack for which the disk hangs, and nothing else advances the clock.
            let hangs = |stack: &Stack| matches!(stack.pause, Some(Pause::Hanging(_)));
            if self.stacks().any(hangs) && self.one_in(2) {
                self.net.advance_to(self.now_ns() + WAIT_NS);
            }
        }
    }

    /// The number of events for which an interrupted thread is stalled.
    fn stall_events(&mut self, machine: usize) -> u64 {
        let Setup { off_core_one_in, stall_events_max, .. } = self.machines[machine].setup;
        if off_core_one_in > 0 && self.entropy.one_in(off_core_one_in) {
            return self.entropy.below(OFF_CORE_EVENTS_MAX);
        }
        // Most stalls are short, some are long.
        let longest = 1 + self.entropy.below(stall_events_max);
        self.entropy.below(longest)
    }

    /// The stack to resume next: its machine, and its number there.
    fn next_stack(&mut self) -> Option<(usize, usize)> {
        let (runnable, now_ns) = (self.net.runnable(), self.now_ns());
        let can_go_on = |(machine, number): &(usize, usize)| {
            let machine = &self.machines[*machine];
            match (machine.stacks[*number].pause, machine.stacks[*number].kind) {
                (Some(Pause::Interrupted), _) => true,
                (Some(Pause::Asleep(_)), StackOf::Log) if machine.server.has_nudged_journal() => true,
                (Some(Pause::Hanging(until_ns) | Pause::Asleep(until_ns) | Pause::Resting(until_ns)), _) => {
                    until_ns <= now_ns
                }
                (Some(Pause::TurnOver), StackOf::Thread(number)) => runnable.contains(&number),
                (Some(Pause::TurnOver), _) => true,
                (Some(Pause::Idle) | None, _) => false,
            }
        };
        let is_stalled = |(machine, number): &(usize, usize)| {
            let stack = &self.machines[*machine].stacks[*number];
            stack.pause == Some(Pause::Interrupted) && stack.stalled_until > self.event
        };
        let machines = self.machines.iter().enumerate();
        let all =
            machines.flat_map(|(machine, its)| (0..its.stacks.len()).map(move |number| (machine, number)));
        let (stalled, mut choice): (Vec<_>, Vec<_>) = all.filter(can_go_on).partition(is_stalled);
        if choice.is_empty() && !(self.stalls_take_time && self.one_in(2)) {
            choice = stalled;
        }
        let count = choice.len();
        (count > 0).then(|| choice[self.below(count)])
    }

    /// Moves the bytes of `client`. Returns the replies that have arrived.
    pub fn pump(&self, client: &mut Client) -> Vec<Value> {
        client.pump()
    }

    /// Sets the wall clock of all machines ahead, or back. The clock for durations is unaffected.
    pub fn set_clock_ahead(&self, ms: i64) {
        self.net.clock().set_ahead(ms);
    }

    /// Runs for this long on the world's clock, and then until every thread is between two turns. Calls `act` first and after
    /// every event.
    pub fn run_for(&mut self, ms: u64, act: impl FnMut(&mut World)) {
        self.run_to(self.now_ns() + ms * 1_000_000, act);
    }

    /// Runs like [`run_for`](Self::run_for), to a point on the clock.
    pub fn run_to(&mut self, end_ns: u64, mut act: impl FnMut(&mut World)) {
        act(self);
        while self.now_ns() < end_ns || self.stacks().any(Stack::is_interrupted) {
            self.step_to(end_ns);
            act(self);
        }
    }

    /// Runs until there is nothing left to do, and checks that nothing is left over: no thread in a turn, no held baton, no
    /// task in a mailbox, no undelivered message.
    ///
    /// Calls `act` like [`World::run_for`]. It should let clients read.
    pub fn settle(&mut self, act: impl FnMut(&mut World)) {
        self.stalls_take_time = false;
        self.run_for(SETTLE_MS, act);
        while self.next_thread_is_there() {
            self.step();
        }
        for machine in self.machines.iter().filter(|machine| machine.is_up()) {
            let unfinished = machine.server.unfinished();
            assert!(unfinished.is_empty(), "nothing happens any more, but {unfinished:?}");
        }
    }

    fn next_thread_is_there(&self) -> bool {
        !self.net.runnable().is_empty() || self.machines.iter().any(Machine::has_work)
    }

    /// Sends a request and waits for its reply, whatever else happens meanwhile.
    pub fn call(&mut self, client: &mut Client, request: &Request) -> Value {
        client.send(request);
        self.awaited.clone_from(request);
        loop {
            if let Some(reply) = self.pump(client).pop() {
                self.awaited.clear();
                return reply;
            }
            assert!(!client.has_ended, "the server closed the connection");
            self.step();
        }
    }

    /// The numeric fields of `INFO everything`.
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
