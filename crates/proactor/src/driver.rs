//! One thread's connections, independent of how bytes are moved.
//!
//! A turn sends queued output, waits, and reports what arrived. The server then takes out a connection's
//! [`Io`], runs its commands and puts it back:
//!
//! ```text
//!   loop {
//!       driver.turn(timeout, &mut events)?;
//!       for event in events.drain(..) {
//!           Accepted → driver.adopt(socket)        Data → take_io, parse, run, reply, put_io
//!           Closed   → driver.close(conn, Now)     Wake → check the inboxes
//!       }
//!   }
//! ```
//!
//! Everything queued during one pass of this loop is sent at the start of the next turn, with at most one
//! system call per connection (none with io_uring). Most of the throughput of pipelined load comes from that.
//!
//! A driver belongs to one thread. Other threads reach it through [`Inbox`](crate::Inbox) and [`Waker`].

use std::io;
use std::ops::RangeInclusive;
use std::sync::{Arc, Once};
use std::time::Duration;

use resp::Output;

use crate::codec::Codec;
use crate::connection::{Connection, Io, Sent, Usage};
use crate::connections::Limits;
use crate::epoll::EpollDriver;
use crate::event::{CloseMode, ConnId, Event};
use crate::sim::{SimDriver, SimNet};
use crate::socket::Link;
use crate::turn::{self, Backend, Flush};
use crate::uring::UringDriver;
use crate::{Clock, Config, Entropy, Error, IoChoice, Listener, Socket, Waker};

/// One thread's connections.
#[derive(Debug)]
pub enum Driver {
    /// io_uring: completions, with the fewest system calls.
    Uring(Box<UringDriver>),
    /// epoll: readiness, works everywhere.
    Epoll(Box<EpollDriver>),
    /// A simulated network; see [`SimNet`].
    Sim(Box<SimDriver>),
}

/// A connection on its way from one driver to another. Dropping it closes the connection.
#[derive(Debug)]
pub struct Detached {
    connection: Box<Connection<()>>,
    link: Link,
}

/// The panic message for mixing real and simulated sockets and drivers.
const MIXED_UP: &str = "simulated sockets are for simulated drivers and real ones for real";

/// Evaluates the same expression for each kind of driver.
macro_rules! each {
    ($driver:expr, $inner:ident => $body:expr) => {
        match $driver {
            Driver::Uring($inner) => $body,
            Driver::Epoll($inner) => $body,
            Driver::Sim($inner) => $body,
        }
    };
}

impl SimNet {
    /// A driver for the next simulated thread; threads are numbered from 0 in this order.
    pub fn driver(&self, config: &Config) -> Driver {
        Driver::Sim(Box::new(SimDriver::new(self.clone(), config)))
    }
}

impl Driver {
    /// Opens the driver that `config` asks for.
    pub fn open(config: &Config) -> Result<Driver, Error> {
        let uring = || Ok(Driver::Uring(Box::new(UringDriver::open(config, Limits::of(config))?)));
        let epoll = || Ok(Driver::Epoll(Box::new(EpollDriver::open(config, Limits::of(config))?)));
        match config.io {
            IoChoice::Uring => uring(),
            IoChoice::Epoll => epoll(),
            IoChoice::Auto => uring().or_else(|reason: Error| {
                // Only once for all threads, because the reason is the same.
                static SAID: Once = Once::new();
                SAID.call_once(|| tracing::info!("falling back to epoll: {reason}"));
                epoll()
            }),
        }
    }

    /// `io_uring` or `epoll`, for INFO and the log.
    pub fn name(&self) -> &'static str {
        match self {
            Driver::Uring(_) => "io_uring",
            Driver::Epoll(_) => "epoll",
            Driver::Sim(_) => "simulated",
        }
    }

    /// Accepts connections on `listener` from now on. Returns the number that its events contain.
    pub fn listen(&mut self, listener: Listener) -> io::Result<usize> {
        each!(self, inner => inner.listen(listener))
    }

    /// Makes `socket` one of this driver's connections.
    ///
    /// # Panics
    /// If one of the two is simulated and the other is not.
    pub fn adopt(&mut self, socket: Socket) -> ConnId {
        match (self, socket.link) {
            (Driver::Uring(inner), Link::Kernel(socket)) => inner.adopt(socket),
            (Driver::Epoll(inner), Link::Kernel(socket)) => inner.adopt(socket),
            (Driver::Sim(inner), Link::Simulated(endpoint)) => inner.adopt(endpoint),
            (Driver::Uring(_) | Driver::Epoll(_), Link::Simulated(_)) | (Driver::Sim(_), Link::Kernel(_)) => {
                panic!("{MIXED_UP}")
            }
        }
    }

    /// Does the same, and passes all bytes through `codec`, if there is one. The server sees plain bytes.
    pub fn adopt_coded(&mut self, socket: Socket, codec: Option<Box<dyn Codec>>) -> ConnId {
        let conn = self.adopt(socket);
        if let Some(codec) = codec {
            each!(self, inner => inner.connections().encode(conn, codec));
        }
        conn
    }

    /// Begins to detach a connection, to move it to another driver. Its input is no longer reported. When all
    /// its output is sent and the kernel has let go of it, a turn reports [`Event::Detached`]. Input that
    /// arrives meanwhile is kept for the other driver; the end of input is reported as usual.
    pub fn detach(&mut self, conn: ConnId) {
        each!(self, inner => inner.detach(conn));
    }

    /// Cancels [`detach`](Driver::detach): the connection stays.
    pub fn stop_detaching(&mut self, conn: ConnId) {
        each!(self, inner => inner.connections().end_detaching(conn));
    }

    /// Takes out a connection that was reported as detached. Its name stops working. `None` if it is gone, or
    /// has output again: then it is still being detached, but will not be reported again.
    pub fn take(&mut self, conn: ConnId) -> Option<Detached> {
        let (connection, link) = match self {
            Driver::Uring(inner) => {
                inner.take(conn).map(|(connection, socket)| (connection, Link::Kernel(socket)))
            }
            Driver::Epoll(inner) => {
                inner.take(conn).map(|(connection, socket)| (connection, Link::Kernel(socket)))
            }
            Driver::Sim(inner) => {
                inner.take(conn).map(|(connection, end)| (connection, Link::Simulated(end)))
            }
        }?;
        Some(Detached { connection: Box::new(connection), link })
    }

    /// Adds a connection that was taken out of another driver. Its received input is reported in the next
    /// turn.
    ///
    /// # Panics
    /// If one of the two is simulated and the other is not.
    pub fn attach(&mut self, Detached { connection, link }: Detached) -> ConnId {
        match (self, link) {
            (Driver::Uring(inner), Link::Kernel(socket)) => inner.attach(*connection, socket),
            (Driver::Epoll(inner), Link::Kernel(socket)) => inner.attach(*connection, socket),
            (Driver::Sim(inner), Link::Simulated(endpoint)) => inner.attach(*connection, endpoint),
            (Driver::Uring(_) | Driver::Epoll(_), Link::Simulated(_)) | (Driver::Sim(_), Link::Kernel(_)) => {
                panic!("{MIXED_UP}")
            }
        }
    }

    /// How long this thread has polled instead of sleeping.
    pub fn polled_ns(&mut self) -> u64 {
        each!(self, inner => inner.thread().polled_ns)
    }

    /// Sends queued output, waits for events for at most `timeout` (`None`: forever; zero: not at all), and
    /// replaces `events` by those that have happened. A driver that was just busy may poll for a moment
    /// before it sleeps.
    ///
    /// Fails only if the driver itself is broken; errors of single connections are events.
    pub fn turn(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        match self {
            Driver::Uring(inner) => turn::run(&mut **inner, timeout, events),
            Driver::Epoll(inner) => turn::run(&mut **inner, timeout, events),
            Driver::Sim(inner) => inner.turn(timeout, events),
        }
    }

    /// Takes out the connection's input and output, until [`put_io`](Driver::put_io). `None` if the name no
    /// longer works.
    pub fn take_io(&mut self, conn: ConnId) -> Option<Io> {
        each!(self, inner => inner.connections().take_io(conn))
    }

    /// Puts back what [`take_io`](Driver::take_io) returned. Input that arrived meanwhile follows the
    /// remaining input; output that was appended meanwhile follows the output that is put back. Dropped if
    /// the name no longer works.
    pub fn put_io(&mut self, conn: ConnId, io: Io) {
        each!(self, inner => inner.connections().put_io(conn, io));
    }

    /// The connection's output, for appending. It is flushed when the next turn begins.
    pub fn output_mut(&mut self, conn: ConnId) -> Option<&mut Output> {
        each!(self, inner => inner.connections().output_mut(conn))
    }

    /// Lets output that is held for slices up to this one be sent when the next turn begins; see
    /// [`Output::hold_from`]. Before the first call all held output stays. A closing connection also waits
    /// for its held output.
    pub fn release(&mut self, slice: u64) {
        each!(self, inner => inner.connections().release(slice));
    }

    /// Whether an earlier turn left output unsent because it is held.
    #[inline]
    pub fn is_holding(&mut self) -> bool {
        each!(self, inner => inner.connections().is_holding())
    }

    /// The lowest slice for which an earlier turn left output unsent. A turn that finds more held output does
    /// not sleep.
    pub fn held_for(&mut self) -> Option<u64> {
        each!(self, inner => inner.connections().held_for())
    }

    /// From now on output that waits for one of these slices is never sent, even if the slice is
    /// [released](Driver::release), because the changes that it reports are undone.
    pub fn lose(&mut self, slices: RangeInclusive<u64>) {
        each!(self, inner => inner.connections().lose(slices));
    }

    /// Cancels [`lose`](Driver::lose): from now on no slice is lost.
    pub fn lose_nothing(&mut self) {
        self.lose(RangeInclusive::new(1, 0));
    }

    /// The connections with output that an earlier turn left unsent and that waits for a [lost](Driver::lose)
    /// slice: they have to be closed.
    pub fn losers(&mut self) -> Vec<ConnId> {
        each!(self, inner => inner.connections().losers())
    }

    /// How far an open connection has sent its output. If it has sent everything, its memory is given up.
    pub fn check_sent(&mut self, conn: ConnId) -> Option<Sent> {
        each!(self, inner => inner.connections().check_sent(conn))
    }

    /// Bytes of output that are queued, whether held or not, or on their way into the socket.
    pub fn output_pending_bytes(&mut self, conn: ConnId) -> usize {
        each!(self, inner => inner.connections().output_pending_bytes(conn))
    }

    /// The next time the socket takes output of the connection, the turn reports [`Event::Wake`]: for callers
    /// that write only a limited amount ahead of the socket.
    pub fn await_sending(&mut self, conn: ConnId) {
        each!(self, inner => inner.connections().await_sending(conn));
    }

    /// How often something was sent, on any connection.
    pub fn send_count(&mut self) -> u64 {
        each!(self, inner => inner.connections().send_count)
    }

    /// The sizes of the connection's input and output; zeros while they are taken out.
    pub fn usage(&mut self, conn: ConnId) -> Usage {
        each!(self, inner => inner.connections().usage(conn))
    }

    /// Stops reporting input. Up to [`Config::paused_input_bytes_max`] is still received; after that only a
    /// hang-up is watched for, which is reported at once.
    pub fn pause_reading(&mut self, conn: ConnId) {
        each!(self, inner => inner.connections().pause_reading(conn));
    }

    /// Reports input again; the next turn begins with the input that arrived during the pause.
    pub fn resume_reading(&mut self, conn: ConnId) {
        each!(self, inner => inner.connections().resume_reading(conn));
    }

    /// Ends the connection. Its name stops working at once.
    pub fn close(&mut self, conn: ConnId, mode: CloseMode) {
        let has_last_words =
            mode == CloseMode::Now && each!(self, inner => inner.connections().has_last_words(conn));
        let mode = if has_last_words { CloseMode::AfterFlush } else { mode };
        each!(self, inner => inner.close(conn, mode));
    }

    /// Frees memory that was not needed since the last call, for calls some seconds apart. Without connections hardly
    /// any is left, except that only an `elastic` thread gives its queues back.
    pub fn give_back_unused(&mut self, elastic: bool) {
        match self {
            Driver::Uring(inner) => inner.give_back_unused(elastic),
            Driver::Epoll(inner) => inner.give_back_unused(),
            Driver::Sim(inner) => inner.connections().pool.give_back_unused(),
        }
    }

    /// The waker by which other threads wake this one.
    pub fn waker(&mut self) -> Arc<Waker> {
        each!(self, inner => inner.thread().waker.clone())
    }

    /// This thread's clock.
    pub fn clock(&mut self) -> &Clock {
        each!(self, inner => &inner.thread().clock)
    }

    /// A fresh generator of random numbers.
    pub fn entropy(&mut self) -> io::Result<Entropy> {
        match self {
            Driver::Uring(_) | Driver::Epoll(_) => Entropy::from_os(),
            Driver::Sim(inner) => Ok(inner.entropy()),
        }
    }
}
