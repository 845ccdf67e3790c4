//! CRON: schedules that push a payload onto a queue at times of the day.

use std::str::from_utf8;

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, key, keyword_is, oneof, string,
    token,
};

use super::{CHANGING, bad_word};
use crate::cron::{Line, Missed};
use crate::job::Jobs;

/// The longest name of a schedule.
const NAME_BYTES_MAX: usize = 512;

/// The longest schedule, and the longest name of a time zone.
const TEXT_BYTES_MAX: usize = 256;

const TAKES: &str = "CRON SET takes TZ with a time zone, and MISSED with ONCE or SKIP";
const BAD_NAME: &str = "ERR the name of a schedule has 1 to 512 bytes";

pub(super) const CRON: Entry = Entry {
    name: "cron",
    summary: "A container for commands on schedules.",
    complexity: "Depends on subcommand.",
    since: "7.2.0",
    group: Group::Queue,
    arity: -2,
    acl: &[Acl::Queue],
    run: Run::Container,
    subcommands: &[DEL, HELP, LIST, RUN, SET],
    ..Entry::DEFAULT
};

/// The base of commands that change the schedules of the queue named by the subcommand's first argument.
const ON_QUEUE: Entry = Entry {
    complexity: "O(log(N)) where N is the number of schedules.",
    keys: &[KeySpec::one(2, &[RW, Update])],
    ..CHANGING
};

const HELP: Entry = Entry {
    since: "7.2.0",
    group: Group::Queue,
    acl: &[Acl::Queue],
    run: Run::Function(help),
    ..Entry::HELP
};

fn help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(&[
        "DEL <queue> <name>",
        "    Delete a schedule.",
        "LIST <queue>",
        "    Show the schedules of a queue, the one that comes next first.",
        "RUN <queue> <name>",
        "    Push what a schedule pushes, now.",
        "SET <queue> <name> <schedule> <payload> [TZ <zone>] [MISSED ONCE|SKIP]",
        "    Push a payload whenever the schedule says so. Returns when that is next, in ms.",
    ])
}

const SET: Entry = Entry {
    name: "set",
    summary: "Pushes a payload onto a queue whenever a schedule says so. Returns when that is next.",
    arity: -6,
    flags: &[Write, DenyOom],
    args: &[
        key("queue", 0),
        string("name"),
        string("schedule"),
        string("payload"),
        string("zone").token("TZ").optional(),
        oneof("missed", &[token("once", "ONCE"), token("skip", "SKIP")]).token("MISSED").optional(),
    ],
    reply: Shape::Int,
    run: Run::Function(set),
    ..ON_QUEUE
};

fn set(ctx: &mut Ctx) -> CommandResult {
    let [_, _, queue, name, schedule, payload, ref options @ ..] = *ctx.args else {
        return Err(CommandError::SYNTAX);
    };
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Err(CommandError::new(BAD_NAME));
    }
    let text = |bytes: &[u8], what: &str| match from_utf8(bytes) {
        Ok(text) if text.len() <= TEXT_BYTES_MAX => Ok(text.to_owned()),
        _ => Err(CommandError::new(format!("ERR a {what} is text of at most {TEXT_BYTES_MAX} bytes"))),
    };
    let (mut zone, mut missed) = ("UTC".to_owned(), Missed::Once);
    let (pairs, rest) = options.as_chunks::<2>();
    for [word, value] in pairs {
        match *word {
            word if keyword_is(word, "tz") => zone = text(value, "time zone")?,
            word if keyword_is(word, "missed") => {
                missed = Missed::parse(value).ok_or_else(|| bad_word(value, TAKES))?
            }
            word => return Err(bad_word(word, TAKES)),
        }
    }
    if let [word] = rest {
        return Err(bad_word(word, TAKES));
    }
    let line = Line { schedule: text(schedule, "schedule")?, zone, missed, payload: payload.to_vec() };
    let next_ms = Jobs::of(&ctx.store, queue)?.set_line(&mut ctx.store, name, &line)?;
    ctx.reply.int(next_ms);
    Ok(())
}

const DEL: Entry = Entry {
    name: "del",
    summary: "Deletes a schedule. Returns how many there were.",
    arity: 4,
    args: &[key("queue", 0), string("name")],
    reply: Shape::Int,
    run: Run::Function(del),
    ..ON_QUEUE
};

fn del(ctx: &mut Ctx) -> CommandResult {
    let [_, _, queue, name] = *ctx.args else { return Err(CommandError::SYNTAX) };
    let was_there = Jobs::of(&ctx.store, queue)?.delete_line(&mut ctx.store, name)?;
    ctx.reply.int(was_there.into());
    Ok(())
}

const RUN: Entry = Entry {
    name: "run",
    summary: "Pushes now what a schedule pushes. Returns how many jobs that are.",
    complexity: "O(1)",
    flags: &[Write, DenyOom, Fast],
    run: Run::Function(run),
    ..DEL
};

fn run(ctx: &mut Ctx) -> CommandResult {
    let [_, _, queue, name] = *ctx.args else { return Err(CommandError::SYNTAX) };
    let is_pushed = Jobs::of(&ctx.store, queue)?.push_line(&mut ctx.store, name)?;
    ctx.reply.int(is_pushed.into());
    Ok(())
}

const LIST: Entry = Entry {
    name: "list",
    summary: "Returns the schedules of a queue, the one that comes next first.",
    complexity: "O(N) where N is the number of schedules.",
    arity: 3,
    flags: &[ReadOnly],
    keys: &[KeySpec::one(2, &[RO, Access])],
    args: &[key("queue", 0)],
    reply: Shape::Array(&Shape::Map(&Shape::Bulk, &Shape::Any)),
    run: Run::Function(list),
    ..ON_QUEUE
};

fn list(ctx: &mut Ctx) -> CommandResult {
    let [_, _, queue] = *ctx.args else { return Err(CommandError::SYNTAX) };
    let jobs = Jobs::of(&ctx.store, queue)?;
    let mut found = Vec::new();
    for (name, next_ms) in jobs.scheduled(&ctx.store)? {
        if let Some(line) = jobs.line(&ctx.store, &name)? {
            found.push((name, next_ms, line));
        }
    }
    ctx.reply.array(found.len());
    for (name, next_ms, line) in &found {
        ctx.reply.map(6);
        let texts: [(&str, &[u8]); 5] = [
            ("name", name),
            ("schedule", line.schedule.as_bytes()),
            ("tz", line.zone.as_bytes()),
            ("missed", line.missed.name().as_bytes()),
            ("payload", &line.payload),
        ];
        for (field, value) in texts {
            ctx.reply.bulk(field.as_bytes());
            ctx.reply.bulk(value);
        }
        ctx.reply.bulk(b"next_ms");
        ctx.reply.int(*next_ms);
    }
    Ok(())
}
