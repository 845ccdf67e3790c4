//! `kv`: SET and GET, with memtier_benchmark's options and their meanings.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use proactor::Entropy;

use crate::keys::{Keys, Pattern, Space, patterns};
use crate::load::{Counted, Step, Workload};
use crate::memcache;
use crate::number::grouped;
use crate::options::{Common, pair, range};
use crate::pace::Pace;
use crate::report::{Report, per_second};
use crate::run::{Plan, Team, run};
use crate::target::Greeting;

const SET: usize = 0;
const GET: usize = 1;
/// Number of random bytes from which values are cut.
const POOL_BYTES: usize = 1 << 20;

/// Set and get values, with the options of memtier_benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Kv {
    #[command(flatten)]
    pub(crate) common: Common,
    /// The protocol.
    #[arg(long, value_enum, default_value = "redis")]
    protocol: Protocol,
    /// Connections of each thread.
    #[arg(short, long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    clients: u32,
    /// Threads that generate load.
    #[arg(short, long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Requests of each connection.
    #[arg(short = 'n', long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// Seconds to run, in place of a number of requests.
    #[arg(long, value_name = "SECONDS", conflicts_with = "requests", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    test_time: Option<u64>,
    /// Ratio of SETs to GETs.
    #[arg(long, value_name = "SETS:GETS", default_value = "1:10", value_parser = pair)]
    ratio: (u64, u64),
    /// Requests that a connection sends before it waits for all their replies.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pipeline: u32,
    /// Bytes of a value.
    #[arg(short, long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    data_size: u64,
    /// Bytes of a value, chosen randomly for each.
    #[arg(long, value_name = "MIN-MAX", conflicts_with = "data_size", value_parser = range)]
    data_size_range: Option<(u64, u64)>,
    /// Seconds until a value expires, chosen randomly for each.
    #[arg(long, value_name = "MIN-MAX", value_parser = range)]
    expiry_range: Option<(u64, u64)>,
    /// Prefix of each key, before its number.
    #[arg(long, default_value = "memtier-")]
    key_prefix: String,
    /// The first key's number.
    #[arg(long, default_value_t = 0)]
    key_minimum: u64,
    /// The last key's number.
    #[arg(long, default_value_t = 10_000_000)]
    key_maximum: u64,
    /// Keys of SET and of GET: R random, G Gaussian, Z Zipf, S sequential, P sequential in parts.
    #[arg(long, value_name = "SET:GET", default_value = "R:R", value_parser = patterns)]
    key_pattern: (Pattern, Pattern),
    /// With G: the standard deviation; 0 is a sixth of the keys.
    #[arg(long, default_value_t = 0.0)]
    key_stddev: f64,
    /// With G: the median key; 0 is the middle of all.
    #[arg(long, default_value_t = 0)]
    key_median: u64,
    /// With Z: the exponent.
    #[arg(long, default_value_t = 1.0, value_parser = exponent)]
    key_zipf_exp: f64,
    /// Use different random keys for each connection.
    #[arg(long)]
    distinct_client_seed: bool,
    /// Most requests that each connection sends per second; latency counts from when a request was due.
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    rate_limiting: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    Redis,
    #[value(name = "memcache_text")]
    MemcacheText,
}

fn exponent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(exponent) if exponent > 0.0 && exponent <= 10.0 => Ok(exponent),
        _ => Err("an exponent is above 0 and at most 10".to_owned()),
    }
}

/// The parameters that all clients share.
#[derive(Debug)]
struct Shape {
    protocol: Protocol,
    ratio: (u64, u64),
    pipeline: u32,
    sizes: (u64, u64),
    expiry: Option<(u64, u64)>,
    prefix: String,
    pool: Vec<u8>,
}

struct Client {
    random: Entropy,
    set_keys: Keys,
    get_keys: Keys,
    /// Position in the cycle of SETs and GETs.
    turn: u64,
    left: u64,
    pace: Option<Pace>,
    /// The kinds of the requests in the current batch.
    sent: Vec<usize>,
    hits: u64,
}

struct Values {
    shape: Arc<Shape>,
    clients: Vec<Client>,
    scratch: Vec<u8>,
}

impl Workload for Values {
    fn step(&mut self, client: usize, now_ns: u64, requests: &mut Vec<u8>) -> Step {
        let Values { shape, clients, scratch } = self;
        let client = &mut clients[client];
        if client.left == 0 {
            return Step::Done;
        }
        let mut since_ns = now_ns;
        if let Some(pace) = &mut client.pace {
            since_ns = pace.due_ns();
            if since_ns > now_ns {
                return Step::At(since_ns);
            }
            (0..shape.pipeline).for_each(|_| _ = pace.take());
        }
        let count = client.left.min(u64::from(shape.pipeline));
        client.left -= count;
        client.sent.clear();
        for _ in 0..count {
            let kind = if client.turn < shape.ratio.0 { SET } else { GET };
            client.turn = (client.turn + 1) % (shape.ratio.0 + shape.ratio.1);
            client.sent.push(kind);
            client.write(shape, kind, scratch, requests);
        }
        Step::Sent { replies: count as u32, since_ns }
    }

    fn reply(&mut self, client: usize, index: u32, reply: &[u8], _now_ns: u64) -> Counted {
        let client = &mut self.clients[client];
        let kind = client.sent[index as usize];
        let is_miss = match self.shape.protocol {
            Protocol::Redis => matches!(reply, b"$-1\r\n" | b"_\r\n"),
            Protocol::MemcacheText => reply == b"END\r\n",
        };
        client.hits += u64::from(kind == GET && !is_miss);
        Counted::As(kind)
    }

    fn measure(&self, input: &[u8]) -> Result<Option<(usize, bool)>, String> {
        match self.shape.protocol {
            Protocol::Redis => resp::measure(input).map_err(|error| error.to_string()),
            Protocol::MemcacheText => memcache::measure(input),
        }
    }
}

impl Client {
    fn write(&mut self, shape: &Shape, kind: usize, scratch: &mut Vec<u8>, requests: &mut Vec<u8>) {
        let keys = if kind == SET { &mut self.set_keys } else { &mut self.get_keys };
        scratch.clear();
        scratch.extend_from_slice(shape.prefix.as_bytes());
        scratch.extend_from_slice(keys.next(&mut self.random).to_string().as_bytes());
        let key = scratch.as_slice();
        if kind == GET {
            return match shape.protocol {
                Protocol::Redis => resp::encode_request(&[b"GET", key], requests),
                Protocol::MemcacheText => memcache::get(key, requests),
            };
        }
        let mut between = |(min, max): (u64, u64)| min + self.random.below(max - min + 1);
        let size = between(shape.sizes) as usize;
        let expiry = shape.expiry.map(&mut between);
        let start = between((0, (POOL_BYTES - size) as u64)) as usize;
        let value = &shape.pool[start..start + size];
        match (shape.protocol, expiry) {
            (Protocol::Redis, None) => resp::encode_request(&[b"SET", key, value], requests),
            (Protocol::Redis, Some(seconds)) => {
                resp::encode_request(&[b"SETEX", key, seconds.to_string().as_bytes(), value], requests);
            }
            (Protocol::MemcacheText, seconds) => memcache::set(key, seconds.unwrap_or(0), value, requests),
        }
    }
}

impl Kv {
    pub(crate) fn run(&self) -> io::Result<Report> {
        let target = self.common.target()?;
        if self.key_minimum > self.key_maximum {
            return Err(io::Error::other("--key-minimum is above --key-maximum"));
        }
        let sizes = self.data_size_range.unwrap_or((self.data_size, self.data_size));
        if sizes.1 > POOL_BYTES as u64 {
            return Err(io::Error::other(format!(
                "values have {} bytes at most",
                grouped(POOL_BYTES as u64)
            )));
        }
        let plan = Plan {
            kinds: &["set", "get"],
            rate: &[SET, GET],
            duration: self.test_time.map(Duration::from_secs),
            greeting: self.greeting(),
            ..self.common.plan(&target, "kv")
        };
        let mut random = Entropy::from_seed(self.common.seed);
        let shape = Arc::new(Shape {
            protocol: self.protocol,
            ratio: self.ratio,
            pipeline: self.pipeline,
            sizes,
            expiry: self.expiry_range,
            prefix: self.key_prefix.clone(),
            pool: (0..POOL_BYTES).map(|_| b'a' + random.below(26) as u8).collect(),
        });
        let outcome = run(&plan, (0..self.threads).map(|thread| self.team(thread, &shape)).collect())?;
        let hits: u64 =
            outcome.workloads.iter().flat_map(|values| &values.clients).map(|client| client.hits).sum();
        let gets = outcome.latencies.of(GET).len();
        let title = format!(
            "Values: {} threads with {} connections, {} in flight each, {}:{} sets:gets",
            self.threads, self.clients, self.pipeline, self.ratio.0, self.ratio.1
        );
        let mut report = Report::new("kv", title, &plan, outcome);
        if gets > 0 {
            report.add_figure("hits, % of gets", 100.0 * hits as f64 / gets as f64);
        }
        self.judge_rate(&mut report);
        Ok(report)
    }

    fn greeting(&self) -> Greeting {
        match self.protocol {
            Protocol::Redis => Greeting::Plain,
            Protocol::MemcacheText => Greeting::Silent,
        }
    }

    fn team(&self, thread: u32, shape: &Arc<Shape>) -> Team<Values> {
        let space = Space {
            min: self.key_minimum,
            max: self.key_maximum,
            deviation: self.key_stddev,
            median: self.key_median,
            exponent: self.key_zipf_exp,
        };
        let clients = u64::from(self.clients) * u64::from(self.threads);
        let client = |number: u64| Client {
            random: Entropy::from_seed(self.common.seed + if self.distinct_client_seed { number } else { 0 }),
            set_keys: space.keys(self.key_pattern.0, number, clients),
            get_keys: space.keys(self.key_pattern.1, number, clients),
            turn: 0,
            left: if self.test_time.is_some() { u64::MAX } else { self.requests },
            pace: self.rate_limiting.map(|rate| Pace::shared(rate * clients, number, clients)),
            sent: Vec::new(),
            hits: 0,
        };
        let first = u64::from(thread) * u64::from(self.clients);
        let clients = (first..first + u64::from(self.clients)).map(client).collect();
        Team {
            workload: Values { shape: shape.clone(), clients, scratch: Vec::new() },
            clients: vec![(self.greeting(), false); self.clients as usize],
        }
    }

    /// Adds a complaint if the server could not keep up with the requested rate.
    fn judge_rate(&self, report: &mut Report) {
        let Some(rate) = self.rate_limiting else { return };
        let asked = rate * u64::from(self.clients) * u64::from(self.threads);
        report.add_figure("asked, requests per second", asked as f64);
        let reached = per_second(report.operations, report.seconds) / asked as f64;
        // The first request of each connection is due at the start.
        if report.seconds > 1.0 && reached < 0.97 {
            report.complain(format!(
                "too slow for the asked rate: {:.1} % of it; latencies include the delay",
                reached * 100.0
            ));
        }
    }
}
