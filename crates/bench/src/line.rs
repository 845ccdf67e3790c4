//! A connection that waits for each reply. For handshakes, preparations and queries besides the load.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use resp::Value;
use rustls::{ClientConnection, StreamOwned};

/// Timeout for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
const READ_BYTES: usize = 64 * 1024;

/// The transport of a [`Line`].
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// The byte stream.
    fn bytes(&mut self) -> &mut dyn ReadWrite {
        match self {
            Stream::Tcp(stream) => stream,
            Stream::Unix(stream) => stream,
            Stream::Tls(stream) => &mut **stream,
        }
    }
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

/// A blocking connection.
#[derive(Debug)]
pub(crate) struct Line {
    stream: Stream,
    received: Vec<u8>,
}

/// A server's `INFO`.
#[derive(Debug, Default)]
pub(crate) struct Info(HashMap<String, String>);

impl Line {
    pub(crate) fn over(stream: Stream) -> io::Result<Line> {
        let line = Line { stream, received: Vec::new() };
        line.wait_at_most(Some(REPLY_TIMEOUT))?;
        Ok(line)
    }

    /// Sets the timeout for replies.
    pub(crate) fn wait_at_most(&self, timeout: Option<Duration>) -> io::Result<()> {
        match &self.stream {
            Stream::Tcp(stream) => stream.set_read_timeout(timeout),
            Stream::Unix(stream) => stream.set_read_timeout(timeout),
            Stream::Tls(stream) => stream.sock.set_read_timeout(timeout),
        }
    }

    /// Releases the connection, which must have nothing left to read.
    pub(crate) fn into_stream(self) -> io::Result<Stream> {
        self.wait_at_most(None)?;
        Ok(self.stream)
    }

    /// Sends a request and waits for its reply. An error reply is returned as a value.
    pub(crate) fn call(&mut self, args: &[impl AsRef<[u8]>]) -> io::Result<Value> {
        let mut request = Vec::new();
        resp::encode_request(args, &mut request);
        self.send(&request)?;
        self.receive()
    }

    /// Sends a request and waits for its reply. An error reply is returned as an error.
    pub(crate) fn ask(&mut self, args: &[impl AsRef<[u8]>]) -> io::Result<Value> {
        match self.call(args)? {
            Value::Error(text) => {
                let name = args.first().map_or_else(String::new, |name| lossy(name.as_ref()));
                Err(io::Error::other(format!("{name} is refused: {}", lossy(&text))))
            }
            value => Ok(value),
        }
    }

    /// Like [`ask`](Self::ask), for requests whose reply does not matter unless it is an error.
    pub(crate) fn demand(&mut self, args: &[&str]) -> io::Result<()> {
        self.ask(args).map(|_| ())
    }

    /// Like [`ask`](Self::ask), for requests with an integer reply.
    pub(crate) fn integer(&mut self, args: &[impl AsRef<[u8]>]) -> io::Result<i64> {
        match self.ask(args)? {
            Value::Int(number) => Ok(number),
            other => Err(io::Error::new(ErrorKind::InvalidData, format!("an integer was expected: {other}"))),
        }
    }

    /// A section of `INFO`; empty if the server does not know it.
    pub(crate) fn info(&mut self, section: &str) -> io::Result<Info> {
        let text = match self.call(&["INFO", section])? {
            Value::Bulk(text) | Value::Verbatim { text, .. } => lossy(&text),
            _ => String::new(),
        };
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Ok(Info(fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()))
    }

    pub(crate) fn send(&mut self, request: &[u8]) -> io::Result<()> {
        let bytes = self.stream.bytes();
        bytes.write_all(request)?;
        bytes.flush()
    }

    /// Waits for the next reply.
    pub(crate) fn receive(&mut self) -> io::Result<Value> {
        let mut chunk = vec![0; READ_BYTES];
        loop {
            let decoded = resp::decode(&self.received).map_err(|error| {
                io::Error::new(ErrorKind::InvalidData, format!("not a Redis reply: {error}"))
            })?;
            if let Some((value, length)) = decoded {
                self.received.drain(..length);
                return Ok(value);
            }
            match self.stream.bytes().read(&mut chunk) {
                Ok(0) => {
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection"));
                }
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(io::Error::new(ErrorKind::TimedOut, "the server does not answer"));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Info {
    pub(crate) fn text(&self, field: &str) -> Option<&str> {
        self.0.get(field).map(String::as_str)
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, field: &str) -> Option<T> {
        self.text(field)?.parse().ok()
    }

    /// The numbers whose names begin with `prefix` that have grown since `before`, with their growth.
    pub(crate) fn growth(&self, before: &Info, prefix: &str) -> Vec<(String, u64)> {
        let mut grown: Vec<(String, u64)> = self
            .0
            .iter()
            .filter_map(|(field, value)| {
                let now: u64 = value.parse().ok()?;
                let growth = now.checked_sub(before.number(field)?)?;
                Some((field.strip_prefix(prefix)?.to_owned(), growth)).filter(|_| growth > 0)
            })
            .collect();
        grown.sort();
        grown
    }

    /// A description of the server: `Darter 0.1.0 (2 threads, io_uring)`.
    pub(crate) fn server(&self) -> String {
        if let Some(version) = self.text("darter_version") {
            let threads = self.text("threads").unwrap_or("?");
            let (entry, api) = (self.text("shard_entry"), self.text("multiplexing_api"));
            return format!(
                "Darter {version}, {threads} threads, shard-entry {}, {}",
                entry.unwrap_or("?"),
                api.unwrap_or("?")
            );
        }
        for (field, name) in [("dragonfly_version", "Dragonfly"), ("valkey_version", "Valkey")] {
            if let Some(version) = self.text(field) {
                return format!("{name} {version}");
            }
        }
        match self.text("redis_version") {
            Some(version) => format!("Redis {version}"),
            None => "unknown".to_owned(),
        }
    }
}

/// The bytes as text for display.
pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
