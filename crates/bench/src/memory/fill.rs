//! Fills a server with keys, a backlog of jobs or collections, and empties it again.

use std::io;
use std::time::Instant;

use clap::ValueEnum;
use proactor::Clock;
use resp::Value;

use crate::jobs::{Form, Job, Sidekiq, spread};
use crate::line::{Line, lossy};

/// Prefix of each key, before its number.
pub(super) const PREFIX: &str = "bench";
/// Keys, jobs or elements in one request.
const BULK: u64 = 1000;
/// Requests in flight at once.
const PIPELINE: usize = 16;

/// What the server is filled with.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Fill {
    /// Keys by DEBUG POPULATE, jobs in queues, or elements of collections.
    #[arg(long, value_enum, default_value = "keys")]
    pub(super) with: Content,
    /// Number of keys, jobs or elements.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    pub(super) count: u64,
    /// Number of queues or other collections that they are spread over.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(super) collections: u64,
    /// Bytes of a value, or minimum bytes of a job.
    #[arg(short, long, default_value_t = 550, value_parser = clap::value_parser!(u32).range(..=16_777_216))]
    pub(super) data_size: u32,
    /// Leave the data there at the end.
    #[arg(long)]
    pub(super) keep: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Content {
    Keys,
    Jobs,
    /// Fields of 9 bytes with values of 8.
    Hashes,
    /// Members of 8 bytes.
    Sets,
    /// Members of 8 bytes with scores.
    Zsets,
}

impl Fill {
    /// Fills the server. Returns how many seconds that took.
    pub(super) fn fill(&self, line: &mut Line) -> io::Result<f64> {
        let start = Instant::now();
        match self.with {
            Content::Keys => {
                line.demand(&[
                    "DEBUG",
                    "POPULATE",
                    &self.count.to_string(),
                    PREFIX,
                    &self.data_size.to_string(),
                ])?;
            }
            Content::Jobs => {
                let form = Form::new(Sidekiq::Seven, self.data_size as usize);
                let clock = Clock::real();
                self.in_collections(line, "lpush", |id, collection, args| {
                    let mut job = Vec::new();
                    form.write(&queue(collection), Job { id, due_ns: 0 }, &clock, &mut job);
                    args.push(job);
                })?;
            }
            Content::Hashes => self.in_collections(line, "hset", |id, _, args| {
                args.extend([format!("f{id:08}").into_bytes(), format!("v{id:07}").into_bytes()]);
            })?,
            Content::Sets => self.in_collections(line, "sadd", |id, _, args| {
                args.push(format!("m{id:07}").into_bytes());
            })?,
            Content::Zsets => self.in_collections(line, "zadd", |id, _, args| {
                let score = spread(id) >> 20;
                args.extend([score.to_string().into_bytes(), format!("m{id:07}").into_bytes()]);
            })?,
        }
        Ok(start.elapsed().as_secs_f64())
    }

    /// Deletes what [`fill`](Self::fill) created.
    pub(super) fn empty(&self, line: &mut Line) -> io::Result<()> {
        match self.with {
            Content::Keys => self.in_bulk(line, |first, end, request| {
                let mut args = vec!["unlink".to_owned()];
                args.extend((first..end).map(key));
                resp::encode_request(&args, request);
            }),
            Content::Jobs | Content::Hashes | Content::Sets | Content::Zsets => {
                let collections = (0..self.collections).map(|number| self.collection(number));
                collections.into_iter().try_for_each(|key| line.demand(&["UNLINK", &key]))
            }
        }
    }

    /// The key of the collection with this number.
    fn collection(&self, number: u64) -> String {
        match self.with {
            Content::Jobs => format!("queue:{}", queue(number)),
            _ => key(number),
        }
    }

    /// Adds elements to the collections in turn, a batch with each `command`. `write` appends one element of a collection.
    fn in_collections(
        &self,
        line: &mut Line,
        command: &str,
        write: impl Fn(u64, u64, &mut Vec<Vec<u8>>),
    ) -> io::Result<()> {
        self.in_bulk(line, |first, end, request| {
            let collection = first / BULK % self.collections;
            let mut args = vec![command.as_bytes().to_vec(), self.collection(collection).into_bytes()];
            (first..end).for_each(|id| write(id, collection, &mut args));
            resp::encode_request(&args, request);
        })
    }

    /// Sends one request per batch of numbers, several in flight at once.
    fn in_bulk(&self, line: &mut Line, mut write: impl FnMut(u64, u64, &mut Vec<u8>)) -> io::Result<()> {
        let mut firsts = (0..self.count).step_by(BULK as usize).peekable();
        let mut requests = Vec::new();
        while firsts.peek().is_some() {
            requests.clear();
            let mut sent = 0;
            for first in firsts.by_ref().take(PIPELINE) {
                write(first, self.count.min(first + BULK), &mut requests);
                sent += 1;
            }
            line.send(&requests)?;
            for _ in 0..sent {
                if let Value::Error(text) = line.receive()? {
                    return Err(io::Error::other(lossy(&text)));
                }
            }
        }
        Ok(())
    }
}

/// The name of the queue with this number.
fn queue(number: u64) -> String {
    format!("{PREFIX}{number}")
}

/// The name of the key with this number, as DEBUG POPULATE writes it.
pub(super) fn key(number: u64) -> String {
    format!("{PREFIX}:{number}")
}
