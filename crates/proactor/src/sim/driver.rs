//! The driver of one simulated thread.
//!
//! It has the same table of connections and the same steps as the real drivers, with reads and writes on
//! simulated links. Ready connections are visited beginning at a random one, so that nothing can rely on
//! their order.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::net::Read;
use super::{Endpoint, SimNet};
use crate::connection::{Connection, ConnectionState};
use crate::connections::{Connections, Limits};
use crate::event::{ConnId, Event};
use crate::idle::IdlePolicy;
use crate::listener::ListenerLink;
use crate::sending::SEND_CHUNKS_MAX;
use crate::turn::{Flush, Thread};
use crate::{CloseMode, Config, Entropy, Listener, Socket, Waker};

/// Bytes received per connection and turn.
const RECEIVE_BYTES_MAX: u64 = 64 * 1024;

/// One simulated thread's connections.
#[derive(Debug)]
pub struct SimDriver {
    net: SimNet,
    index: usize,
    thread: Thread,
    connections: Connections<Endpoint>,
    listeners: Vec<Listener>,
}

impl Flush for SimDriver {
    type Link = Endpoint;

    fn connections(&mut self) -> &mut Connections<Endpoint> {
        &mut self.connections
    }

    fn send_dirty(&mut self, slot: u32, events: &mut Vec<Event>) {
        self.write(slot, events);
    }

    /// Does nothing, because each turn checks all connections.
    fn read_resumed(&mut self, _slot: u32) {}

    fn end_overdue(&mut self, slot: u32) {
        self.drop_output(slot);
        self.connections.free(slot);
    }

    /// Does nothing, because each turn accepts.
    fn accept_again(&mut self, _now_ns: u64) {}

    fn is_free(_link: &Endpoint) -> bool {
        true
    }
}

impl SimDriver {
    pub(crate) fn new(net: SimNet, config: &Config) -> SimDriver {
        let waker = Arc::new(Waker::without_bell());
        let index = net.add_thread(waker.clone());
        let thread = Thread { waker, clock: net.clock(), idle: IdlePolicy::new(0), polled_ns: 0 };
        let connections = Connections::new(Limits::of(config));
        SimDriver { net, index, thread, connections, listeners: Vec::new() }
    }

    pub(crate) fn thread(&mut self) -> &mut Thread {
        &mut self.thread
    }

    pub(crate) fn entropy(&self) -> Entropy {
        self.net.entropy()
    }

    pub(crate) fn listen(&mut self, listener: Listener) -> io::Result<usize> {
        match &listener.link {
            ListenerLink::Simulated(simulated) => simulated.own(self.index),
            ListenerLink::Tcp(_) | ListenerLink::Unix(..) => {
                return Err(io::Error::other("a simulated driver listens on simulated addresses"));
            }
        }
        self.listeners.push(listener);
        Ok(self.listeners.len() - 1)
    }

    pub(crate) fn adopt(&mut self, endpoint: Endpoint) -> ConnId {
        endpoint.own(self.index);
        // Something may have arrived before it had an owner.
        self.thread.waker.wake();
        self.connections.insert(endpoint)
    }

    pub(crate) fn detach(&mut self, id: ConnId) {
        self.connections.begin_detaching(id);
        // It may be reported in the next turn.
        self.thread.waker.wake();
    }

    pub(crate) fn take(&mut self, id: ConnId) -> Option<(Connection<()>, Endpoint)> {
        Some(self.connections.take(id, Self::is_free)?.relink(()))
    }

    pub(crate) fn attach(&mut self, connection: Connection<()>, endpoint: Endpoint) -> ConnId {
        endpoint.own(self.index);
        self.thread.waker.wake();
        self.connections.attach(connection.relink(endpoint).0)
    }

    pub(crate) fn close(&mut self, id: ConnId, mode: CloseMode) {
        match mode {
            CloseMode::AfterFlush => {
                let now_ns = self.thread.clock.monotonic_ns();
                self.connections.begin_close(id, now_ns);
            }
            CloseMode::Now | CloseMode::Reset => {
                let Some(connection) = self.connections.open(id) else { return };
                if mode == CloseMode::Reset {
                    connection.link.reset();
                }
                self.drop_output(id.slot);
                self.connections.free(id.slot);
            }
        }
    }

    pub(crate) fn turn(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        self.connections.begin_turn();
        self.net.begin_turn(self.index);
        self.thread.waker.rise();
        let now_ns = self.thread.clock.monotonic_ns();
        self.flush(now_ns, events);
        self.accept(events);
        let count = self.connections.slot_count();
        let first = if count == 0 { 0 } else { self.net.below(u64::from(count)) as u32 };
        for slot in (first..count).chain(0..first) {
            self.serve(slot, events);
        }
        self.connections.report_detached(Self::is_free, events);
        if self.thread.waker.take_notice() {
            events.push(Event::Wake);
        }
        let has_done_something =
            !events.is_empty() || self.connections.has_dirty() || self.connections.is_held_anew;
        let timeout_ns = timeout.map(|wait| u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
        let deadlines =
            [timeout_ns.map(|wait_ns| now_ns.saturating_add(wait_ns)), self.connections.next_deadline_ns()];
        self.net.end_turn(self.index, has_done_something, deadlines.into_iter().flatten().min());
        // A parked thread counts as asleep, unless there is a notice already.
        let _is_asleep = !has_done_something && self.thread.waker.try_sleep();
        Ok(())
    }

    fn accept(&mut self, events: &mut Vec<Event>) {
        for (number, listener) in self.listeners.iter().enumerate() {
            let ListenerLink::Simulated(simulated) = &listener.link else { continue };
            while let Some(endpoint) = simulated.accept() {
                let peer = endpoint.peer();
                let socket = Socket::simulated(endpoint, peer, listener.local().to_owned());
                events.push(Event::Accepted { socket, listener: number });
            }
        }
    }

    /// Reads, and continues writing the bytes that the window did not take before.
    fn serve(&mut self, slot: u32, events: &mut Vec<Event>) {
        if self.connections.wants_input(slot) {
            self.read(slot, events);
        } else if let Some(connection) = self.connections.occupant(slot)
            && !connection.has_ended
            && connection.link.has_hung_up()
        {
            self.connections.ended(slot, None, events);
        }
        if self.connections.occupant(slot).is_some_and(|connection| !connection.sending.is_empty()) {
            self.write(slot, events);
        }
        self.finish_closing(slot);
    }

    fn read(&mut self, slot: u32, events: &mut Vec<Event>) {
        let max = 1 + self.net.below(RECEIVE_BYTES_MAX) as usize;
        let Some(connection) = self.connections.occupant(slot) else { return };
        match connection.link.read(max) {
            Read::Bytes(bytes) => drop(self.connections.received(slot, &bytes, events)),
            Read::Nothing => {}
            Read::End => self.connections.ended(slot, None, events),
            Read::Reset => self.connections.ended(slot, Some(io::ErrorKind::ConnectionReset), events),
        }
    }

    fn write(&mut self, slot: u32, events: &mut Vec<Event>) {
        loop {
            if self.connections.occupant(slot).is_some_and(|connection| connection.is_broken()) {
                self.drop_output(slot);
            }
            let Some((connection, pool)) = self.connections.occupant_and_pool(slot) else { return };
            connection.fill(pool);
            let mut slices = [io::IoSlice::new(&[]); SEND_CHUNKS_MAX];
            if connection.sending.slices(&mut slices) == 0 {
                if !connection.output.is_empty() && self.connections.is_freed(slot) {
                    continue;
                }
                break;
            }
            match connection.link.write(&slices[0]) {
                Ok(len) => drop(self.connections.sent(slot, len, events)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => self.connections.ended(slot, Some(error.kind()), events),
            }
        }
        self.finish_closing(slot);
    }

    /// Drops output that can no longer be sent; the tap still shows it.
    fn drop_output(&mut self, slot: u32) {
        let Some((connection, pool)) = self.connections.occupant_and_pool(slot) else { return };
        connection.output.release(u64::MAX);
        loop {
            connection.fill_to_the_last(pool);
            let mut slices = [io::IoSlice::new(&[]); SEND_CHUNKS_MAX];
            if connection.sending.slices(&mut slices) == 0 {
                return;
            }
            slices.iter().for_each(|slice| connection.link.note_unsent(slice));
            connection.sending.clear();
        }
    }

    fn finish_closing(&mut self, slot: u32) {
        let Some(connection) = self.connections.occupant(slot) else { return };
        if connection.state == ConnectionState::Open {
            return;
        }
        if connection.owes_goodbye() {
            self.connections.mark_dirty(slot);
        } else if connection.has_flushed() {
            connection.link.finish();
            connection.state = ConnectionState::Draining;
        }
        if self.connections.occupant(slot).is_some_and(|connection| connection.is_over()) {
            self.drop_output(slot);
            self.connections.free(slot);
        }
    }
}
