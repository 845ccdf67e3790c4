//! Fills a server with keys or with a backlog of jobs, and takes them away again.

use std::io;
use std::time::Instant;

use clap::ValueEnum;
use proactor::Clock;
use resp::Value;

use crate::jobs::{Form, Job, Sidekiq};
use crate::line::{Line, lossy};

/// What stands before the number of a key.
pub(super) const PREFIX: &str = "bench";
/// Queues of the backlog, by number.
const QUEUES: u64 = 8;
/// Keys or jobs in one request.
const BULK: u64 = 1000;
/// Requests on their way at once.
const PIPELINE: usize = 16;

/// What a server is filled with.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Fill {
    /// Keys by DEBUG POPULATE, or jobs in queues.
    #[arg(long, value_enum, default_value = "keys")]
    pub(super) with: Content,
    /// How many keys or jobs.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    pub(super) count: u64,
    /// Bytes of a value, or of a job at least.
    #[arg(short, long, default_value_t = 550, value_parser = clap::value_parser!(u32).range(..=16_777_216))]
    pub(super) data_size: u32,
    /// Leave it there at the end.
    #[arg(long)]
    pub(super) keep: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Content {
    Keys,
    Jobs,
}

impl Fill {
    /// Fills; says how many seconds it took.
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
                self.in_bulk(line, |first, end, request| {
                    let queue = format!("bench{}", first / BULK % QUEUES);
                    let mut args = vec![b"lpush".to_vec(), format!("queue:{queue}").into_bytes()];
                    args.extend((first..end).map(|id| {
                        let mut job = Vec::new();
                        form.write(&queue, Job { id, due_ns: 0 }, &clock, &mut job);
                        job
                    }));
                    resp::encode_request(&args, request);
                })?;
            }
        }
        Ok(start.elapsed().as_secs_f64())
    }

    /// Takes away what it was filled with.
    pub(super) fn empty(&self, line: &mut Line) -> io::Result<()> {
        match self.with {
            Content::Keys => self.in_bulk(line, |first, end, request| {
                let mut args = vec!["unlink".to_owned()];
                args.extend((first..end).map(key));
                resp::encode_request(&args, request);
            }),
            Content::Jobs => {
                (0..QUEUES).try_for_each(|queue| line.demand(&["UNLINK", &format!("queue:bench{queue}")]))
            }
        }
    }

    /// Sends a request for each stretch of numbers, several on their way at once.
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

/// The key of a number, as DEBUG POPULATE writes it.
pub(super) fn key(number: u64) -> String {
    format!("{PREFIX}:{number}")
}
