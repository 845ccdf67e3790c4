//! No job that is handed to a waiting worker allocates anything, once the server is warm.
//!
//! The server runs in the process of the test, whose allocator counts. The test sends and reads with buffers that it made
//! before. A worker sends `PING` before it waits: its reply says that the worker waits, since both are served in one turn.
//! The work that the server does ten times a second may allocate, so a few rounds may. A small sorted set lies in its
//! record and is made anew whenever it changes, so jobs that are taken from one allocate: exactly as often as stated
//! here.
//!
//! One server serves all: connections are dealt to its two threads in turn, so the first and the third are on one
//! thread, and the first and the second on two.

use std::alloc::{GlobalAlloc, Layout};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// Rounds that warm the server.
const WARM_ROUNDS: usize = 500;
/// Rounds that are counted.
const ROUNDS: usize = 2000;
/// The most rounds in which the server's housekeeping may allocate. It goes by the clock, and rounds are slow on a
/// busy machine.
const OTHER_ROUNDS_MAX: usize = ROUNDS / 5;
/// Clients that wait for something else all the time.
const BYSTANDERS: usize = 20;
/// The approximate size of a job in a real queue.
const JOB_BYTES: usize = 230;

static COUNTS: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicUsize = AtomicUsize::new(0);
static TRACES: AtomicBool = AtomicBool::new(false);
static TRACED: Mutex<Vec<Backtrace>> = Mutex::new(Vec::new());

thread_local! {
    static IS_TRACING: Cell<bool> = const { Cell::new(false) };
}

/// The server's allocator, with calls counted that may get memory.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn note() {
    if COUNTS.load(Ordering::Relaxed) {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
    if TRACES.load(Ordering::Relaxed) && !IS_TRACING.replace(true) {
        TRACED.lock().expect("nobody panics while he holds it").push(Backtrace::force_capture());
        IS_TRACING.set(false);
    }
}

// SAFETY: all is done by the server's allocator, with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: by what the caller promises.
        unsafe { heap::Allocator.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: by what the caller promises.
        unsafe { heap::Allocator.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: by what the caller promises.
        unsafe { heap::Allocator.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: by what the caller promises.
        unsafe { heap::Allocator.realloc(block, layout, size) }
    }
}

/// A request with its reply.
struct Call {
    request: Vec<u8>,
    reply: Vec<u8>,
}

fn encode(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend([*word, b"\r\n"].concat());
    }
    bytes
}

fn bulk(word: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", word.len()).as_bytes(), word, b"\r\n"].concat()
}

struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    fn connect(port: u16) -> Client {
        let patience = Instant::now() + blackbox::PATIENCE;
        let stream = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => break stream,
                Err(error) => assert!(Instant::now() < patience, "the server does not start: {error}"),
            }
            std::thread::yield_now();
        };
        stream.set_nodelay(true).expect("a socket has this option");
        stream.set_read_timeout(Some(blackbox::PATIENCE)).expect("a socket has this option");
        let mut client = Client { stream, buffer: vec![0; 4096] };
        client.call(&Call { request: encode(&[b"PING"]), reply: b"+PONG\r\n".to_vec() });
        client
    }

    fn send(&mut self, request: &[u8]) {
        self.stream.write_all(request).expect("the server reads");
    }

    fn expect(&mut self, reply: &[u8]) {
        let buffer = &mut self.buffer[..reply.len()];
        self.stream.read_exact(buffer).expect("the server answers");
        assert!(
            *buffer == *reply,
            "{:?} in place of {:?}",
            String::from_utf8_lossy(buffer),
            String::from_utf8_lossy(reply)
        );
    }

    fn call(&mut self, call: &Call) {
        self.send(&call.request);
        self.expect(&call.reply);
    }
}

/// How jobs go from hand to hand.
struct Trade {
    name: &'static str,
    /// After `PING`.
    wait: Call,
    push: Call,
    /// The producer's request after the worker has its job.
    clear: Option<Call>,
    /// How often a job allocates.
    allocations: usize,
}

impl Trade {
    fn round(&self, worker: &mut Client, producer: &mut Client) {
        worker.send(&self.wait.request);
        worker.expect(b"+PONG\r\n");
        producer.call(&self.push);
        worker.expect(&self.wait.reply);
        if let Some(clear) = &self.clear {
            producer.call(clear);
        }
    }

    /// Allocations of all rounds, and how many rounds had more than they may have.
    fn count(&self, worker: &mut Client, producer: &mut Client) -> (usize, usize) {
        (0..WARM_ROUNDS).for_each(|_| self.round(worker, producer));
        let (first, mut bad_rounds) = (COUNT.load(Ordering::Relaxed), 0);
        COUNTS.store(true, Ordering::Relaxed);
        for _ in 0..ROUNDS {
            let before = COUNT.load(Ordering::Relaxed);
            self.round(worker, producer);
            bad_rounds += usize::from(COUNT.load(Ordering::Relaxed) - before > self.allocations);
        }
        COUNTS.store(false, Ordering::Relaxed);
        (COUNT.load(Ordering::Relaxed) - first, bad_rounds)
    }

    fn show_allocations(&self, worker: &mut Client, producer: &mut Client) {
        TRACES.store(true, Ordering::Relaxed);
        self.round(worker, producer);
        TRACES.store(false, Ordering::Relaxed);
        IS_TRACING.set(true);
        for trace in TRACED.lock().expect("nobody panics while he holds it").drain(..) {
            let ours =
                |line: &&str| line.contains(" at ") && line.contains("/crates/") && !line.contains("/tests/");
            let text = trace.to_string();
            let lines: Vec<&str> = text.lines().filter(ours).map(str::trim).take(6).collect();
            let places = lines.iter().map(|line| line.rsplit("/crates/").next().unwrap_or_default());
            eprintln!("{}: {}", self.name, places.collect::<Vec<_>>().join(" < "));
        }
        IS_TRACING.set(false);
    }
}

fn waits(words: &[&[u8]], reply: Vec<u8>) -> Call {
    Call { request: [encode(&[b"PING"]), encode(words)].concat(), reply }
}

fn trades() -> Vec<Trade> {
    let job = [b'j'; JOB_BYTES];
    let one = || b":1\r\n".to_vec();
    let popped = |key: &[u8]| [b"*2\r\n", &*bulk(key), &*bulk(&job)].concat();
    let push = |key: &[u8]| Call { request: encode(&[b"LPUSH", key, &job]), reply: one() };
    let scored = [b"*3\r\n", &*bulk(b"schedule"), &*bulk(b"job"), &*bulk(b"7")].concat();
    vec![
        Trade {
            name: "BRPOP",
            wait: waits(&[b"BRPOP", b"queue:default", b"5"], popped(b"queue:default")),
            push: push(b"queue:default"),
            clear: None,
            allocations: 0,
        },
        Trade {
            name: "BRPOP of three keys",
            wait: waits(
                &[b"BRPOP", b"queue:high", b"queue:default", b"queue:low", b"5"],
                popped(b"queue:low"),
            ),
            push: push(b"queue:low"),
            clear: None,
            allocations: 0,
        },
        Trade {
            name: "BLMOVE",
            wait: waits(&[b"BLMOVE", b"queue:default", b"taken", b"RIGHT", b"LEFT", b"5"], bulk(&job)),
            push: push(b"queue:default"),
            clear: Some(Call { request: encode(&[b"RPOP", b"taken"]), reply: bulk(&job) }),
            allocations: 0,
        },
        Trade {
            name: "BZPOPMIN",
            wait: waits(&[b"BZPOPMIN", b"schedule", b"5"], scored),
            push: Call { request: encode(&[b"ZADD", b"schedule", b"7", b"job"]), reply: one() },
            clear: None,
            allocations: 5,
        },
    ]
}

#[test]
fn a_job_that_is_handed_over_allocates_nothing() {
    let port = blackbox::free_port().expect("a port is free");
    let dir = blackbox::Scratch::new("allocations");
    let args = [
        format!("--port={port}"),
        format!("--dir={}", dir.path("")),
        "--save=".to_owned(),
        "--proactor-threads=2".to_owned(),
        "--num-shards=8".to_owned(),
    ];
    std::thread::spawn(move || server::run(&args));
    let [mut worker, mut of_other, mut of_same] = [(); 3].map(|()| Client::connect(port));
    of_same.call(&Call {
        request: encode(&[b"LPUSH", b"taken", &[b'j'; JOB_BYTES]]),
        reply: b":1\r\n".to_vec(),
    });
    let bystanders: Vec<Client> = (0..BYSTANDERS)
        .map(|number| {
            let mut client = Client::connect(port);
            let timeout = format!("{}", 1000 + number);
            client.send(&encode(&[b"PING"]));
            client.expect(b"+PONG\r\n");
            client.send(&encode(&[b"BLPOP", b"queue:default:other", timeout.as_bytes()]));
            client
        })
        .collect();
    let mut too_many = Vec::new();
    for trade in trades() {
        for (producer, where_from) in [(&mut of_same, "one thread"), (&mut of_other, "two threads")] {
            let (count, bad_rounds) = trade.count(&mut worker, producer);
            eprintln!("{}, {where_from}: {count} allocations in {ROUNDS} rounds", trade.name);
            if bad_rounds > OTHER_ROUNDS_MAX {
                trade.show_allocations(&mut worker, producer);
                too_many.push(format!("{}, {where_from}: {count} in {ROUNDS} rounds", trade.name));
            }
        }
    }
    assert!(too_many.is_empty(), "{too_many:?}");
    drop(bystanders);
}
