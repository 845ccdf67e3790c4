//! The simulated network and its clock.
//!
//! A link joins two sides, 0 the one that connected and 1 the one that accepted. Each side writes into a pipe
//! towards the other. Written bytes are in transit until their time comes; then they have arrived and can be
//! read.
//!
//! ```text
//!   side 0 ──write──▶ [ in transit, pieces in order ] ──arrive──▶ [ arrived ] ──read──▶ side 1     (pipe 0; pipe 1 back)
//! ```
//!
//! Invariants: in transit plus arrived never exceeds the pipe's window; the pieces of a pipe arrive in the
//! order in which they were written, its end after them; a reset overtakes them and drops them. The lock is
//! held for single steps only and never while an [`Endpoint`] is dropped.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Clock, Entropy, SimDisk, Waker};

/// How hostile the network is.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Longest travel time of a piece.
    pub latency_ns_max: u64,
    /// Bytes that may be in transit or unread in one direction.
    pub window_bytes: usize,
    /// One arrival in this many cuts its link instead; 0: never.
    pub cut_one_in: u64,
}

impl Default for SimConfig {
    fn default() -> SimConfig {
        SimConfig { latency_ns_max: 1_000_000, window_bytes: 64 * 1024, cut_one_in: 0 }
    }
}

/// The participant that has to act next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimStep {
    /// This thread's driver has something to do, or its timeout has passed.
    Thread(usize),
    /// Something has reached a client.
    Client,
    /// No event will ever happen unless a client acts.
    Never,
}

/// A simulated world, from the view of one of its machines. Clones share it. Clients are on no machine.
#[derive(Clone)]
pub struct SimNet {
    state: Arc<Mutex<NetState>>,
    machine: usize,
}

impl std::fmt::Debug for SimNet {
    /// Short, because every simulated socket holds one.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SimNet").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct NetState {
    now_ns: Arc<AtomicU64>,
    clock: Clock,
    entropy: Entropy,
    config: SimConfig,
    links: Vec<Link>,
    listeners: Vec<ListenerState>,
    threads: Vec<ThreadState>,
    /// Bytes and signals that have yet to arrive, by time and then by order of sending.
    arrivals: BTreeMap<(u64, u64), Arrival>,
    sequence: u64,
    /// Whether something has reached a side that belongs to no thread.
    has_client_news: bool,
    /// Pairs of machines that cannot reach each other.
    parted: BTreeSet<(usize, usize)>,
    /// Bytes and signals that will arrive once these machines can reach each other again, in order.
    held: Vec<Arrival>,
}

#[derive(Debug)]
enum Arrival {
    Connection { listener: usize, link: usize },
    Bytes { link: usize, side: usize, bytes: Vec<u8> },
    End { link: usize, side: usize },
    Reset { link: usize, side: usize },
}

impl Arrival {
    fn link(&self) -> usize {
        match self {
            Arrival::Connection { link, .. }
            | Arrival::Bytes { link, .. }
            | Arrival::End { link, .. }
            | Arrival::Reset { link, .. } => *link,
        }
    }
}

#[derive(Debug)]
struct Link {
    /// The machine of each side; `None` for clients.
    machines: [Option<usize>; 2],
    /// `side` reads from `pipes[side]`.
    pipes: [Pipe; 2],
    /// The thread whose driver has each side. It has to run when something reaches that side.
    owners: [Option<usize>; 2],
    is_closed: [bool; 2],
    /// Everything that side 1 has queued for side 0, sent or not.
    tap: Vec<u8>,
}

#[derive(Debug)]
struct Pipe {
    in_transit_bytes: usize,
    arrived: VecDeque<u8>,
    last_arrival_ns: u64,
    window_bytes: usize,
    is_end_sent: bool,
    has_ended: bool,
    is_reset: bool,
}

#[derive(Debug)]
struct ListenerState {
    machine: usize,
    /// `None`: the machine is gone.
    address: Option<String>,
    owner: Option<usize>,
    waiting: VecDeque<usize>,
}

#[derive(Debug)]
struct ThreadState {
    machine: usize,
    waker: Arc<Waker>,
    is_ready: bool,
    /// When a parked thread runs again by itself; `None`: never.
    deadline_ns: Option<u64>,
    /// Whether its machine is gone.
    is_gone: bool,
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Bytes(Vec<u8>),
    Nothing,
    End,
    Reset,
}

/// One side of a link. Dropping it closes the link.
#[derive(Debug)]
pub(crate) struct Endpoint {
    net: SimNet,
    link: usize,
    side: usize,
}

/// Records the bytes that a server sends to a client, even when the client is gone.
#[derive(Clone, Debug)]
pub struct SimTap {
    net: SimNet,
    link: usize,
}

impl SimTap {
    /// All output that the server ever queued for the client, whether or not it was sent and received.
    pub fn bytes(&self) -> Vec<u8> {
        self.net.state().links[self.link].tap.clone()
    }
}

/// An address at which a simulated thread accepts.
#[derive(Debug)]
pub(crate) struct SimListener {
    net: SimNet,
    index: usize,
}

impl SimNet {
    /// A world in which everything follows from `seed`.
    pub fn new(seed: u64, config: SimConfig) -> SimNet {
        let now_ns = Arc::new(AtomicU64::new(0));
        let state = NetState {
            clock: Clock::simulated(Arc::clone(&now_ns)),
            now_ns,
            entropy: Entropy::from_seed(seed),
            config,
            links: Vec::new(),
            listeners: Vec::new(),
            threads: Vec::new(),
            arrivals: BTreeMap::new(),
            sequence: 0,
            has_client_news: false,
            parted: BTreeSet::new(),
            held: Vec::new(),
        };
        SimNet { state: Arc::new(Mutex::new(state)), machine: 0 }
    }

    /// The world of this machine, from the view of another machine. The first machine has number 0.
    #[must_use]
    pub fn on_machine(&self, machine: usize) -> SimNet {
        SimNet { state: Arc::clone(&self.state), machine }
    }

    fn state(&self) -> MutexGuard<'_, NetState> {
        // A test that panicked while it held the lock still prints and drops things.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a simulated thread; threads are numbered from 0 in this order.
    pub(super) fn add_thread(&self, waker: Arc<Waker>) -> usize {
        let mut state = self.state();
        let machine = self.machine;
        state.threads.push(ThreadState { machine, waker, is_ready: true, deadline_ns: None, is_gone: false });
        state.threads.len() - 1
    }

    /// The number of threads so far, which is the number of the next one.
    pub fn thread_count(&self) -> usize {
        self.state().threads.len()
    }

    /// Opens `address`, for a driver to listen at.
    pub(crate) fn open(&self, address: &str) -> SimListener {
        let mut state = self.state();
        let index = state.listeners.len();
        state.listeners.push(ListenerState {
            machine: self.machine,
            address: Some(address.to_owned()),
            owner: None,
            waiting: VecDeque::new(),
        });
        drop(state);
        SimListener { net: self.clone(), index }
    }

    /// Links a client, or this machine, to `address`, and returns its side; `None` if no listener is bound
    /// there.
    pub(crate) fn link(&self, address: &str, is_client: bool) -> Option<Endpoint> {
        let mut state = self.state();
        let listens = |listener: &ListenerState| listener.address.as_deref() == Some(address);
        let listener = state.listeners.iter().position(listens)?;
        let machines = [(!is_client).then_some(self.machine), Some(state.listeners[listener].machine)];
        let window_bytes = state.config.window_bytes;
        let pipe = || Pipe {
            in_transit_bytes: 0,
            arrived: VecDeque::new(),
            last_arrival_ns: 0,
            window_bytes,
            is_end_sent: false,
            has_ended: false,
            is_reset: false,
        };
        let link = state.links.len();
        state.links.push(Link {
            machines,
            pipes: [pipe(), pipe()],
            owners: [None, None],
            is_closed: [false, false],
            tap: Vec::new(),
        });
        let at_ns = state.arrival_time();
        // Its first bytes cannot overtake the connection.
        state.links[link].pipes[1].last_arrival_ns = at_ns;
        state.schedule(at_ns, Arrival::Connection { listener, link });
        drop(state);
        Some(Endpoint { net: self.clone(), link, side: 0 })
    }

    /// This machine is gone, with its threads and its listeners: its drivers must have been dropped, or must
    /// never be used again. Other machines can read the bytes that have reached them; then their links are
    /// cut.
    pub fn crash(&self) {
        let (mut state, machine) = (self.state(), self.machine);
        for thread in state.threads.iter_mut().filter(|thread| thread.machine == machine) {
            (thread.is_gone, thread.is_ready, thread.deadline_ns) = (true, false, None);
        }
        for listener in state.listeners.iter_mut().filter(|listener| listener.machine == machine) {
            (listener.address, listener.owner) = (None, None);
            listener.waiting.clear();
        }
        let NetState { arrivals, held, links, .. } = &mut *state;
        let is_its = |link: &Link| link.machines.contains(&Some(machine));
        arrivals.retain(|_, arrival| !is_its(&links[arrival.link()]));
        held.retain(|arrival| !is_its(&links[arrival.link()]));
        for link in (0..state.links.len()).filter(|link| is_its(&state.links[*link])).collect::<Vec<_>>() {
            for side in 0..2 {
                if state.links[link].machines[side] == Some(machine) {
                    state.links[link].owners[side] = None;
                    state.links[link].is_closed[side] = true;
                }
            }
            state.reset(link, 0);
            state.reset(link, 1);
        }
        state.has_client_news = true;
    }

    /// From now on no bytes get through between this machine and that one, or all do, including those that
    /// were held meanwhile.
    pub fn part(&self, other: usize, is_parted: bool) {
        let mut state = self.state();
        let pair = (self.machine.min(other), self.machine.max(other));
        if is_parted {
            state.parted.insert(pair);
            return;
        }
        state.parted.remove(&pair);
        let now_ns = state.now_ns();
        for arrival in std::mem::take(&mut state.held) {
            // Arrivals that still cannot pass are held again.
            state.schedule(now_ns, arrival);
        }
        state.arrive();
    }

    /// From now on one arrival in this many cuts its link; 0: never.
    pub fn cut_one_in(&self, arrivals: u64) {
        self.state().config.cut_one_in = arrivals;
    }

    /// The world's clock.
    pub fn clock(&self) -> Clock {
        self.state().clock.clone()
    }

    /// An empty disk on the world's clock.
    pub fn disk(&self, seed: u64) -> SimDisk {
        SimDisk::at(self.state().now_ns.clone(), seed)
    }

    /// Random numbers that follow from the seed.
    pub fn entropy(&self) -> Entropy {
        Entropy::from_seed(self.state().entropy.next_u64())
    }

    /// The participant that has to act next. Advances the clock to that time.
    pub fn step(&self) -> SimStep {
        let mut state = self.state();
        loop {
            let runnable = state.runnable();
            if !runnable.is_empty() {
                let choice = state.entropy.below(runnable.len() as u64) as usize;
                return SimStep::Thread(runnable[choice]);
            }
            if std::mem::take(&mut state.has_client_news) {
                return SimStep::Client;
            }
            if !state.advance(u64::MAX) {
                return SimStep::Never;
            }
        }
    }

    /// The threads that have something to do now.
    pub fn runnable(&self) -> Vec<usize> {
        self.state().runnable()
    }

    /// Advances the clock to the next event, whether or not it concerns a driver. False if there is none.
    pub fn advance(&self) -> bool {
        self.state().advance(u64::MAX)
    }

    /// Advances the clock to the next event, or to `end_ns` if that is earlier.
    pub fn advance_to(&self, end_ns: u64) {
        if !self.state().advance(end_ns) {
            self.state().now_ns.fetch_max(end_ns, Ordering::Relaxed);
        }
    }

    /// A turn begins. Some time has passed since the previous one.
    pub(super) fn begin_turn(&self, thread: usize) {
        let mut state = self.state();
        let spent_ns = state.entropy.below(5_000);
        state.now_ns.fetch_add(spent_ns, Ordering::Relaxed);
        state.arrive();
        state.threads[thread].is_ready = false;
    }

    /// A turn ends: the thread may run again at once if it has done something, otherwise at `deadline_ns`.
    pub(super) fn end_turn(&self, thread: usize, has_done_something: bool, deadline_ns: Option<u64>) {
        let mut state = self.state();
        let parked = &mut state.threads[thread];
        parked.is_ready |= has_done_something;
        parked.deadline_ns = deadline_ns;
    }

    /// A number below `bound`, for choices of a driver.
    pub(super) fn below(&self, bound: u64) -> u64 {
        self.state().entropy.below(bound)
    }
}

impl NetState {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn arrival_time(&mut self) -> u64 {
        let latency_ns = self.entropy.below(self.config.latency_ns_max.max(1));
        self.now_ns() + 1 + latency_ns
    }

    fn schedule(&mut self, at_ns: u64, arrival: Arrival) {
        self.sequence += 1;
        self.arrivals.insert((at_ns, self.sequence), arrival);
    }

    fn runnable(&self) -> Vec<usize> {
        let now_ns = self.now_ns();
        let is_runnable = |thread: &ThreadState| {
            let has_news = thread.is_ready || thread.waker.is_notified();
            !thread.is_gone && has_news || thread.deadline_ns.is_some_and(|deadline_ns| deadline_ns <= now_ns)
        };
        (0..self.threads.len()).filter(|&index| is_runnable(&self.threads[index])).collect()
    }

    fn advance(&mut self, end_ns: u64) -> bool {
        let arrival_ns = self.arrivals.first_key_value().map(|(&(at_ns, _), _)| at_ns);
        let now_ns = self.now_ns();
        let deadline_ns = self.threads.iter().filter_map(|thread| thread.deadline_ns).min();
        match arrival_ns.into_iter().chain(deadline_ns.filter(|&at_ns| at_ns > now_ns)).min() {
            None => false,
            Some(next_ns) if next_ns > end_ns => false,
            Some(next_ns) => {
                self.now_ns.fetch_max(next_ns, Ordering::Relaxed);
                self.arrive();
                true
            }
        }
    }

    /// Delivers everything that is due.
    fn arrive(&mut self) {
        while let Some(entry) = self.arrivals.first_entry()
            && entry.key().0 <= self.now_ns.load(Ordering::Relaxed)
        {
            let arrival = entry.remove();
            if self.is_parted(arrival.link()) {
                self.held.push(arrival);
                continue;
            }
            let cut_one_in = self.config.cut_one_in;
            match arrival {
                Arrival::Bytes { link, .. } if cut_one_in > 0 && self.entropy.one_in(cut_one_in) => {
                    self.reset(link, 0);
                    self.reset(link, 1);
                }
                Arrival::Connection { listener, link } => {
                    self.listeners[listener].waiting.push_back(link);
                    self.make_ready(self.listeners[listener].owner);
                }
                Arrival::Bytes { link, side, bytes } => {
                    let closed = self.links[link].is_closed[side];
                    let pipe = &mut self.links[link].pipes[side];
                    pipe.in_transit_bytes -= bytes.len();
                    if closed {
                        // The receiving side is closed, so the sender gets a reset.
                        let at_ns = self.arrival_time();
                        self.schedule(at_ns, Arrival::Reset { link, side: 1 - side });
                    } else if !pipe.is_reset {
                        pipe.arrived.extend(bytes);
                        self.make_ready(self.links[link].owners[side]);
                    }
                }
                Arrival::End { link, side } => {
                    self.links[link].pipes[side].has_ended = true;
                    self.make_ready(self.links[link].owners[side]);
                }
                Arrival::Reset { link, side } => self.reset(link, side),
            }
        }
    }

    fn is_parted(&self, link: usize) -> bool {
        let [Some(a), Some(b)] = self.links[link].machines else { return false };
        self.parted.contains(&(a.min(b), a.max(b)))
    }

    fn reset(&mut self, link: usize, side: usize) {
        self.links[link].pipes[side].is_reset = true;
        self.make_ready(self.links[link].owners[side]);
    }

    fn make_ready(&mut self, owner: Option<usize>) {
        match owner {
            Some(thread) => self.threads[thread].is_ready = true,
            None => self.has_client_news = true,
        }
    }

    fn write(&mut self, link: usize, side: usize, bytes: &[u8]) -> io::Result<usize> {
        if self.links[link].pipes[side].is_reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let pipe = &self.links[link].pipes[1 - side];
        if pipe.is_end_sent {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let room = pipe.window_bytes.saturating_sub(pipe.in_transit_bytes + pipe.arrived.len());
        let mut len = bytes.len().min(room);
        if len == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // Sometimes a short write.
        if self.entropy.one_in(4) {
            len = 1 + self.entropy.below(len as u64) as usize;
        }
        if side == 1 {
            self.links[link].tap.extend_from_slice(&bytes[..len]);
        }
        let mut rest = &bytes[..len];
        while !rest.is_empty() {
            let piece_len = match self.entropy.below(3) {
                0 => 1 + self.entropy.below(rest.len().min(16) as u64) as usize,
                1 => 1 + self.entropy.below(rest.len() as u64) as usize,
                _ => rest.len(),
            };
            let (piece, after) = rest.split_at(piece_len);
            let at_ns = self.in_order(link, 1 - side);
            self.links[link].pipes[1 - side].in_transit_bytes += piece.len();
            self.schedule(at_ns, Arrival::Bytes { link, side: 1 - side, bytes: piece.to_vec() });
            rest = after;
        }
        Ok(len)
    }

    /// A time of arrival at `side` after everything else that is on its way there.
    fn in_order(&mut self, link: usize, side: usize) -> u64 {
        let at_ns = self.arrival_time().max(self.links[link].pipes[side].last_arrival_ns);
        self.links[link].pipes[side].last_arrival_ns = at_ns;
        at_ns
    }

    fn read(&mut self, link: usize, side: usize, max: usize) -> Read {
        let pipe = &mut self.links[link].pipes[side];
        let len = pipe.arrived.len().min(max);
        if len > 0 {
            let bytes = pipe.arrived.drain(..len).collect();
            // The window has opened for the other side.
            self.make_ready(self.links[link].owners[1 - side]);
            Read::Bytes(bytes)
        } else if pipe.is_reset {
            Read::Reset
        } else if pipe.has_ended {
            Read::End
        } else {
            Read::Nothing
        }
    }

    fn finish(&mut self, link: usize, side: usize) {
        if !std::mem::replace(&mut self.links[link].pipes[1 - side].is_end_sent, true) {
            let at_ns = self.in_order(link, 1 - side);
            self.schedule(at_ns, Arrival::End { link, side: 1 - side });
        }
    }

    fn close(&mut self, link: usize, side: usize, with_reset: bool) {
        if std::mem::replace(&mut self.links[link].is_closed[side], true) {
            return;
        }
        self.links[link].owners[side] = None;
        let has_unread = !self.links[link].pipes[side].arrived.is_empty();
        if with_reset || has_unread {
            let at_ns = self.arrival_time();
            self.schedule(at_ns, Arrival::Reset { link, side: 1 - side });
        } else {
            self.finish(link, side);
        }
    }
}

impl Endpoint {
    /// Makes `thread` run when something reaches this side.
    pub(super) fn own(&self, thread: usize) {
        self.net.state().links[self.link].owners[self.side] = Some(thread);
    }

    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.net.state().write(self.link, self.side, bytes)
    }

    /// Records output that will not be written any more.
    pub(super) fn note_unsent(&self, bytes: &[u8]) {
        if self.side == 1 {
            self.net.state().links[self.link].tap.extend_from_slice(bytes);
        }
    }

    /// Another handle on the network and the number of the link.
    pub(super) fn tap(&self) -> SimTap {
        SimTap { net: self.net.clone(), link: self.link }
    }

    pub(super) fn read(&self, max: usize) -> Read {
        self.net.state().read(self.link, self.side, max)
    }

    /// Whether the other side has ended or cut the link, even if there are unread bytes.
    pub(super) fn has_hung_up(&self) -> bool {
        let state = self.net.state();
        let pipe = &state.links[self.link].pipes[self.side];
        pipe.has_ended || pipe.is_reset
    }

    /// Sends nothing more.
    pub(super) fn finish(&self) {
        self.net.state().finish(self.link, self.side);
    }

    /// Closes so that the other side sees a reset.
    pub(super) fn reset(&self) {
        self.net.state().close(self.link, self.side, true);
    }

    /// How much the other side may send ahead of what is read here.
    pub(super) fn set_window(&self, window_bytes: usize) {
        self.net.state().links[self.link].pipes[self.side].window_bytes = window_bytes;
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.net.state().close(self.link, self.side, false);
    }
}

impl SimListener {
    pub(super) fn own(&self, thread: usize) {
        self.net.state().listeners[self.index].owner = Some(thread);
    }

    pub(super) fn accept(&self) -> Option<Endpoint> {
        let link = self.net.state().listeners[self.index].waiting.pop_front()?;
        Some(Endpoint { net: self.net.clone(), link, side: 1 })
    }
}

impl Endpoint {
    /// A name for the other side, different for every connection.
    pub(crate) fn peer(&self) -> String {
        format!("10.1.{}.{}:{}", self.link / 250 % 250, self.link % 250 + 1, 20_000 + self.link % 40_000)
    }
}
