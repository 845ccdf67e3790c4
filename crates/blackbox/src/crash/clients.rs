//! Clients that work on a server until it dies or they are told to stop, and record what they sent and received.
//!
//! A client that gets an error reply, or no reply in time, has found a fault. If its connection ends, that is not a fault: a crash
//! looks like that.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ds::random::Random;
use resp::Value;
use transcript::Socket;

use crate::account::queue::{MOVED, POPPED};
use crate::account::{
    Account, Bytes, CHANNEL, COUNTER, DATABASES, Doing, Form, Owner, Raiser, Reader, Span, Step, Timeline,
    Worker, call, version_key,
};

/// From this length of a queue on, its producers also take from it.
const QUEUE_LONG: i64 = 100;
/// How long a blocking pop waits, in seconds.
const WAIT: &str = "0.2";
/// The longest pause of a producer after a push, if it pauses.
const PAUSE_US_MAX: u64 = 4000;
/// Pushes elements.
const PUSH_SCRIPT: &str = "return redis.call('LPUSH', KEYS[1], unpack(ARGV))";
/// Increments a counter and publishes the result.
const RAISE_SCRIPT: &str = "local n = redis.call('INCR', KEYS[1]) redis.call('PUBLISH', ARGV[1], n) return n";
/// How long a listener waits before it checks whether it has to stop.
const LISTEN_MAX: Duration = Duration::from_millis(200);

/// The environment that all clients share.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The server's port.
    pub port: u16,
    /// The source of moments.
    pub timeline: &'a Timeline,
    /// Whether the clients have to stop.
    pub stop: &'a AtomicBool,
    /// The seed of their random choices.
    pub seed: u64,
}

/// Why a client stopped early.
pub(crate) enum End {
    /// Its connection ended.
    Closed,
    /// A client got a reply that must not occur.
    Strange(String),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::InvalidData => {
                End::Strange(format!("no reply: {error}"))
            }
            _ => End::Closed,
        }
    }
}

/// Runs all clients of the account while `meanwhile` runs, and then until they end. Returns their complaints.
pub fn work<T>(account: &mut Account, field: Field<'_>, meanwhile: impl FnOnce() -> T) -> (T, Vec<String>) {
    type Job<'j> = Box<dyn FnOnce(&mut Line<'_>) -> Result<(), End> + Send + 'j>;
    let mut jobs: Vec<(u32, Job<'_>)> = Vec::new();
    for owner in &mut account.owners {
        jobs.push((owner.db, Box::new(|line| own(owner, line))));
    }
    for worker in account.queues.iter_mut().flat_map(|queue| &mut queue.workers) {
        jobs.push((0, Box::new(|line| serve(worker, line))));
    }
    for raiser in &mut account.counter.raisers {
        jobs.push((0, Box::new(|line| raise(raiser, line))));
    }
    for reader in &mut account.readers {
        jobs.push((0, Box::new(|line| read(reader, line))));
    }
    for listener in &mut account.listeners {
        jobs.push((0, Box::new(|line| listen(listener, line))));
    }
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (index, (db, job)) in jobs.into_iter().enumerate() {
            threads.push(scope.spawn(move || {
                let mut line = match Line::connect(field, db, index as u64) {
                    Ok(line) => line,
                    Err(_) => return None,
                };
                match job(&mut line) {
                    Err(End::Strange(text)) => Some(text),
                    Err(End::Closed) | Ok(()) => None,
                }
            }));
        }
        let result = meanwhile();
        let ends = threads.into_iter().filter_map(|thread| thread.join().expect("clients do not panic"));
        (result, ends.collect())
    })
}

/// A client's connection.
struct Line<'a> {
    socket: Socket,
    field: Field<'a>,
    random: Random,
}

impl<'a> Line<'a> {
    fn connect(field: Field<'a>, db: u32, index: u64) -> io::Result<Line<'a>> {
        let mut socket = Socket::connect(("127.0.0.1", field.port))?;
        call(&mut socket, &["SELECT", &db.to_string()])?;
        Ok(Line { socket, field, random: Random::new(field.seed.wrapping_mul(1000).wrapping_add(index)) })
    }

    fn is_to_go_on(&self) -> bool {
        !self.field.stop.load(Ordering::Relaxed)
    }

    /// The next reply. An error reply is a fault.
    fn receive(&mut self) -> Result<Value, End> {
        let value = self.socket.receive()?;
        let is_bad = |value: &Value| matches!(value, Value::Error(_));
        match &value {
            Value::Array(items) if items.iter().any(is_bad) => Err(End::Strange(value.to_string())),
            value if is_bad(value) => Err(End::Strange(value.to_string())),
            _ => Ok(value),
        }
    }

    /// Sends a request to a queue, and records it.
    fn doing(&mut self, worker: &mut Worker, doing: Doing, words: &[&[u8]]) -> Result<Value, End> {
        self.doing_all(worker, doing, &[words])
    }

    /// Sends several requests to a queue, and records them. The reply to the last one counts.
    fn doing_all(&mut self, worker: &mut Worker, doing: Doing, requests: &[&[&[u8]]]) -> Result<Value, End> {
        worker.history.push((doing, Span::from(self.field.timeline.moment())));
        let requests: Vec<Vec<Bytes>> =
            requests.iter().map(|words| words.iter().map(|word| word.to_vec()).collect()).collect();
        self.socket.send(&requests)?;
        for _ in 1..requests.len() {
            self.receive()?;
        }
        let value = self.receive()?;
        let (doing, span) = worker.history.last_mut().expect("it was just noted");
        span.acked = Some(self.field.timeline.moment());
        if let Doing::Take(element) = doing {
            *element = match &value {
                Value::Bulk(bytes) => Some(bytes.clone()),
                Value::Array(parts) => parts.last().and_then(|part| match part {
                    Value::Bulk(bytes) => Some(bytes.clone()),
                    _ => None,
                }),
                _ => None,
            };
        }
        Ok(value)
    }
}

/// Changes the client's own keys, in windows.
fn own(owner: &mut Owner, line: &mut Line<'_>) -> Result<(), End> {
    while line.is_to_go_on() {
        see_expired(owner, line)?;
        let first = owner.history.len();
        let count = 1 + line.random.below(owner.window as u64);
        let steps: Vec<_> = (0..count).map(|_| owner.planner.step(&mut line.random)).collect();
        let requests: Vec<Vec<_>> = steps.iter().map(|step| step.requests()).collect();
        let sent = line.field.timeline.moment();
        owner.history.extend(steps.into_iter().map(|step| (step, Span::from(sent))));
        line.socket.send(&requests.concat())?;
        for (index, requests) in requests.iter().enumerate() {
            for _ in requests {
                line.receive()?;
            }
            owner.history[first + index].1.acked = Some(line.field.timeline.moment());
        }
    }
    Ok(())
}

/// Reads a key that should have expired. If the server says that it has, its next change starts with an empty key, also after a
/// crash.
fn see_expired(owner: &mut Owner, line: &mut Line<'_>) -> Result<(), End> {
    let Some(deed) = owner.planner.due() else { return Ok(()) };
    let sent = line.field.timeline.moment();
    line.socket.send(&[deed.request()])?;
    if line.receive()? == Value::Int(0) {
        owner.planner.note(&deed);
        let span = Span { sent, acked: Some(line.field.timeline.moment()) };
        owner.history.push((Step { deeds: vec![deed], form: Form::Alone }, span));
    }
    Ok(())
}

/// Works on a queue. The first half of a queue's workers push, the others take.
fn serve(worker: &mut Worker, line: &mut Line<'_>) -> Result<(), End> {
    let pushes = matches!(worker.name.as_str(), "p0" | "p1" | "m0");
    // In every other life there is less to take than is requested, so that clients wait and are served by pushes.
    let pause_us = if line.field.seed.is_multiple_of(2) { PAUSE_US_MAX } else { 0 };
    while line.is_to_go_on() {
        for element in std::mem::take(&mut worker.held) {
            finish(worker, line, element)?;
        }
        if !pushes {
            take(worker, line, true)?;
            continue;
        }
        if push(worker, line)? > QUEUE_LONG {
            for _ in 0..3 {
                take(worker, line, false)?;
            }
        }
        if pause_us > 0 {
            thread::sleep(Duration::from_micros(line.random.below(pause_us)));
        }
    }
    Ok(())
}

/// Pushes one to three elements. Returns the length of the queue.
fn push(worker: &mut Worker, line: &mut Line<'_>) -> Result<i64, End> {
    let count = if line.random.below(4) == 0 { 3 } else { 1 };
    let elements: Vec<Bytes> = (0..count)
        .map(|_| {
            worker.number += 1;
            let padding = "j".repeat(line.random.below(300) as usize);
            format!("{}-{}-{padding}", worker.name, worker.number).into_bytes()
        })
        .collect();
    let key = worker.queue.as_bytes();
    let doing = Doing::Push(elements.clone());
    let answer = match line.random.below(4) {
        0 => {
            let script: [&[u8]; 4] = [b"EVAL", PUSH_SCRIPT.as_bytes(), b"1", key];
            let words: Vec<&[u8]> = script.into_iter().chain(elements.iter().map(Vec::as_slice)).collect();
            line.doing(worker, doing, &words)?
        }
        1 => {
            let pushes: Vec<[&[u8]; 3]> = elements.iter().map(|element| [b"LPUSH", key, element]).collect();
            let begin: &[&[u8]] = &[b"MULTI"];
            let end: &[&[u8]] = &[b"EXEC"];
            let requests: Vec<&[&[u8]]> =
                [begin].into_iter().chain(pushes.iter().map(|words| &words[..])).chain([end]).collect();
            line.doing_all(worker, doing, &requests)?
        }
        _ => {
            let words: Vec<&[u8]> =
                [b"LPUSH", key].into_iter().chain(elements.iter().map(Vec::as_slice)).collect();
            line.doing(worker, doing, &words)?
        }
    };
    let length = match &answer {
        Value::Array(lengths) => lengths.last(),
        length => Some(length),
    };
    match length {
        Some(Value::Int(length)) => Ok(*length),
        _ => Err(End::Strange(format!("LPUSH: {answer}"))),
    }
}

/// Takes an element, if there is one.
fn take(worker: &mut Worker, line: &mut Line<'_>, waits: bool) -> Result<(), End> {
    let own_list = worker.own_list();
    let own_list = own_list.as_bytes();
    let words: Vec<&[u8]> = match (worker.queue == POPPED, waits) {
        (true, true) => vec![b"BRPOP", POPPED.as_bytes(), WAIT.as_bytes()],
        (true, false) => vec![b"RPOP", POPPED.as_bytes()],
        (false, true) => vec![b"BLMOVE", MOVED.as_bytes(), own_list, b"RIGHT", b"LEFT", WAIT.as_bytes()],
        (false, false) => vec![b"LMOVE", MOVED.as_bytes(), own_list, b"RIGHT", b"LEFT"],
    };
    line.doing(worker, Doing::Take(None), &words)?;
    let Some((Doing::Take(Some(element)), _)) = worker.history.last() else { return Ok(()) };
    if worker.queue == MOVED {
        let element = element.clone();
        finish(worker, line, element)?;
    }
    Ok(())
}

/// Removes an element from the worker's own list.
fn finish(worker: &mut Worker, line: &mut Line<'_>, element: Bytes) -> Result<(), End> {
    let own_list = worker.own_list();
    let words: [&[u8]; 4] = [b"LREM", own_list.as_bytes(), b"1", &element];
    match line.doing(worker, Doing::Finish(element.clone()), &words)? {
        Value::Int(1) => Ok(()),
        other => Err(End::Strange(format!("LREM of an element of {}: {other}", worker.name))),
    }
}

/// Increments the shared counter.
fn raise(raiser: &mut Raiser, line: &mut Line<'_>) -> Result<(), End> {
    while line.is_to_go_on() {
        raiser.history.push((Span::from(line.field.timeline.moment()), 0));
        let words = match line.random.below(2) {
            0 => vec!["INCR", COUNTER],
            _ => vec!["EVAL", RAISE_SCRIPT, "1", COUNTER, CHANNEL],
        };
        line.socket.send(&[words.into_iter().map(|word| word.as_bytes().to_vec()).collect()])?;
        let Value::Int(number) = line.receive()? else {
            return Err(End::Strange("INCR: no number".to_owned()));
        };
        let (span, answer) = raiser.history.last_mut().expect("it was just noted");
        span.acked = Some(line.field.timeline.moment());
        *answer = number as u64;
    }
    Ok(())
}

/// Reads the numbers that others increment, from several shards at once.
fn read(reader: &mut Reader, line: &mut Line<'_>) -> Result<(), End> {
    let keys = [COUNTER.to_owned(), version_key("c0"), version_key("c1"), version_key("c3")];
    let request: Vec<Bytes> =
        std::iter::once(b"MGET".to_vec()).chain(keys.iter().map(|key| key.as_bytes().to_vec())).collect();
    while line.is_to_go_on() {
        line.socket.send(std::slice::from_ref(&request))?;
        let Value::Array(values) = line.receive()? else {
            return Err(End::Strange("MGET: no array".to_owned()));
        };
        let moment = line.field.timeline.moment();
        for (key, value) in keys.iter().zip(&values) {
            if let Value::Bulk(text) = value {
                let number = String::from_utf8_lossy(text).parse().unwrap_or(u64::MAX);
                reader.history.push((moment, DATABASES[0], key.clone(), number));
            }
        }
    }
    Ok(())
}

/// Receives the values of the shared counter.
fn listen(listener: &mut Reader, line: &mut Line<'_>) -> Result<(), End> {
    call(&mut line.socket, &["SUBSCRIBE", CHANNEL])?;
    line.socket.stream.set_read_timeout(Some(LISTEN_MAX))?;
    while line.is_to_go_on() {
        let message = match line.socket.receive() {
            Ok(message) => message,
            // The received part of a message is kept.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let moment = line.field.timeline.moment();
        let Value::Array(parts) = &message else { return Err(End::Strange(format!("a message: {message}"))) };
        let Some(Value::Bulk(text)) = parts.last() else {
            return Err(End::Strange(format!("a message: {message}")));
        };
        let number = String::from_utf8_lossy(text).parse().unwrap_or(u64::MAX);
        listener.history.push((moment, DATABASES[0], COUNTER.to_owned(), number));
    }
    Ok(())
}
