//! A client that trusts no server, as it may connect to anything: every wait and every reply has a limit.
//!
//! A reply of many items is read item by item, so only parsed items are kept.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use resp::{Value, decode, encode_request, parse_integer};

use crate::remote::error::Error;
use crate::remote::figures::shown;

/// How many bytes are read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// The longest line that begins an array.
const LINE_BYTES_MAX: usize = 32;
/// How many characters of a server's error are shown.
const ERROR_LETTERS_MAX: usize = 200;

/// Limits on a server's time and replies.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// How long the server may take to accept the connection, and to send more of a reply.
    pub(crate) silence: Duration,
    /// How long a whole reply may take.
    pub(crate) reply: Duration,
    /// The most bytes of a reply, enough for a million queues.
    pub(crate) reply_bytes: usize,
    /// The most bytes of one item of it.
    pub(crate) item_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            silence: Duration::from_secs(5),
            reply: Duration::from_secs(30),
            reply_bytes: 256 << 20,
            item_bytes: 16 << 20,
        }
    }
}

/// Connects to the first address of a host that accepts within `limit`. Returns the host and port for messages, and the
/// stream.
pub(crate) fn connect(host: &str, port: u16, limit: Duration) -> Result<(String, TcpStream), Error> {
    let shown_host = shown(host.as_bytes(), ERROR_LETTERS_MAX);
    let address =
        if host.contains(':') { format!("[{shown_host}]:{port}") } else { format!("{shown_host}:{port}") };
    let mut failure = io::Error::new(ErrorKind::NotFound, "the host has no address");
    let candidates = (host, port).to_socket_addrs();
    for candidate in candidates.map_err(|source| Error::Unreachable { address: address.clone(), source })? {
        match TcpStream::connect_timeout(&candidate, limit) {
            Ok(stream) => return Ok((address, stream)),
            Err(error) => failure = error,
        }
    }
    Err(Error::Unreachable { address, source: failure })
}

/// A connection to a server.
pub(crate) struct Connection {
    address: String,
    stream: TcpStream,
    limits: Limits,
    /// Received bytes, and how many of them are parsed.
    input: Vec<u8>,
    understood: usize,
    /// When the current reply must be complete, and how many more bytes it may have.
    deadline: Instant,
    bytes_left: usize,
}

impl Connection {
    /// Connects to the first address of a host that accepts.
    pub(crate) fn open(host: &str, port: u16, limits: &Limits) -> Result<Connection, Error> {
        let (address, stream) = connect(host, port, limits.silence)?;
        Ok(Connection {
            address,
            stream,
            limits: limits.clone(),
            input: Vec::new(),
            understood: 0,
            deadline: Instant::now(),
            bytes_left: 0,
        })
    }

    /// Runs a command, and fails if the reply is an error.
    pub(crate) fn command(&mut self, words: &[&[u8]]) -> Result<(), Error> {
        self.send(words)?;
        match self.value()? {
            Value::Error(reply) => Err(self.refusal(&reply)),
            _ => Ok(()),
        }
    }

    /// Runs a command that returns an array; returns the number of items. The caller reads each with `value`.
    pub(crate) fn ask_for_items(&mut self, words: &[&[u8]]) -> Result<usize, Error> {
        self.send(words)?;
        while self.rest().is_empty() {
            self.receive()?;
        }
        if self.rest()[0] != b'*' {
            return Err(match self.value()? {
                Value::Error(reply) => self.refusal(&reply),
                _ => self.no_darter("the reply is not an array"),
            });
        }
        let end = loop {
            let line = &self.rest()[..self.rest().len().min(LINE_BYTES_MAX)];
            if let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") {
                break end;
            }
            if line.len() == LINE_BYTES_MAX {
                return Err(self.no_darter("the reply is not in RESP"));
            }
            self.receive()?;
        };
        let count = parse_integer(&self.rest()[1..end]).and_then(|count| usize::try_from(count).ok());
        self.understood += end + 2;
        count.ok_or_else(|| self.no_darter("the reply is not an array"))
    }

    /// Reads the next value of the reply.
    pub(crate) fn value(&mut self) -> Result<Value, Error> {
        loop {
            match decode(self.rest()) {
                Ok(Some((value, length))) => {
                    self.understood += length;
                    return Ok(value);
                }
                Ok(None) if self.rest().len() > self.limits.item_bytes => {
                    return Err(self.no_darter("the reply is too long"));
                }
                Ok(None) => self.receive()?,
                Err(error) => return Err(self.no_darter(&format!("the reply is not in RESP: {error}"))),
            }
        }
    }

    /// The error for a server that is not Darter.
    pub(crate) fn no_darter(&self, why: &str) -> Error {
        Error::NoDarter { address: self.address.clone(), why: why.to_owned() }
    }

    fn refusal(&self, reply: &[u8]) -> Error {
        let (address, text) = (self.address.clone(), shown(reply, ERROR_LETTERS_MAX));
        let code = reply.split(|byte| *byte == b' ').next().unwrap_or_default();
        match code {
            b"NOAUTH" => Error::NoPassword { address, reply: text },
            b"WRONGPASS" | b"NOPERM" | b"DENIED" => Error::Refused { address, reply: text },
            b"ERR" if reply.starts_with(b"ERR unknown command") => Error::NoDarter { address, why: text },
            _ => Error::Reply { address, reply: text },
        }
    }

    fn send(&mut self, words: &[&[u8]]) -> Result<(), Error> {
        let mut request = Vec::new();
        encode_request(words, &mut request);
        self.deadline = Instant::now() + self.limits.reply;
        self.bytes_left = self.limits.reply_bytes;
        let sent = self.stream.set_write_timeout(Some(self.limits.silence));
        match sent.and_then(|()| self.stream.write_all(&request)) {
            Err(source) => Err(self.failure(source)),
            Ok(()) => Ok(()),
        }
    }

    fn rest(&self) -> &[u8] {
        &self.input[self.understood..]
    }

    /// Waits for more input.
    fn receive(&mut self) -> Result<(), Error> {
        self.input.drain(..self.understood);
        self.understood = 0;
        let time_left = self.deadline.saturating_duration_since(Instant::now());
        if time_left.is_zero() {
            return Err(self.failure(ErrorKind::TimedOut.into()));
        }
        let known = self.input.len();
        // A long item is looked at from its beginning again each time.
        self.input.resize(known + CHUNK_BYTES.max(known), 0);
        let timeout = self.stream.set_read_timeout(Some(time_left.min(self.limits.silence)));
        let received = timeout.and_then(|()| self.stream.read(&mut self.input[known..]));
        self.input.truncate(known + received.as_ref().map_or(0, |count| *count));
        match received {
            Ok(0) => Err(Error::Closed { address: self.address.clone() }),
            Ok(count) => {
                let left = self.bytes_left.checked_sub(count);
                self.bytes_left = left.ok_or_else(|| self.no_darter("the reply is too long"))?;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(self.failure(error)),
        }
    }

    fn failure(&self, source: io::Error) -> Error {
        let address = self.address.clone();
        match source.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Silent { address },
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Error::Closed { address },
            _ => Error::Failed { address, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const LIMITS: Limits = Limits {
        silence: Duration::from_secs(20),
        reply: Duration::from_secs(60),
        reply_bytes: 1 << 20,
        item_bytes: 1 << 16,
    };

    /// Asks for the queues of a server that answers `greeting`, and then `again` until the client hangs up.
    fn ask(greeting: &str, again: &str, limits: &Limits) -> Result<Vec<Value>, Error> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let port = listener.local_addr().expect("it is bound").port();
        let (greeting, again) = (greeting.to_owned(), again.to_owned());
        let server = thread::spawn(move || {
            let mut stream = listener.accept().expect("somebody connects").0;
            let mut request = [0; b"*2\r\n$5\r\nQUEUE\r\n$4\r\nLIST\r\n".len()];
            stream.read_exact(&mut request).expect("a request comes");
            let mut written = stream.write_all(greeting.as_bytes());
            while written.is_ok() && !again.is_empty() {
                written = stream.write_all(again.as_bytes());
            }
            // Says nothing more, and goes when the client does.
            let _ = stream.read(&mut request);
        });
        let mut connection = Connection::open("127.0.0.1", port, limits).expect("it listens");
        let asked = connection.ask_for_items(&[b"QUEUE", b"LIST"]);
        let reply = asked.and_then(|count| (0..count).map(|_| connection.value()).collect());
        drop(connection);
        server.join().expect("the server ends");
        reply
    }

    #[track_caller]
    fn check(greeting: &str, again: &str, limits: &Limits, expected: &str) {
        let error = ask(greeting, again, limits).expect_err(greeting).to_string();
        let (_, told) = error.split_once(' ').expect("an address stands first");
        assert_eq!(told, expected);
        assert!(error.starts_with("127.0.0.1:") || expected.starts_with("connection"), "{error}");
    }

    #[test]
    fn replies_are_read_item_by_item() {
        assert_eq!(ask("*0\r\n", "", &LIMITS).unwrap(), []);
        assert_eq!(
            ask("*2\r\n:1\r\n+a\r\n", "", &LIMITS).unwrap(),
            [Value::Int(1), Value::Simple(b"a".to_vec())]
        );
    }

    #[test]
    fn errors_of_servers_are_told_apart() {
        for (reply, expected) in [
            (
                "-NOAUTH Authentication required.\r\n",
                "requires a password: set REDISCLI_AUTH, or pass --pass and, if needed, --user (NOAUTH Authentication required.)",
            ),
            ("-WRONGPASS no\r\n", "refuses: WRONGPASS no"),
            ("-NOPERM no\r\n", "refuses: NOPERM no"),
            ("-LOADING \x1b[31mred\r\n", "answers with an error: LOADING \\x1b[31mred"),
            ("-ERR x\r\n", "answers with an error: ERR x"),
            (
                "-ERR unknown command 'QUEUE'\r\n",
                "is not a Darter with QUEUE LIST: ERR unknown command 'QUEUE'",
            ),
            ("+OK\r\n", "is not a Darter with QUEUE LIST: the reply is not an array"),
            ("*-1\r\n", "is not a Darter with QUEUE LIST: the reply is not an array"),
            (
                "HTTP/1.1 400 Bad Request\r\n",
                "is not a Darter with QUEUE LIST: the reply is not in RESP: unknown reply type 0x48",
            ),
        ] {
            check(reply, "", &LIMITS, expected);
        }
    }

    #[test]
    fn endless_replies_have_an_end() {
        let too_long = "is not a Darter with QUEUE LIST: the reply is too long";
        // An item, items of an item, and items.
        check("*1\r\n$99999999\r\n", "aaaaaaaa", &LIMITS, too_long);
        check("*1\r\n*99999999\r\n", ":1\r\n:1\r\n", &LIMITS, too_long);
        check("*99999999\r\n", ":1\r\n:1\r\n", &LIMITS, too_long);
        check("-", "aaaaaaaa", &LIMITS, too_long);
        check("*", "11111111", &LIMITS, "is not a Darter with QUEUE LIST: the reply is not in RESP");
    }

    #[test]
    fn silent_servers_are_left() {
        let limits = Limits { silence: Duration::from_millis(20), ..LIMITS };
        for greeting in ["", "*", "*1\r\n", "*1\r\n$5\r\nab"] {
            check(greeting, "", &limits, "does not answer in time");
        }
        // A server that sends a little again and again, and never completes its reply.
        let limits = Limits { reply: Duration::from_millis(20), reply_bytes: usize::MAX, ..LIMITS };
        check("*99999999\r\n", "+\r\n", &limits, "does not answer in time");
    }
}
