//! Sends values to another server for `MIGRATE`, on a thread of its own.
//!
//! A thread of the server never waits, so each round of a migration gets a separate thread. That thread connects, sends
//! every value as `RESTORE` at once, reads the replies, and posts the outcome to the client's thread. No shard is held
//! meanwhile; `mod.rs` checks afterwards whether the values are unchanged.

#![expect(clippy::disallowed_types, reason = "a thread of its own talks to the other server")]

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::{Client, CommandError, CommandId, OwnedArgs};
use resp::Value;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// The most migrations at the same time.
const MIGRATIONS_MAX: usize = 64;
/// How many bytes of requests are collected for one write.
const WRITE_BYTES: usize = 64 * 1024;

const TOO_MANY: CommandError = CommandError::fixed("IOERR too many migrations at the same time");
/// The error if the target cannot be reached.
pub const CONNECTING: CommandError = CommandError::fixed("IOERR error or timeout connecting to the client");
const WRITING: CommandError = CommandError::fixed("IOERR error or timeout writing to target instance");
const READING: CommandError = CommandError::fixed("IOERR error or timeout reading to target instance");

/// The server that receives the keys.
#[derive(Debug)]
pub struct Target {
    pub(crate) host: String,
    pub(crate) port: String,
    pub(crate) db: i64,
    /// For each step: connecting, a write, a read.
    pub(crate) timeout: Duration,
    /// The arguments of `AUTH`; none if it is not sent.
    pub(crate) credentials: Vec<Vec<u8>>,
    /// The configuration of TLS; `None`: the connection is not encrypted.
    pub tls: Option<Arc<ClientConfig>>,
}

/// A connection to a target.
trait TargetStream: Read + Write {}

impl<S: Read + Write> TargetStream for S {}

/// A key to be moved.
#[derive(Debug)]
pub(crate) struct MovingKey {
    pub(crate) key: Box<[u8]>,
    /// The value when it was last read. `None`: the key no longer exists, and has to be deleted at the target.
    pub(crate) content: Option<DumpedValue>,
    pub(crate) state: MovingState,
}

/// A value and its expiry.
#[derive(Debug)]
pub(crate) struct DumpedValue {
    /// The value as in `DUMP`.
    pub(crate) payload: Vec<u8>,
    pub(crate) expiry_ms: Option<i64>,
    /// The remaining time to live, for `RESTORE`; 0: the key does not expire.
    pub(crate) ttl_ms: i64,
}

/// The state of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MovingState {
    /// The value has to be sent.
    Here,
    /// The target has it.
    There,
    /// The target refused it.
    Refused,
}

/// The state of one call of `MIGRATE`.
#[derive(Debug)]
pub struct Migration {
    pub(crate) moving_keys: Vec<MovingKey>,
    /// Existing keys at the target may be overwritten.
    pub(crate) replace: bool,
    /// How often keys were sent.
    pub(crate) rounds: u32,
    /// The first error.
    pub(crate) failure: Option<CommandError>,
}

/// A migration that returns to the client's thread after a round, with the command that must run again.
#[derive(Debug)]
pub struct Returned {
    /// The client.
    pub client: Client,
    /// The command.
    pub command: CommandId,
    /// Its arguments.
    pub args: OwnedArgs,
    /// The state of the migration.
    pub migration: Migration,
}

/// How many threads are sending.
#[derive(Debug, Default)]
pub struct Migrations(AtomicUsize);

impl Migrations {
    /// Sends one round on a new thread, which calls `tell` with the result.
    pub fn send(
        &'static self,
        target: Target,
        mut returned: Box<Returned>,
        tell: impl FnOnce(Box<Returned>) + Send + 'static,
    ) -> Result<(), CommandError> {
        let running = &self.0;
        if running.fetch_add(1, Ordering::Relaxed) >= MIGRATIONS_MAX {
            running.fetch_sub(1, Ordering::Relaxed);
            return Err(TOO_MANY);
        }
        let send = move || {
            returned.migration.deliver(&target);
            running.fetch_sub(1, Ordering::Relaxed);
            tell(returned);
        };
        let started = std::thread::Builder::new().name("migrate".to_owned()).spawn(send);
        started.map(drop).map_err(|error| {
            running.fetch_sub(1, Ordering::Relaxed);
            CommandError::new(format!("IOERR no thread to send it: {error}"))
        })
    }
}

impl Migration {
    fn deliver(&mut self, target: &Target) {
        self.rounds += 1;
        if let Err(failure) = self.try_deliver(target) {
            self.failure.get_or_insert(failure);
        }
    }

    fn try_deliver(&mut self, target: &Target) -> Result<(), CommandError> {
        let mut stream = target.connect().map_err(|_| CONNECTING)?;
        let preamble = target.preamble();
        self.write_all(&preamble, &mut *stream).map_err(|_| WRITING)?;
        let mut replies = Replies { stream: &mut *stream, received: Vec::new(), read: 0 };
        // Each of these refuses everything that follows.
        let mut refusal = None;
        for _ in &preamble {
            refusal = refusal.or(replies.next()?);
        }
        for moving in self.moving_keys.iter_mut().filter(|moving| moving.state == MovingState::Here) {
            let answer = replies.next()?;
            moving.state = match refusal.clone().or(answer) {
                None => MovingState::There,
                Some(error) => {
                    self.failure.get_or_insert(error);
                    MovingState::Refused
                }
            };
        }
        Ok(())
    }

    /// Writes the requests of `preamble`, then those of all keys that have to be sent.
    fn write_all(&self, preamble: &[Vec<Vec<u8>>], stream: &mut dyn TargetStream) -> io::Result<()> {
        let mut out = Vec::new();
        preamble.iter().for_each(|request| resp::encode_request(request, &mut out));
        for moving in self.moving_keys.iter().filter(|moving| moving.state == MovingState::Here) {
            match &moving.content {
                Some(DumpedValue { payload, ttl_ms, .. }) => {
                    let ttl = ttl_ms.to_string();
                    let mut request: Vec<&[u8]> = vec![b"RESTORE", &moving.key, ttl.as_bytes(), payload];
                    if self.replace || self.rounds > 1 {
                        request.push(b"REPLACE");
                    }
                    resp::encode_request(&request, &mut out);
                }
                None => resp::encode_request(&[b"DEL", &*moving.key], &mut out),
            }
            if out.len() >= WRITE_BYTES {
                stream.write_all(&out)?;
                out.clear();
            }
        }
        stream.write_all(&out)?;
        stream.flush()
    }
}

impl Target {
    fn connect(&self) -> io::Result<Box<dyn TargetStream>> {
        let mut tcp = self.connect_tcp()?;
        let Some(config) = &self.tls else { return Ok(Box::new(tcp)) };
        // The address stands for a name: TLS sends no server name and checks none.
        let name = ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into());
        let mut session = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut tcp)?;
        }
        Ok(Box::new(StreamOwned::new(session, tcp)))
    }

    fn connect_tcp(&self) -> io::Result<TcpStream> {
        let port: u16 = self.port.parse().map_err(io::Error::other)?;
        let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
        for address in (self.host.as_str(), port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, self.timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(self.timeout))?;
                    stream.set_write_timeout(Some(self.timeout))?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The requests before the first key.
    fn preamble(&self) -> Vec<Vec<Vec<u8>>> {
        let mut requests = Vec::new();
        if !self.credentials.is_empty() {
            requests.push([&[b"AUTH".to_vec()], &self.credentials[..]].concat());
        }
        requests.push(vec![b"SELECT".to_vec(), self.db.to_string().into_bytes()]);
        requests
    }
}

/// Reads the replies of a target.
struct Replies<'s> {
    stream: &'s mut dyn TargetStream,
    received: Vec<u8>,
    /// How many bytes at the front have been parsed.
    read: usize,
}

impl Replies<'_> {
    /// Reads the next reply; returns its error, if it is one.
    fn next(&mut self) -> Result<Option<CommandError>, CommandError> {
        loop {
            if let Some((value, len)) = resp::decode(&self.received[self.read..]).map_err(|_| READING)? {
                self.read += len;
                return Ok(match value {
                    Value::Error(text) => {
                        Some(CommandError::quoting("ERR Target instance replied with error: ", &text, ""))
                    }
                    _ => None,
                });
            }
            self.received.drain(..self.read);
            self.read = 0;
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(1..) if self.received.len() > WRITE_BYTES => return Err(READING),
                Ok(len @ 1..) => self.received.extend_from_slice(&buffer[..len]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return Err(READING),
            }
        }
    }
}
