//! The simulated world: the same seed gives the same run, faults lose nothing silently, and threads wake each
//! other.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use proactor::{
    CloseMode, Config, Driver, Event, Inbox, MessageNode, SimClient, SimConfig, SimNet, SimReceived, SimStep,
    Socket,
};

const ADDRESS: &str = "10.0.0.1:6379";

/// Two threads: the first accepts and hands every other socket to the second; both echo.
struct Servers {
    drivers: [Driver; 2],
    handed: Arc<Inbox<Socket>>,
    events: Vec<Event>,
}

impl Servers {
    fn new(net: &SimNet) -> Servers {
        let mut drivers = [net.driver(&Config::default()), net.driver(&Config::default())];
        drivers[0].listen(net.listener(ADDRESS)).expect("a simulated address");
        let handed = Arc::new(Inbox::new(drivers[1].waker()));
        Servers { drivers, handed, events: Vec::new() }
    }

    fn turn(&mut self, thread: usize, trace: &mut String) {
        let driver = &mut self.drivers[thread];
        driver.turn(None, &mut self.events).expect("simulated drivers do not fail");
        for event in self.events.drain(..) {
            writeln!(trace, "{} {thread} {event:?}", driver.clock().monotonic_ns()).expect("strings grow");
            match event {
                Event::Accepted { socket, .. } if socket.peer().ends_with(['1', '3', '5', '7', '9']) => {
                    self.handed.send(MessageNode::new(socket));
                }
                Event::Accepted { socket, .. } => drop(driver.adopt(socket)),
                Event::Wake if thread == 1 => {
                    for node in self.handed.take_all() {
                        driver.adopt(node.value);
                    }
                }
                Event::Detached { .. } | Event::Wake => {}
                Event::Closed { conn, .. } => driver.close(conn, CloseMode::AfterFlush),
                Event::Data { conn } => {
                    let mut io = driver.take_io(conn).expect("data is for open connections");
                    io.output.extend_from_slice(io.input.as_slice());
                    io.input.consume(io.input.len());
                    driver.put_io(conn, io);
                }
            }
        }
    }
}

/// A client that sends a message, finishes, and collects its echo.
struct Script {
    client: SimClient,
    message: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    end: Option<SimReceived>,
}

impl Script {
    fn step(&mut self) {
        if self.sent < self.message.len() {
            self.sent = self
                .client
                .send(&self.message[self.sent..])
                .map_or(self.message.len(), |len| self.sent + len);
            if self.sent == self.message.len() {
                self.client.finish();
            }
        }
        match self.client.receive(1_000) {
            SimReceived::Bytes(bytes) => self.received.extend(bytes),
            SimReceived::Nothing => {}
            end @ (SimReceived::End | SimReceived::Reset) => self.end = Some(end),
        }
    }
}

/// Runs ten clients to their end and returns what happened.
fn run(seed: u64, config: SimConfig) -> (String, Vec<Script>) {
    let net = SimNet::new(seed, config);
    let mut servers = Servers::new(&net);
    let mut entropy = net.entropy();
    let mut scripts: Vec<Script> = (0..10u8)
        .map(|index| Script {
            client: net.connect(ADDRESS).expect("someone listens"),
            message: vec![index; 1 + entropy.below(200_000) as usize],
            sent: 0,
            received: Vec::new(),
            end: None,
        })
        .collect();
    let mut trace = String::new();
    for _ in 0..100_000 {
        scripts.iter_mut().filter(|script| script.end.is_none()).for_each(Script::step);
        if scripts.iter().all(|script| script.end.is_some()) {
            return (trace, scripts);
        }
        match net.step() {
            SimStep::Thread(thread) => servers.turn(thread, &mut trace),
            SimStep::Client | SimStep::Never => {}
        }
    }
    panic!("seed {seed}: clients wait for ever");
}

#[test]
fn a_seed_decides_everything() {
    let (first, _) = run(7, SimConfig::default());
    let (second, _) = run(7, SimConfig::default());
    let (other, _) = run(8, SimConfig::default());
    assert!(first == second);
    assert!(first != other);
    assert!(first.contains(" 0 Wake") || first.contains(" 1 Wake"), "sockets went from thread to thread");
}

#[test]
fn every_client_gets_all_its_bytes_back() {
    for seed in 0..20 {
        for script in run(seed, SimConfig { window_bytes: 5_000, ..SimConfig::default() }).1 {
            assert_eq!(script.end, Some(SimReceived::End), "seed {seed}");
            assert!(script.received == script.message, "seed {seed}");
        }
    }
}

#[test]
fn a_link_that_is_cut_has_delivered_a_prefix() {
    let mut cut = 0;
    for seed in 0..20 {
        for script in run(seed, SimConfig { cut_one_in: 300, ..SimConfig::default() }).1 {
            assert!(script.message.starts_with(&script.received), "seed {seed}");
            cut += usize::from(script.end == Some(SimReceived::Reset));
        }
    }
    assert!(cut > 10, "{cut} links were cut");
}

#[test]
fn time_passes_only_when_it_is_moved_and_timeouts_are_kept() {
    let net = SimNet::new(1, SimConfig::default());
    let mut driver = net.driver(&Config::default());
    let mut events = Vec::new();
    assert_eq!(net.step(), SimStep::Thread(0), "a new thread may run");
    driver.turn(Some(Duration::from_millis(50)), &mut events).expect("simulated drivers do not fail");
    let before_ns = net.clock().monotonic_ns();
    assert_eq!(net.step(), SimStep::Thread(0));
    let waited_ns = net.clock().monotonic_ns() - before_ns;
    assert_eq!(waited_ns, 50_000_000);
    driver.turn(None, &mut events).expect("simulated drivers do not fail");
    assert_eq!(net.step(), SimStep::Never, "nothing will ever happen");
    driver.waker().wake();
    assert_eq!(net.step(), SimStep::Thread(0));
}

/// A machine connects to another one. A partition holds everything back, and then delivers it in order.
#[test]
fn machines_reach_each_other_unless_they_are_parted() {
    let net = SimNet::new(5, SimConfig::default());
    let [one, other] = [net.on_machine(0), net.on_machine(1)];
    assert!(one.dialer().connect("10.0.0.2", 6379, Duration::ZERO).is_err(), "nobody listens");
    let mut drivers = [one.driver(&Config::default()), other.driver(&Config::default())];
    drivers[1].listen(other.listener("10.0.0.2:6379")).expect("a simulated address");
    let socket = one.dialer().connect("10.0.0.2", 6379, Duration::ZERO).expect("it listens");
    assert_eq!(socket.peer(), "10.0.0.2:6379");
    let conn = drivers[0].adopt(socket);
    let mut events = Vec::new();
    let mut heard = |drivers: &mut [Driver; 2], text: &[u8]| {
        drivers[0].output_mut(conn).expect("it is open").extend_from_slice(text);
        let mut came = Vec::new();
        for _ in 0..20 {
            for driver in &mut *drivers {
                driver.turn(None, &mut events).expect("simulated drivers do not fail");
                for event in events.drain(..) {
                    match event {
                        Event::Accepted { socket, .. } => drop(driver.adopt(socket)),
                        Event::Data { conn } => {
                            let mut io = driver.take_io(conn).expect("data is for open connections");
                            came.extend_from_slice(io.input.as_slice());
                            io.input.consume(io.input.len());
                            driver.put_io(conn, io);
                        }
                        Event::Wake | Event::Detached { .. } | Event::Closed { .. } => {}
                    }
                }
            }
            net.advance();
        }
        came
    };
    assert_eq!(heard(&mut drivers, b"before"), b"before");
    one.part(1, true);
    assert_eq!(heard(&mut drivers, b"one "), b"");
    assert_eq!(heard(&mut drivers, b"two "), b"");
    other.part(0, false);
    assert_eq!(heard(&mut drivers, b"three"), b"one two three");
    other.crash();
    assert!(one.dialer().connect("10.0.0.2", 6379, Duration::ZERO).is_err(), "its machine is gone");
}
