//! XREAD and XREADGROUP.
//!
//! ```text
//! arguments ─→ look at every stream ─→ something new (or old, if a consumer asks for that): reply, done
//!                     │ nothing
//!                     ├─→ no BLOCK, or may not block (MULTI): null, done
//!                     └─→ a waiter at every key … a client adds an entry there ─→ serve_…
//! ```
//!
//! A waiter keeps the ids after which it reads: `$` is replaced when it begins to wait. It is served from the
//! key that got an entry. A client that waits in a group is also served when the stream or the group is
//! deleted, with the error about that. Consumers are served in the order in which they came; the first takes
//! all that it asked for. With `CLAIM`, a client is also served when the time comes at which an entry has been pending
//! long enough ([`When::At`]).

use ds::stream::{Stream, StreamId};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Arg, Begin, BlockOn, Change, CommandError, CommandResult, Ctx, Entry, Find, Group, KeySpec, Pace,
    Run, Shape, When, block, integer, is_paused, key, keyword_is, parse_i64, parse_timeout_in_ms, string,
    token,
};
use keyspace::{UnixMs, ValueRef};
use resp::Proto;

use super::budget::Budget;
use super::deliver::Delivery;
use super::effects::{self, GroupProgress, Owner};
use super::{CLAIMED_ENTRY, ENTRY, ids, no_group, reply_entries};

const GROUP_IN_XREAD: &str =
    "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.";
const NOACK_IN_XREAD: &str =
    "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.";
const CLAIM_IN_XREAD: &str =
    "ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.";
const NO_GROUP: &str = "ERR Missing GROUP option for XREADGROUP";
const NEW_IN_XREAD: &str =
    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.";
const LAST_IN_XREADGROUP: &str = "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read \
     the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would \
     just return an empty result set.";

const IDLE_NO_INTEGER: CommandError = CommandError::fixed("ERR min-idle-time is not an integer");
const IDLE_NEGATIVE: CommandError = CommandError::fixed("ERR min-idle-time must be a positive integer");
const MAXCOUNT_BELOW_COUNT: CommandError =
    CommandError::fixed("ERR MAXCOUNT must be greater than or equal to COUNT");

/// Represents `>`: no entry can have a larger id.
const NEW: StreamId = StreamId::MAX;

/// The keys of `STREAMS key … id …`, which is an option among others.
const STREAMS: KeySpec = KeySpec {
    flags: &[RO, Access],
    begin: Begin::Option("STREAMS", 1, 1, OPTIONS),
    find: Find::Range { last: -1, step: 1, limit: 2 },
    notes: "",
};
const OPTIONS: &[(&str, usize)] =
    &[("BLOCK", 1), ("CLAIM", 1), ("COUNT", 1), ("GROUP", 2), ("MAXCOUNT", 1), ("MAXSIZE", 1), ("NOACK", 0)];
const MAXCOUNT: Arg = integer("maxcount").token("MAXCOUNT").optional().since("8.10.0");
const MAXSIZE: Arg = integer("maxsize").token("MAXSIZE").optional().since("8.10.0");
const HISTORY: &[(&str, &str)] = &[("8.10.0", "Added the `MAXCOUNT` and `MAXSIZE` options.")];

/// Keys with their entries.
const BY_KEY: Shape = Shape::OneOf(&[
    Shape::Map(&Shape::Bulk, &Shape::Array(&ENTRY)),
    Shape::Array(&Shape::Tuple(&[Shape::Bulk, Shape::Array(&ENTRY)])),
    Shape::Null,
]);

/// Keys with their entries for a consumer, which have more parts if it claims.
const BY_KEY_IN_GROUP: Shape = Shape::OneOf(&[
    Shape::Map(&Shape::Bulk, &ENTRIES_IN_GROUP),
    Shape::Array(&Shape::Tuple(&[Shape::Bulk, ENTRIES_IN_GROUP])),
    Shape::Null,
]);
const ENTRIES_IN_GROUP: Shape = Shape::OneOf(&[Shape::Array(&ENTRY), Shape::Array(&CLAIMED_ENTRY)]);

pub(super) const XREAD: Entry = Entry {
    name: "xread",
    summary: "Returns messages from multiple streams with IDs greater than the ones requested. Blocks until a \
            message is available otherwise.",
    complexity: "For each stream mentioned: O(N) with N being the number of elements being returned, it means \
            that XREAD-ing with a fixed COUNT is O(1). Note that when the BLOCK option is used, XADD will pay \
            O(M) time in order to serve the M clients blocked on the stream getting new data.",
    since: "5.0.0",
    group: Group::Stream,
    arity: -4,
    flags: &[ReadOnly, Blocking],
    acl: &[Acl::Stream],
    keys: &[STREAMS],
    args: &[
        integer("count").token("COUNT").optional(),
        MAXCOUNT,
        MAXSIZE,
        integer("milliseconds").token("BLOCK").optional(),
        block("streams", &[key("key", 0).multiple(), string("id").multiple()]).token("STREAMS"),
    ],
    history: HISTORY,
    reply: BY_KEY,
    run: Run::Function(xread),
    ..Entry::DEFAULT
};

fn xread(ctx: &mut Ctx) -> CommandResult {
    let read = Read::parse(ctx.args, ctx.store.now(), false, ctx.store.client.in_script)?;
    let mut after = Vec::with_capacity(read.keys.len());
    for (key, id) in read.streams() {
        let stream = ctx.store.read_as::<Stream>(key)?;
        after.push(match id {
            b"$" => stream.map_or(StreamId::MIN, |stream| stream.log.last_id),
            b">" => return Err(CommandError::new(NEW_IN_XREAD)),
            id => ids::parse_strict(id, 0)?,
        });
    }
    let streams: Vec<_> = read.keys.iter().copied().zip(after.iter().copied()).collect();
    if reply_after(ctx, &streams, &read)? {
        return Ok(());
    }
    let Some(timeout_ms) = read.timeout_ms.filter(|_| ctx.may_block()) else {
        ctx.reply.null_array();
        return Ok(());
    };
    // Resolve the last id now: it will be a different one when the client is served.
    let after: Vec<String> = after.iter().map(StreamId::to_string).collect();
    let (keys, args) = (read.keys, ctx.args);
    let (before_ids, _) = args.split_at(args.len() - keys.len());
    let args: Vec<&[u8]> = before_ids.iter().copied().chain(after.iter().map(String::as_bytes)).collect();
    ctx.block(&BlockOn {
        args: &args,
        keys,
        when: When::Is(has_newer),
        also: None,
        timeout_ms,
        heeds_loss: false,
        serve: serve_xread,
        null_array: true,
    });
    Ok(())
}

/// Replies with the entries of `streams` after the id given with each. False, without a reply, if no stream
/// has any.
fn reply_after(ctx: &mut Ctx, streams: &[(&[u8], StreamId)], read: &Read) -> Result<bool, CommandError> {
    let mark = ctx.reply.deferred();
    let (mut served, mut budget) = (0, read.budget);
    for &(key, after) in streams {
        if budget.is_spent() {
            break;
        }
        let Some(stream) = ctx.store.read_as::<Stream>(key)? else { continue };
        let Some(start) = after.next() else { continue };
        if stream.log.last_entry_id() <= Some(after) {
            continue;
        }
        let entries = || stream.log.range(start, StreamId::MAX);
        let fits = |(id, fields)| budget.fits(id, Some(fields));
        if !budget.takes_any() && !entries().next().is_none_or(fits) {
            break;
        }
        served += 1;
        if ctx.reply.proto() == Proto::Resp2 {
            ctx.reply.array(2);
        }
        ctx.reply.bulk(key);
        reply_entries(&mut ctx.reply, entries(), read.count, &mut budget, &mut Pace::new(ctx.host));
    }
    finish(ctx, mark, served)
}

/// Turns the output since `mark` into the reply for `served` streams. False, without a reply, if it is for no
/// stream.
fn finish(ctx: &mut Ctx, mark: resp::Mark, served: usize) -> Result<bool, CommandError> {
    if served == 0 {
        return Ok(false);
    }
    match ctx.reply.proto() {
        Proto::Resp2 => ctx.reply.finish_array(mark, served),
        Proto::Resp3 => ctx.reply.finish_map(mark, served),
    }
    Ok(true)
}

/// Whether the stream has something for a waiter of XREAD.
fn has_newer(value: Option<ValueRef<'_>>, args: &[&[u8]], key: &[u8]) -> bool {
    let (Some(ValueRef::Stream(stream)), Ok(read)) = (value, Read::parse(args, 0, false, false)) else {
        return false;
    };
    let last = stream.log.last_entry_id();
    let mut ids = read.streams().filter(|(other, _)| *other == key).map(|(_, id)| ids::parse_strict(id, 0));
    ids.any(|after| after.is_ok_and(|after| last > Some(after)))
}

fn serve_xread(ctx: &mut Ctx, key: &[u8]) -> Result<bool, CommandError> {
    let read = Read::parse(ctx.args, 0, false, false)?;
    let streams = read.streams().filter(|(other, _)| *other == key);
    let streams = streams.map(|(key, id)| Ok((key, ids::parse_strict(id, 0)?)));
    let streams = streams.collect::<Result<Vec<_>, CommandError>>()?;
    reply_after(ctx, &streams, &read)
}

pub(super) const XREADGROUP: Entry = Entry {
    name: "xreadgroup",
    summary: "Returns new or historical messages from a stream for a consumer in a group. Blocks until a \
            message is available otherwise.",
    complexity: "For each stream mentioned: O(M) with M being the number of elements returned. If M is constant \
            (e.g. always asking for the first 10 elements with COUNT), you can consider it O(1). On the other \
            side when XREADGROUP blocks, XADD will pay the O(N) time in order to serve the N clients blocked on \
            the stream getting new data.",
    arity: -7,
    flags: &[Write, Blocking],
    keys: &[KeySpec { begin: Begin::Option("STREAMS", 4, 1, OPTIONS), ..STREAMS }],
    args: &[
        block("group-block", &[string("group"), string("consumer")]).token("GROUP"),
        integer("count").token("COUNT").optional(),
        MAXCOUNT,
        MAXSIZE,
        integer("milliseconds").token("BLOCK").optional(),
        integer("min-idle-time").token("CLAIM").optional().since("8.4.0"),
        token("noack", "NOACK").optional(),
        block("streams", &[key("key", 0).multiple(), string("id").multiple()]).token("STREAMS"),
    ],
    history: &[("8.4.0", "Added the `CLAIM` option."), HISTORY[0]],
    reply: BY_KEY_IN_GROUP,
    run: Run::Function(xreadgroup),
    ..XREAD
};

fn xreadgroup(ctx: &mut Ctx) -> CommandResult {
    let read = Read::parse(ctx.args, ctx.store.now(), true, ctx.store.client.in_script)?;
    let streams: Vec<_> = read.streams().collect();
    if reply_in_group(ctx, &read, &streams)? {
        return Ok(());
    }
    match read.timeout_ms.filter(|_| ctx.may_block()) {
        None => ctx.reply.null_array(),
        Some(timeout_ms) => ctx.block(&BlockOn {
            args: ctx.args,
            keys: read.keys,
            when: if read.claim_ms.is_some() { When::At(served_at) } else { When::Is(has_newer_in_group) },
            also: None,
            timeout_ms,
            heeds_loss: true,
            serve: serve_xreadgroup,
            null_array: true,
        }),
    }
    Ok(())
}

/// Replies with the consumer's entries from `streams`. False, without a reply, if it gets no entry.
fn reply_in_group(ctx: &mut Ctx, read: &Read, streams: &[(&[u8], &[u8])]) -> Result<bool, CommandError> {
    let Some((group, consumer)) = read.group else { return Err(CommandError::new(NO_GROUP)) };
    let mut after = Vec::with_capacity(streams.len());
    for &(key, id) in streams {
        let stream = ctx.store.read_as::<Stream>(key)?;
        if !stream.is_some_and(|stream| stream.groups.contains_key(group)) {
            return Err(no_group(key, group, " in XREADGROUP with GROUP option"));
        }
        after.push(match id {
            b">" => NEW,
            b"$" => return Err(CommandError::new(LAST_IN_XREADGROUP)),
            id => ids::parse_strict(id, 0)?,
        });
    }
    let mark = ctx.reply.deferred();
    let (mut served, mut budget) = (0, read.budget);
    for (&(key, _), after) in streams.iter().zip(after) {
        if budget.is_spent() {
            break;
        }
        served += usize::from(reply_one(ctx, read, Owner { key, group, consumer }, after, &mut budget)?);
    }
    finish(ctx, mark, served)
}

/// Replies with the consumer's entries from one stream. False, without a reply, if it gets no entry.
fn reply_one(
    ctx: &mut Ctx,
    read: &Read,
    owner: Owner,
    after: StreamId,
    budget: &mut Budget,
) -> Result<bool, CommandError> {
    let Owner { key, group: name, consumer: consumer_name } = owner;
    let (now_ms, is_paused) = (ctx.store.now(), is_paused(&ctx.store, key));
    let Some(Stream { log, groups, .. }) = ctx.store.write_as::<Stream>(key)? else { return Ok(false) };
    let Some(group) = groups.get_mut(name) else { return Ok(false) };
    let (consumer, is_created) = group.find_or_create(consumer_name, now_ms);
    group.consumer_mut(consumer).seen_ms = now_ms;
    let (count, no_ack) = (read.count, read.no_ack);
    // History is returned as it is.
    let claim_ms = read.claim_ms.filter(|_| after == NEW);
    let delivery = Delivery { consumer, count, no_ack, now_ms, claim_ms };
    let has_some = after != NEW || (!is_paused && delivery.finds(log, group));
    let is_served = has_some && delivery.fits(log, group, (after != NEW).then_some(after), budget);
    let mut given = Vec::new();
    if !is_served && has_some {
        *budget = Budget::of(0, 0);
    }
    if is_served {
        if ctx.reply.proto() == Proto::Resp2 {
            ctx.reply.array(2);
        }
        ctx.reply.bulk(key);
        given = match after {
            NEW => delivery.new_entries(log, group, budget, &mut ctx.reply),
            after => delivery.pending_entries(log, group, after, budget, &mut ctx.reply),
        };
    }
    let progress = GroupProgress::of(group);
    let store = &mut ctx.store;
    if is_created {
        effects::created(store, owner);
    }
    if is_served {
        // Redis does not count entries that are read again.
        let change = Change::UNNAMED.times(usize::from(after == NEW)).untold();
        store.changed_with(key, change, |store| {
            effects::claimed(store, owner, &given, now_ms);
            if after == NEW {
                progress.state(store, key, name);
            }
        });
    }
    if !given.is_empty() {
        ctx.note_times(key);
    }
    Ok(is_served)
}

/// Whether a waiter of XREADGROUP has to be served: there is a new entry, or its group is gone.
fn has_newer_in_group(value: Option<ValueRef<'_>>, args: &[&[u8]], _: &[u8]) -> bool {
    let (Some(ValueRef::Stream(stream)), Ok(read)) = (value, Read::parse(args, 0, true, false)) else {
        return true;
    };
    match read.group.and_then(|(group, _)| stream.groups.get(group)) {
        Some(group) => stream.log.last_entry_id() > Some(group.last_id),
        None => true,
    }
}

/// When a waiter of XREADGROUP with `CLAIM` can be served: at once if there is a new entry or its group is gone, otherwise
/// when the next entry has been pending long enough.
fn served_at(value: Option<ValueRef<'_>>, args: &[&[u8]], key: &[u8]) -> Option<UnixMs> {
    if has_newer_in_group(value, args, key) {
        return Some(UnixMs::MIN);
    }
    let (Some(ValueRef::Stream(stream)), Ok(read)) = (value, Read::parse(args, 0, true, false)) else {
        return None;
    };
    let (group, _) = read.group?;
    let is_new = read.streams().any(|(other, id)| other == key && id == b">");
    stream.groups.get(group)?.next_claim_ms(&stream.log, read.claim_ms.filter(|_| is_new)?)
}

fn serve_xreadgroup(ctx: &mut Ctx, key: &[u8]) -> Result<bool, CommandError> {
    let read = Read::parse(ctx.args, 0, true, false)?;
    let streams: Vec<_> = read.streams().filter(|(other, _)| *other == key).collect();
    reply_in_group(ctx, &read, &streams)
}

/// The arguments of a read.
struct Read<'a> {
    keys: &'a [&'a [u8]],
    ids: &'a [&'a [u8]],
    /// The most entries of each stream; 0: all.
    count: usize,
    /// The limits of all streams together.
    budget: Budget,
    /// How long to wait; 0: forever.
    timeout_ms: Option<u64>,
    /// The group and the consumer.
    group: Option<(&'a [u8], &'a [u8])>,
    no_ack: bool,
    /// Entries that have been pending for this long are claimed.
    claim_ms: Option<i64>,
}

impl<'a> Read<'a> {
    /// No arguments yet.
    const NONE: Read<'a> = Read {
        keys: &[],
        ids: &[],
        count: 0,
        budget: Budget::any(),
        timeout_ms: None,
        group: None,
        no_ack: false,
        claim_ms: None,
    };

    /// Reads the arguments of XREAD or (`in_group`) XREADGROUP. A script may not even pass `BLOCK`.
    fn parse(
        args: &'a [&'a [u8]],
        now: UnixMs,
        in_group: bool,
        in_script: bool,
    ) -> Result<Read<'a>, CommandError> {
        let (mut max_count, mut max_bytes) = (None, None);
        let mut read = Read::NONE;
        let mut rest = &args[1..];
        loop {
            rest = match *rest {
                [word, _, ..] if in_script && keyword_is(word, "block") => {
                    let rest = " command is not allowed with BLOCK option from scripts";
                    return Err(CommandError::quoting("ERR ", args[0], rest));
                }
                [word, timeout, ref rest @ ..] if keyword_is(word, "block") => {
                    read.timeout_ms = Some(parse_timeout_in_ms(timeout, now)?);
                    rest
                }
                [word, count, ref rest @ ..] if keyword_is(word, "count") => {
                    read.count = parse_i64(count)?.max(0) as usize;
                    rest
                }
                [word, count, ref rest @ ..] if keyword_is(word, "maxcount") => {
                    max_count = Some(parse_positive(count, "MAXCOUNT")?);
                    rest
                }
                [word, size, ref rest @ ..] if keyword_is(word, "maxsize") => {
                    max_bytes = Some(parse_positive(size, "MAXSIZE")?);
                    rest
                }
                [word, idle, ref rest @ ..] if keyword_is(word, "claim") => {
                    read.claim_ms = Some(parse_claim(idle, in_group)?);
                    rest
                }
                [word, ref streams @ ..] if !streams.is_empty() && keyword_is(word, "streams") => {
                    if !streams.len().is_multiple_of(2) {
                        return Err(unbalanced(in_group));
                    }
                    (read.keys, read.ids) = streams.split_at(streams.len() / 2);
                    break;
                }
                [word, group, consumer, ref rest @ ..] if keyword_is(word, "group") => {
                    read.group = Some((group, consumer));
                    if !in_group {
                        return Err(CommandError::new(GROUP_IN_XREAD));
                    }
                    rest
                }
                [word, ref rest @ ..] if keyword_is(word, "noack") => {
                    read.no_ack = true;
                    if !in_group {
                        return Err(CommandError::new(NOACK_IN_XREAD));
                    }
                    rest
                }
                _ => return Err(CommandError::SYNTAX),
            };
        }
        if in_group && read.group.is_none() {
            return Err(CommandError::new(NO_GROUP));
        }
        if max_count.is_some_and(|max| max < read.count) {
            return Err(MAXCOUNT_BELOW_COUNT);
        }
        read.budget = Budget::of(max_count.unwrap_or(usize::MAX), max_bytes.unwrap_or(usize::MAX));
        Ok(read)
    }

    /// The keys, each with its id.
    fn streams(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.keys.iter().copied().zip(self.ids.iter().copied())
    }
}

/// The value of an option that limits a reply.
fn parse_positive(arg: &[u8], name: &str) -> Result<usize, CommandError> {
    let number = usize::try_from(parse_i64(arg)?).ok().filter(|number| *number > 0);
    number.ok_or_else(|| CommandError::new(format!("ERR {name} must be a positive integer")))
}

/// The value of `CLAIM`.
fn parse_claim(arg: &[u8], in_group: bool) -> Result<i64, CommandError> {
    if !in_group {
        return Err(CommandError::new(CLAIM_IN_XREAD));
    }
    match parse_i64(arg) {
        Ok(idle_ms @ 0..) => Ok(idle_ms),
        Ok(_) => Err(IDLE_NEGATIVE),
        Err(_) => Err(IDLE_NO_INTEGER),
    }
}

fn unbalanced(in_group: bool) -> CommandError {
    let (name, symbol) = if in_group { ("xreadgroup", '>') } else { ("xread", '$') };
    CommandError::new(format!(
        "ERR Unbalanced '{name}' list of streams: for each stream key an ID or '{symbol}' must be specified."
    ))
}
