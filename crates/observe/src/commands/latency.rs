//! LATENCY: shows how long commands take.
//!
//! HISTOGRAM counts the commands by duration; the other subcommands show what the latency monitor
//! (`latency_monitor.rs`) recorded.

use std::collections::{BTreeMap, VecDeque};

use engine::Flag::*;
use engine::{Command, CommandError, CommandResult, Group, Shape, string};

use crate::durations::Durations;
use crate::latency_monitor::Series;
use crate::observing::{Ctx, Entry, Run};

/// LATENCY and its subcommands.
pub(super) const LATENCY: Entry = Entry {
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
};

const TIPS: &[&str] = &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];

/// The base of all subcommands.
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
    let (observed, table) = (ctx.host.facts.observed(), ctx.store.tx.table);
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
        let durations = Durations::of(observed, command.id);
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

const LATENCY_LATEST: Entry = Entry {
    name: "latest",
    summary: "Returns the latest latency samples for all events.",
    arity: 2,
    reply: Shape::Array(&Shape::Tuple(&[Shape::Bulk, Shape::Int, Shape::Int, Shape::Int])),
    run: Run::Function(latency_latest),
    ..SUBCOMMAND
};

fn latency_latest(ctx: &mut Ctx) -> CommandResult {
    let events = ctx.host.facts.observed().latency.events();
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
    let events = ctx.host.facts.observed().latency.events();
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
    let now_seconds = ctx.host.now_us / 1_000_000;
    let events = ctx.host.facts.observed().latency.events();
    let Some((event, series)) = find(&events, ctx.args[2]) else {
        return Err(CommandError::quoting("ERR No samples available for event '", ctx.args[2], "'"));
    };
    let graph = series.graph(event, now_seconds);
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
    let mut events = ctx.host.facts.observed().latency.events();
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
    note: "Its wording is Darter's",
    run: Run::Function(latency_doctor),
    ..SUBCOMMAND
};

const DOCTOR_IS_OFF: &str = "I'm sorry, Dave, I can't do that. Latency monitoring is disabled in this Redis instance. You may use \"CONFIG SET latency-monitor-threshold <milliseconds>.\" in order to enable it. If we weren't in a deep space mission I'd suggest to take a look at https://redis.io/topics/latency-monitor.\n";
const DOCTOR_IS_CONTENT: &str = "Nothing took longer than latency-monitor-threshold so far.\n";

fn latency_doctor(ctx: &mut Ctx) -> CommandResult {
    let now_seconds = ctx.host.now_us / 1_000_000;
    let observed = ctx.host.facts.observed();
    let (settings, events) = (observed.settings.all(), observed.latency.events());
    let mut report = match (events.is_empty(), settings.latency_threshold_ms) {
        (true, None) => DOCTOR_IS_OFF.to_owned(),
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
        let threshold_ms = settings.latency_threshold_ms.unwrap_or(0);
        if settings.slow_us().is_none_or(|slow_us| slow_us / 1000 > threshold_ms) {
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
