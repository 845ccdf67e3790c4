//! A client for tests. Any of its failures fails the test.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use resp::Value;
use transcript::Socket;

/// How long anything may take. It only ends what hangs: what comes late on a busy machine has come.
pub const PATIENCE: Duration = Duration::from_secs(600);
/// Interval between two checks of something that must become true soon.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// A connection.
#[derive(Debug)]
pub struct Client<S = TcpStream> {
    socket: Socket<S>,
}

impl<S: Read + Write> Client<S> {
    /// A connection over `stream`.
    pub fn over(stream: S) -> Client<S> {
        Client { socket: Socket::over(stream) }
    }

    /// The underlying stream.
    pub fn stream(&mut self) -> &mut S {
        &mut self.socket.stream
    }

    /// Sends a line of words, quoted as for redis-cli, without waiting.
    #[track_caller]
    pub fn send(&mut self, line: &str) {
        let args = resp::split_args(line.as_bytes()).expect("quotes are balanced");
        self.send_bytes(&encoded(&args));
    }

    /// Sends a command without waiting.
    #[track_caller]
    pub fn send_args(&mut self, args: &[&[u8]]) {
        self.send_bytes(&encoded(args));
    }

    /// Sends these bytes unchanged.
    #[track_caller]
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream().write_all(bytes).expect("the connection is open");
    }

    /// Sends a line and waits for the reply.
    #[track_caller]
    pub fn call(&mut self, line: &str) -> Value {
        self.send(line);
        self.receive()
    }

    /// Sends a line and returns the reply as redis-cli would show it.
    #[track_caller]
    pub fn show(&mut self, line: &str) -> String {
        self.call(line).to_string()
    }

    /// Like [`show`](Self::show), for a server that may close the connection instead; `None` if it does.
    #[track_caller]
    pub fn try_show(&mut self, line: &str) -> Option<String> {
        let args = resp::split_args(line.as_bytes()).expect("quotes are balanced");
        self.stream().write_all(&encoded(&args)).ok()?;
        self.try_receive().map(|value| value.to_string())
    }

    /// Waits for the next reply or message.
    #[track_caller]
    pub fn receive(&mut self) -> Value {
        self.try_receive().expect("the connection is open")
    }

    /// Waits for the next reply or message; `None` if the connection ended.
    #[track_caller]
    pub fn try_receive(&mut self) -> Option<Value> {
        match self.socket.receive() {
            Ok(value) => Some(value),
            Err(error) if is_end(&error) => None,
            Err(error) => panic!("no reply: {error}"),
        }
    }

    /// Checks that the server closes the connection.
    #[track_caller]
    pub fn expect_end(&mut self) {
        if let Some(value) = self.try_receive() {
            panic!("unexpected: {value}");
        }
    }

    /// Its `CLIENT ID`.
    #[track_caller]
    pub fn id(&mut self) -> i64 {
        match self.call("CLIENT ID") {
            Value::Int(id) => id,
            other => panic!("{other}"),
        }
    }

    /// A field of the line for client `id` in `CLIENT LIST`; empty if that client is gone.
    #[track_caller]
    pub fn field_of(&mut self, id: i64, field: &str) -> String {
        let list = text(&self.call(&format!("CLIENT LIST ID {id}")));
        let found = list.split_whitespace().find_map(|part| part.strip_prefix(&format!("{field}=")));
        found.unwrap_or_default().to_owned()
    }

    /// A field of `INFO`.
    #[track_caller]
    pub fn info(&mut self, section: &str, field: &str) -> String {
        let text = text(&self.call(&format!("INFO {section}")));
        let found = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        found.unwrap_or_else(|| panic!("INFO {section} has no {field}:\n{text}")).to_owned()
    }
}

impl<S: AsFd> Client<S> {
    /// Closes the connection with a reset: the server gets an error instead of an end.
    #[track_caller]
    pub fn reset(self) {
        let now = Some(Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&self.socket.stream, now).expect("sockets can linger");
    }
}

fn encoded(args: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    resp::encode_request(args, &mut bytes);
    bytes
}

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

/// Checks that redis-cli would show the reply to a line like this.
#[track_caller]
pub fn check<S: Read + Write>(client: &mut Client<S>, line: &str, expected: &str) {
    assert_eq!(client.show(line), expected, "{line}");
}

/// A bulk, simple or verbatim string, or an error, as text.
#[track_caller]
pub fn text(value: &Value) -> String {
    match value {
        Value::Bulk(text) | Value::Simple(text) | Value::Error(text) | Value::Verbatim { text, .. } => {
            String::from_utf8_lossy(text).into_owned()
        }
        other => panic!("no text: {other}"),
    }
}

/// Checks periodically until `is_so`. Panics after [`PATIENCE`].
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}: it does not come");
        std::thread::sleep(LOOK_INTERVAL);
    }
}
