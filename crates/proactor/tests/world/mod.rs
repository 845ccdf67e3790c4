//! A driver, its clients, and a small server between them, all in one thread.
//!
//! [`over_all_drivers`] runs a scenario over each driver: epoll, io_uring (skipped with a note if the kernel
//! refuses it), and the simulated one with a few seeds. Each runs once with plain bytes, and once with bytes
//! that pass through a codec on both sides. Clients never block: a scenario pumps the driver until the
//! awaited event has happened, and fails after minutes.

// Each test file uses only parts of this.
#![allow(dead_code)]

pub(crate) mod scramble;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use proactor::{
    CloseMode, Codec, Config, ConnId, Driver, Entropy, Event, Heard, InputBuffer, IoChoice, Listener,
    PLAIN_BYTES_MAX, SimClient, SimConfig, SimNet, SimReceived, Waker, listen_tcp,
};

use scramble::Scramble;

/// Simulated worlds per scenario.
const SEEDS: u64 = 3;
/// How long a scenario waits for anything: only reached if it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) struct World {
    pub(crate) driver: Driver,
    address: String,
    net: Option<SimNet>,
    /// Whether the server answers every byte with itself and closes what is closed.
    pub(crate) is_echo: bool,
    /// Whether bytes pass through a codec.
    pub(crate) is_coded: bool,
    codecs: Arc<()>,
    pub(crate) opened: Vec<ConnId>,
    pub(crate) closed: Vec<(ConnId, Option<io::ErrorKind>)>,
    /// Connections with data, when not echoing.
    pub(crate) data: Vec<ConnId>,
    pub(crate) detached: Vec<ConnId>,
    pub(crate) wakes: usize,
    events: Vec<Event>,
}

/// Runs `scenario` in a fresh world of each kind.
pub(crate) fn over_all_drivers(scenario: impl Fn(&mut World)) {
    over_all_drivers_with(&Config::default(), scenario);
}

pub(crate) fn over_all_drivers_with(config: &Config, scenario: impl Fn(&mut World)) {
    for is_coded in [false, true] {
        println!("{}", if is_coded { "through a codec" } else { "plain" });
        over_all_drivers_as(config, |world| {
            world.is_coded = is_coded;
            scenario(world);
        });
    }
}

/// Runs `scenario` only with a codec.
pub(crate) fn over_all_drivers_coded(config: &Config, scenario: impl Fn(&mut World)) {
    over_all_drivers_as(config, |world| {
        world.is_coded = true;
        scenario(world);
    });
}

fn over_all_drivers_as(config: &Config, scenario: impl Fn(&mut World)) {
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        match Driver::open(&Config { io, ..config.clone() }) {
            Ok(driver) => {
                let listener = listen_tcp("127.0.0.1", 0, 1024).expect("some port is free");
                scenario(&mut World::new(driver, listener, None));
            }
            Err(error) => {
                assert_eq!(io, IoChoice::Uring, "{error}");
                println!("skipped io_uring: {error}");
            }
        }
    }
    for seed in 0..SEEDS {
        let net = SimNet::new(seed, SimConfig::default());
        println!("simulated with seed {seed}");
        scenario(&mut World::new(net.driver(config), net.listener("10.0.0.1:6379"), Some(net)));
    }
}

impl World {
    /// Number of codecs of the server's existing connections.
    pub(crate) fn codec_count(&self) -> usize {
        Arc::strong_count(&self.codecs) - 1
    }

    fn new(mut driver: Driver, listener: Listener, net: Option<SimNet>) -> World {
        let address = listener.local().to_owned();
        driver.listen(listener).expect("a fresh listener can be watched");
        World {
            driver,
            address,
            net,
            is_echo: true,
            is_coded: false,
            codecs: Arc::default(),
            opened: Vec::new(),
            closed: Vec::new(),
            data: Vec::new(),
            detached: Vec::new(),
            wakes: 0,
            events: Vec::new(),
        }
    }

    /// Connects a client and completes its handshake. Also returns the server's name for its connection.
    pub(crate) fn connect(&mut self) -> (Client, ConnId) {
        let (mut client, conn) = self.connect_only();
        self.shake_hands(&mut client);
        (client, conn)
    }

    pub(crate) fn shake_hands(&mut self, client: &mut Client) {
        self.until("the handshake", |_| {
            client.receive(usize::MAX);
            client.flush() && client.is_ready()
        });
    }

    /// Connects a client without its handshake.
    pub(crate) fn connect_only(&mut self) -> (Client, ConnId) {
        let before = self.opened.len();
        let link = match &self.net {
            Some(net) => Link::Simulated(net.connect(&self.address).expect("the address is right")),
            None => {
                let stream = TcpStream::connect(&self.address).expect("the backlog has room");
                stream.set_nonblocking(true).expect("sockets can be non-blocking");
                Link::Real(stream)
            }
        };
        self.until("accept", |world| world.opened.len() > before);
        let codec = self.is_coded.then(Scramble::client);
        let client =
            Client { link, codec, pending: Vec::new(), received: Vec::new(), is_told: false, ending: None };
        (client, self.opened[before])
    }

    /// Random numbers: from the simulated world's seed, or the same ones every time.
    pub(crate) fn entropy(&mut self) -> Entropy {
        match &self.net {
            Some(net) => net.entropy(),
            None => Entropy::from_seed(1),
        }
    }

    pub(crate) fn waker(&mut self) -> Arc<Waker> {
        self.driver.waker()
    }

    /// One turn, which waits a millisecond at most.
    pub(crate) fn pump(&mut self) {
        self.turn(Duration::from_millis(1));
    }

    pub(crate) fn turn(&mut self, timeout: Duration) {
        let mut events = std::mem::take(&mut self.events);
        self.driver.turn(Some(timeout), &mut events).expect("the driver works");
        if let Some(net) = &self.net
            && events.is_empty()
        {
            net.advance();
        }
        for event in events.drain(..) {
            match event {
                Event::Accepted { socket, listener } => {
                    assert_eq!(listener, 0);
                    assert!(!socket.peer().is_empty());
                    let scramble = || Box::new(Scramble::server_among(&self.codecs)) as Box<dyn Codec>;
                    let codec = self.is_coded.then(scramble);
                    self.opened.push(self.driver.adopt_coded(socket, codec));
                }
                Event::Data { conn } if self.is_echo => self.echo(conn),
                Event::Data { conn } => self.data.push(conn),
                Event::Closed { conn, error } => {
                    self.closed.push((conn, error));
                    if self.is_echo {
                        self.driver.close(conn, CloseMode::AfterFlush);
                    }
                }
                Event::Detached { conn } => self.detached.push(conn),
                Event::Wake => self.wakes += 1,
            }
        }
        self.events = events;
    }

    fn echo(&mut self, conn: ConnId) {
        let mut io = self.driver.take_io(conn).expect("data is reported for open connections");
        assert!(!io.input.is_empty(), "data was reported");
        io.output.extend_from_slice(io.input.as_slice());
        io.input.consume(io.input.len());
        self.driver.put_io(conn, io);
    }

    /// Runs turns until `done`.
    pub(crate) fn until(&mut self, what: &str, mut done: impl FnMut(&mut World) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(start.elapsed() < PATIENCE, "waited in vain for {what} over {}", self.driver.name());
            self.pump();
        }
    }

    /// Sends all of `bytes`, receiving meanwhile.
    pub(crate) fn send(&mut self, client: &mut Client, bytes: &[u8]) {
        let mut sent = 0;
        self.until("a client's send", |_| {
            client.receive(usize::MAX);
            sent += client.send(&bytes[sent..]);
            sent == bytes.len() && client.flush()
        });
    }

    /// Sends bytes past the codec.
    pub(crate) fn send_raw(&mut self, client: &mut Client, bytes: &[u8]) {
        let mut sent = 0;
        self.until("a client's send", |_| {
            sent += client.send_raw(&bytes[sent..]);
            sent == bytes.len()
        });
    }

    /// Receives until there are `len` bytes, and takes them.
    pub(crate) fn receive(&mut self, client: &mut Client, len: usize) -> Vec<u8> {
        self.until("a client's bytes", |_| {
            client.receive(usize::MAX);
            client.received.len() >= len
        });
        client.received.drain(..len).collect()
    }

    /// Receives until the connection ends. Returns how.
    pub(crate) fn receive_end(&mut self, client: &mut Client) -> Ending {
        self.until("a client's end", |_| {
            client.receive(usize::MAX);
            client.ending.is_some()
        });
        client.ending.expect("it has ended")
    }

    pub(crate) fn input_len(&mut self, conn: ConnId) -> usize {
        let Some(io) = self.driver.take_io(conn) else { return 0 };
        let len = io.input.len();
        self.driver.put_io(conn, io);
        len
    }

    /// The input waiting for the server, left where it is.
    pub(crate) fn input(&mut self, conn: ConnId) -> Vec<u8> {
        let Some(io) = self.driver.take_io(conn) else { return Vec::new() };
        let bytes = io.input.as_slice().to_vec();
        self.driver.put_io(conn, io);
        bytes
    }

    pub(crate) fn reply(&mut self, conn: ConnId, bytes: &[u8]) {
        self.driver.output_mut(conn).expect("the connection is open").extend_from_slice(bytes);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Finished,
    Broken,
}

/// The other side of a connection.
pub(crate) struct Client {
    link: Link,
    pub(crate) codec: Option<Scramble>,
    /// Encoded bytes that the socket has not accepted yet.
    pending: Vec<u8>,
    /// Received bytes, decoded.
    pub(crate) received: Vec<u8>,
    /// Whether the server has said goodbye.
    pub(crate) is_told: bool,
    pub(crate) ending: Option<Ending>,
}

enum Link {
    Real(TcpStream),
    Simulated(SimClient),
}

impl Client {
    pub(crate) fn is_ready(&self) -> bool {
        self.codec.as_ref().is_none_or(Codec::is_ready)
    }

    /// Sends the bytes that the socket takes, or that fit into one frame.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> usize {
        let is_flushed = self.flush();
        let Some(codec) = &mut self.codec else { return self.send_raw(bytes) };
        if !is_flushed || bytes.is_empty() {
            return 0;
        }
        let length = bytes.len().min(PLAIN_BYTES_MAX);
        codec.send(&bytes[..length], &mut self.pending);
        self.flush();
        length
    }

    /// Sends the encoded bytes and the codec's own output. True if the socket accepted everything.
    pub(crate) fn flush(&mut self) -> bool {
        if let Some(codec) = &mut self.codec
            && codec.has_words()
        {
            codec.send(&[], &mut self.pending);
        }
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            let sent = self.send_raw(&pending);
            self.pending = pending[sent..].to_vec();
        }
        self.pending.is_empty()
    }

    /// Sends bytes past the codec.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) -> usize {
        let sent = match &mut self.link {
            Link::Simulated(client) => client.send(bytes),
            Link::Real(stream) => match stream.write(bytes) {
                Ok(len) => Some(len),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Some(0),
                Err(_) => None,
            },
        };
        sent.unwrap_or_else(|| {
            self.ending = Some(Ending::Broken);
            bytes.len()
        })
    }

    /// Receives at most `max` of the bytes that have arrived.
    pub(crate) fn receive(&mut self, max: usize) {
        let Some(mut codec) = self.codec.take() else { return self.receive_raw(max) };
        let before = std::mem::take(&mut self.received);
        self.receive_raw(max);
        let wire = std::mem::replace(&mut self.received, before);
        let mut plain = InputBuffer::new();
        let heard = codec.receive(&wire, &mut plain).expect("the server keeps to the rules");
        self.is_told |= heard == Heard::Goodbye;
        self.received.extend_from_slice(plain.as_slice());
        self.codec = Some(codec);
    }

    fn receive_raw(&mut self, max: usize) {
        let mut left = max;
        while left > 0 && self.ending.is_none() {
            let before = self.received.len();
            match &mut self.link {
                Link::Real(stream) => {
                    let mut buffer = [0; 65536];
                    match stream.read(&mut buffer[..left.min(65536)]) {
                        Ok(0) => self.ending = Some(Ending::Finished),
                        Ok(len) => self.received.extend_from_slice(&buffer[..len]),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                        Err(_) => self.ending = Some(Ending::Broken),
                    }
                }
                Link::Simulated(client) => match client.receive(left) {
                    SimReceived::Bytes(bytes) => self.received.extend(bytes),
                    SimReceived::Nothing => return,
                    SimReceived::End => self.ending = Some(Ending::Finished),
                    SimReceived::Reset => self.ending = Some(Ending::Broken),
                },
            }
            left -= self.received.len() - before;
        }
    }

    /// Says goodbye and sends nothing more.
    pub(crate) fn finish(&mut self) {
        if let Some(codec) = &mut self.codec {
            codec.finish(&mut self.pending);
            assert!(self.flush(), "the socket has room for a goodbye");
        }
        self.stop();
    }

    /// Sends nothing more.
    pub(crate) fn stop(&mut self) {
        match &self.link {
            Link::Real(stream) => stream.shutdown(Shutdown::Write).expect("the connection is open"),
            Link::Simulated(client) => client.finish(),
        }
    }

    /// Cuts the connection with a reset, as a real kernel does if there is input that was not read.
    pub(crate) fn reset(self) {
        match self.link {
            Link::Real(stream) => drop(stream),
            Link::Simulated(client) => client.reset(),
        }
    }
}
