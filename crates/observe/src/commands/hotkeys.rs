//! HOTKEYS: which keys cost most while an operator looks (`hot_keys.rs`).

use engine::Flag::*;
use engine::{CommandError, CommandResult, Group, Shape, block, integer, keyword_is, token};

use crate::hot_keys::{Metrics, Session, Tracking};
use crate::observing::{Ctx, Entry, Run};

/// HOTKEYS and its subcommands.
pub(super) const HOTKEYS: Entry = Entry {
    name: "hotkeys",
    summary: "A container for hotkeys tracking commands.",
    complexity: "Depends on subcommand.",
    since: "8.6.0",
    group: Group::Server,
    arity: -2,
    subcommands: &[HOTKEYS_GET, HOTKEYS_HELP, HOTKEYS_RESET, HOTKEYS_START, HOTKEYS_STOP],
    ..Entry::DEFAULT
};

/// The base of all subcommands.
const SUBCOMMAND: Entry = Entry {
    complexity: "O(1)",
    since: "8.6.0",
    group: Group::Server,
    arity: 2,
    flags: &[Admin, NoScript],
    ..Entry::DEFAULT
};

/// Keys that are shown by default, and at most.
const COUNT_DEFAULT: usize = 10;
const COUNT_MAX: i64 = 64;
/// The longest time to track.
const DURATION_SECONDS_MAX: i64 = 1_000_000;
/// The last slot of a cluster.
const SLOT_LAST: i64 = 16_383;

const HOTKEYS_START: Entry = Entry {
    name: "start",
    summary: "Starts hotkeys tracking.",
    arity: -2,
    args: &[
        block("metrics", &[integer("count"), token("cpu", "CPU").optional(), token("net", "NET").optional()])
            .token("METRICS"),
        integer("k").token("COUNT").optional(),
        integer("duration").token("DURATION").optional(),
        integer("ratio").token("SAMPLE").optional(),
    ],
    reply: Shape::OK,
    run: Run::Function(hotkeys_start),
    ..SUBCOMMAND
};

fn hotkeys_start(ctx: &mut Ctx) -> CommandResult {
    let observed = ctx.host.facts.observed();
    let now_ms = ctx.host.now_us / 1000;
    let mut session = observed.hot_keys.session();
    if session.as_ref().is_some_and(|session| session.is_active(now_ms)) {
        return Err(CommandError::fixed("ERR hotkey tracking session already in progress"));
    }
    let tracking = parse(&ctx.args[2..])?;
    let [cpu, ..] = ctx.host.facts.cpu();
    *session = Some(Session::new(tracking, now_ms, [cpu.user, cpu.system]));
    observed.settings.note_everything(true);
    ctx.reply.ok();
    Ok(())
}

/// Reads the options of `START`.
fn parse(args: &[&[u8]]) -> Result<Tracking, CommandError> {
    let [word, count, rest @ ..] = args else {
        return Err(CommandError::fixed("ERR METRICS parameter is required"));
    };
    if !keyword_is(word, "METRICS") {
        return Err(CommandError::fixed("ERR METRICS parameter is required"));
    }
    let (metrics, mut rest) =
        parse_metrics(number(count, 2, "ERR METRICS count must be > 0 and <= 2")? as usize, rest)?;
    let mut tracking = Tracking { metrics, count: COUNT_DEFAULT, duration_ms: None, sample_ratio: 1 };
    while let [word, value, after @ ..] = rest {
        rest = after;
        if keyword_is(word, "COUNT") {
            tracking.count = number(value, COUNT_MAX, "ERR COUNT must be between 1 and 64")? as usize;
        } else if keyword_is(word, "DURATION") {
            let why = "ERR DURATION must be between 1 and 1000000";
            tracking.duration_ms = Some(number(value, DURATION_SECONDS_MAX, why)? as u64 * 1000);
        } else if keyword_is(word, "SAMPLE") {
            let ratio = number(value, i32::MAX.into(), "ERR SAMPLE ratio must be positive")?;
            tracking.sample_ratio = ratio as u64;
        } else if keyword_is(word, "SLOTS") {
            return Err(CommandError::fixed("ERR SLOTS parameter cannot be used in non-cluster mode"));
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    if rest.is_empty() { Ok(tracking) } else { Err(CommandError::SYNTAX) }
}

/// A number from 1 to `max`; `why`: the error for others.
fn number(arg: &[u8], max: i64, why: &'static str) -> Result<i64, CommandError> {
    ds::num::parse_i64(arg).filter(|number| (1..=max).contains(number)).ok_or(CommandError::fixed(why))
}

/// The metrics that the first `count` words name, and the words after them. As in Redis, unknown words count.
fn parse_metrics<'a, 'b>(
    count: usize,
    words: &'a [&'b [u8]],
) -> Result<(Metrics, &'a [&'b [u8]]), CommandError> {
    let mut metrics = Metrics::default();
    for word in words.iter().take(count) {
        if keyword_is(word, "CPU") {
            if std::mem::replace(&mut metrics.cpu, true) {
                return Err(CommandError::fixed("ERR METRICS CPU defined more than once!"));
            }
        } else if keyword_is(word, "NET") && std::mem::replace(&mut metrics.net, true) {
            return Err(CommandError::fixed("ERR METRICS NET defined more than once!"));
        }
    }
    if words.len() < count {
        return Err(CommandError::fixed("ERR METRICS count does not match number of metric types provided"));
    }
    if metrics == Metrics::default() {
        return Err(CommandError::fixed("ERR METRICS no valid metrics passed. Supported: CPU|NET"));
    }
    Ok((metrics, &words[count..]))
}

const HOTKEYS_STOP: Entry = Entry {
    name: "stop",
    summary: "Stops hotkeys tracking.",
    reply: Shape::OneOf(&[Shape::OK, Shape::Null]),
    run: Run::Function(hotkeys_stop),
    ..SUBCOMMAND
};

fn hotkeys_stop(ctx: &mut Ctx) -> CommandResult {
    let (observed, now_ms) = (ctx.host.facts.observed(), ctx.host.now_us / 1000);
    let mut session = observed.hot_keys.session();
    match session.as_mut().filter(|session| session.is_active(now_ms)) {
        None => ctx.reply.null(),
        Some(session) => {
            session.stop(now_ms);
            observed.settings.note_everything(false);
            ctx.reply.ok();
        }
    }
    Ok(())
}

const HOTKEYS_RESET: Entry = Entry {
    name: "reset",
    summary: "Release the resources used for hotkey tracking.",
    reply: Shape::OK,
    run: Run::Function(hotkeys_reset),
    ..SUBCOMMAND
};

fn hotkeys_reset(ctx: &mut Ctx) -> CommandResult {
    let (observed, now_ms) = (ctx.host.facts.observed(), ctx.host.now_us / 1000);
    let mut session = observed.hot_keys.session();
    if session.as_ref().is_some_and(|session| session.is_active(now_ms)) {
        let why = "ERR hotkey tracking session in progress, stop tracking first";
        return Err(CommandError::fixed(why));
    }
    *session = None;
    observed.settings.note_everything(false);
    ctx.reply.ok();
    Ok(())
}

const HOTKEYS_GET: Entry = Entry {
    name: "get",
    summary: "Returns lists of top K hotkeys depending on metrics chosen in HOTKEYS START command.",
    complexity: "O(K) where K is the number of hotkeys returned.",
    reply: Shape::OneOf(&[Shape::Array(&Shape::Map(&Shape::Bulk, &Shape::Any)), Shape::Null]),
    run: Run::Function(hotkeys_get),
    ..SUBCOMMAND
};

fn hotkeys_get(ctx: &mut Ctx) -> CommandResult {
    let (observed, now_ms) = (ctx.host.facts.observed(), ctx.host.now_us / 1000);
    let [cpu, ..] = ctx.host.facts.cpu();
    let session = observed.hot_keys.session();
    let Some(session) = &*session else {
        ctx.reply.null();
        return Ok(());
    };
    let Metrics { cpu: has_cpu, net: has_net } = session.tracking.metrics;
    let reply = &mut ctx.reply;
    // One map for each node.
    reply.array(1);
    reply.map(7 + 3 * usize::from(has_cpu) + 2 * usize::from(has_net));
    reply.bulk(b"tracking-active");
    reply.int(i64::from(session.is_active(now_ms)));
    reply.bulk(b"sample-ratio");
    reply.int(session.tracking.sample_ratio as i64);
    reply.bulk(b"selected-slots");
    reply.array(1);
    reply.array(2);
    reply.int(0);
    reply.int(SLOT_LAST);
    let mut figure = |name: &str, number: u64| {
        reply.bulk(name.as_bytes());
        reply.int(number as i64);
    };
    figure("all-commands-all-slots-us", session.all_us);
    figure("net-bytes-all-commands-all-slots", session.all_bytes);
    figure("collection-start-time-unix-ms", session.began_ms);
    figure("collection-duration-ms", session.duration_ms(now_ms));
    if has_cpu {
        let spent_ms = |now_s: f64, before_s: f64| ((now_s - before_s).max(0.0) * 1000.0) as u64;
        let [user_s, system_s] = session.began_cpu_s;
        figure("total-cpu-time-user-ms", spent_ms(cpu.user, user_s));
        figure("total-cpu-time-sys-ms", spent_ms(cpu.system, system_s));
    }
    if has_net {
        figure("total-net-bytes", session.by_bytes.total);
    }
    for (name, heaviest, is_there) in
        [("by-cpu-time-us", &session.by_us, has_cpu), ("by-net-bytes", &session.by_bytes, has_net)]
    {
        if is_there {
            let top: Vec<(&[u8], u64)> = heaviest.top(session.tracking.count).collect();
            reply.bulk(name.as_bytes());
            reply.array(2 * top.len());
            for (key, weight) in top {
                reply.bulk(key);
                reply.int(weight as i64);
            }
        }
    }
    Ok(())
}

const HOTKEYS_HELP: Entry = Entry { since: "8.6.0", run: Run::Function(hotkeys_help), ..Entry::HELP };

fn hotkeys_help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(&[
        "START <METRICS count [CPU] [NET]> [COUNT k] [DURATION duration] [SAMPLE ratio] [SLOTS count slot...]",
        "    Starts hotkeys tracking with specified metrics.",
        "    * METRICS count [CPU] [NET]",
        "        Specify count of metrics and choose amongst:",
        "        - CPU: Track hotkeys by CPU time percentage",
        "        - NET: Track hotkeys by network bytes percentage",
        "    * COUNT k",
        "        Specifies the value of K for the top-K hotkeys tracking. Default: 10",
        "    * DURATION duration",
        "        Specifies tracking duration in seconds. 0 means tracking will continue until manually stopped. Default: 0",
        "    * SAMPLE ratio",
        "        Keys are tracked with probability 1/ratio. Default: 1 (tracks every key)",
        "    * SLOTS count slot...",
        "        Specify which slots to track keys from. Only available in cluster mode. Default: empty (track all slots)",
        "STOP",
        "    Stop hotkeys tracking. Results are still available via GET",
        "GET",
        "    Get results from hotkeys tracking.",
        "RESET",
        "    Reset memory used for hotkeys tracking. Tracking must have been stopped.",
        "    Results will no longer be available after this command.",
    ])
}
