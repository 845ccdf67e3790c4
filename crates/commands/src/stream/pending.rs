//! XACK removes entries from those pending in a group; XPENDING shows them.

use ds::stream::{Group, Pending, Stream, StreamId};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, CommandError, CommandResult, Ctx, Entry, KeySpec, Run, Shape, block, integer, key,
    keyword_is, parse_i64, string,
};
use keyspace::UnixMs;
use resp::Reply;

use super::{ids, no_group, reply_id};

/// Shown as the idle time of an entry that was released.
const IDLE_OF_RELEASED: i64 = -1;

pub(super) const XACK: Entry = Entry {
    name: "xack",
    summary: "Returns the number of messages that were successfully acknowledged by the consumer group member \
            of a stream.",
    complexity: "O(1) for each message ID processed.",
    since: "5.0.0",
    group: engine::Group::Stream,
    arity: -4,
    flags: &[Write, Fast],
    acl: &[Acl::Stream],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[key("key", 0), string("group"), string("id").multiple()],
    reply: Shape::Int,
    run: Run::Function(xack),
    ..Entry::DEFAULT
};

fn xack(ctx: &mut Ctx) -> CommandResult {
    let (key, name) = (ctx.args[1], ctx.args[2]);
    let stream = ctx.store.write_as::<Stream>(key)?;
    let Some(group) = stream.and_then(|stream| stream.groups.get_mut(name)) else {
        ctx.reply.int(0);
        return Ok(());
    };
    let ids = ids::parse_all(&ctx.args[3..])?;
    let acknowledged = ids.into_iter().filter(|&id| group.acknowledge(id)).count();
    if acknowledged > 0 {
        ctx.changed(key, Change::UNNAMED.times(acknowledged).untold());
    }
    ctx.reply.int(acknowledged as i64);
    Ok(())
}

pub(super) const XPENDING: Entry = Entry {
    name: "xpending",
    summary: "Returns the information and entries from a stream consumer group's pending entries list.",
    complexity: "O(N) with N being the number of elements returned, so asking for a small fixed number of entries \
            per call is O(1). O(M), where M is the total number of entries scanned when used with the IDLE filter. \
            When the command returns just the summary and the list of consumers is small, it runs in O(1) time; \
            otherwise, an additional O(N) time for iterating every consumer.",
    since: "5.0.0",
    group: engine::Group::Stream,
    arity: -3,
    flags: &[ReadOnly],
    acl: &[Acl::Stream],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[
        key("key", 0),
        string("group"),
        block(
            "filters",
            &[
                integer("min-idle-time").token("IDLE").since("6.2.0").optional(),
                string("start"),
                string("end"),
                integer("count"),
                string("consumer").optional(),
            ],
        )
        .optional(),
    ],
    history: &[("6.2.0", "Added the `IDLE` option and exclusive range intervals.")],
    tips: &["nondeterministic_output"],
    reply: Shape::OneOf(&[
        Shape::Tuple(&[
            Shape::Int,
            Shape::BULK_OR_NULL,
            Shape::BULK_OR_NULL,
            Shape::OneOf(&[Shape::Array(&Shape::Tuple(&[Shape::Bulk, Shape::Bulk])), Shape::Null]),
        ]),
        Shape::Array(&Shape::Tuple(&[Shape::Bulk, Shape::Bulk, Shape::Int, Shape::Int])),
    ]),
    run: Run::Function(xpending),
    ..Entry::DEFAULT
};

/// The pending entries that the client asks for.
struct Filter<'a> {
    min_idle_ms: i64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> Filter<'a> {
    /// `[IDLE min-idle-time] start end count [consumer]`; `None`: only a summary is requested.
    fn parse(args: &[&'a [u8]]) -> Result<Option<Filter<'a>>, CommandError> {
        let mut min_idle_ms = 0;
        let rest = match *args {
            [] => return Ok(None),
            // Redis ignores everything after the last possible argument.
            _ if !matches!(args.len(), 3..=6) => return Err(CommandError::SYNTAX),
            [word, idle, ref rest @ ..] if keyword_is(word, "idle") => {
                min_idle_ms = parse_i64(idle)?;
                rest
            }
            ref rest => rest,
        };
        let [start, end, count, ref rest @ ..] = *rest else { return Err(CommandError::SYNTAX) };
        let count = parse_i64(count)?.max(0) as usize;
        let (start, end) = (ids::parse_start(start)?, ids::parse_end(end)?);
        Ok(Some(Filter { min_idle_ms, start, end, count, consumer: rest.first().copied() }))
    }
}

fn xpending(ctx: &mut Ctx) -> CommandResult {
    let (key, name, now) = (ctx.args[1], ctx.args[2], ctx.store.now());
    let filter = Filter::parse(&ctx.args[3..])?;
    let stream = ctx.store.read_as::<Stream>(key)?;
    let group = stream.and_then(|stream| stream.groups.get(name)).ok_or_else(|| no_group(key, name, ""))?;
    match filter {
        None => summarize(&mut ctx.reply, group),
        Some(filter) => list(&mut ctx.reply, group, &filter, now),
    }
    Ok(())
}

fn summarize(reply: &mut Reply, group: &Group) {
    reply.array(4);
    reply.int(group.pending_len() as i64);
    let mut all = group.pending_range(StreamId::MIN..=StreamId::MAX).map(|(id, _)| id);
    let Some(first) = all.next() else {
        reply.null();
        reply.null();
        return reply.null_array();
    };
    reply_id(reply, first);
    reply_id(reply, all.next_back().unwrap_or(first));
    let waited_for = || group.consumers().filter(|consumer| consumer.pending_len() > 0);
    reply.array(waited_for().count());
    for consumer in waited_for() {
        reply.array(2);
        reply.bulk(consumer.name());
        reply.bulk_int(consumer.pending_len() as i64);
    }
}

fn list(reply: &mut Reply, group: &Group, filter: &Filter, now: UnixMs) {
    let consumer = filter.consumer.map(|name| group.find(name));
    if filter.start > filter.end || consumer == Some(None) {
        return reply.array(0);
    }
    let range = filter.start..=filter.end;
    match consumer.flatten() {
        Some(consumer) => list_entries(reply, group, group.pending_range_of(consumer, range), filter, now),
        None => list_entries(reply, group, group.pending_range(range), filter, now),
    }
}

fn list_entries<'a>(
    reply: &mut Reply,
    group: &Group,
    entries: impl Iterator<Item = (StreamId, &'a Pending)>,
    filter: &Filter,
    now: UnixMs,
) {
    let is_old =
        |pending: &Pending| filter.min_idle_ms == 0 || pending.claimable_ms(filter.min_idle_ms) <= now;
    let mark = reply.deferred();
    let mut written = 0;
    for (id, pending) in entries.filter(|(_, pending)| is_old(pending)).take(filter.count) {
        reply.array(4);
        reply_id(reply, id);
        reply.bulk(group.owner_name(pending));
        reply.int(pending.consumer.map_or(IDLE_OF_RELEASED, |_| (now - pending.delivered_ms).max(0)));
        reply.int(pending.delivery_count);
        written += 1;
    }
    reply.finish_array(mark, written);
}
