//! The commands that show jobs: JOB.GET and JOB.LIST.

use ds::zset::ZSet;
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, integer, key, keyword_is,
    oneof, parse_cursor, string, token,
};

use super::{bad_word, parse_positive};
use crate::job::Jobs;
use crate::record::{Record, State};

const COUNT_DEFAULT: u64 = 10;

const LIST_TAKES: &str = "after the state JOB.LIST takes CURSOR and COUNT, each with its value";

pub(super) const GET: Entry = Entry {
    name: "job.get",
    summary: "Returns what is known of a job.",
    complexity: "O(1)",
    since: "7.2.0",
    group: Group::Queue,
    arity: 3,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Queue],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("queue", 0), string("id")],
    reply: Shape::OneOf(&[Shape::Map(&Shape::Bulk, &Shape::Any), Shape::Null]),
    run: Run::Function(get),
    ..Entry::DEFAULT
};

fn get(ctx: &mut Ctx) -> CommandResult {
    let [_, queue, id] = *ctx.args else { return Err(CommandError::SYNTAX) };
    let jobs = Jobs::of(&ctx.store, queue)?;
    let Some(record) = jobs.record(&ctx.store, id)?.filter(|record| !record.is_dropped()) else {
        ctx.reply.null();
        return Ok(());
    };
    let time_ms = jobs.time_ms(&ctx.store, record.state, id)?;
    let number = |number: i64| itoa::Buffer::new().format(number).as_bytes().to_vec();
    let mut rows: Vec<(&str, Vec<u8>)> =
        vec![("state", record.state.name().into()), ("attempt", number(record.attempts.cast_signed()))];
    if let Some(max) = record.attempts_max {
        rows.push(("tries", number(max.cast_signed())));
    }
    if let Some(time_ms) = time_ms {
        let name = match record.state {
            State::Active => "lease_until_ms",
            State::Delayed | State::Waiting => "due_ms",
            State::Dead => "died_ms",
        };
        rows.push((name, number(time_ms)));
    }
    if record.state == State::Active {
        rows.push(("worker", record.worker));
    }
    if !record.why.is_empty() {
        rows.push(("why", record.why));
    }
    if let Some(group) = record.group {
        rows.push(("group", group));
    }
    if let Some(lock) = record.lock {
        rows.push(("unique", lock));
    }
    if let Some(until_ms) = record.begins_until_ms {
        rows.push(("expires_ms", number(until_ms)));
    }
    if let Some(payload) = record.payload {
        rows.push(("payload", payload));
    }
    ctx.reply.map(rows.len());
    for (name, value) in &rows {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.bulk(value);
    }
    Ok(())
}

pub(super) const LIST: Entry = Entry {
    name: "job.list",
    summary: "Returns active jobs by the end of their leases, delayed ones by when they are due, or dead ones, the oldest first.",
    complexity: "O(log(N)+M) where N is the number of jobs in that state and M that of the jobs returned.",
    arity: -3,
    flags: &[ReadOnly],
    args: &[
        key("queue", 0),
        oneof("state", &[token("active", "ACTIVE"), token("delayed", "DELAYED"), token("dead", "DEAD")]),
        integer("cursor").token("CURSOR").optional(),
        integer("count").token("COUNT").optional(),
    ],
    reply: Shape::Tuple(&[Shape::Bulk, Shape::Array(&Shape::Array(&Shape::Any))]),
    run: Run::Function(list),
    ..GET
};

fn list(ctx: &mut Ctx) -> CommandResult {
    let [_, queue, state, ref options @ ..] = *ctx.args else { return Err(CommandError::SYNTAX) };
    let (mut cursor, mut count) = (0, COUNT_DEFAULT);
    let (pairs, rest) = options.as_chunks::<2>();
    for [word, value] in pairs {
        match *word {
            word if keyword_is(word, "cursor") => cursor = parse_cursor(value)? as usize,
            word if keyword_is(word, "count") => count = parse_positive(value, "count")?,
            word => return Err(bad_word(word, LIST_TAKES)),
        }
    }
    if let [word] = rest {
        return Err(bad_word(word, LIST_TAKES));
    }
    let jobs = Jobs::of(&ctx.store, queue)?;
    let states = [("active", State::Active), ("delayed", State::Delayed), ("dead", State::Dead)];
    let asked = states.into_iter().find(|(word, _)| keyword_is(state, word));
    let Some(key) = asked.and_then(|(_, state)| jobs.names.set(state)) else {
        return Err(bad_word(state, "the state is ACTIVE, DELAYED or DEAD"));
    };
    let (mut found, mut len) = (Vec::new(), 0);
    if let Some(set) = ctx.store.peek_as::<ZSet>(&key)? {
        len = set.len();
        let some = set.iter_from_rank(cursor.min(len), false).take(count as usize);
        found = some.map(|(id, time_ms)| (id.to_vec(), time_ms as i64)).collect();
    }
    let next = cursor.saturating_add(found.len());
    ctx.reply.array(2);
    ctx.reply.bulk(itoa::Buffer::new().format(if next < len { next } else { 0 }).as_bytes());
    ctx.reply.array(found.len());
    for (id, time_ms) in &found {
        let record = jobs.record(&ctx.store, id)?;
        ctx.reply.array(6);
        ctx.reply.bulk(id);
        ctx.reply.int(*time_ms);
        let record = record.unwrap_or_else(|| Record::new(State::Waiting, None));
        ctx.reply.int(record.attempts.cast_signed());
        ctx.reply.bulk(&record.worker);
        ctx.reply.bulk(record.payload.as_deref().unwrap_or_default());
        ctx.reply.bulk(&record.why);
    }
    Ok(())
}
