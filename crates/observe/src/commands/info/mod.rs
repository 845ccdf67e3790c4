//! INFO: shows the server's figures, with the field names of Redis 7.2 that clients and exporters read.
//!
//! No shard is entered: the figures of shards and threads are read while they change. Fields about features that do not
//! exist here (cluster, modules) have the values that Redis reports when these are off, because exporters expect them.

mod queues;
mod sections;

use std::fmt::Write;

use engine::Flag::*;
use engine::{Acl, CommandResult, Group, Shape, string};
use keyspace::Figure;
use shard::Figures;

use crate::facts::{Facts, Server};
use crate::observing::{Ctx, Entry, Run};
use crate::stats::{Counter, ThreadStats};

/// INFO.
pub(super) const INFO: Entry = Entry {
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
};

/// When a section is shown if it is not named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// With `INFO` without arguments.
    ByDefault,
    /// With `all` and `everything`.
    InAll,
}

/// A section: its title, when it is shown, and the function that writes it.
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
    ("Queues", Shown::InAll, queues::queues),
    ("Keyspace", Shown::ByDefault, sections::keyspace),
];

fn info(ctx: &mut Ctx) -> CommandResult {
    let names = &ctx.args[1..];
    let has = |word: &str| names.iter().any(|name| name.eq_ignore_ascii_case(word.as_bytes()));
    let (all, default) = (has("all") || has("everything"), has("default") || names.is_empty());
    let facts = ctx.host.facts;
    let wanted = |title: &str, shown: Shown| all || (default && shown == Shown::ByDefault) || has(title);
    let text = text(facts, wanted);
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// The text of the wanted sections.
fn text(facts: &dyn Facts, wanted: impl Fn(&str, Shown) -> bool) -> String {
    let mut text = String::new();
    let server = facts.server();
    for (title, shown, tell) in SECTIONS {
        if wanted(title, *shown) {
            let gap = if text.is_empty() { "" } else { "\r\n" };
            let _ = write!(text, "{gap}# {title}\r\n");
            tell(&mut Report { facts, server: &server, to: &mut |name, value| value.write(name, &mut text) });
        }
    }
    text
}

/// Passes the fields of these sections to `to`, for other views of the figures than INFO.
pub fn figures(facts: &dyn Facts, titles: &[&str], to: &mut dyn FnMut(&str, InfoValue<'_>)) {
    let server = facts.server();
    for (_, _, tell) in SECTIONS.iter().filter(|(title, ..)| titles.contains(title)) {
        tell(&mut Report { facts, server: &server, to });
    }
}

/// The value of a field.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum InfoValue<'a> {
    /// A whole number.
    Number(i128),
    /// A number of bytes. INFO shows it a second time with a unit.
    Bytes(u64),
    /// A number with two decimals.
    Ratio(f64),
    /// A percentage with two decimals.
    Percent(f64),
    /// Seconds with six decimals.
    Seconds(f64),
    /// A word, or several figures in one text.
    Text(&'a str),
}

impl InfoValue<'_> {
    /// Adds the field to the text of INFO.
    fn write(self, name: &str, text: &mut String) {
        let _ = match self {
            InfoValue::Number(number) => write!(text, "{name}:{number}\r\n"),
            InfoValue::Bytes(bytes) => write!(text, "{name}:{bytes}\r\n{name}_human:{}\r\n", Human(bytes)),
            InfoValue::Ratio(ratio) => write!(text, "{name}:{ratio:.2}\r\n"),
            InfoValue::Percent(percent) => write!(text, "{name}:{percent:.2}%\r\n"),
            InfoValue::Seconds(seconds) => write!(text, "{name}:{seconds:.6}\r\n"),
            InfoValue::Text(value) => write!(text, "{name}:{value}\r\n"),
        };
    }
}

/// Passes figures field by field to the callback that shows them.
struct Report<'a> {
    facts: &'a dyn Facts,
    server: &'a Server,
    to: &'a mut dyn FnMut(&str, InfoValue<'_>),
}

impl Report<'_> {
    fn field(&mut self, name: &str, value: InfoValue<'_>) {
        (self.to)(name, value);
    }

    fn number(&mut self, name: &str, number: impl Into<i128>) {
        self.field(name, InfoValue::Number(number.into()));
    }

    /// A counter of threads that has this name in INFO.
    fn total(&mut self, name: &str) {
        let total = ThreadStats::TOTALS.iter().find(|total| total.info == Some(name));
        let total = total.expect("counters are declared with their names");
        self.number(name, self.sum(total.of));
    }

    fn text(&mut self, name: &str, text: &str) {
        self.field(name, InfoValue::Text(text));
    }

    fn ratio(&mut self, name: &str, ratio: f64) {
        self.field(name, InfoValue::Ratio(ratio));
    }

    fn bytes(&mut self, name: &str, bytes: u64) {
        self.field(name, InfoValue::Bytes(bytes));
    }

    /// Fields about things that Darter does not have.
    fn zeros(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.number(name, 0));
    }

    /// The sum of a counter over all threads.
    fn sum(&self, counter: impl Fn(&ThreadStats) -> &Counter) -> u64 {
        self.facts.observed().sum(counter)
    }

    /// The sum of something over all shards.
    fn over_shards(&self, figure: impl Fn(&Figures) -> &Figure) -> u64 {
        self.facts.observed().over_shards(self.facts.shards(), figure)
    }
}

/// Bytes with a unit, as Redis formats them.
struct Human(u64);

impl std::fmt::Display for Human {
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
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use engine::{Shards, Table};
    use keyspace::queue::Queues;

    use super::queues::QUEUES_SHOWN_MAX;
    use super::*;
    use crate::facts::{Clients, CpuTime, Loading, Persistence, Replication, Spans};
    use crate::memory::Memory;
    use crate::observed::Observed;
    use crate::settings::ObserveSettings;

    #[test]
    fn bytes_have_units() {
        for (bytes, text) in
            [(0, "0B"), (1023, "1023B"), (1024, "1.00K"), (965_984, "943.34K"), (25_276_514_304, "23.54G")]
        {
            assert_eq!(Human(bytes).to_string(), text);
        }
    }

    /// A server with few figures.
    struct Example {
        observed: Observed,
        shards: Shards,
        table: Table,
    }

    impl Facts for Example {
        fn observed(&self) -> &Observed {
            &self.observed
        }
        fn shards(&self) -> &Shards {
            &self.shards
        }
        fn table(&self) -> &Table {
            &self.table
        }
        fn server(&self) -> Server {
            Server {
                run_id: "1".repeat(40),
                listeners: vec!["name=tcp".to_owned()],
                steady_ms: 10_000,
                ..Server::default()
            }
        }
        fn clients(&self) -> Clients {
            Clients { connected: 3, max: 10_000, tracking: 1 }
        }
        fn memory(&self) -> Memory {
            Memory { used_bytes: 2048, rss_bytes: 1024, peak_bytes: 4096, ..Memory::default() }
        }
        fn replication(&self) -> Replication {
            Replication { id: "0".repeat(40), ..Replication::default() }
        }

        fn persistence(&self) -> Persistence {
            let loading = Loading { total_bytes: 8, loaded_bytes: 4, percent: 50.0, ..Loading::default() };
            Persistence { loading: Some(loading), last_took_seconds: -1, ..Persistence::default() }
        }
        fn spans(&self) -> Spans {
            Spans::default()
        }
        fn pattern_count(&self) -> usize {
            2
        }
        fn cpu(&self) -> [CpuTime; 3] {
            [CpuTime { system: 0.5, user: 1.25 }; 3]
        }
        fn latency_percents(&self) -> Vec<f64> {
            vec![50.0]
        }
    }

    fn example() -> Example {
        let settings =
            ObserveSettings { logs: Default::default(), latency_threshold_ms: None, tracks_durations: true };
        let placement = shard::Placement::new(ds::hashing::Seed::new(1), 2, None);
        let entries: &'static [engine::Entry] = &[engine::Entry { name: "get", ..engine::Entry::DEFAULT }];
        let table = Table::new(&[entries]);
        let observed = Observed::new(2, table.len(), settings);
        Example { observed, shards: Shards::new(placement, 2, 1, 1), table }
    }

    #[track_caller]
    fn check(example: &Example, title: &str, lines: &[&str]) {
        let text = text(example, |known, _| known == title);
        for line in lines {
            assert!(text.contains(&format!("\r\n{line}\r\n")), "no {line} in\n{text}");
        }
    }

    #[test]
    fn each_counter_that_has_a_name_is_shown_and_reset() {
        let example = example();
        let totals = || ThreadStats::TOTALS.iter();
        for stats in example.observed.threads() {
            (1..).zip(totals()).for_each(|(number, total)| (total.of)(stats).add(number));
        }
        let shown = text(&example, |_, _| true);
        for (number, total) in (1..).zip(totals()) {
            if let Some(name) = total.info {
                let line = format!("\r\n{name}:{}\r\n", 2 * number);
                assert!(shown.contains(&line), "no {line} in\n{shown}");
            }
        }
        example.observed.reset(&example.shards);
        let left = totals().filter(|total| example.observed.sum(total.of) > 0);
        assert_eq!(left.map(|total| total.what).collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn sections_say_what_is_known() {
        let example = example();
        for stats in example.observed.threads() {
            let command = stats.own_command(engine::CommandId(0));
            command.calls.add(2);
            command.ns.add(6000);
            command.duration_of(1000).add(2);
            stats.count_error("WRONGTYPE");
            stats.denied[crate::Denial::Key as usize].add(1);
        }
        check(&example, "Server", &["listener0:name=tcp", "shards:2"]);
        check(&example, "Clients", &["connected_clients:3", "maxclients:10000", "tracking_clients:1"]);
        check(
            &example,
            "Memory",
            &[
                "used_memory:2048",
                "used_memory_human:2.00K",
                "used_memory_peak_perc:50.00%",
                "mem_fragmentation_bytes:-1024",
            ],
        );
        check(
            &example,
            "Persistence",
            &[
                "loading:1",
                "loading_loaded_perc:50.00",
                "rdb_last_bgsave_time_sec:-1",
                "current_fork_perc:0.00",
            ],
        );
        check(&example, "Stats", &["pubsub_patterns:2", "total_error_replies:2", "acl_access_denied_key:2"]);
        check(&example, "CPU", &["used_cpu_sys:0.500000", "used_cpu_user_main_thread:1.250000"]);
        let get = "cmdstat_get:calls=4,usec=12,usec_per_call=3.00,rejected_calls=0,failed_calls=0";
        check(&example, "Commandstats", &[get]);
        check(&example, "Errorstats", &["errorstat_WRONGTYPE:count=2"]);
        check(&example, "Latencystats", &["latency_percentiles_usec_get:p50=1.008"]);
    }

    /// Makes a queue known.
    fn know(queues: &mut Queues, hash: u64, name: &[u8]) -> Arc<keyspace::queue::Figures> {
        queues.awaited(hash, name).expect("the name is that of a queue")
    }

    #[test]
    fn queues_are_shown_in_their_order() {
        let example = example();
        let mut queues = Queues::new(example.shards.queues(), &Arc::new(ds::hashing::Seed::new(1)), 0, true);
        let empty = "name=queue:a,db=0,system=sidekiq,state=waiting,depth=0,oldest_ms=0,in_per_s=0.00,out_per_s=0.00,waiters=2,paused=1,bytes=0";
        let figures = know(&mut queues, 1, b"queue:a");
        figures.set_paused(true);
        figures.waiters.store(2, Ordering::Relaxed);
        let filled = "name=queue:b%2C%3D%25%20%0D%0A%C3%A9%00,db=0,system=sidekiq,state=waiting,depth=3,oldest_ms=12,in_per_s=0.00,out_per_s=0.00,waiters=0,paused=0,bytes=218";
        let figures = know(&mut queues, 2, "queue:b,=% \r\n\u{e9}\0".as_bytes());
        figures.depth.set(3);
        figures.oldest_ms.set(9_988);
        figures.memory_bytes.set(218);
        // The elements of this list are active jobs, not waiting ones.
        let figures = know(&mut queues, 3, b"bull:q:active");
        figures.depth.set(5);
        figures.oldest_ms.set(9_990);
        check(
            &example,
            "Queues",
            &[
                "queues_known:3",
                "queues_paused:1",
                "queues_turned_away:0",
                "queue_jobs_waiting:3",
                "queue_oldest_ms:12",
                "queue_waiters:2",
                &format!("queue0:{filled}"),
                &format!("queue1:{empty}"),
                "queues_not_shown:0",
            ],
        );
    }

    #[test]
    fn few_queues_are_shown_of_many() {
        let example = example();
        let mut queues = Queues::new(example.shards.queues(), &Arc::new(ds::hashing::Seed::new(1)), 0, true);
        for number in 0..QUEUES_SHOWN_MAX as u64 + 3 {
            know(&mut queues, number, format!("queue:{number:03}").as_bytes());
        }
        know(&mut queues, 1000, &[b"queue:", &[b'a'; 1019][..]].concat());
        let last = format!("queue{}:name=queue:{},", QUEUES_SHOWN_MAX - 1, QUEUES_SHOWN_MAX - 1);
        let text = text(&example, |title, _| title == "Queues");
        assert_eq!(text.lines().filter(|line| line.contains(":name=")).count(), QUEUES_SHOWN_MAX);
        assert!(text.contains(&last), "no {last} in\n{text}");
        assert!(text.ends_with("\r\nqueues_not_shown:4\r\n"), "{text}");
    }

    #[test]
    fn sections_are_apart() {
        let text = text(&example(), |title, _| ["Modules", "Cluster", "Keyspace"].contains(&title));
        assert_eq!(text, "# Modules\r\n\r\n# Cluster\r\ncluster_enabled:0\r\n\r\n# Keyspace\r\n");
    }
}
