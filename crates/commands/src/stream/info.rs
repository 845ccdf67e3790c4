//! XINFO: shows a stream, its groups and their consumers.

use ds::stream::{Consumer, Group, Log, ProducerLimits, Producers, Stream, StreamId};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Ctx, Entry, KeySpec, Pace, Run, Shape, block, integer, key, keyword_is,
    parse_i64, string, subcommand_error, token,
};
use keyspace::UnixMs;
use resp::Reply;

use super::budget::Budget;
use super::{quoting_two, reply_entries, reply_entry, reply_id};

/// Entries of the stream, and pending entries of each group and consumer, that `FULL` shows by default.
const FULL_COUNT_DEFAULT: usize = 10;

/// Fields with their values.
const FIELDS: Shape = Shape::Map(&Shape::Bulk, &Shape::Any);

pub(super) const XINFO: Entry = Entry {
    name: "xinfo",
    summary: "A container for stream introspection commands.",
    complexity: "Depends on subcommand.",
    since: "5.0.0",
    group: engine::Group::Stream,
    arity: -2,
    run: Run::Container,
    subcommands: &[CONSUMERS, GROUPS, HELP, STREAM],
    ..Entry::DEFAULT
};

/// The common part of the subcommands.
const SUBCOMMAND: Entry = Entry {
    since: "5.0.0",
    group: engine::Group::Stream,
    flags: &[ReadOnly],
    acl: &[Acl::Stream],
    keys: &[KeySpec::one(2, &[RO, Access])],
    reply: Shape::Array(&FIELDS),
    ..Entry::DEFAULT
};

const CONSUMERS: Entry = Entry {
    name: "consumers",
    summary: "Returns a list of the consumers in a consumer group.",
    arity: 4,
    args: &[key("key", 0), string("group")],
    history: &[("7.2.0", "Added the `inactive` field.")],
    tips: &["nondeterministic_output"],
    run: Run::Function(consumers),
    ..SUBCOMMAND
};

fn consumers(ctx: &mut Ctx) -> CommandResult {
    let (key, name, now) = (ctx.args[2], ctx.args[3], ctx.store.now());
    let stream = ctx.store.read_as::<Stream>(key)?.ok_or(CommandError::NO_SUCH_KEY)?;
    let group = stream
        .groups
        .get(name)
        .ok_or_else(|| quoting_two("NOGROUP No such consumer group '", name, "' for key name '", key, "'"))?;
    let reply = &mut ctx.reply;
    reply.array(group.consumers().len());
    for consumer in group.consumers() {
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(consumer.name());
        reply.bulk(b"pending");
        reply.int(consumer.pending_len() as i64);
        reply.bulk(b"idle");
        reply.int((now - consumer.seen_ms).max(0));
        reply.bulk(b"inactive");
        reply.int(consumer.active_ms.map_or(-1, |active_ms| now - active_ms));
    }
    Ok(())
}

const GROUPS: Entry = Entry {
    name: "groups",
    summary: "Returns a list of the consumer groups of a stream.",
    arity: 3,
    args: &[key("key", 0)],
    history: &[("7.0.0", "Added the `entries-read` and `lag` fields")],
    run: Run::Function(groups),
    ..SUBCOMMAND
};

fn groups(ctx: &mut Ctx) -> CommandResult {
    let stream = ctx.store.read_as::<Stream>(ctx.args[2])?.ok_or(CommandError::NO_SUCH_KEY)?;
    let reply = &mut ctx.reply;
    reply.array(stream.groups.len());
    for (name, group) in &stream.groups {
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(name);
        reply.bulk(b"consumers");
        reply.int(group.consumers().len() as i64);
        reply.bulk(b"pending");
        reply.int(group.pending_len() as i64);
        write_progress(reply, &stream.log, group);
    }
    Ok(())
}

/// Writes the progress of a group.
fn write_progress(reply: &mut Reply, log: &Log, group: &Group) {
    reply.bulk(b"last-delivered-id");
    reply_id(reply, group.last_id);
    for (field, count) in [(&b"entries-read"[..], group.entries_read()), (b"lag", log.lag(group))] {
        reply.bulk(field);
        match count {
            Some(count) => reply.int(count),
            None => reply.null(),
        }
    }
}

const HELP: Entry =
    Entry { group: engine::Group::Stream, acl: &[Acl::Stream], run: Run::Function(help), ..Entry::HELP };

fn help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(&[
        "CONSUMERS <key> <groupname>",
        "    Show consumers of <groupname>.",
        "GROUPS <key>",
        "    Show the stream consumer groups.",
        "STREAM <key> [FULL [COUNT <count>]",
        "    Show information about the stream.",
    ])
}

const STREAM: Entry = Entry {
    name: "stream",
    summary: "Returns information about a stream.",
    arity: -3,
    args: &[
        key("key", 0),
        block("full-block", &[token("full", "FULL"), integer("count").token("COUNT").optional()]).optional(),
    ],
    history: &[
        ("6.0.0", "Added the `FULL` modifier."),
        (
            "7.0.0",
            "Added the `max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, `entries-read` and \
             `lag` fields",
        ),
        ("7.2.0", "Added the `active-time` field, and changed the meaning of `seen-time`."),
        (
            "8.6.0",
            "Added the `idmp-duration`, `idmp-maxsize`, `pids-tracked`, `iids-tracked`, `iids-added` and \
             `iids-duplicates` fields",
        ),
        ("8.8.0", "Added the `nacked-count` field."),
    ],
    reply: FIELDS,
    run: Run::Function(stream),
    ..SUBCOMMAND
};

fn stream(ctx: &mut Ctx) -> CommandResult {
    let now_ms = ctx.store.now().max(0).cast_unsigned();
    let Stream { log, groups, producers } =
        ctx.store.read_as::<Stream>(ctx.args[2])?.ok_or(CommandError::NO_SUCH_KEY)?;
    let full = parse_full(ctx.args)?;
    let (reply, mut pace) = (&mut ctx.reply, Pace::new(ctx.host));
    reply.map(if full.is_some() { 15 } else { 16 });
    let keys = log.node_count() as i64;
    // Redis counts the nodes of its radix tree, too.
    for (field, number) in
        [("length", log.len() as i64), ("radix-tree-keys", keys), ("radix-tree-nodes", keys + 1)]
    {
        reply.bulk(field.as_bytes());
        reply.int(number);
    }
    reply.bulk(b"last-generated-id");
    reply_id(reply, log.last_id);
    reply.bulk(b"max-deleted-entry-id");
    reply_id(reply, log.max_deleted_id);
    reply.bulk(b"entries-added");
    reply.int(log.entries_added);
    reply.bulk(b"recorded-first-entry-id");
    reply_id(reply, log.first_id());
    write_producers(reply, producers.as_deref(), now_ms);
    let mut all = log.range(StreamId::MIN, StreamId::MAX);
    if let Some(count) = full {
        reply.bulk(b"entries");
        reply_entries(reply, all, count, &mut Budget::any(), &mut pace);
        reply.bulk(b"groups");
        reply.array(groups.len());
        groups.iter().for_each(|(name, group)| write_group(reply, log, name, group, count));
        return Ok(());
    }
    reply.bulk(b"groups");
    reply.int(groups.len() as i64);
    let first = all.next();
    let last = all.next_back().or(first);
    for (field, entry) in [(&b"first-entry"[..], first), (b"last-entry", last)] {
        reply.bulk(field);
        match entry {
            Some((id, fields)) => reply_entry(reply, id, fields),
            None => reply.null(),
        }
    }
    Ok(())
}

/// Writes the limits and the figures of a stream's producers.
fn write_producers(reply: &mut Reply, producers: Option<&Producers>, now_ms: u64) {
    let limits = producers.map_or_else(ProducerLimits::default, Producers::limits);
    let (pids, iids) = producers.map_or((0, 0), |producers| producers.counts(now_ms));
    let (added, duplicates) = producers.map_or((0, 0), |producers| (producers.added, producers.duplicates));
    for (field, number) in [
        ("idmp-duration", limits.duration_s.into()),
        ("idmp-maxsize", limits.records_max.into()),
        ("pids-tracked", pids as i64),
        ("iids-tracked", iids as i64),
        ("iids-added", added.cast_signed()),
        ("iids-duplicates", duplicates.cast_signed()),
    ] {
        reply.bulk(field.as_bytes());
        reply.int(number);
    }
}

/// `[FULL [COUNT count]]`: the number of entries to show, 0 for all; `None` without `FULL`.
fn parse_full(args: &[&[u8]]) -> Result<Option<usize>, CommandError> {
    match args[3..] {
        [] => Ok(None),
        [word] if keyword_is(word, "full") => Ok(Some(FULL_COUNT_DEFAULT)),
        [word, count, number] if keyword_is(word, "full") && keyword_is(count, "count") => {
            Ok(Some(usize::try_from(parse_i64(number)?).unwrap_or(FULL_COUNT_DEFAULT)))
        }
        _ => Err(subcommand_error(args)),
    }
}

fn write_group(reply: &mut Reply, log: &Log, name: &[u8], group: &Group, count: usize) {
    let count_max = if count == 0 { usize::MAX } else { count };
    reply.map(8);
    reply.bulk(b"name");
    reply.bulk(name);
    write_progress(reply, log, group);
    reply.bulk(b"pel-count");
    reply.int(group.pending_len() as i64);
    reply.bulk(b"nacked-count");
    reply.int(group.released_len() as i64);
    reply.bulk(b"pending");
    reply.array(group.pending_len().min(count_max));
    for (id, pending) in group.pending_range(StreamId::MIN..=StreamId::MAX).take(count_max) {
        reply.array(4);
        reply_id(reply, id);
        reply.bulk(group.owner_name(pending));
        reply.int(pending.delivered_ms);
        reply.int(pending.delivery_count);
    }
    reply.bulk(b"consumers");
    reply.array(group.consumers().len());
    group.consumers().for_each(|consumer| write_consumer(reply, group, consumer, count_max));
}

fn write_consumer(reply: &mut Reply, group: &Group, consumer: &Consumer, count_max: usize) {
    let time = |reply: &mut Reply, field: &str, time_ms: UnixMs| {
        reply.bulk(field.as_bytes());
        reply.int(time_ms);
    };
    reply.map(5);
    reply.bulk(b"name");
    reply.bulk(consumer.name());
    time(reply, "seen-time", consumer.seen_ms);
    time(reply, "active-time", consumer.active_ms.unwrap_or(-1));
    reply.bulk(b"pel-count");
    reply.int(consumer.pending_len() as i64);
    reply.bulk(b"pending");
    reply.array(consumer.pending_len().min(count_max));
    let id = group.find(consumer.name()).expect("it is one of the group");
    for (id, pending) in group.pending_range_of(id, StreamId::MIN..=StreamId::MAX).take(count_max) {
        reply.array(3);
        reply_id(reply, id);
        reply.int(pending.delivered_ms);
        reply.int(pending.delivery_count);
    }
}
