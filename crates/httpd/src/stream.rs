//! A connection that does not wait forever: it ends if its peer takes nothing of what is sent, or sends nothing.
//!
//! hyper limits how long a request's head may take. This limits the other waits: for a peer that does not read its
//! answer, and for a kept-alive connection that is not used.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use crate::connections::Connection;

/// How long a peer may take before it reads some of what was sent.
const WRITE_STALL_MAX: Duration = Duration::from_secs(10);
/// How long a peer may send nothing.
const READ_IDLE_MAX: Duration = Duration::from_secs(60);

/// See the head of this file.
pub(crate) struct Stream {
    tcp: TcpStream,
    read_deadline: Deadline,
    write_deadline: Deadline,
    connection: Rc<Connection>,
}

/// A deadline for waiting. It runs only while the connection waits.
struct Deadline {
    sleep: Pin<Box<Sleep>>,
    limit: Duration,
    is_running: bool,
}

impl Deadline {
    fn new(limit: Duration) -> Deadline {
        Deadline { sleep: Box::pin(sleep(limit)), limit, is_running: false }
    }

    /// Passes on the result of an operation, or an error if it has waited for too long.
    fn bound<T>(&mut self, poll: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.is_running = false;
            return poll;
        }
        if !std::mem::replace(&mut self.is_running, true) {
            self.sleep.as_mut().reset(Instant::now() + self.limit);
        }
        ready!(self.sleep.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Stream {
    pub(crate) fn new(tcp: TcpStream, connection: Rc<Connection>) -> Stream {
        let (read_deadline, write_deadline) = (Deadline::new(READ_IDLE_MAX), Deadline::new(WRITE_STALL_MAX));
        Stream { tcp, read_deadline, write_deadline, connection }
    }

    /// The first byte that the peer sends, without consuming it; `None`: the peer has closed the connection.
    pub(crate) async fn first_byte(&self) -> io::Result<Option<u8>> {
        let mut first = [0];
        Ok((self.tcp.peek(&mut first).await? == 1).then_some(first[0]))
    }

    fn note_written(
        &mut self,
        poll: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.connection.note_sending(poll.is_pending(), Instant::now().into_std());
        self.write_deadline.bound(poll, cx)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.tcp).poll_read(cx, buffer);
        self.read_deadline.bound(poll, cx)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.tcp).poll_write(cx, bytes);
        self.note_written(poll, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.tcp).poll_write_vectored(cx, slices);
        self.note_written(poll, cx)
    }
}
