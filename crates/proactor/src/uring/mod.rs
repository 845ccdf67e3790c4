//! The driver on io_uring.
//!
//! Accepting and receiving are multishot: armed once, they complete for every connection and every arrival,
//! into buffers that the kernel picks from a ring. They are armed again when they run out of buffers or stop
//! for another reason. Sends are queued when a turn begins, one at a time per connection, so that one system
//! call passes all replies of a turn and fetches all that has arrived.
//!
//! A connection has `under_way` operations in the kernel. Their memory (the chunks being sent, the message
//! that lists them) belongs to its slot until the last of them has completed. So closing means: shut down,
//! cancel, wait for the last completion, close the descriptor, free the slot.
//!
//! ```text
//!   Open ──close(AfterFlush)──▶ Flushing ──all sent──▶ Draining ──peer ended──▶ Dead ──last completion──▶ free
//!     └──close(Now | Reset), or out of time ──────────────────────────────────▶─┘
//! ```
//!
//! On Unix sockets receiving is not multishot: the kernel may then never report that the peer has finished if
//! that follows closely on its last bytes (liburing issue 1549; with the fix for it, Linux 6.18.44 still did
//! so once in some 10,000 connections on a loaded machine). Single receives always see it.
//!
//! A paused connection continues to receive up to its limit; then its receive is cancelled and only a hang-up
//! is awaited. The sockets are in blocking mode: on non-blocking ones the kernel would give up operations.

mod buffers;
mod message;
mod probe;
mod ring;

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use crate::acceptor::Acceptor;
use crate::connection::{Care, Connection, ConnectionState};
use crate::connections::{Connections, Limits};
use crate::event::{ConnId, Event};
use crate::socket::KernelSocket;
use crate::turn::{Backend, Flush, Thread};
use crate::{CloseMode, Config, Error, Listener, sooner, sys};
use buffers::BufferRing;
use message::Message;
use ring::{Completion, FULL, OpKind, Ring, SMALL, Sizes, Tag, ToSend};

/// After this many events a turn takes no more completions.
const EVENTS_MAX: usize = 256;
/// After this many received bytes a turn takes no more: a client that sends more waits while others are
/// served.
const TURN_BYTES_MAX: usize = 1 << 20;
/// Bytes that a completion counts as, in addition to its own.
const COMPLETION_BYTES: usize = 2048;

/// This driver's part of a connection.
#[derive(Debug)]
pub(crate) struct Socket {
    kernel: KernelSocket,
    /// Operations whose last completion has not arrived yet.
    under_way: u32,
    is_receiving: bool,
    is_stopping: bool,
    is_sending: bool,
    is_watching: bool,
    message: Option<Box<Message>>,
}

impl Socket {
    fn new(kernel: KernelSocket) -> Socket {
        Socket {
            kernel,
            under_way: 0,
            is_receiving: false,
            is_stopping: false,
            is_sending: false,
            is_watching: false,
            message: None,
        }
    }
}

/// One thread's connections, on io_uring.
#[derive(Debug)]
pub struct UringDriver {
    // Dropped in this order: the ring first, so that the kernel lets go of the memory of the others.
    ring: Ring,
    buffers: BufferRing,
    connections: Connections<Socket>,
    thread: Thread,
    acceptor: Acceptor,
    completions: Vec<Completion>,
    /// Whether the queues and buffers are those of a thread with connections.
    is_awake: bool,
    receive_buffers: u16,
}

impl UringDriver {
    /// Opens the driver if everything it needs works here.
    pub(crate) fn open(config: &Config, limits: Limits) -> Result<UringDriver, Error> {
        probe::multishot_receive()
            .map_err(|(step, error)| Error::NoRing { why: format!("{step}: {error}") })?;
        let thread = Thread::new(config.poll_us)?;
        let (ring, buffers) = open(SMALL, config.receive_buffers)?;
        let connections = Connections::new(limits);
        let acceptor = Acceptor::default();
        let mut driver = UringDriver {
            ring,
            buffers,
            connections,
            thread,
            acceptor,
            completions: Vec::new(),
            is_awake: false,
            receive_buffers: config.receive_buffers,
        };
        driver.watch_bell();
        Ok(driver)
    }

    fn watch_bell(&mut self) {
        if let Some(bell) = self.thread.waker.bell() {
            self.ring.watch_bell(bell.as_fd().as_raw_fd(), Tag::numbered(OpKind::Bell, 0));
        }
    }

    /// A connection comes: the queues and buffers must be those of a thread that serves some.
    #[inline]
    fn wake_up(&mut self) {
        if !self.is_awake {
            self.resize(FULL);
        }
        self.buffers.begin();
    }

    /// Replaces queues and buffers, while nothing except the bell is watched yet, or any more. If the system
    /// refuses the new ones, the old ones are kept: they are only slower.
    #[cold]
    fn resize(&mut self, sizes: Sizes) {
        self.is_awake = sizes == FULL;
        match open(sizes, self.receive_buffers) {
            // The old ring is dropped before its buffers.
            Ok((ring, buffers)) => {
                self.ring = ring;
                self.buffers = buffers;
                self.watch_bell();
            }
            Err(error) => tracing::debug!("the queues keep their size: {error}"),
        }
    }

    /// Frees memory that was not needed since the last call: for calls some seconds apart. Without connections, all
    /// buffers and the large queues of an `elastic` thread go. Another one has a connection again soon, and keeps its
    /// queues and the first buffers for it.
    pub(crate) fn give_back_unused(&mut self, elastic: bool) {
        self.buffers.give_back_unused();
        self.connections.pool.give_back_unused();
        let is_unused = self.buffers.has_begun()
            && !self.connections.has_some()
            && self.acceptor.numbers().next().is_none();
        if is_unused && (elastic || self.buffers.has_grown()) {
            self.completions = Vec::new();
            // The kernel gives buffers back only with the queues they were registered for.
            self.resize(if elastic { SMALL } else { FULL });
        }
    }

    pub(crate) fn listen(&mut self, listener: Listener) -> io::Result<usize> {
        if let Some(fd) = listener.fd() {
            sys::set_blocking(fd)?;
        }
        // Before the listener is added: no accepted connection may be lost with the old ring.
        self.wake_up();
        let number = self.acceptor.add(listener);
        self.accept(number);
        Ok(number)
    }

    fn accept(&mut self, number: usize) {
        if let Some(fd) = self.acceptor.listener(number).and_then(Listener::fd) {
            self.ring.accept(fd.as_raw_fd(), Tag::numbered(OpKind::Accept, number as u32));
        }
    }

    pub(crate) fn adopt(&mut self, kernel: KernelSocket) -> ConnId {
        self.wake_up();
        let id = self.connections.insert(Socket::new(kernel));
        self.read_on(id.slot);
        id
    }

    pub(crate) fn detach(&mut self, id: ConnId) {
        if self.connections.begin_detaching(id) {
            self.read_on(id.slot);
        }
    }

    pub(crate) fn take(&mut self, id: ConnId) -> Option<(Connection<()>, KernelSocket)> {
        let (connection, link) = self.connections.take(id, Self::is_free)?.relink(());
        Some((connection, link.kernel))
    }

    pub(crate) fn attach(&mut self, connection: Connection<()>, kernel: KernelSocket) -> ConnId {
        self.wake_up();
        let id = self.connections.attach(connection.relink(Socket::new(kernel)).0);
        self.read_on(id.slot);
        id
    }

    pub(crate) fn close(&mut self, id: ConnId, mode: CloseMode) {
        if mode == CloseMode::AfterFlush {
            let now_ns = self.thread.clock.monotonic_ns();
            if self.connections.begin_close(id, now_ns) {
                // Input is discarded from here on, but its end has to be noticed.
                self.read_on(id.slot);
            }
        } else if self.connections.open(id).is_some() {
            self.cut(id.slot, mode);
        }
    }

    /// Ends a connection without sending its output.
    fn cut(&mut self, slot: u32, mode: CloseMode) {
        let Some(connection) = self.connections.occupant(slot) else { return };
        let fd = connection.link.kernel.fd.as_fd();
        // A socket that is already gone needs neither.
        let _ = match mode {
            CloseMode::Reset => sys::reset_on_close(fd),
            // Not in both directions: bytes that the ring receives until it is cancelled would open no
            // window, and a peer that sends would wait for one until the kernel gives the connection up, a
            // minute later. So it gets a reset.
            CloseMode::Now | CloseMode::AfterFlush => sys::shutdown(fd, Shutdown::Write),
        };
        self.abandon(slot);
    }

    /// Cancels everything in progress; the slot is freed when nothing of it is left in the kernel.
    fn abandon(&mut self, slot: u32) {
        let id = self.connections.name(slot);
        let Some(connection) = self.connections.occupant(slot) else { return };
        connection.state = ConnectionState::Dead;
        connection.output.clear();
        if connection.link.under_way > 0 {
            connection.link.under_way += 1;
            let fd = connection.link.kernel.fd.as_raw_fd();
            self.ring.cancel_all(fd, Tag::new(OpKind::Cancel, id));
        } else {
            self.connections.free(slot);
        }
    }

    /// Receives, or waits for a hang-up, as the connection's state requires.
    fn read_on(&mut self, slot: u32) {
        let id = self.connections.name(slot);
        let wants_input = self.connections.wants_input(slot);
        let Some(connection) = self.connections.occupant(slot) else { return };
        if connection.has_ended || connection.state == ConnectionState::Dead {
            return;
        }
        let link = &mut connection.link;
        let fd = link.kernel.fd.as_raw_fd();
        match (wants_input, link.is_receiving) {
            (true, false) => {
                link.is_receiving = true;
                link.under_way += 1;
                let tag = Tag::new(OpKind::Receive, id);
                if link.kernel.is_unix { self.ring.receive_once(fd, tag) } else { self.ring.receive(fd, tag) }
            }
            (false, true) if !link.is_stopping => {
                link.is_stopping = true;
                link.under_way += 1;
                self.ring.cancel(Tag::new(OpKind::Receive, id), Tag::new(OpKind::Cancel, id));
            }
            (false, false) if !link.is_watching && !connection.care.contains(Care::DETACHING) => {
                link.is_watching = true;
                link.under_way += 1;
                self.ring.watch_hang_up(fd, Tag::new(OpKind::HangUp, id));
            }
            // As wanted, or about to be: the completion of the operation in progress calls this again.
            (true, true) | (false, _) => {}
        }
    }

    /// Starts sending, unless that is in progress or there is nothing to send.
    fn send(&mut self, slot: u32) {
        let id = self.connections.name(slot);
        let Some((connection, pool)) = self.connections.occupant_and_pool(slot) else { return };
        if connection.link.is_sending || connection.state == ConnectionState::Dead {
            return;
        }
        connection.fill(pool);
        if connection.sending.is_empty() {
            return self.send_freed(slot);
        }
        let what = match connection.sending.only_slice() {
            // A chunk of 4 GiB or more is sent in parts.
            Some(only) => ToSend::Bytes(only.as_ptr(), u32::try_from(only.len()).unwrap_or(u32::MAX)),
            None => {
                let message = connection.link.message.get_or_insert_with(Message::new);
                ToSend::Message(message.point_at(&connection.sending))
            }
        };
        connection.link.is_sending = true;
        connection.link.under_way += 1;
        let fd = connection.link.kernel.fd.as_raw_fd();
        // SAFETY: `sending` and `message` belong to the slot and are not touched while `is_sending`; the slot
        // is not freed before the completion, and the ring is dropped before the slots.
        unsafe { self.ring.send(fd, what, Tag::new(OpKind::Send, id)) };
    }

    /// Starts sending output that was held until now; if there is none, a closing connection continues.
    fn send_freed(&mut self, slot: u32) {
        let has_output =
            self.connections.occupant(slot).is_some_and(|connection| !connection.output.is_empty());
        if has_output && self.connections.is_freed(slot) {
            self.send(slot);
        } else {
            self.finish_closing(slot);
        }
    }

    /// Takes the next step of closing a connection.
    fn finish_closing(&mut self, slot: u32) {
        let Some(connection) = self.connections.occupant(slot) else { return };
        if connection.state == ConnectionState::Open {
            return;
        }
        if connection.owes_goodbye() {
            self.connections.mark_dirty(slot);
        } else if connection.has_flushed() {
            // The socket may be gone already. Then the next receive reports it.
            let _ = sys::shutdown(connection.link.kernel.fd.as_fd(), Shutdown::Write);
            connection.state = ConnectionState::Draining;
        }
        if self.connections.occupant(slot).is_some_and(|connection| connection.is_over()) {
            self.abandon(slot);
        }
    }

    fn on_completion(&mut self, completion: Completion, events: &mut Vec<Event>) {
        let Completion { tag, .. } = completion;
        match tag.kind {
            OpKind::Accept => return self.on_accept(tag.id.slot as usize, completion, events),
            OpKind::Bell => return self.on_bell(completion),
            OpKind::Receive | OpKind::Send | OpKind::HangUp | OpKind::Cancel => {}
        }
        let slot = tag.id.slot;
        assert!(tag.is_of(self.connections.name(slot)), "a slot is reused only after its last completion");
        let Some(connection) = self.connections.occupant(slot) else { return };
        if !completion.has_more {
            connection.link.under_way -= 1;
        }
        match tag.kind {
            OpKind::Receive => self.on_receive(slot, completion, events),
            OpKind::Send => self.on_send(slot, completion, events),
            OpKind::HangUp => self.on_hang_up(slot, completion, events),
            OpKind::Cancel | OpKind::Accept | OpKind::Bell => {}
        }
        if let Some(connection) = self.connections.occupant(slot)
            && connection.state == ConnectionState::Dead
            && connection.link.under_way == 0
        {
            self.connections.free(slot);
        }
    }

    fn on_receive(&mut self, slot: u32, completion: Completion, events: &mut Vec<Event>) {
        let mut goes_on = completion.has_more;
        if let Some(connection) = self.connections.occupant(slot)
            && !goes_on
        {
            connection.link.is_receiving = false;
            connection.link.is_stopping = false;
        }
        match (completion.length(), completion.buffer) {
            (Ok(0), _) => self.connections.ended(slot, None, events),
            (Ok(len), Some(buffer)) => {
                goes_on &= self.connections.received(slot, self.buffers.bytes(buffer, len), events);
            }
            (Ok(_), None) => {}
            (Err(error), _) => match error.raw_os_error() {
                Some(libc::ENOBUFS) => self.buffers.grow(),
                // Stopped for a pause that may be over by now.
                Some(libc::ECANCELED | libc::EINTR | libc::EAGAIN) => {}
                _ => self.connections.ended(slot, Some(error.kind()), events),
            },
        }
        if let Some(buffer) = completion.buffer {
            self.buffers.give(buffer);
        }
        if !goes_on {
            self.read_on(slot);
            self.finish_closing(slot);
        }
    }

    fn on_send(&mut self, slot: u32, completion: Completion, events: &mut Vec<Event>) {
        let Some(connection) = self.connections.occupant(slot) else { return };
        connection.link.is_sending = false;
        match completion.length() {
            Ok(len) => {
                if self.connections.sent(slot, len, events) {
                    return self.finish_closing(slot);
                }
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR | libc::EAGAIN) => {}
                _ => self.connections.ended(slot, Some(error.kind()), events),
            },
        }
        self.send(slot);
    }

    fn on_hang_up(&mut self, slot: u32, completion: Completion, events: &mut Vec<Event>) {
        let Some(connection) = self.connections.occupant(slot) else { return };
        connection.link.is_watching = false;
        // If receiving has been started again, that will report the end.
        if completion.result > 0 && !connection.link.is_receiving {
            let is_cut = completion.result & i32::from(libc::POLLHUP | libc::POLLERR) != 0;
            let error = is_cut.then_some(io::ErrorKind::BrokenPipe);
            self.connections.ended(slot, error, events);
            self.finish_closing(slot);
        } else {
            self.read_on(slot);
        }
    }

    fn on_bell(&mut self, completion: Completion) {
        if !completion.has_more
            && let Some(bell) = self.thread.waker.bell()
        {
            self.ring.watch_bell(bell.as_fd().as_raw_fd(), completion.tag);
        }
    }

    fn on_accept(&mut self, number: usize, completion: Completion, events: &mut Vec<Event>) {
        let mut has_to_pause = false;
        match completion.length() {
            Ok(_) => {
                let fd = sys::own(completion.result);
                if let Some(listener) = self.acceptor.listener(number) {
                    events.push(Event::Accepted { socket: listener.accepted(fd), listener: number });
                }
                self.acceptor.succeeded();
            }
            Err(error) if !completion.has_more && self.acceptor.has_ended(number, &error) => return,
            Err(error) => {
                has_to_pause = self.acceptor.failed(&error, self.thread.clock.monotonic_ns());
            }
        }
        match (completion.has_more, has_to_pause) {
            (true, _) => {}
            (false, true) => self.acceptor.stopped(number),
            (false, false) => self.accept(number),
        }
    }
}

impl Flush for UringDriver {
    type Link = Socket;

    fn connections(&mut self) -> &mut Connections<Socket> {
        &mut self.connections
    }

    #[inline]
    fn send_dirty(&mut self, slot: u32, _events: &mut Vec<Event>) {
        self.send(slot);
    }

    fn read_resumed(&mut self, slot: u32) {
        self.read_on(slot);
    }

    fn end_overdue(&mut self, slot: u32) {
        self.cut(slot, CloseMode::Now);
    }

    #[inline]
    fn is_free(link: &Socket) -> bool {
        link.under_way == 0
    }

    fn accept_again(&mut self, now_ns: u64) {
        if self.acceptor.may_go_on(now_ns) {
            while let Some(number) = self.acceptor.take_stopped() {
                self.accept(number);
            }
        }
    }
}

impl Backend for UringDriver {
    fn thread(&mut self) -> &mut Thread {
        &mut self.thread
    }

    fn has_more(&mut self) -> bool {
        self.connections.has_dirty() || self.ring.has_completions()
    }

    fn next_deadline_ns(&mut self) -> Option<u64> {
        sooner(self.connections.next_deadline_ns(), self.acceptor.paused_until_ns())
    }

    fn collect(&mut self, wait: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        if wait != Some(Duration::ZERO) || self.ring.needs_kernel() {
            self.ring.enter(wait)?;
        }
        let mut taken_bytes = 0;
        while self.ring.has_completions() {
            let mut completions = std::mem::take(&mut self.completions);
            self.ring.take_completions(&mut completions);
            self.buffers
                .note_full(completions.iter().filter(|completion| completion.buffer.is_some()).count());
            for completion in completions.drain(..) {
                let received = if completion.buffer.is_some() { completion.length().unwrap_or(0) } else { 0 };
                taken_bytes += received + COMPLETION_BYTES;
                self.on_completion(completion, events);
            }
            self.completions = completions;
            // Otherwise a client that sends faster than it is served would be read for ever.
            if events.len() >= EVENTS_MAX || taken_bytes >= TURN_BYTES_MAX {
                break;
            }
            // The kernel produces few completions per call; take all that are ready before working on any.
            if !self.ring.has_completions() && self.ring.may_have_work() {
                self.ring.enter(Some(Duration::ZERO))?;
            }
        }
        Ok(())
    }
}

/// Opens queues of these sizes, with a ring of up to `receive_buffers` buffers.
fn open(sizes: Sizes, receive_buffers: u16) -> Result<(Ring, BufferRing), Error> {
    let ring = Ring::open(sizes).map_err(Error::setup("an io_uring"))?;
    let buffers = BufferRing::register(&ring.submitter(), receive_buffers)
        .map_err(Error::setup("a ring of receive buffers"))?;
    Ok((ring, buffers))
}
