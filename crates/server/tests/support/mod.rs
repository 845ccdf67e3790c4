//! A server of its own for each test, and a client for it.
//!
//! Nothing sleeps but for a moment between two looks at something that must come true soon.
#![allow(clippy::unwrap_used)]
#![allow(dead_code, reason = "each test program uses a part")]

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use resp::Value;

/// How long anything may take: far longer than it does, for machines that are busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server; ended when dropped.
pub(crate) struct Server {
    child: Child,
    /// Where it listens.
    pub(crate) port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts the server with this many threads and this driver, and further arguments.
    pub(crate) fn start(threads: usize, io: &str, more: &[&str]) -> Server {
        for _ in 0..10 {
            if let Some(server) = Server::try_start(threads, io, more) {
                return server;
            }
        }
        panic!("the server does not start");
    }

    /// `None` if somebody else took the port in the meantime.
    fn try_start(threads: usize, io: &str, more: &[&str]) -> Option<Server> {
        // One at a time: two tests must not find the same port free.
        static STARTING: Mutex<()> = Mutex::new(());
        let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(env!("CARGO_BIN_EXE_darter"));
        command.args([
            &format!("--port={port}"),
            &format!("--proactor_threads={threads}"),
            &format!("--io={io}"),
        ]);
        command.args(more).stdin(Stdio::null()).stdout(Stdio::null());
        let mut server = Server { child: command.spawn().unwrap(), port };
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let listens = TcpStream::connect(("127.0.0.1", port)).is_ok();
            if server.child.try_wait().unwrap().is_some() {
                return None;
            }
            if listens {
                return Some(server);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// A new connection.
    pub(crate) fn client(&self) -> Client {
        self.client_at(Ipv4Addr::LOCALHOST.into())
    }

    /// A new connection to this address of the machine.
    pub(crate) fn client_at(&self, address: IpAddr) -> Client {
        let stream = TcpStream::connect((address, self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, received: Vec::new() }
    }
}

/// A connection.
pub(crate) struct Client {
    /// The socket.
    pub(crate) stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    /// Sends a line of words, quoted as for redis-cli, without waiting.
    #[track_caller]
    pub(crate) fn send(&mut self, line: &str) {
        let args = resp::split_args(line.as_bytes()).expect("quotes are balanced");
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        self.send_args(&args);
    }

    /// Sends a command without waiting.
    #[track_caller]
    pub(crate) fn send_args(&mut self, args: &[&[u8]]) {
        let mut bytes = Vec::new();
        resp::encode_request(args, &mut bytes);
        self.stream.write_all(&bytes).expect("the connection is open");
    }

    /// Sends and waits for the reply.
    #[track_caller]
    pub(crate) fn call(&mut self, line: &str) -> Value {
        self.send(line);
        self.receive()
    }

    /// The reply, as redis-cli would show it, of a server that may hang up instead.
    #[track_caller]
    pub(crate) fn try_receive_reply_to(&mut self, line: &str) -> Option<String> {
        let mut bytes = Vec::new();
        resp::encode_request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>(), &mut bytes);
        self.stream.write_all(&bytes).ok()?;
        self.try_receive().map(|value| value.to_string())
    }

    /// The reply as redis-cli would show it.
    #[track_caller]
    pub(crate) fn show(&mut self, line: &str) -> String {
        self.call(line).to_string()
    }

    /// The next reply or message.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> Value {
        self.try_receive().expect("the connection is open")
    }

    /// The next reply or message; `None` if the connection ended.
    #[track_caller]
    pub(crate) fn try_receive(&mut self) -> Option<Value> {
        loop {
            if let Some((value, length)) = resp::decode(&self.received).expect("replies are RESP") {
                self.received.drain(..length);
                return Some(value);
            }
            let mut buffer = [0; 64 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(length) => self.received.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no reply: {error}"),
            }
        }
    }

    /// Checks that the server closes the connection.
    #[track_caller]
    pub(crate) fn expect_end(&mut self) {
        if let Some(value) = self.try_receive() {
            panic!("unexpected: {value}");
        }
    }

    /// Its `CLIENT ID`.
    #[track_caller]
    pub(crate) fn id(&mut self) -> i64 {
        match self.call("CLIENT ID") {
            Value::Int(id) => id,
            other => panic!("{other}"),
        }
    }

    /// The field of the line about client `id` in `CLIENT LIST`.
    #[track_caller]
    pub(crate) fn field_of(&mut self, id: i64, field: &str) -> String {
        let list = text(&self.call(&format!("CLIENT LIST ID {id}")));
        let found = list.split_whitespace().find_map(|part| part.strip_prefix(&format!("{field}=")));
        found.unwrap_or_default().to_owned()
    }
}

/// A bulk, simple or verbatim string as text.
#[track_caller]
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Bulk(text) | Value::Simple(text) | Value::Error(text) | Value::Verbatim { text, .. } => {
            String::from_utf8_lossy(text).into_owned()
        }
        other => panic!("no text: {other}"),
    }
}

/// Looks again and again until `is_so`.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}: it does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs a test on servers of 1, 2 and 4 threads, with each driver, and on one whose commands hop.
pub(crate) fn on_each_server(test: impl Fn(&Server)) {
    for (threads, io) in [(1, "epoll"), (2, "auto"), (4, "epoll"), (4, "auto")] {
        test(&Server::start(threads, io, &[]));
    }
    test(&Server::start(3, "epoll", &["--shard_entry=home"]));
}
