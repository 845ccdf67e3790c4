//! The records of all threads, put in order, produce the same data elsewhere: on a real redis-server, which takes them for the
//! stream of its primary, and on an empty server with other threads and shards.
//!
//! Several clients concurrently send random commands, all data commands of redis-server 7.0: alone, in pipelines, in `MULTI` and
//! in scripts. They also send more of those on whose keys threads meet: moves between keys, scripts that access undeclared keys,
//! waits that others serve, keys that expire, whole databases that are flushed or swapped. `DEBUG DIGEST` must be the same
//! everywhere, and no effect may cause an error. Why a replica: it runs what its primary sends regardless of its own clock, and
//! simulated time is long past.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use blackbox::{Batch, Generator, PATIENCE, Server, eventually, oracle};
use effectlog::{Record, Stream, Tape};
use engine::{Group, Table};
use proactor::{Entropy, SimConfig};
use resp::Value;
use sim::{Client, Departure, Request, Setup, World, for_each_seed, request};

/// Number of worlds.
const SEEDS: u64 = 16;
/// Batches that the clients of one world send.
const BATCHES: usize = 400;
const CLIENTS: usize = 5;
/// Number of keys of each kind on which clients meet.
const KEYS: usize = 5;
/// Longer than any key of the test lives: after this time all keys that expire are gone.
const EXPIRED_MS: u64 = 20_000;
/// No key expires sooner, so that the replaying server, whose clock starts where the first server's did, is done before.
const EXPIRY_MS_MIN: usize = 3_000;

/// An empty snapshot of version 10, without a checksum.
const EMPTY_SNAPSHOT: &[u8] = b"REDIS0010\xff\0\0\0\0\0\0\0\0";

/// Writes to undeclared keys, with reads in between.
const REACHING: &str = "redis.call('RPUSH', KEYS[1], 'x')
    for i = 1, #ARGV do redis.call('RPUSH', ARGV[i], redis.call('LLEN', KEYS[1])) end
    return redis.call('LMOVE', KEYS[1], ARGV[#ARGV], 'LEFT', 'RIGHT')";

/// One of the clients.
struct Sender {
    client: Client,
    /// Requests still to be sent, one at a time.
    queue: Vec<Request>,
}

impl Sender {
    fn new(world: &World) -> Sender {
        Sender { client: world.connect(), queue: Vec::new() }
    }

    /// Sends the next request if it may. True if it has nothing to do.
    fn go_on(&mut self, world: &World) -> bool {
        world.pump(&mut self.client);
        if self.client.unanswered() > 0 {
            return false;
        }
        if self.queue.is_empty() {
            return true;
        }
        self.client.send(&self.queue.remove(0));
        false
    }

    fn take(&mut self, batch: Batch) {
        if batch.is_pipelined {
            batch.requests.iter().for_each(|request| self.client.send(request));
        } else {
            self.queue = batch.requests;
        }
    }
}

/// Whether the batch only has data commands, so that each request has one reply.
fn is_about_data(table: &Table, batch: &Batch) -> bool {
    batch.requests.iter().all(|request| {
        let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        table.resolve(&args).is_ok_and(|command| {
            !matches!(command.entry.group, Group::Server | Group::Connection | Group::PubSub | Group::Cluster)
        })
    })
}

fn key(world: &mut World, kind: &str) -> String {
    let tag = if world.one_in(6) { "{tag}" } else { "" };
    format!("{tag}{kind}:{}", world.below(KEYS))
}

/// A random request on keys on which threads meet.
fn meeting(world: &mut World) -> Request {
    let [one, other, third] = [0; 3].map(|_| key(world, "l"));
    let [set, other_set] = [0; 2].map(|_| key(world, "s"));
    let [text, other_text] = [0; 2].map(|_| key(world, "t"));
    let value = world.below(1000).to_string();
    let (expiry, db) = ((EXPIRY_MS_MIN + world.below(6000)).to_string(), world.below(3).to_string());
    match world.below(30) {
        0..4 => request("RPUSH", [&one, &value, "more"]),
        4 => request("BRPOP", [&one, &other, "1"]),
        5 => request("BLMOVE", [&one, &other, "LEFT", "RIGHT", "1"]),
        6 => request("BLMPOP", ["1", "3", &one, &other, &third, "RIGHT", "COUNT", "2"]),
        7 => request("LMOVE", [&one, &other, "RIGHT", "LEFT"]),
        8 => request("RPOPLPUSH", [&one, &other]),
        9 => request("SADD", [&set, &value, "a", "b"]),
        10 => request("SMOVE", [&set, &other_set, "a"]),
        11 => request("SPOP", [&set, "2"]),
        12 => request("SUNIONSTORE", [&set, &other_set, &key(world, "s")]),
        13 => request("SET", [&text, &value, "PX", &expiry]),
        14 => request("MSET", [&text, &value, &other_text, "x"]),
        15 => request("RENAME", [&one, &other]),
        16 => request("COPY", [&one, &other, "REPLACE"]),
        17 => request("COPY", [&text, &text, "DB", &db]),
        18 => request("MOVE", [&text, &db]),
        19 => request("PEXPIRE", [&one, &expiry]),
        20 => request("INCR", [&text]),
        21 => request("PERSIST", [&one]),
        22..26 => request("EVAL", [REACHING, "1", &one, &other, &third]),
        26 if world.one_in(3) => request("SWAPDB", ["0", &db]),
        27 if world.one_in(8) => request("FLUSHDB", [""; 0]),
        28 if world.one_in(20) => request("FLUSHALL", [""; 0]),
        26..29 => request("SELECT", [&db]),
        _ => request("GETDEL", [&text]),
    }
}

fn batch(world: &mut World, generator: &mut Generator, table: &Table) -> Batch {
    if world.one_in(2) {
        return loop {
            let batch = generator.batch();
            if is_about_data(table, &batch) {
                break batch;
            }
        };
    }
    let mut requests: Vec<Request> = (0..=world.below(5)).map(|_| meeting(world)).collect();
    if world.one_in(3) {
        requests.insert(0, request("MULTI", [""; 0]));
        requests.push(request("EXEC", [""; 0]));
    }
    Batch { requests, is_pipelined: world.one_in(2) }
}

/// Lets several clients change the data of `world`. At the end no key will expire any more.
fn play(world: &mut World, seed: u64, table: &Table) {
    let mut generator = Generator::new(seed, table);
    let mut senders: Vec<Sender> = (0..CLIENTS).map(|_| Sender::new(world)).collect();
    for _ in 0..BATCHES {
        let sender = &mut senders[world.below(CLIENTS)];
        if sender.go_on(world) {
            let batch = batch(world, &mut generator, table);
            sender.take(batch);
        }
        let (steps, is_pause) = (world.below(40), world.one_in(100));
        for _ in 0..steps {
            world.step();
            senders.iter_mut().for_each(|sender| _ = sender.go_on(world));
        }
        if is_pause {
            world.run_for(EXPIRY_MS_MIN as u64, |world| {
                senders.iter_mut().for_each(|sender| _ = sender.go_on(world));
            });
        }
    }
    let mut idle = vec![false; CLIENTS];
    world.run_for(EXPIRED_MS, |world| {
        for (sender, idle) in senders.iter_mut().zip(&mut idle) {
            *idle = sender.go_on(world);
        }
    });
    // Clients that still wait would do so for ever.
    for sender in &mut senders {
        sender.client.depart(Departure::Reset);
    }
    world.settle(|_| {});
}

fn digest(world: &mut World) -> String {
    let mut client = world.connect();
    world.call(&mut client, &request("DEBUG", ["DIGEST"])).to_string()
}

fn libraries(world: &mut World) -> Vec<String> {
    let mut client = world.connect();
    let Value::Array(libraries) = world.call(&mut client, &request("FUNCTION", ["LIST", "WITHCODE"])) else {
        panic!("FUNCTION LIST answers an array")
    };
    let mut texts: Vec<String> = libraries.iter().map(Value::to_string).collect();
    texts.sort();
    texts
}

/// The requests in the stream.
fn requests(mut stream: &[u8]) -> Vec<Request> {
    let mut requests = Vec::new();
    while let Some((Value::Array(words), length)) = resp::decode(stream).expect("the stream is well-formed") {
        let word = |value| match value {
            Value::Bulk(word) => word,
            other => panic!("{other} is no argument"),
        };
        requests.push(words.into_iter().map(word).collect());
        stream = &stream[length..];
    }
    requests
}

/// Runs the stream on a server with other numbers of threads and shards.
fn replay(stream: &[u8], entropy: &mut Entropy, first: &Setup) -> World {
    let setup = Setup::any(entropy);
    let threads = if setup.threads == first.threads { first.threads % 4 + 1 } else { setup.threads };
    let shards = if setup.shards == first.shards { first.shards + 1 } else { setup.shards };
    let net = SimConfig { latency_ns_max: 1, window_bytes: 1 << 20, cut_one_in: 0 };
    let setup = Setup { threads, shards, net, stalls_take_time: false, ..setup };
    let mut world = World::new(Entropy::from_seed(entropy.next_u64()), &setup);
    let mut client = world.connect();
    for request in requests(stream) {
        let reply = world.call(&mut client, &request);
        let failed = match &reply {
            Value::Array(replies) => replies.iter().any(|reply| matches!(reply, Value::Error(_))),
            reply => matches!(reply, Value::Error(_)),
        };
        let words: Vec<_> = request.iter().map(|word| word.escape_ascii().to_string()).collect();
        assert!(!failed, "{words:?}: {reply}");
    }
    assert!(world.now_ns() < EXPIRY_MS_MIN as u64 * 1_000_000, "keys expire while effects are replayed");
    world
}

/// Sends the stream to `redis` as its primary would, and waits until it has been run. On a busy machine, a replica sometimes
/// breaks off a handshake; then it connects again.
fn feed(redis: &Server, stream: &[u8]) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.set_nonblocking(true).expect("a socket need not wait");
    let port = listener.local_addr().expect("it is bound").port();
    assert_eq!(redis.client().show(&format!("REPLICAOF 127.0.0.1 {port}")), "OK");
    eventually("the replica has the stream", || match listener.accept() {
        Ok((link, _)) => feed_link(link, stream).is_some(),
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) => panic!("{error}"),
    });
}

/// Does that on one connection; `None` if the replica breaks it off.
fn feed_link(mut link: TcpStream, stream: &[u8]) -> Option<()> {
    link.set_nonblocking(false).expect("a socket can wait");
    link.set_read_timeout(Some(PATIENCE)).expect("a socket takes a timeout");
    let (mut input, mut is_fed) = (Vec::new(), false);
    loop {
        let request = received(&mut link, &mut input)?;
        let reply: Vec<u8> = match &request[0].to_ascii_uppercase()[..] {
            b"PING" => b"+PONG\r\n".into(),
            b"PSYNC" => {
                let head = format!("+FULLRESYNC {} 0\r\n${}\r\n", "a".repeat(40), EMPTY_SNAPSHOT.len());
                [head.as_bytes(), EMPTY_SNAPSHOT].concat()
            }
            b"REPLCONF" if request[1].eq_ignore_ascii_case(b"ACK") => {
                let offset: usize = String::from_utf8_lossy(&request[2]).parse().expect("a number");
                match std::mem::replace(&mut is_fed, true) {
                    false => [stream, b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n"].concat(),
                    true if offset >= stream.len() => return Some(()),
                    // The replica has not run everything yet.
                    true => Vec::new(),
                }
            }
            _ => b"+OK\r\n".into(),
        };
        link.write_all(&reply).ok()?;
    }
}

/// The next request of a replica; `None` if it has gone.
fn received(link: &mut TcpStream, input: &mut Vec<u8>) -> Option<Request> {
    loop {
        // The replica sends empty lines while it loads.
        let blank = input.iter().take_while(|byte| **byte == b'\n').count();
        input.drain(..blank);
        if let Some((Value::Array(words), length)) =
            resp::decode(input).expect("a replica speaks the protocol")
        {
            input.drain(..length);
            return words
                .into_iter()
                .map(|word| match word {
                    Value::Bulk(word) => Some(word),
                    other => panic!("{other} is no argument"),
                })
                .collect();
        }
        let mut bytes = [0; 4096];
        let count = link.read(&mut bytes).ok().filter(|count| *count > 0)?;
        input.extend(&bytes[..count]);
    }
}

/// The first keys whose values in `redis` and `world` differ.
fn differences(world: &mut World, redis: &Server) -> Vec<String> {
    let (mut ours, mut theirs) = (world.connect(), redis.client());
    let mut found = Vec::new();
    for db in 0..16 {
        let select = request("SELECT", [db.to_string()]);
        world.call(&mut ours, &select);
        theirs.call(&format!("SELECT {db}"));
        let mut keys = Vec::new();
        for reply in [world.call(&mut ours, &request("KEYS", ["*"])), theirs.call("KEYS *")] {
            let Value::Array(names) = reply else { continue };
            keys.extend(names.into_iter().filter_map(|name| match name {
                Value::Bulk(name) => Some(name),
                _ => None,
            }));
        }
        for key in keys {
            let look: Request = vec![b"DEBUG".to_vec(), b"DIGEST-VALUE".to_vec(), key.clone()];
            let our_value = world.call(&mut ours, &look);
            let args: Vec<&[u8]> = look.iter().map(Vec::as_slice).collect();
            theirs.send_args(&args);
            if our_value != theirs.receive() {
                found.push(format!("[{db}] {}", key.escape_ascii()));
            }
        }
    }
    found
}

/// The effects that contain one of `keys`, for a report.
fn effects_on(records: &[Record], keys: &[String]) -> Vec<String> {
    let names: Vec<&str> = keys.iter().filter_map(|key| key.split(' ').nth(1)).collect();
    let effects = records.iter().flat_map(Record::units).flat_map(|unit| unit.effects());
    effects
        .filter_map(|effect| {
            let words: Vec<String> =
                effect.args().iter().map(|word| word.escape_ascii().to_string()).collect();
            let is_about = words.len() < 3 || words[1..].iter().any(|word| names.contains(&&**word));
            is_about.then(|| format!("[{}] {}", effect.db, words.join(" ")))
        })
        .collect()
}

fn errors(redis: &Server) -> String {
    redis.client().info("stats", "total_error_replies")
}

#[test]
fn what_was_recorded_makes_the_same_data_elsewhere() {
    let redis = oracle();
    let table = server::table();
    let mut transactions = 0;
    for_each_seed("effects_stream", SEEDS, |mut entropy| {
        let tape = Tape::default();
        let setup = Setup { tape: Some(tape.clone()), ..Setup::any(&mut entropy) };
        let mut more = Vec::new();
        if entropy.below(2) == 0 {
            more.push("--zset-compress-bytes-min=1".to_owned());
        }
        if entropy.below(2) == 0 {
            more.extend(["--hash-compress-bytes-min=1", "--hash-compress-idle=0"].map(str::to_owned));
        }
        let setup = Setup { more, ..setup };
        let seed = entropy.next_u64();
        let mut world = World::new(Entropy::from_seed(entropy.next_u64()), &setup);
        play(&mut world, seed, &table);
        let expected = digest(&mut world);
        let records = tape.take();
        let written = |mut writer: Stream| {
            let mut stream = Vec::new();
            records.iter().for_each(|record| writer.write(record.units(), &mut stream));
            stream
        };
        transactions += records.iter().flat_map(Record::units).filter(|unit| unit.is_transaction()).count();
        if let Some(redis) = &redis {
            let before = errors(redis);
            feed(redis, &written(Stream::for_redis()));
            let theirs = redis.client().show("DEBUG DIGEST");
            if theirs != expected {
                let keys = differences(&mut world, redis);
                panic!("other data: {keys:?}\n{}", effects_on(&records, &keys).join("\n"));
            }
            assert_eq!(errors(redis), before, "the replica refused effects");
        }
        let mut replayed = replay(&written(Stream::default()), &mut entropy, &setup);
        assert_eq!(digest(&mut replayed), expected);
        assert_eq!(libraries(&mut replayed), libraries(&mut world));
    });
    assert!(transactions > 100, "only {transactions} transactions were recorded");
}
