//! One generator thread. Each of its connections is a client that sends, waits for the replies, and continues.
//!
//! The [`Workload`] decides what is sent and what replies mean. The loop moves bytes, keeps time and counts.
//!
//! ```text
//!             ┌────────────── all replies are there ◀─────────────┐
//!             ▼                                                   │
//!   Workload::step ─┬─ Sent ──▶ replies counted one by one ───────┘
//!                   ├─ At(t) ─▶ asked again at t
//!                   ├─ Listen ▶ every message is counted
//!                   └─ Done
//! ```
//!
//! A thread is done when all its clients except background ones are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use proactor::{Clock, CloseMode, Codec, Config, ConnId, Driver, Event, Socket};

use crate::control::{Control, Errors};
use crate::histogram::{Latencies, Series};

/// Interval at which a thread reports its measurements.
pub(crate) const INTERVAL_NS: u64 = 250_000_000;

/// The next step of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The client has written requests, and expects this many replies. Their latency counts from `since_ns`.
    Sent { replies: u32, since_ns: u64 },
    /// Nothing before this time.
    At(u64),
    /// Nothing any more, but messages are counted.
    Listen,
    /// The client has finished.
    Done,
}

/// How a reply is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    No,
    /// With the latency of its requests.
    As(Series),
    /// With a latency that counts from this time.
    Since(Series, u64),
}

/// The requests of a thread's clients, and the treatment of the replies. Times are in nanoseconds from the start.
pub(crate) trait Workload: Send {
    /// Writes the client's next requests, if it has any now.
    fn step(&mut self, client: usize, now_ns: u64, requests: &mut Vec<u8>) -> Step;

    /// Handles the reply to request `index` of those that the client sent last.
    fn reply(&mut self, client: usize, index: u32, reply: &[u8], now_ns: u64) -> Counted;

    /// The length of the reply at the front of `input`, and whether it is an error.
    fn measure(&self, input: &[u8]) -> Result<Option<(usize, bool)>, String> {
        resp::measure(input).map_err(|error| error.to_string())
    }
}

/// A client's connection. The loop does not wait for background ones.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) socket: Socket,
    /// Encodes its bytes, over TLS.
    pub(crate) codec: Option<Box<dyn Codec>>,
    pub(crate) is_background: bool,
}

/// The latencies that a thread has measured since its last report.
#[derive(Debug)]
pub(crate) struct Sample {
    /// The number of the interval, counted from the start.
    pub(crate) interval: u64,
    pub(crate) latencies: Latencies,
}

/// The result of a thread.
#[derive(Debug)]
pub(crate) struct Finished<W> {
    pub(crate) workload: W,
    pub(crate) errors: Errors,
    /// When the last reply that counts arrived.
    pub(crate) last_ns: u64,
    /// The processor time that the thread used.
    pub(crate) cpu_ns: u64,
}

#[derive(Debug)]
struct Client {
    conn: ConnId,
    /// Number of outstanding replies, and the index of the next one.
    awaited: u32,
    index: u32,
    since_ns: u64,
    state: State,
    is_background: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Active,
    Listening,
    Done,
}

/// One thread's load.
pub(crate) struct Load<W> {
    driver: Driver,
    clock: Clock,
    /// The clock's time at the start.
    origin_ns: u64,
    control: Arc<Control>,
    workload: W,
    clients: Vec<Client>,
    /// The client of each connection slot.
    by_slot: Vec<usize>,
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    /// Number of foreground clients that are not done.
    live: usize,
    heard_ns: u64,
    is_over: bool,
    /// Requests on their way into a connection's output.
    scratch: Vec<u8>,
    kinds: usize,
    latencies: Latencies,
    /// Replies of one connection and turn, by kind. They share their latency.
    tally: Vec<u64>,
    errors: Errors,
    last_ns: u64,
    samples: Sender<Sample>,
    interval: u64,
}

impl<W: Workload> Load<W> {
    /// Takes over the connections, on the thread that will run. `kinds` is the number of request kinds of the workload.
    pub(crate) fn open(
        workload: W,
        seats: Vec<Seat>,
        kinds: usize,
        control: Arc<Control>,
        clock: Clock,
        samples: Sender<Sample>,
    ) -> io::Result<Load<W>> {
        // A thread that polls before it sleeps takes time from a server on the same core.
        let config = Config { poll_us: 0, ..Config::default() };
        let mut driver = Driver::open(&config).map_err(io::Error::other)?;
        let mut clients = Vec::with_capacity(seats.len());
        let mut by_slot = Vec::new();
        for Seat { socket, codec, is_background } in seats {
            let conn = driver.adopt_coded(socket, codec);
            by_slot.resize(by_slot.len().max(conn.slot() + 1), usize::MAX);
            by_slot[conn.slot()] = clients.len();
            let state = State::Active;
            clients.push(Client { conn, awaited: 0, index: 0, since_ns: 0, state, is_background });
        }
        let live = clients.iter().filter(|client| !client.is_background).count();
        Ok(Load {
            driver,
            clock,
            origin_ns: 0,
            control,
            workload,
            clients,
            by_slot,
            timers: BinaryHeap::new(),
            live,
            heard_ns: 0,
            is_over: false,
            scratch: Vec::new(),
            kinds,
            latencies: Latencies::new(kinds),
            tally: vec![0; kinds],
            errors: Errors::default(),
            last_ns: 0,
            samples,
            interval: 0,
        })
    }

    /// Runs to the end. The run starts at `origin_ns` of the clock.
    pub(crate) fn run(mut self, origin_ns: u64) -> Finished<W> {
        self.origin_ns = origin_ns;
        let cpu_before_ns = thread_cpu_ns();
        self.heard_ns = self.now_ns();
        for client in 0..self.clients.len() {
            let now_ns = self.now_ns();
            self.advance(client, now_ns);
        }
        if let Err(error) = self.turns() {
            self.control.fail(&error.to_string());
        }
        self.say();
        for client in &self.clients {
            self.driver.close(client.conn, CloseMode::Now);
        }
        Finished {
            workload: self.workload,
            errors: self.errors,
            last_ns: self.last_ns,
            cpu_ns: thread_cpu_ns().saturating_sub(cpu_before_ns),
        }
    }

    fn now_ns(&self) -> u64 {
        self.clock.monotonic_ns().saturating_sub(self.origin_ns)
    }

    fn turns(&mut self) -> io::Result<()> {
        let mut events = Vec::new();
        let mut now_ns = self.now_ns();
        while self.live > 0 && !self.control.is_broken() {
            self.driver.turn(Some(self.patience(now_ns)), &mut events)?;
            now_ns = self.now_ns();
            for event in events.drain(..) {
                self.heard_ns = now_ns;
                match event {
                    Event::Data { conn } => self.receive(conn, now_ns)?,
                    Event::Closed { conn, error } => self.closed(conn, error, now_ns)?,
                    Event::Accepted { .. } | Event::Detached { .. } | Event::Wake => {}
                }
            }
            while let Some(&Reverse((due_ns, client))) = self.timers.peek()
                && due_ns <= now_ns
            {
                self.timers.pop();
                self.advance(client, now_ns);
            }
            if now_ns >= (self.interval + 1) * INTERVAL_NS {
                self.say();
                self.interval = now_ns / INTERVAL_NS;
            }
            if !self.is_over && self.control.is_over(now_ns) {
                self.wind_up(now_ns);
            }
            self.check_silence(now_ns)?;
        }
        Ok(())
    }

    /// How long the next turn may wait.
    fn patience(&self, now_ns: u64) -> Duration {
        let timer_ns = self.timers.peek().map_or(u64::MAX, |Reverse((due_ns, _))| *due_ns);
        let next_ns =
            timer_ns.min((self.interval + 1) * INTERVAL_NS).min(self.control.end_ns.unwrap_or(u64::MAX));
        let next_ns = if self.is_over { now_ns + INTERVAL_NS } else { next_ns };
        Duration::from_nanos(next_ns.saturating_sub(now_ns))
    }

    /// Lets a client take its next step.
    fn advance(&mut self, index: usize, now_ns: u64) {
        if self.clients[index].state != State::Active {
            return;
        }
        if self.is_over {
            return self.finish(index, State::Done);
        }
        self.scratch.clear();
        match self.workload.step(index, now_ns, &mut self.scratch) {
            Step::Sent { replies, since_ns } => {
                let client = &mut self.clients[index];
                client.awaited = replies;
                client.index = 0;
                client.since_ns = since_ns;
                if let Some(output) = self.driver.output_mut(client.conn) {
                    output.extend_from_slice(&self.scratch);
                }
            }
            Step::At(due_ns) => self.timers.push(Reverse((due_ns, index))),
            Step::Listen => self.finish(index, State::Listening),
            Step::Done => self.finish(index, State::Done),
        }
    }

    fn finish(&mut self, index: usize, state: State) {
        let client = &mut self.clients[index];
        client.state = state;
        self.live -= usize::from(!client.is_background);
    }

    /// Stops starting requests. Replies to those that were sent are still awaited.
    fn wind_up(&mut self, now_ns: u64) {
        self.is_over = true;
        self.heard_ns = now_ns;
        self.timers.clear();
        for index in 0..self.clients.len() {
            if self.clients[index].awaited == 0 {
                self.advance(index, now_ns);
            }
        }
    }

    /// Processes the replies that a connection has received, and continues when all are there.
    fn receive(&mut self, conn: ConnId, now_ns: u64) -> io::Result<()> {
        let index = self.by_slot[conn.slot()];
        let Some(mut io) = self.driver.take_io(conn) else { return Ok(()) };
        let client = &mut self.clients[index];
        let is_listening = client.state == State::Listening;
        let mut consumed = 0;
        let mut outcome = Ok(());
        while client.awaited > 0 || is_listening {
            let input = &io.input.as_slice()[consumed..];
            let (length, is_error) = match self.workload.measure(input) {
                Ok(Some(found)) => found,
                Ok(None) => break,
                Err(text) => {
                    outcome = Err(invalid(text));
                    break;
                }
            };
            let reply = &input[..length];
            consumed += length;
            if is_error {
                self.errors.count(reply);
                self.control.count_error(reply);
            } else {
                match self.workload.reply(index, client.index, reply, now_ns) {
                    Counted::No => {}
                    Counted::As(kind) => self.tally[kind] += 1,
                    Counted::Since(kind, since_ns) => {
                        self.latencies.record(kind, now_ns.saturating_sub(since_ns), 1);
                        self.last_ns = now_ns;
                    }
                }
            }
            client.index += 1;
            client.awaited = client.awaited.saturating_sub(1);
        }
        let is_answered = consumed > 0 && client.awaited == 0;
        io.input.consume(consumed);
        self.driver.put_io(conn, io);
        self.record_tally(index, now_ns);
        if is_answered {
            self.advance(index, now_ns);
        }
        outcome
    }

    /// Records the replies of one client and turn, which share their latency.
    fn record_tally(&mut self, index: usize, now_ns: u64) {
        let client = &self.clients[index];
        for (kind, count) in self.tally.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
            self.latencies.record(kind, now_ns.saturating_sub(client.since_ns), *count);
            *count = 0;
            if !client.is_background {
                self.last_ns = now_ns;
            }
        }
    }

    /// A connection that was closed. If its client was not done, that ends the run.
    fn closed(&mut self, conn: ConnId, error: Option<ErrorKind>, now_ns: u64) -> io::Result<()> {
        self.receive(conn, now_ns)?;
        let client = &self.clients[self.by_slot[conn.slot()]];
        if client.state == State::Done {
            return Ok(());
        }
        let how = error.map_or_else(String::new, |kind| format!(" ({kind})"));
        let unanswered = client.awaited;
        Err(io::Error::other(format!(
            "the server closed a connection{how} that waited for {unanswered} replies"
        )))
    }

    fn check_silence(&self, now_ns: u64) -> io::Result<()> {
        let silence = self.control.limits.silence;
        if u128::from(now_ns.saturating_sub(self.heard_ns)) < silence.as_nanos() {
            return Ok(());
        }
        match self.clients.iter().map(|client| u64::from(client.awaited)).sum::<u64>() {
            0 => Ok(()),
            awaited => {
                let text =
                    format!("the server has not answered for {silence:?}; {awaited} replies are missing");
                Err(io::Error::new(ErrorKind::TimedOut, text))
            }
        }
    }

    /// Reports what was measured since the last report.
    fn say(&mut self) {
        let latencies = std::mem::replace(&mut self.latencies, Latencies::new(self.kinds));
        // If the receiver is gone, the sample is not needed.
        let _ = self.samples.send(Sample { interval: self.interval, latencies });
    }
}

fn invalid(text: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("not a reply of the protocol: {text}"))
}

/// The processor time of this thread; 0 if the kernel does not count it.
fn thread_cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}
