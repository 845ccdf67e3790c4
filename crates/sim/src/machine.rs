//! A machine of the world: its disk, and a server that runs on it or has died.

use proactor::{SimDisk, SimNet};
use server::SimulatedServer;

use crate::setup::Setup;
use crate::stack::{self, Pause, Stack, StackOf};

/// The port at which servers listen.
const PORT: u16 = 6379;

/// How a server dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Death {
    /// The power fails: the disk keeps what was durable, and an arbitrary part of the rest.
    Power,
    /// The process ends, and the system continues: everything that was written is kept.
    Process,
}

/// See the head of this file.
pub struct Machine {
    /// The server, for inspection. If it is dead, its last state.
    pub server: SimulatedServer,
    /// The disk, which outlives the server.
    pub disk: SimDisk,
    number: usize,
    net: SimNet,
    pub(crate) setup: Setup,
    /// The threads of the server, those that write its journal, then writers of snapshots and blocking tasks. Empty if it is
    /// dead.
    pub(crate) stacks: Vec<Stack>,
}

/// Starts a server with what is on the disk.
fn start(
    setup: &Setup,
    net: &SimNet,
    disk: &SimDisk,
    address: &str,
) -> Result<(SimulatedServer, Vec<Stack>), String> {
    let first = net.thread_count();
    let (server, mut threads) = server::simulate(&setup.args(), net, disk, address)?;
    if let Some(tape) = &setup.tape {
        threads.iter_mut().for_each(|thread| thread.record(tape.track()));
    }
    let threads = (first..).zip(threads);
    let mut stacks: Vec<Stack> = threads.map(|(number, thread)| Stack::of_thread(number, thread)).collect();
    if (setup.journal.is_some() || setup.replicates)
        && let Some([log, disk]) = server.take_journal()
    {
        stacks.push(Stack::of_journal(StackOf::Log, log, net.clock()));
        stacks.push(Stack::of_journal(StackOf::Disk, disk, net.clock()));
    }
    Ok((server, stacks))
}

impl Machine {
    /// A machine with an empty server on this disk.
    pub(crate) fn new(number: usize, net: &SimNet, disk: SimDisk, setup: &Setup) -> Machine {
        let net = net.on_machine(number);
        disk.on_operation(stack::on_disk);
        let started = start(setup, &net, &disk, &Machine::address_of(number));
        let (server, stacks) = started.unwrap_or_else(|error| panic!("{error}"));
        Machine { server, disk, number, net, setup: setup.clone(), stacks }
    }

    /// The address of the server with this number.
    fn address_of(number: usize) -> String {
        format!("{}:{PORT}", Machine::host_of(number))
    }

    /// The host of the server with this number.
    pub fn host_of(number: usize) -> String {
        format!("10.0.0.{}", number + 1)
    }

    /// The address of its server.
    pub(crate) fn address(&self) -> String {
        Machine::address_of(self.number)
    }

    /// Whether its server runs, or should run.
    pub fn is_up(&self) -> bool {
        !self.stacks.is_empty()
    }

    /// Whether it should run but has died by itself.
    pub(crate) fn has_died(&self) -> bool {
        self.is_up() && (!self.disk.has_power() || self.server.has_ended())
    }

    pub(crate) fn die(&mut self, death: Death) {
        self.stacks.clear();
        self.net.crash();
        match death {
            Death::Power => self.disk.crash(),
            Death::Process => self.disk.end_process(),
        }
        self.disk.heal();
    }

    /// Starts the server with what is on the disk.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        (self.server, self.stacks) = start(&self.setup, &self.net, &self.disk, &self.address())?;
        Ok(())
    }

    /// Whether something is runnable that waits neither for time nor for the network.
    pub(crate) fn has_work(&self) -> bool {
        let has_work = |stack: &Stack| match stack.kind {
            StackOf::Thread(_) => false,
            StackOf::Log => {
                !matches!(stack.pause, Some(Pause::Asleep(_))) || self.server.has_nudged_journal()
            }
            StackOf::Disk => stack.pause == Some(Pause::TurnOver) || stack.is_called,
            StackOf::Writer | StackOf::BlockingTask => stack.pause != Some(Pause::Idle),
        };
        self.stacks.iter().any(|stack| stack.is_interrupted() || has_work(stack))
    }
}
