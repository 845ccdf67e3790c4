//! `memory` and `snapshot`: measure the cost of data, and the cost of saving it.
//!
//! `memory` fills a server and empties it again. `snapshot` fills it, writes at a fixed rate, and makes it save
//! meanwhile. Both observe the memory of all the server's processes throughout: a server that forks to save has two.

mod fill;
mod snapshot;

use std::io;
use std::time::Duration;

use crate::number::{bytes, grouped};
use crate::options::Common;
use crate::report::{Report, per_second};
use crate::target::Greeting;
use crate::watch::{Eye, Memory, Watch, mebibytes};
use fill::{Content, Fill};
pub(crate) use snapshot::SnapshotOptions;

/// Fill a server, and measure how much memory that takes.
#[derive(Debug, clap::Args)]
pub(crate) struct MemoryOptions {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    fill: Fill,
    /// How long to watch before, between and after, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    around: Duration,
}

/// Parses a time of at most an hour.
fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("a time is a number of seconds up to 3600".to_owned()),
    }
}

impl MemoryOptions {
    pub(crate) fn run(&self) -> io::Result<Report> {
        let target = self.common.target()?;
        let mut line = target.line(Greeting::Plain)?;
        let info = line.info("everything")?;
        let eye = || Eye::open(&target, Greeting::Plain, true);
        let watch = eye().map(Watch::start);
        let mut eye = eye();
        let mut look = || eye.as_mut().and_then(Eye::look);
        std::thread::sleep(self.around);
        let before = look();
        let filled = self.fill.fill(&mut line);
        let mut report = Report::bare("memory", self.fill.title("Memory"), &target, &info);
        let seconds = match filled {
            Ok(seconds) => seconds,
            Err(error) => {
                report.complain(format!("it could not be filled: {error}"));
                0.0
            }
        };
        (report.seconds, report.operations) = (seconds, self.fill.count);
        report.operations_per_second = per_second(self.fill.count, seconds);
        std::thread::sleep(self.around);
        let after = look();
        if let (Some(before), Some(after), true) = (before, after, report.is_good) {
            self.fill.add_costs(&mut report, &before, &after);
        }
        if !self.fill.keep {
            self.fill.empty(&mut line)?;
            std::thread::sleep(self.around);
            if let Some(rss) = look().and_then(|memory| memory.rss_bytes) {
                report.add_figure("resident after emptying, MiB", mebibytes(rss));
            }
        }
        report.memory = watch.map(Watch::stop).unwrap_or_default();
        Ok(report)
    }
}

impl Fill {
    fn title(&self, what: &str) -> String {
        let content = match self.with {
            Content::Keys => "keys",
            Content::Jobs => "jobs",
            Content::Hashes | Content::Sets | Content::Zsets => {
                let name = format!("{:?}", self.with).to_lowercase();
                return format!(
                    "{what}: {} elements in {} {name}",
                    grouped(self.count),
                    grouped(self.collections)
                );
            }
        };
        format!("{what}: {} {content} of {}", grouped(self.count), bytes(self.data_size.into()))
    }

    /// Adds the memory used by one key or job.
    fn add_costs(&self, report: &mut Report, before: &Memory, after: &Memory) {
        for (name, before, after) in [
            ("used memory each, bytes", before.used_bytes, after.used_bytes),
            ("resident each, bytes", before.rss_bytes, after.rss_bytes),
        ] {
            if let Some((before, after)) = before.zip(after) {
                report.add_figure(name, after.saturating_sub(before) as f64 / self.count as f64);
            }
        }
    }
}
