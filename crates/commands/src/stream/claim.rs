//! XCLAIM and XAUTOCLAIM: pending entries move from one consumer to another.

use ds::stream::{Pending, StreamId};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, integer, key,
    keyword_is, parse_i64, string, token, unix_time,
};
use keyspace::UnixMs;
use resp::Reply;

use super::effects::{self, GroupProgress, Owner};
use super::{ENTRY, group_mut, ids, reply_entry, reply_id};

const COUNT_TOO_SMALL: &str = "ERR COUNT must be > 0";
/// Entries that XAUTOCLAIM claims by default, and the most that it may be asked for.
const COUNT_DEFAULT: usize = 100;
const COUNT_MAX: i64 = i64::MAX / 16;
/// Entries that it examines for each one that it may claim.
const LOOKS_PER_ENTRY: usize = 10;

pub(super) const XCLAIM: Entry = Entry {
    name: "xclaim",
    summary: "Changes, or acquires, ownership of a message in a consumer group, as if the message was delivered a \
            consumer group member.",
    complexity: "O(log N) with N being the number of messages in the PEL of the consumer group.",
    since: "5.0.0",
    group: Group::Stream,
    arity: -6,
    flags: &[Write, Fast],
    acl: &[Acl::Stream],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[
        key("key", 0),
        string("group"),
        string("consumer"),
        string("min-idle-time"),
        string("id").multiple(),
        integer("ms").token("IDLE").optional(),
        unix_time("unix-time-milliseconds").token("TIME").optional(),
        integer("count").token("RETRYCOUNT").optional(),
        token("force", "FORCE").optional(),
        token("justid", "JUSTID").optional(),
        string("lastid").token("LASTID").optional(),
    ],
    tips: &["nondeterministic_output"],
    reply: Shape::OneOf(&[Shape::Array(&ENTRY), Shape::BULKS]),
    run: Run::Function(xclaim),
    ..Entry::DEFAULT
};

/// The effect of a claim on entries.
#[derive(Clone, Copy)]
struct Claim {
    min_idle_ms: i64,
    /// The new time of delivery.
    delivered_ms: UnixMs,
    /// The new number of deliveries, if it is given.
    delivery_count: Option<i64>,
    /// Whether entries that are not pending are claimed as well.
    forces: bool,
    /// Whether the reply contains only ids, and the claim does not count as a delivery.
    only_ids: bool,
}

impl Claim {
    /// Whether it claims an entry that is pending in this way.
    fn takes(&self, pending: &Pending, now: UnixMs) -> bool {
        self.min_idle_ms == 0 || pending.claimable_ms(self.min_idle_ms) <= now
    }

    /// The number of deliveries after the claim; `before` is the number before it.
    fn count_after(&self, before: i64) -> i64 {
        let delivered = before.saturating_add(i64::from(!self.only_ids));
        self.delivery_count.unwrap_or(delivered)
    }

    fn answer(&self, reply: &mut Reply, id: StreamId, fields: ds::stream::Fields) {
        if self.only_ids { reply_id(reply, id) } else { reply_entry(reply, id, fields) }
    }
}

/// The ids and options of XCLAIM, and `LASTID`, the id that the group must have reached at least.
fn parse_claim(
    args: &[&[u8]],
    min_idle_ms: i64,
    now: UnixMs,
) -> Result<(Vec<StreamId>, Claim, StreamId), CommandError> {
    let ids: Vec<StreamId> = args.iter().map_while(|arg| ids::parse_strict(arg, 0).ok()).collect();
    let mut claim =
        Claim { min_idle_ms, delivered_ms: now, delivery_count: None, forces: false, only_ids: false };
    let (mut last_id, mut time) = (StreamId::MIN, None);
    let number = |arg, option: &str| {
        parse_i64(arg)
            .map_err(|_| CommandError::new(format!("ERR Invalid {option} option argument for XCLAIM")))
    };
    let mut rest = &args[ids.len()..];
    while !rest.is_empty() {
        rest = match *rest {
            [word, ref rest @ ..] if keyword_is(word, "force") => {
                claim.forces = true;
                rest
            }
            [word, ref rest @ ..] if keyword_is(word, "justid") => {
                claim.only_ids = true;
                rest
            }
            [word, ms, ref rest @ ..] if keyword_is(word, "idle") => {
                time = Some(now.wrapping_sub(number(ms, "IDLE")?));
                rest
            }
            [word, ms, ref rest @ ..] if keyword_is(word, "time") => {
                time = Some(number(ms, "TIME")?);
                rest
            }
            [word, count, ref rest @ ..] if keyword_is(word, "retrycount") => {
                claim.delivery_count = Some(number(count, "RETRYCOUNT")?).filter(|count| *count >= 0);
                rest
            }
            [word, id, ref rest @ ..] if keyword_is(word, "lastid") => {
                last_id = ids::parse_strict(id, 0)?;
                rest
            }
            [word, ..] => return Err(CommandError::quoting("ERR Unrecognized XCLAIM option '", word, "'")),
            [] => rest,
        };
    }
    // Clients use their own clocks, so an impossible time is not an error.
    claim.delivered_ms = time.filter(|time| (0..=now).contains(time)).unwrap_or(now);
    Ok((ids, claim, last_id))
}

fn xclaim(ctx: &mut Ctx) -> CommandResult {
    let (key, name, consumer_name, now) = (ctx.args[1], ctx.args[2], ctx.args[3], ctx.store.now());
    group_mut(&mut ctx.store, key, name)?;
    let min_idle_ms = parse_min_idle(ctx.args[4], "XCLAIM")?;
    let (ids, claim, last_id) = parse_claim(&ctx.args[5..], min_idle_ms, now)?;
    let mark = ctx.reply.deferred();
    let (mut claimed, mut gone) = (Vec::new(), Vec::new());
    let (log, group) = group_mut(&mut ctx.store, key, name)?;
    let has_moved = last_id > group.last_id;
    group.last_id = group.last_id.max(last_id);
    let (consumer, is_created) = group.find_or_create(consumer_name, now);
    group.consumer_mut(consumer).seen_ms = now;
    for id in ids {
        let Some(fields) = log.get(id) else {
            if group.acknowledge(id) {
                gone.push(id);
            }
            continue;
        };
        let before = match group.pending(id) {
            Some(pending) if claim.takes(pending, now) => pending.delivery_count,
            // As if it had been delivered once.
            None if claim.forces => 1,
            Some(_) | None => continue,
        };
        let delivery_count = claim.count_after(before);
        let delivered_ms = claim.delivered_ms;
        group.assign(id, Pending { consumer: Some(consumer), delivered_ms, delivery_count });
        group.consumer_mut(consumer).active_ms = Some(now);
        claim.answer(&mut ctx.reply, id, fields);
        claimed.push((id, delivery_count));
    }
    let progress = GroupProgress::of(group);
    ctx.reply.finish_array(mark, claimed.len());
    let owner = Owner { key, group: name, consumer: consumer_name };
    let moves = usize::from(has_moved && claimed.is_empty() && gone.is_empty());
    record(ctx, owner, is_created, &claimed, claim.delivered_ms, &gone);
    ctx.store.changed_with(key, Change::UNNAMED.times(moves).untold(), |store| {
        if has_moved {
            progress.state(store, key, name);
        }
    });
    Ok(())
}

pub(super) const XAUTOCLAIM: Entry = Entry {
    name: "xautoclaim",
    summary: "Changes, or acquires, ownership of messages in a consumer group, as if the messages were delivered \
            to as consumer group member.",
    complexity: "O(1) if COUNT is small.",
    since: "6.2.0",
    group: Group::Stream,
    arity: -6,
    flags: &[Write, Fast],
    acl: &[Acl::Stream],
    keys: &[KeySpec::one(1, &[RW, Delete])],
    args: &[
        key("key", 0),
        string("group"),
        string("consumer"),
        string("min-idle-time"),
        string("start"),
        integer("count").token("COUNT").optional(),
        token("justid", "JUSTID").optional(),
    ],
    history: &[(
        "7.0.0",
        "Added an element to the reply array, containing deleted entries the command cleared from the PEL",
    )],
    tips: &["nondeterministic_output"],
    reply: Shape::Tuple(&[Shape::Bulk, Shape::OneOf(&[Shape::Array(&ENTRY), Shape::BULKS]), Shape::BULKS]),
    run: Run::Function(xautoclaim),
    ..Entry::DEFAULT
};

fn xautoclaim(ctx: &mut Ctx) -> CommandResult {
    let (key, name, consumer_name, now) = (ctx.args[1], ctx.args[2], ctx.args[3], ctx.store.now());
    let (min_idle_ms, start, count, only_ids) = parse_autoclaim(ctx.args)?;
    let claim = Claim { min_idle_ms, delivered_ms: now, delivery_count: None, forces: false, only_ids };
    let (log, group) = group_mut(&mut ctx.store, key, name)?;
    let (consumer, is_created) = group.find_or_create(consumer_name, now);
    group.consumer_mut(consumer).seen_ms = now;
    ctx.reply.array(3);
    let head = ctx.reply.deferred();
    let (mut claimed, mut gone) = (Vec::new(), Vec::new());
    let (mut next, mut looks_left) = (Some(start), count.saturating_mul(LOOKS_PER_ENTRY));
    let mut following = None;
    while let Some(from) = next {
        let Some((id, pending)) = group.pending_range(from..=StreamId::MAX).next() else { break };
        if looks_left == 0 || claimed.len() + gone.len() == count {
            following = Some(id);
            break;
        }
        looks_left -= 1;
        next = id.next();
        let Some(fields) = log.get(id) else {
            group.acknowledge(id);
            gone.push(id);
            continue;
        };
        if !claim.takes(pending, now) {
            continue;
        }
        let delivery_count = claim.count_after(pending.delivery_count);
        group.assign(id, Pending { consumer: Some(consumer), delivered_ms: now, delivery_count });
        group.consumer_mut(consumer).active_ms = Some(now);
        claim.answer(&mut ctx.reply, id, fields);
        claimed.push((id, delivery_count));
    }
    ctx.reply.finish_array(head, claimed.len());
    let cursor = following.unwrap_or(StreamId::MIN).to_string();
    ctx.reply.out().insert_at(head, format!("${}\r\n{cursor}\r\n", cursor.len()).as_bytes());
    ctx.reply.array(gone.len());
    gone.iter().for_each(|&id| reply_id(&mut ctx.reply, id));
    let owner = Owner { key, group: name, consumer: consumer_name };
    record(ctx, owner, is_created, &claimed, now, &gone);
    Ok(())
}

/// `min-idle-time start [COUNT count] [JUSTID]` of XAUTOCLAIM.
fn parse_autoclaim(args: &[&[u8]]) -> Result<(i64, StreamId, usize, bool), CommandError> {
    let min_idle_ms = parse_min_idle(args[4], "XAUTOCLAIM")?;
    let start = ids::parse_start(args[5])?;
    let (mut count, mut only_ids) = (COUNT_DEFAULT, false);
    let mut rest = &args[6..];
    while !rest.is_empty() {
        rest = match *rest {
            [word, number, ref rest @ ..] if keyword_is(word, "count") => {
                count = match parse_i64(number) {
                    Ok(number @ 1..=COUNT_MAX) => number as usize,
                    _ => return Err(CommandError::new(COUNT_TOO_SMALL)),
                };
                rest
            }
            [word, ref rest @ ..] if keyword_is(word, "justid") => {
                only_ids = true;
                rest
            }
            _ => return Err(CommandError::SYNTAX),
        };
    }
    Ok((min_idle_ms, start, count, only_ids))
}

fn parse_min_idle(arg: &[u8], command: &str) -> Result<i64, CommandError> {
    let error = || CommandError::new(format!("ERR Invalid min-idle-time argument for {command}"));
    parse_i64(arg).map(|idle| idle.max(0)).map_err(|_| error())
}

/// Announces and records the result of a claim.
fn record(
    ctx: &mut Ctx,
    owner: Owner,
    is_created: bool,
    claimed: &[(StreamId, i64)],
    delivered_ms: UnixMs,
    gone: &[StreamId],
) {
    let store = &mut ctx.store;
    if is_created {
        effects::created(store, owner);
    }
    let change = Change::UNNAMED.times(claimed.len() + gone.len()).untold();
    store.changed_with(owner.key, change, |store| {
        effects::claimed(store, owner, claimed, delivered_ms);
        effects::acknowledged(store, owner.key, owner.group, gone);
    });
    ctx.note_times(owner.key);
}
