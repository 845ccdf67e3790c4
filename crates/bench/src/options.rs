//! Options that all modes share, and parsers for numbers on the command line.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::control::Limits;
use crate::run::Plan;
use crate::target::{Greeting, Target};
use crate::tls::Trust;

/// Which server to load, and where the results go.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// The server: redis://[user:password@]host[:port][/db], rediss:// over TLS, or unix://[user:password@]/path[?db=n].
    #[arg(long, value_name = "URL")]
    url: Option<Target>,
    /// The server's host, without --url.
    #[arg(long, default_value = "127.0.0.1", conflicts_with = "url")]
    host: String,
    /// The server's port, without --url.
    #[arg(short, long, default_value_t = 6379, conflicts_with = "url")]
    port: u16,
    #[command(flatten)]
    trust: Trust,
    /// Write the results as JSON to this file; `-`: to standard output, in place of the table.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the results as a page with plots to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the plots as a picture to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Do not print the distribution of latencies.
    #[arg(long)]
    pub(crate) hide_histogram: bool,
    /// Most error replies; one more stops the run.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    errors_max: u64,
    /// How long the server may stay silent while replies are outstanding, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    silence_ms: u64,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Common {
    /// The part of the plan that these options determine. The caller fills in the rest.
    pub(crate) fn plan<'a>(&self, target: &'a Target, label: &'a str) -> Plan<'a> {
        Plan {
            target,
            label,
            kinds: &[],
            rate: &[],
            duration: None,
            limits: Limits { errors_max: self.errors_max, silence: Duration::from_millis(self.silence_ms) },
            greeting: Greeting::Plain,
            is_deep: false,
        }
    }

    /// The server.
    ///
    /// # Errors If a file for TLS cannot be used.
    pub(crate) fn target(&self) -> io::Result<Target> {
        self.url.clone().unwrap_or_else(|| Target::tcp(&self.host, self.port)).trusting(&self.trust)
    }
}

/// Clients that each send when they have got their replies.
#[derive(Clone, Debug, Args)]
pub(crate) struct Crowd {
    /// Connections of each thread.
    #[arg(short, long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    clients: u32,
    /// Threads that generate load.
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Jobs, or steps of the mix, of each connection.
    #[arg(short = 'n', long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// Seconds to run, in place of a number of requests.
    #[arg(long, value_name = "SECONDS", conflicts_with = "requests", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    test_time: Option<u64>,
}

impl Crowd {
    pub(crate) fn connections(&self) -> u32 {
        self.clients * self.threads
    }

    /// The numbers of each thread's clients.
    pub(crate) fn threads(&self) -> impl Iterator<Item = Range<u32>> {
        (0..self.threads).map(|thread| thread * self.clients..(thread + 1) * self.clients)
    }

    /// How long to run; `None` if the number of requests decides.
    pub(crate) fn duration(&self) -> Option<Duration> {
        self.test_time.map(Duration::from_secs)
    }

    /// Number of jobs or steps of each client.
    pub(crate) fn requests(&self) -> u64 {
        if self.test_time.is_some() { u64::MAX } else { self.requests }
    }
}

/// The part of `total` for `index` out of `count`. The remainder is spread over the first ones.
pub(crate) fn share(total: u64, count: u32, index: u32) -> u64 {
    let (count, index) = (u64::from(count), u64::from(index));
    total / count + u64::from(index < total % count)
}

/// Parses `min-max`, both inclusive.
pub(crate) fn range(text: &str) -> Result<(u64, u64), String> {
    let bounds = text.split_once('-').and_then(|(min, max)| Some((min.parse().ok()?, max.parse().ok()?)));
    match bounds {
        Some((min, max)) if min <= max => Ok((min, max)),
        _ => Err("a range is MIN-MAX, for instance 10-100".to_owned()),
    }
}

/// Parses two numbers separated by a colon.
pub(crate) fn pair(text: &str) -> Result<(u64, u64), String> {
    let parts =
        text.split_once(':').and_then(|(first, second)| Some((first.parse().ok()?, second.parse().ok()?)));
    match parts {
        Some((0, 0)) | None => Err("a ratio is SETS:GETS, for instance 1:10".to_owned()),
        Some(parts) => Ok(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for (total, count) in [(10, 3), (2, 5), (0, 2), (7, 7)] {
            let shares: Vec<u64> = (0..count).map(|index| share(total, count, index)).collect();
            assert_eq!(shares.iter().sum::<u64>(), total);
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1, "{shares:?}");
        }
    }

    #[test]
    fn ranges_and_ratios() {
        assert_eq!(range("10-20"), Ok((10, 20)));
        assert!(range("20-10").is_err() && range("10").is_err() && range("-5").is_err());
        assert_eq!(pair("1:10"), Ok((1, 10)));
        assert!(pair("0:0").is_err() && pair("1").is_err() && pair("a:b").is_err());
    }
}
