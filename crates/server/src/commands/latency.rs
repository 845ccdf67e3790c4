//! LATENCY: how long commands take.
//!
//! HISTOGRAM counts every command by its duration; the other subcommands show what the latency monitor
//! (`latency_monitor.rs`) noted.

use std::collections::{BTreeMap, VecDeque};

use command::Flag::*;
use command::{Command, CommandError, CommandId, CommandResult, Group, Shape, string};
use settings::{LATENCY_MONITOR_THRESHOLD, SLOWLOG_LOG_SLOWER_THAN};

use crate::commands::own::{Ctx, Entry, Run};
use crate::observe::latency_monitor::Series;
use crate::observe::stats::{DURATION_BUCKETS, bucket_start_ns, duration_bucket};
use crate::shared::Shared;

/// The family of LATENCY.
pub(crate) const ENTRIES: &[Entry] = &[Entry {
    name: "latency",
    summary: "A container for latency diagnostics commands.",
    complexity: "Depends on subcommand.",
    since: "2.8.13",
    group: Group::Server,
    arity: -2,
    subcommands: &[
        LATENCY_DOCTOR,
        LATENCY_GRAPH,
        LATENCY_HELP,
        LATENCY_HISTOGRAM,
        LATENCY_HISTORY,
        LATENCY_LATEST,
        LATENCY_RESET,
    ],
    ..Entry::DEFAULT
}];

const TIPS: &[&str] = &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];

/// What the subcommands have in common.
const SUBCOMMAND: Entry = Entry {
    since: "2.8.13",
    group: Group::Server,
    flags: &[Admin, NoScript, Loading, Stale],
    tips: TIPS,
    ..Entry::DEFAULT
};

const LATENCY_HISTOGRAM: Entry = Entry {
    name: "histogram",
    summary: "Returns the cumulative distribution of latencies of a subset or all commands.",
    complexity: "O(N) where N is the number of commands with latency information being retrieved.",
    since: "7.0.0",
    arity: -2,
    args: &[string("command").optional().multiple()],
    reply: Shape::Map(&Shape::Bulk, &Shape::Map(&Shape::Bulk, &Shape::Any)),
    run: Run::Function(latency_histogram),
    ..SUBCOMMAND
};

fn latency_histogram(ctx: &mut Ctx) -> CommandResult {
    let shared = ctx.host.shared;
    let table = &shared.table;
    let mut commands: Vec<&Command> = Vec::new();
    match &ctx.args[2..] {
        [] => commands.extend(table.all_with_protocol()),
        names => {
            for command in names.iter().filter_map(|name| table.by_full_name(name)) {
                commands.push(command);
                commands.extend(table.subcommands(command));
            }
        }
    }
    let map = ctx.reply.deferred();
    let mut count = 0;
    for command in commands {
        let durations = Durations::of(shared, command.id);
        if durations.calls == 0 {
            continue;
        }
        count += 1;
        ctx.reply.bulk(command.full_name.as_bytes());
        ctx.reply.map(2);
        ctx.reply.bulk(b"calls");
        ctx.reply.int(durations.calls as i64);
        ctx.reply.bulk(b"histogram_usec");
        let steps = durations.cumulative_us();
        ctx.reply.map(steps.len());
        for (us, calls) in steps {
            ctx.reply.int(us as i64);
            ctx.reply.int(calls as i64);
        }
    }
    ctx.reply.finish_map(map, count);
    Ok(())
}

/// How often a command took how long, on all threads.
pub(super) struct Durations {
    pub(super) calls: u64,
    buckets: [u64; DURATION_BUCKETS],
}

impl Durations {
    pub(super) fn of(shared: &Shared, id: CommandId) -> Durations {
        let mut buckets = [0; DURATION_BUCKETS];
        if shared.sum(|stats| &stats.command(id).calls) > 0 {
            buckets = std::array::from_fn(|bucket| shared.sum(|stats| stats.command(id).calls_in(bucket)));
        }
        Durations { calls: buckets.iter().sum(), buckets }
    }

    /// Numbers of calls of up to 1, 2, 4 … microseconds, where there are more than in the step before. The steps are
    /// powers of two in nanoseconds from 1024 on, named as Redis' histogram of two digits names them.
    fn cumulative_us(&self) -> Vec<(u64, u64)> {
        let mut steps = Vec::new();
        let mut before = 0;
        for log2 in 10..u64::BITS {
            let below = duration_bucket(1 << log2);
            let is_last = below == DURATION_BUCKETS - 1;
            let calls = self.buckets[..if is_last { DURATION_BUCKETS } else { below }].iter().sum();
            if calls > before {
                steps.push((((1_u64 << log2) + (1 << (log2 - 7)) - 1) / 1000, calls));
                before = calls;
            }
            if is_last {
                break;
            }
        }
        steps
    }

    /// The duration in microseconds that `percent` of the calls did not exceed, as near as the buckets tell.
    pub(super) fn percentile_us(&self, percent: f64) -> f64 {
        let wanted = self.calls as f64 * percent / 100.0;
        let mut below = 0.0;
        for (bucket, &calls) in self.buckets.iter().enumerate().filter(|(_, calls)| **calls > 0) {
            if below + calls as f64 >= wanted {
                let (start, end) = (bucket_start_ns(bucket) as f64, bucket_start_ns(bucket + 1) as f64);
                return (start + (end - start) * (wanted - below) / calls as f64) / 1000.0;
            }
            below += calls as f64;
        }
        0.0
    }
}

const LATENCY_LATEST: Entry = Entry {
    name: "latest",
    summary: "Returns the latest latency samples for all events.",
    arity: 2,
    reply: Shape::Array(&Shape::Tuple(&[Shape::Bulk, Shape::Int, Shape::Int, Shape::Int])),
    run: Run::Function(latency_latest),
    ..SUBCOMMAND
};

fn latency_latest(ctx: &mut Ctx) -> CommandResult {
    let events = ctx.host.shared.observed.latency.events();
    ctx.reply.array(events.len());
    for (event, series) in &*events {
        let latest = series.latest();
        ctx.reply.array(4);
        ctx.reply.bulk(event.as_bytes());
        ctx.reply.int(latest.unix_seconds as i64);
        ctx.reply.int(latest.duration_ms as i64);
        ctx.reply.int(series.longest_ms as i64);
    }
    Ok(())
}

const LATENCY_HISTORY: Entry = Entry {
    name: "history",
    summary: "Returns timestamp-latency samples for an event.",
    arity: 3,
    args: &[string("event")],
    reply: Shape::Array(&Shape::Tuple(&[Shape::Int, Shape::Int])),
    run: Run::Function(latency_history),
    ..SUBCOMMAND
};

fn latency_history(ctx: &mut Ctx) -> CommandResult {
    let events = ctx.host.shared.observed.latency.events();
    let samples = find(&events, ctx.args[2]).map(|(_, series)| &series.samples);
    ctx.reply.array(samples.map_or(0, VecDeque::len));
    for sample in samples.into_iter().flatten() {
        ctx.reply.array(2);
        ctx.reply.int(sample.unix_seconds as i64);
        ctx.reply.int(sample.duration_ms as i64);
    }
    Ok(())
}

fn find<'e>(events: &'e BTreeMap<&str, Series>, name: &[u8]) -> Option<(&'e str, &'e Series)> {
    let name = std::str::from_utf8(name).ok()?;
    events.get_key_value(name).map(|(event, series)| (*event, series))
}

const LATENCY_GRAPH: Entry = Entry {
    name: "graph",
    summary: "Returns a latency graph for an event.",
    arity: 3,
    args: &[string("event")],
    reply: Shape::Verbatim,
    run: Run::Function(latency_graph),
    ..SUBCOMMAND
};

fn latency_graph(ctx: &mut Ctx) -> CommandResult {
    let host = &mut *ctx.host;
    let events = host.shared.observed.latency.events();
    let Some((event, series)) = find(&events, ctx.args[2]) else {
        return Err(CommandError::quoting("ERR No samples available for event '", ctx.args[2], "'"));
    };
    let graph = series.graph(event, host.driver.clock().now_ms() / 1000);
    ctx.reply.verbatim("txt", graph.as_bytes());
    Ok(())
}

const LATENCY_RESET: Entry = Entry {
    name: "reset",
    summary: "Resets the latency data for one or more events.",
    arity: -2,
    args: &[string("event").optional().multiple()],
    tips: &["request_policy:all_nodes", "response_policy:agg_sum"],
    reply: Shape::Int,
    run: Run::Function(latency_reset),
    ..SUBCOMMAND
};

fn latency_reset(ctx: &mut Ctx) -> CommandResult {
    let mut events = ctx.host.shared.observed.latency.events();
    let before = events.len();
    let is_reset = |event: &str| ctx.args.len() == 2 || ctx.args[2..].contains(&event.as_bytes());
    events.retain(|event, _| !is_reset(event));
    ctx.reply.int((before - events.len()) as i64);
    Ok(())
}

const LATENCY_DOCTOR: Entry = Entry {
    name: "doctor",
    summary: "Returns a human-readable latency analysis report.",
    arity: 2,
    reply: Shape::Verbatim,
    note: "In words of its own",
    run: Run::Function(latency_doctor),
    ..SUBCOMMAND
};

const DOCTOR_IS_OFF: &str = "I'm sorry, Dave, I can't do that. Latency monitoring is disabled in this Redis instance. You may use \"CONFIG SET latency-monitor-threshold <milliseconds>.\" in order to enable it. If we weren't in a deep space mission I'd suggest to take a look at https://redis.io/topics/latency-monitor.\n";
const DOCTOR_IS_CONTENT: &str = "Nothing took longer than latency-monitor-threshold so far.\n";

fn latency_doctor(ctx: &mut Ctx) -> CommandResult {
    let host = &mut *ctx.host;
    let (settings, events) = (&host.shared.settings, host.shared.observed.latency.events());
    let now_seconds = host.driver.clock().now_ms() / 1000;
    let threshold_ms = settings.number(LATENCY_MONITOR_THRESHOLD);
    let mut report = match (events.is_empty(), threshold_ms) {
        (true, 0) => DOCTOR_IS_OFF.to_owned(),
        (true, _) => DOCTOR_IS_CONTENT.to_owned(),
        (false, _) => "What took longer than latency-monitor-threshold:\n\n".to_owned(),
    };
    for (number, (event, series)) in events.iter().enumerate() {
        let analysis = series.analysis(now_seconds);
        report.push_str(&format!(
            "{}. {event}: {} latency spikes (average {}ms, mean deviation {}ms, period {:.2} sec). Worst all time event {}ms.\n",
            number + 1,
            series.samples.len(),
            analysis.mean_ms,
            analysis.mean_deviation_ms,
            analysis.period_seconds,
            series.longest_ms
        ));
    }
    if events.keys().any(|event| event.ends_with("command")) {
        report.push_str("\n- SLOWLOG GET shows which commands those were.\n");
        let slow_us = settings.number(SLOWLOG_LOG_SLOWER_THAN);
        if slow_us < 0 || slow_us / 1000 > threshold_ms {
            report.push_str("- It misses some: slowlog-log-slower-than is above the threshold.\n");
        }
    }
    if events.contains_key("expire-cycle") {
        report.push_str("\n- Very many keys expire at the same moment: spread their times.\n");
    }
    ctx.reply.verbatim("txt", report.as_bytes());
    Ok(())
}

const LATENCY_HELP: Entry = Entry { since: "2.8.13", run: Run::Function(latency_help), ..Entry::HELP };

fn latency_help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(&[
            "DOCTOR",
            "    Return a human readable latency analysis report.",
            "GRAPH <event>",
            "    Return an ASCII latency graph for the <event> class.",
            "HISTORY <event>",
            "    Return time-latency samples for the <event> class.",
            "LATEST",
            "    Return the latest latency samples for all events.",
            "RESET [<event> ...]",
            "    Reset latency data of one or more <event> classes.",
            "    (default: reset all data for all event classes)",
            "HISTOGRAM [COMMAND ...]",
            "    Return a cumulative distribution of latencies in the format of a histogram for the specified command names.",
            "    If no commands are specified then all histograms are replied.",
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durations(ns: &[u64]) -> Durations {
        let mut buckets = [0; DURATION_BUCKETS];
        ns.iter().for_each(|ns| buckets[duration_bucket(*ns)] += 1);
        Durations { calls: ns.len() as u64, buckets }
    }

    #[test]
    fn steps_are_named_as_in_redis() {
        let steps = durations(&[500, 900, 1500, 20_000, 40_000, 1_000_000, u64::MAX]).cumulative_us();
        assert_eq!(steps[..5], [(1, 2), (2, 3), (33, 4), (66, 5), (1056, 6)]);
        assert_eq!(steps[5].1, 7);
    }

    #[test]
    fn percentiles_lie_in_the_right_bucket() {
        let durations = durations(&[1000, 1000, 1000, 100_000]);
        assert!((0.992..1.024).contains(&durations.percentile_us(50.0)));
        assert!((98.304..102.4).contains(&durations.percentile_us(99.0)));
    }

    #[test]
    fn percentiles_are_near_the_real_ones() {
        // Durations spread evenly over their logarithm, from 100 ns to a second.
        let all: Vec<u64> =
            (0..7_000).map(|step| 10_f64.powf(2.0 + f64::from(step) / 1_000.0) as u64).collect();
        let durations = durations(&all);
        for percent in [1.0, 10.0, 50.0, 90.0, 99.0, 99.9] {
            let real_us = all[(all.len() as f64 * percent / 100.0) as usize - 1] as f64 / 1000.0;
            let shown_us = durations.percentile_us(percent);
            assert!((shown_us / real_us - 1.0).abs() < 0.03, "p{percent}: {shown_us} for {real_us}");
        }
    }
}
