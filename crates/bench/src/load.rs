//! The loop: every connection sends a batch, waits for all its replies, and sends the next.

use std::io::{Error, ErrorKind};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use proactor::{CloseMode, Config, ConnId, Driver, Event, Socket};

use crate::requests::Requests;

/// How long the server may stay silent.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// What to do.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    pub(crate) address: (&'a str, u16),
    pub(crate) connections: u32,
    pub(crate) pipeline: u32,
    pub(crate) requests: u64,
}

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) replies: u64,
    /// How many of the replies were errors.
    pub(crate) errors: u64,
    pub(crate) elapsed: Duration,
}

impl Load<'_> {
    /// Sends until all requests are answered.
    pub(crate) fn run(&self, requests: Requests) -> std::io::Result<Done> {
        let mut driver = Driver::open(&Config::default()).map_err(Error::other)?;
        let mut connections = Vec::new();
        for _ in 0..self.connections {
            connections.push(driver.adopt(Socket::from_tcp(TcpStream::connect(self.address)?)?));
        }
        let slots = connections.iter().map(|conn| conn.slot() + 1).max().unwrap_or(0);
        let mut run = Run {
            driver,
            requests,
            unsent: self.requests.div_ceil(u64::from(self.pipeline)),
            pipeline: self.pipeline,
            awaited: vec![0; slots],
            busy: 0,
            done: Done::default(),
        };
        let started = Instant::now();
        for &conn in &connections {
            run.send(conn);
        }
        run.finish()?;
        run.done.elapsed = started.elapsed();
        connections.into_iter().for_each(|conn| run.driver.close(conn, CloseMode::Now));
        Ok(run.done)
    }
}

/// A load under way.
struct Run {
    driver: Driver,
    requests: Requests,
    /// Batches left to send.
    unsent: u64,
    pipeline: u32,
    /// Replies that a connection still waits for, by its slot.
    awaited: Vec<u32>,
    /// Connections that wait for replies.
    busy: u32,
    done: Done,
}

impl Run {
    /// Until nothing is awaited any more.
    fn finish(&mut self) -> std::io::Result<()> {
        let mut events = Vec::new();
        let mut heard = Instant::now();
        while self.busy > 0 {
            self.driver.turn(Some(SILENCE_MAX), &mut events)?;
            if !events.is_empty() {
                heard = Instant::now();
            } else if heard.elapsed() >= SILENCE_MAX {
                return Err(Error::new(ErrorKind::TimedOut, "the server does not answer any more"));
            }
            for event in events.drain(..) {
                match event {
                    Event::Data { conn } => self.receive(conn)?,
                    Event::Closed { error, .. } => {
                        let kind = error.unwrap_or(ErrorKind::UnexpectedEof);
                        return Err(Error::new(kind, "the server closed a connection"));
                    }
                    Event::Accepted { .. } | Event::Wake => {}
                }
            }
        }
        Ok(())
    }

    /// Sends a batch, if one is left.
    fn send(&mut self, conn: ConnId) {
        if self.unsent == 0 {
            return;
        }
        let Some(output) = self.driver.output_mut(conn) else { return };
        output.extend_from_slice(self.requests.batch());
        self.unsent -= 1;
        self.awaited[conn.slot()] = self.pipeline;
        self.busy += 1;
    }

    /// Counts the replies that a connection got, and sends on when they are all there.
    fn receive(&mut self, conn: ConnId) -> std::io::Result<()> {
        let Some(mut io) = self.driver.take_io(conn) else { return Ok(()) };
        let awaited = &mut self.awaited[conn.slot()];
        let mut consumed = 0;
        while *awaited > 0 {
            let reply = resp::measure(&io.input.as_slice()[consumed..])
                .map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
            let Some((length, is_error)) = reply else { break };
            consumed += length;
            *awaited -= 1;
            self.done.replies += 1;
            self.done.errors += u64::from(is_error);
        }
        let is_finished = *awaited == 0 && consumed > 0;
        io.input.consume(consumed);
        self.driver.put_io(conn, io);
        if is_finished {
            self.busy -= 1;
            self.send(conn);
        }
        Ok(())
    }
}
