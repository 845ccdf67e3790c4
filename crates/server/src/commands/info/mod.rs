//! INFO: what the server knows about itself, with the field names of Redis 7.2 that clients and exporters read.
//!
//! No shard is entered: what shards and threads count is read while they go on. Fields about things that are not here (replicas, cluster,
//! append-only file, modules) are answered as Redis answers them when they are off; exporters expect them.

mod figures;
mod sections;

use std::fmt::{Display, Write};

use command::Flag::*;
use command::{Acl, CommandResult, Group, Shape, string};

use keyspace::Figure;
use shard::Figures;

use crate::commands::own::{Ctx, Entry, Run};
use crate::shared::Shared;

pub(super) use figures::MemoryFigures;

/// The family of INFO.
pub(crate) const ENTRIES: &[Entry] = &[Entry {
    name: "info",
    summary: "Returns information and statistics about the server.",
    since: "1.0.0",
    group: Group::Server,
    arity: -1,
    flags: &[Loading, Stale],
    acl: &[Acl::Dangerous],
    args: &[string("section").optional().multiple()],
    history: &[("7.0.0", "Added support for taking multiple section arguments.")],
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    reply: Shape::Verbatim,
    run: Run::Function(info),
    ..Entry::DEFAULT
}];

/// When a section is shown without being named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// By INFO without arguments.
    ByDefault,
    /// By `all` and `everything`.
    InAll,
}

/// A section: its title, when it is shown, and what writes it.
type Section = (&'static str, Shown, fn(&mut Report));

const SECTIONS: &[Section] = &[
    ("Server", Shown::ByDefault, sections::server),
    ("Clients", Shown::ByDefault, sections::clients),
    ("Memory", Shown::ByDefault, sections::memory),
    ("Persistence", Shown::ByDefault, sections::persistence),
    ("Stats", Shown::ByDefault, sections::stats),
    ("Replication", Shown::ByDefault, sections::replication),
    ("CPU", Shown::ByDefault, sections::cpu),
    ("Modules", Shown::ByDefault, |_| {}),
    ("Commandstats", Shown::InAll, sections::commandstats),
    ("Errorstats", Shown::ByDefault, sections::errorstats),
    ("Latencystats", Shown::InAll, sections::latencystats),
    ("Cluster", Shown::ByDefault, sections::cluster),
    ("Transaction", Shown::InAll, sections::transaction),
    ("Keyspace", Shown::ByDefault, sections::keyspace),
];

fn info(ctx: &mut Ctx) -> CommandResult {
    let names = &ctx.args[1..];
    let has = |word: &str| names.iter().any(|name| name.eq_ignore_ascii_case(word.as_bytes()));
    let (all, default) = (has("all") || has("everything"), has("default") || names.is_empty());
    let host = &mut *ctx.host;
    let (now_us, monotonic_ms) = (host.driver.clock().now_us(), host.now_ms);
    let mut report = Report { text: String::new(), shared: host.shared, now_us, monotonic_ms };
    for (title, shown, write) in SECTIONS {
        if all || (default && *shown == Shown::ByDefault) || has(title) {
            let gap = if report.text.is_empty() { "" } else { "\r\n" };
            let _ = write!(report.text, "{gap}# {title}\r\n");
            write(&mut report);
        }
    }
    let text = report.text;
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// The text of INFO, as far as it is written.
struct Report {
    text: String,
    shared: &'static Shared,
    now_us: u64,
    monotonic_ms: u64,
}

impl Report {
    /// Adds a field.
    fn field(&mut self, name: impl Display, value: impl Display) {
        let _ = write!(self.text, "{name}:{value}\r\n");
    }

    /// Adds fields with the same value.
    fn fields(&mut self, names: &[&str], value: impl Display) {
        names.iter().for_each(|name| self.field(name, &value));
    }

    /// Adds a number of bytes, and again as people like to read it.
    fn bytes(&mut self, name: &str, bytes: u64) {
        self.field(name, bytes);
        self.field(format_args!("{name}_human"), Human(bytes));
    }

    /// The sum of something over all shards.
    fn over_shards(&self, figure: impl Fn(&Figures) -> &Figure) -> u64 {
        self.shared.observed.over_shards(&self.shared.shards, figure)
    }
}

/// Bytes with a unit, as Redis writes them.
struct Human(u64);

impl Display for Human {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let units = ["K", "M", "G", "T", "P"];
        let mut amount = self.0 as f64 / 1024.0;
        if amount < 1.0 {
            return write!(f, "{}B", self.0);
        }
        let mut unit = 0;
        while amount >= 1024.0 && unit + 1 < units.len() {
            amount /= 1024.0;
            unit += 1;
        }
        write!(f, "{amount:.2}{}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        for (bytes, text) in
            [(0, "0B"), (1023, "1023B"), (1024, "1.00K"), (965_984, "943.34K"), (25_276_514_304, "23.54G")]
        {
            assert_eq!(Human(bytes).to_string(), text);
        }
    }
}
