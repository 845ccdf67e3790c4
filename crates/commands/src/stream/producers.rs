//! Producers that may send a message twice: the options IDMP and IDMPAUTO of XADD, XCFGSET and XIDMPRECORD.
//!
//! A producer gives each message an id, or has one computed from its fields and values. The stream knows the last
//! messages of each producer for some time ([`ds::stream::Producers`]). A message that is known is not added again; the
//! reply is the id of the entry that it became.
//!
//! The effect of such an XADD is a plain one, and an XIDMPRECORD, which servers that do not know it do not get.

use std::borrow::Cow;

use ds::stream::producers::{DURATION_S_MAX, ID_BYTES_MAX, RECORDS_MAX};
use ds::stream::{ProducerLimits, Producers, Stream, StreamId};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Arg, Change, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, Store, block,
    integer, key, keyword_is, oneof, parse_i64, string,
};
use keyspace::Value;
use resp::Reply;
use xxhash_rust::xxh3::Xxh3Default;

use super::ids;

const TWICE: CommandError = CommandError::fixed("ERR IDMP/IDMPAUTO specified multiple times");
const NO_PRODUCER: CommandError = CommandError::fixed("ERR IDMP requires a non-empty producer ID");
const NO_PRODUCER_AUTO: CommandError = CommandError::fixed("ERR IDMPAUTO requires a non-empty producer ID");
const NO_MESSAGE: CommandError = CommandError::fixed("ERR IDMP requires a non-empty idempotent ID");
const TOO_LONG: CommandError =
    CommandError::fixed("ERR producer IDs and idempotent IDs must not be longer than 65536 bytes");
const TOO_MANY: CommandError =
    CommandError::fixed("ERR the stream has too many producers, or too many bytes of idempotent IDs");
pub(super) const NOT_AUTO: CommandError =
    CommandError::fixed("ERR IDMP/IDMPAUTO can be used only with auto-generated IDs");
const NOTHING_SET: CommandError = CommandError::fixed("ERR At least one parameter must be specified");
const DURATION_RANGE: CommandError =
    CommandError::fixed("ERR IDMP-DURATION must be between 1 and 86400 seconds");
const SIZE_RANGE: CommandError = CommandError::fixed("ERR IDMP-MAXSIZE must be between 1 and 10000 entries");
const GONE: CommandError = CommandError::fixed("ERR The specified stream ID was deleted or doesn't exist");
const OTHER_ENTRY: CommandError = CommandError::fixed(
    "ERR The specified IDMP producer-id/idempotent-id pair maps to a different stream ID",
);

/// `IDMPAUTO producer | IDMP producer message`
pub(super) const IDEMPOTENCE: Arg = oneof(
    "idmp",
    &[string("pid").token("IDMPAUTO"), block("idmp-block", &[string("pid"), string("iid")]).token("IDMP")],
)
.optional();

/// A producer, and the id that it gave the message, if it did.
#[derive(Clone, Copy)]
pub(super) struct Sender<'a> {
    producer: &'a [u8],
    message: Option<&'a [u8]>,
}

/// An option that was read, and what follows it.
type Taken<'a, 's> = (Sender<'a>, &'s [&'a [u8]]);

impl<'a> Sender<'a> {
    /// Reads the option at the beginning of `args`, if it is there; what follows it, too.
    pub(super) fn take<'s>(
        args: &'s [&'a [u8]],
        has_one: bool,
    ) -> Result<Option<Taken<'a, 's>>, CommandError> {
        let (sender, rest) = match *args {
            [word, producer, message, ref rest @ ..] if keyword_is(word, "idmp") => {
                (Sender { producer, message: Some(message) }, rest)
            }
            [word, producer, ref rest @ ..] if keyword_is(word, "idmpauto") => {
                (Sender { producer, message: None }, rest)
            }
            _ => return Ok(None),
        };
        if has_one {
            return Err(TWICE);
        }
        match (sender.producer, sender.message) {
            (b"", None) => return Err(NO_PRODUCER_AUTO),
            (b"", Some(_)) => return Err(NO_PRODUCER),
            (_, Some(b"")) => return Err(NO_MESSAGE),
            _ => {}
        }
        let longest = sender.producer.len().max(sender.message.map_or(0, <[u8]>::len));
        if longest > ID_BYTES_MAX { Err(TOO_LONG) } else { Ok(Some((sender, rest))) }
    }

    /// The message with these fields and values.
    pub(super) fn message(self, pairs: &[&[u8]]) -> Message<'a> {
        let id = self.message.map_or_else(|| Cow::Owned(digest(pairs).to_vec()), Cow::Borrowed);
        Message { producer: self.producer, id }
    }
}

/// A digest of fields and values that does not depend on their order: the sum of the digests of all pairs. The length
/// of a field is part of its pair's, so `ab c` differs from `a bc`.
fn digest(pairs: &[&[u8]]) -> [u8; 16] {
    let of_pair = |pair: &[&[u8]]| {
        let mut hash = Xxh3Default::new();
        hash.update(&(pair[0].len() as u64).to_le_bytes());
        pair.iter().for_each(|text| hash.update(text));
        hash.digest128()
    };
    pairs.chunks_exact(2).map(of_pair).fold(0, u128::wrapping_add).to_le_bytes()
}

/// A producer's message.
pub(super) struct Message<'a> {
    producer: &'a [u8],
    id: Cow<'a, [u8]>,
}

impl Message<'_> {
    /// Replies with the entry that the message became before, if the stream knows it. False, without a reply, if not.
    pub(super) fn reply_known(
        &self,
        store: &mut Store,
        key: &[u8],
        reply: &mut Reply,
    ) -> Result<bool, CommandError> {
        let now_ms = store.now().max(0).cast_unsigned();
        let Some(stream) = store.write_as::<Stream>(key)? else { return Ok(false) };
        let Some(producers) = &mut stream.producers else { return Ok(false) };
        if let Some(id) = producers.find(self.producer, &self.id, now_ms) {
            producers.duplicates = producers.duplicates.saturating_add(1);
            super::reply_id(reply, id);
            return Ok(true);
        }
        producers.make_room(self.producer, &self.id, now_ms).map_err(|_| TOO_MANY)?;
        Ok(false)
    }

    /// Records that the message became the entry `id`.
    pub(super) fn record(&self, stream: &mut Stream, id: StreamId, now_ms: u64) {
        producers_of(stream).add(self.producer, &self.id, id, now_ms);
    }

    /// States that it became the entry `id`.
    pub(super) fn state(&self, store: &mut Store, key: &[u8], id: &[u8]) {
        store.effect(&[b"XIDMPRECORD", key, self.producer, &self.id, id]);
    }
}

fn producers_of(stream: &mut Stream) -> &mut Producers {
    stream.producers.get_or_insert_with(|| Box::new(Producers::new(ProducerLimits::default())))
}

pub(super) const XCFGSET: Entry = Entry {
    name: "xcfgset",
    summary: "Sets the IDMP configuration parameters for a stream.",
    complexity: "O(1)",
    since: "8.6.0",
    group: Group::Stream,
    arity: -2,
    flags: &[Write, Fast],
    acl: &[Acl::Stream],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[
        key("key", 0),
        integer("duration").token("IDMP-DURATION").optional(),
        integer("maxsize").token("IDMP-MAXSIZE").optional(),
    ],
    reply: Shape::OK,
    run: Run::Function(xcfgset),
    ..Entry::DEFAULT
};

fn xcfgset(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let (duration_s, records_max) = parse_limits(&ctx.args[2..])?;
    let stream = ctx.store.write_as::<Stream>(key)?.ok_or(CommandError::NO_SUCH_KEY)?;
    let before =
        stream.producers.as_ref().map_or_else(ProducerLimits::default, |producers| producers.limits());
    let limits = ProducerLimits {
        duration_s: duration_s.unwrap_or(before.duration_s),
        records_max: records_max.unwrap_or(before.records_max),
    };
    ctx.reply.ok();
    if limits != before {
        let renewed = Box::new(producers_of(stream).with_limits(limits));
        // There may be many records: they are freed like a stream that has nothing else.
        let old = Stream { producers: stream.producers.replace(renewed), ..Stream::new() };
        ctx.store.free(Value::Stream(Box::new(old)));
        ctx.changed(key, Change::UNNAMED.untold());
    }
    Ok(())
}

/// `[IDMP-DURATION seconds] [IDMP-MAXSIZE count]`, at least one of them.
fn parse_limits(mut args: &[&[u8]]) -> Result<(Option<u32>, Option<u32>), CommandError> {
    if args.is_empty() {
        return Err(NOTHING_SET);
    }
    let number = |arg, max: u32, range: CommandError| {
        let number = parse_i64(arg)?;
        u32::try_from(number).ok().filter(|number| (1..=max).contains(number)).ok_or(range)
    };
    let (mut duration_s, mut records_max) = (None, None);
    while !args.is_empty() {
        args = match *args {
            [word, seconds, ref rest @ ..] if keyword_is(word, "idmp-duration") => {
                duration_s = Some(number(seconds, DURATION_S_MAX, DURATION_RANGE)?);
                rest
            }
            [word, count, ref rest @ ..] if keyword_is(word, "idmp-maxsize") => {
                records_max = Some(number(count, RECORDS_MAX, SIZE_RANGE)?);
                rest
            }
            _ => return Err(CommandError::SYNTAX),
        };
    }
    Ok((duration_s, records_max))
}

pub(super) const XIDMPRECORD: Entry = Entry {
    name: "xidmprecord",
    summary: "An internal command for setting IDMP metadata on an existing stream message.",
    complexity: "O(1)",
    since: "8.8.0",
    group: Group::Stream,
    arity: 5,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::Stream],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[key("key", 0), string("pid"), string("iid"), string("stream-id")],
    reply: Shape::OK,
    run: Run::Function(xidmprecord),
    ..Entry::DEFAULT
};

fn xidmprecord(ctx: &mut Ctx) -> CommandResult {
    let (key, producer, message) = (ctx.args[1], ctx.args[2], ctx.args[3]);
    let id = ids::parse_strict(ctx.args[4], 0)?;
    // A primary or a log says what happened there: the entry may have been trimmed at once, and the message sent before.
    let (is_told, now_ms) = (ctx.store.tx.keeps_due, ctx.store.now().max(0).cast_unsigned());
    let stream = ctx.store.write_as::<Stream>(key)?.ok_or(CommandError::NO_SUCH_KEY)?;
    if producer.is_empty() || message.is_empty() {
        return Err(if producer.is_empty() { NO_PRODUCER } else { NO_MESSAGE });
    }
    if !is_told {
        if producer.len().max(message.len()) > ID_BYTES_MAX {
            return Err(TOO_LONG);
        }
        if !stream.log.contains(id) {
            return Err(GONE);
        }
        let producers = producers_of(stream);
        match producers.find(producer, message, now_ms) {
            Some(known) if known == id => {
                ctx.reply.ok();
                return Ok(());
            }
            Some(_) => return Err(OTHER_ENTRY),
            None => producers.make_room(producer, message, now_ms).map_err(|_| TOO_MANY)?,
        }
    }
    producers_of(stream).add(producer, message, id, now_ms);
    ctx.reply.ok();
    ctx.changed(key, Change::UNNAMED.untold());
    Ok(())
}

/// The commands that make a stream know what it knows of its producers, as far as the entries are there.
pub(super) fn lines(
    key: &[u8],
    producers: &Producers,
    is_there: impl Fn(StreamId) -> bool,
) -> Vec<Vec<Box<[u8]>>> {
    let line = |words: &[&[u8]]| words.iter().map(|&word| word.into()).collect();
    let ProducerLimits { duration_s, records_max } = producers.limits();
    let (seconds, count) = (duration_s.to_string(), records_max.to_string());
    let words: [&[u8]; 2] = [b"XCFGSET", key];
    let rest: [&[u8]; 4] = [b"IDMP-DURATION", seconds.as_bytes(), b"IDMP-MAXSIZE", count.as_bytes()];
    let mut lines = vec![line(&[&words[..], &rest].concat())];
    for (name, _) in producers.names(b"") {
        for (message, id) in producers.records(name).filter(|(_, id)| is_there(*id)) {
            lines.push(line(&[b"XIDMPRECORD", key, name, message, id.to_string().as_bytes()]));
        }
    }
    lines
}
