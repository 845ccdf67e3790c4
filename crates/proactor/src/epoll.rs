//! The driver for kernels that refuse io_uring.
//!
//! Level-triggered: input and connections that are not taken in this turn are reported again in the next, so
//! a turn can be bounded without bookkeeping. There is one `recv` per readable connection and turn, into one
//! buffer that stays in the processor's cache; from there the bytes are appended to the connection's input.
//! Output is written when a turn begins, and only a full socket is watched for room. The eventfd is watched
//! for edges and never read.
//!
//! `epoll_event.u64` is the connection's name (generation above slot). Generation `u32::MAX` is for
//! everything else: the listeners, by number, and the bell. Stale events of a batch are recognized by their
//! generation.
//!
//! Invariant: the kernel watches exactly `Socket::interest`. A broken connection is not watched at all,
//! because EPOLLHUP and EPOLLERR cannot be switched off.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::acceptor::Acceptor;
use crate::connection::{Connection, State};
use crate::connections::{Connections, Limits};
use crate::event::{ConnId, Event};
use crate::sending::SEND_CHUNKS_MAX;
use crate::socket::KernelSocket;
use crate::turn::{Backend, Flush, Thread};
use crate::{CloseMode, Config, Error, Listener, sooner, sys};

/// Readiness events taken per turn.
const EVENTS_MAX: usize = 256;
/// Connections accepted per listener and turn.
const ACCEPTS_MAX: usize = 64;
/// Bytes received per connection and turn.
const RECEIVE_BYTES_MAX: usize = 64 * 1024;
/// Bytes written per connection and turn.
const WRITE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The generation that no connection has.
const NOT_A_CONNECTION: u32 = u32::MAX;
const BELL: ConnId = ConnId { slot: u32::MAX, generation: NOT_A_CONNECTION };

const READ: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP) as u32;
const HANG_UP: u32 = libc::EPOLLRDHUP as u32;
const WRITE: u32 = libc::EPOLLOUT as u32;

/// This driver's part of a connection.
#[derive(Debug)]
pub(crate) struct Socket {
    kernel: KernelSocket,
    interest: Option<u32>,
    is_full: bool,
}

/// One thread's connections, on epoll.
#[derive(Debug)]
pub struct EpollDriver {
    epoll: OwnedFd,
    thread: Thread,
    connections: Connections<Socket>,
    acceptor: Acceptor,
    ready: Vec<libc::epoll_event>,
    /// Empty until something is received.
    scratch: Box<[u8]>,
}

fn token(id: ConnId) -> u64 {
    u64::from(id.generation) << 32 | u64::from(id.slot)
}

fn control(epoll: BorrowedFd<'_>, operation: i32, fd: RawFd, interest: u32, id: ConnId) -> io::Result<()> {
    let mut event = libc::epoll_event { events: interest, u64: token(id) };
    // SAFETY: `event` is valid for the call; the kernel copies it.
    sys::check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation, fd, &raw mut event) })?;
    Ok(())
}

impl EpollDriver {
    pub(crate) fn open(config: &Config, limits: Limits) -> Result<EpollDriver, Error> {
        let thread = Thread::new(config.poll_us)?;
        // SAFETY: no pointers.
        let created = sys::check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) });
        let epoll = sys::own(created.map_err(Error::setup("an epoll instance"))?);
        if let Some(bell) = thread.waker.bell() {
            let edges = (libc::EPOLLIN | libc::EPOLLET) as u32;
            control(epoll.as_fd(), libc::EPOLL_CTL_ADD, bell.as_fd().as_raw_fd(), edges, BELL)
                .map_err(Error::setup("watching an eventfd"))?;
        }
        Ok(EpollDriver {
            epoll,
            thread,
            connections: Connections::new(limits),
            acceptor: Acceptor::default(),
            ready: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX],
            scratch: Box::default(),
        })
    }

    pub(crate) fn listen(&mut self, listener: Listener) -> io::Result<usize> {
        let number = self.acceptor.add(listener);
        self.watch_listener(number, READ)?;
        Ok(number)
    }

    fn watch_listener(&self, number: usize, interest: u32) -> io::Result<()> {
        let Some(fd) = self.acceptor.listener(number).and_then(Listener::fd) else { return Ok(()) };
        let id = ConnId { slot: number as u32, generation: NOT_A_CONNECTION };
        let change = |operation| control(self.epoll.as_fd(), operation, fd.as_raw_fd(), interest, id);
        change(libc::EPOLL_CTL_MOD).or_else(|_| change(libc::EPOLL_CTL_ADD))
    }

    pub(crate) fn adopt(&mut self, kernel: KernelSocket) -> ConnId {
        let id = self.connections.insert(Socket { kernel, interest: None, is_full: false });
        self.watch(id.slot);
        id
    }

    pub(crate) fn detach(&mut self, id: ConnId) {
        if self.connections.begin_detaching(id) {
            self.watch(id.slot);
        }
    }

    pub(crate) fn take(&mut self, id: ConnId) -> Option<(Connection<()>, KernelSocket)> {
        let (connection, link) = self.connections.take(id, Self::is_free)?.relink(());
        if link.interest.is_some() {
            // It can only fail if the connection was not watched.
            let _ = control(self.epoll.as_fd(), libc::EPOLL_CTL_DEL, link.kernel.fd.as_raw_fd(), 0, id);
        }
        Some((connection, link.kernel))
    }

    pub(crate) fn attach(&mut self, connection: Connection<()>, kernel: KernelSocket) -> ConnId {
        let link = Socket { kernel, interest: None, is_full: false };
        let id = self.connections.attach(connection.relink(link).0);
        self.watch(id.slot);
        id
    }

    /// Frees memory that was not needed since the last call: for calls some seconds apart.
    pub(crate) fn give_back_unused(&mut self) {
        self.connections.pool.give_back_unused();
        if !self.connections.has_some() {
            self.scratch = Box::default();
        }
    }

    pub(crate) fn close(&mut self, id: ConnId, mode: CloseMode) {
        match mode {
            CloseMode::AfterFlush => {
                let now_ns = self.thread.clock.monotonic_ns();
                if self.connections.begin_close(id, now_ns) {
                    // Input is discarded from here on, but its end has to be noticed.
                    self.watch(id.slot);
                }
            }
            CloseMode::Now | CloseMode::Reset => {
                let Some(connection) = self.connections.open(id) else { return };
                if mode == CloseMode::Reset {
                    // A socket that is already gone needs no reset.
                    let _ = sys::reset_on_close(connection.link.kernel.fd.as_fd());
                }
                self.connections.free(id.slot);
            }
        }
    }

    /// Tells the kernel which events to watch for, if they have changed.
    fn watch(&mut self, slot: u32) {
        let id = self.connections.name(slot);
        let Some(connection) = self.connections.occupant(slot) else { return };
        let (has_ended, is_broken, is_full) =
            (connection.has_ended, connection.is_broken(), connection.link.is_full);
        let (current, fd) = (connection.link.interest, connection.link.kernel.fd.as_raw_fd());
        let wanted = if is_broken {
            None
        } else {
            let reading = match (has_ended, self.connections.wants_input(slot)) {
                (true, _) => 0,
                (false, true) => READ,
                (false, false) => HANG_UP,
            };
            Some(reading | if is_full { WRITE } else { 0 })
        };
        if wanted == current {
            return;
        }
        let operation = match (current, wanted) {
            (None, _) => libc::EPOLL_CTL_ADD,
            (Some(_), Some(_)) => libc::EPOLL_CTL_MOD,
            (Some(_), None) => libc::EPOLL_CTL_DEL,
        };
        match control(self.epoll.as_fd(), operation, fd, wanted.unwrap_or(0), id) {
            Ok(()) => {
                if let Some(connection) = self.connections.occupant(slot) {
                    connection.link.interest = wanted;
                }
            }
            // Only a kernel without memory refuses. A connection that cannot be watched would hang for ever,
            // so it is ended.
            Err(error) => {
                tracing::warn!(%error, "cannot watch a connection; it is closed");
                if let Some(connection) = self.connections.occupant(slot) {
                    let _ = sys::shutdown(connection.link.kernel.fd.as_fd(), std::net::Shutdown::Both);
                }
            }
        }
    }

    /// Writes until nothing is left, the socket is full, or the turn's share is used up.
    fn write(&mut self, slot: u32, events: &mut Vec<Event>) {
        let mut written = 0;
        let (is_full, failure) = loop {
            let Some((connection, pool)) = self.connections.occupant_and_pool(slot) else { return };
            connection.fill(pool);
            if connection.sending.is_empty() {
                if !connection.output.is_empty() && self.connections.is_freed(slot) {
                    continue;
                }
                break (false, None);
            }
            if written >= WRITE_BYTES_MAX {
                self.connections.mark_dirty(slot);
                break (false, None);
            }
            let mut slices = [IoSlice::new(&[]); SEND_CHUNKS_MAX];
            let count = connection.sending.slices(&mut slices);
            match sys::send(connection.link.kernel.fd.as_fd(), &slices[..count]) {
                Ok(len) => {
                    written += len;
                    if self.connections.sent(slot, len, events) {
                        break (false, None);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break (true, None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break (false, Some(error.kind())),
            }
        };
        if failure.is_some() {
            self.connections.ended(slot, failure, events);
        }
        let Some(connection) = self.connections.occupant(slot) else { return };
        let was_full = std::mem::replace(&mut connection.link.is_full, is_full);
        if was_full != is_full || failure.is_some() {
            self.watch(slot);
        }
        self.finish_closing(slot);
    }

    /// Takes the next step of closing a connection.
    fn finish_closing(&mut self, slot: u32) {
        let Some(connection) = self.connections.occupant(slot) else { return };
        if connection.state == State::Open {
            return;
        }
        if connection.owes_goodbye() {
            self.connections.mark_dirty(slot);
        } else if connection.has_flushed() {
            // The socket may be gone already. Then the next read reports it.
            let _ = sys::shutdown(connection.link.kernel.fd.as_fd(), std::net::Shutdown::Write);
            connection.state = State::Draining;
        }
        if self.connections.occupant(slot).is_some_and(|connection| connection.is_over()) {
            self.connections.free(slot);
        }
    }

    fn on_connection(&mut self, id: ConnId, ready: u32, events: &mut Vec<Event>) {
        let Some(connection) = self.connections.occupant_named(id) else { return };
        if ready & WRITE != 0 && connection.link.is_full {
            self.write(id.slot, events);
        }
        let Some(connection) = self.connections.occupant_named(id) else { return };
        let has_hung_up = ready & (libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0;
        if ready & libc::EPOLLIN as u32 != 0 && connection.link.interest.is_some_and(|i| i & READ == READ) {
            self.read(id.slot, events);
        } else if has_hung_up && connection.link.interest.is_some() {
            self.cut(id.slot, events);
        } else if ready & HANG_UP != 0 && !connection.has_ended {
            self.connections.ended(id.slot, None, events);
            self.watch(id.slot);
        }
        self.finish_closing(id.slot);
    }

    fn read(&mut self, slot: u32, events: &mut Vec<Event>) {
        let Some(connection) = self.connections.occupant(slot) else { return };
        if self.scratch.is_empty() {
            self.scratch = vec![0; RECEIVE_BYTES_MAX].into_boxed_slice();
        }
        match sys::receive(connection.link.kernel.fd.as_fd(), &mut self.scratch) {
            Ok(0) => self.connections.ended(slot, None, events),
            Ok(len) => {
                if self.connections.received(slot, &self.scratch[..len], events) {
                    return;
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return;
            }
            Err(error) => self.connections.ended(slot, Some(error.kind()), events),
        }
        self.watch(slot);
    }

    /// The connection broke, or both directions have ended.
    fn cut(&mut self, slot: u32, events: &mut Vec<Event>) {
        let Some(connection) = self.connections.occupant(slot) else { return };
        let mut probe = [0];
        // No more data are read after this, so this read only tells the reason: an error, or zero for a
        // proper end.
        let error = match sys::receive(connection.link.kernel.fd.as_fd(), &mut probe) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => error.kind(),
            Ok(_) | Err(_) => io::ErrorKind::BrokenPipe,
        };
        self.connections.ended(slot, Some(error), events);
        self.watch(slot);
    }

    fn accept(&mut self, number: usize, events: &mut Vec<Event>) {
        for _ in 0..ACCEPTS_MAX {
            let Some(listener) = self.acceptor.listener(number) else { return };
            let Some(fd) = listener.fd() else { return };
            match sys::accept(fd) {
                Ok(fd) => {
                    events.push(Event::Accepted { socket: listener.accepted(fd), listener: number });
                    self.acceptor.succeeded();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if self.acceptor.has_ended(number, &error) => return,
                Err(error) => {
                    if self.acceptor.failed(&error, self.thread.clock.monotonic_ns()) {
                        self.watch_listeners(0);
                        return;
                    }
                }
            }
        }
    }

    fn watch_listeners(&self, interest: u32) {
        for number in self.acceptor.numbers() {
            if let Err(error) = self.watch_listener(number, interest) {
                tracing::warn!(%error, "cannot watch a listening socket");
            }
        }
    }
}

impl Flush for EpollDriver {
    type Link = Socket;

    fn connections(&mut self) -> &mut Connections<Socket> {
        &mut self.connections
    }

    #[inline]
    fn send_dirty(&mut self, slot: u32, events: &mut Vec<Event>) {
        if self.connections.occupant(slot).is_some_and(|connection| !connection.link.is_full) {
            self.write(slot, events);
        }
    }

    fn read_resumed(&mut self, slot: u32) {
        self.watch(slot);
    }

    fn end_overdue(&mut self, slot: u32) {
        self.connections.free(slot);
    }

    #[inline]
    fn is_free(_link: &Socket) -> bool {
        true
    }

    fn accept_again(&mut self, now_ns: u64) {
        if self.acceptor.may_go_on(now_ns) {
            self.watch_listeners(READ);
        }
    }
}

impl Backend for EpollDriver {
    fn thread(&mut self) -> &mut Thread {
        &mut self.thread
    }

    fn has_more(&mut self) -> bool {
        self.connections.has_dirty()
    }

    fn next_deadline_ns(&mut self) -> Option<u64> {
        sooner(self.connections.next_deadline_ns(), self.acceptor.paused_until_ns())
    }

    fn collect(&mut self, wait: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        // Rounded up, so that a wait never ends before its deadline and turns into polling.
        let wait_ms = match wait {
            None => -1,
            Some(wait) => i32::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX),
        };
        let (epoll, capacity) = (self.epoll.as_raw_fd(), self.ready.len() as i32);
        // SAFETY: `ready` has room for `capacity` events.
        let waited =
            sys::check(unsafe { libc::epoll_wait(epoll, self.ready.as_mut_ptr(), capacity, wait_ms) });
        let count = match waited {
            Ok(count) => count as usize,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        for index in 0..count {
            let libc::epoll_event { events: ready, u64: token } = self.ready[index];
            let id = ConnId { slot: token as u32, generation: (token >> 32) as u32 };
            if id == BELL {
                // The notice itself is the message. The edge needs no reset.
            } else if id.generation == NOT_A_CONNECTION {
                self.accept(id.slot as usize, events);
            } else {
                self.on_connection(id, ready, events);
            }
        }
        Ok(())
    }
}
