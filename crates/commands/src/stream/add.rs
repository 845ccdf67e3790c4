//! XADD: appends an entry.

use ds::stream::{Log, Stream, StreamId};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, block, key,
    keyword_is, oneof, string, token,
};

use super::producers::{IDEMPOTENCE, NOT_AUTO, Sender};
use super::remove::REFERENCES;
use super::trim::{TRIM_ARGS, TrimOptions, Trimming, trimmed_to};
use super::{effects, ids};

const ZERO: &str = "ERR The ID specified in XADD must be greater than 0-0";
const TOO_SMALL: &str = "ERR The ID specified in XADD is equal or smaller than the target stream top item";
const EXHAUSTED: &str = "ERR The stream has exhausted the last possible ID, unable to add more items";
const TOO_LARGE: &str = "ERR Elements are too large to be stored";

pub(super) const XADD: Entry = Entry {
    name: "xadd",
    summary: "Appends a new message to a stream. Creates the key if it doesn't exist.",
    complexity: "O(1) when adding a new entry, O(N) when trimming where N being the number of entries evicted.",
    since: "5.0.0",
    group: Group::Stream,
    arity: -5,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::Stream],
    keys: &[KeySpec::one(1, &[RW, Update])
        .notes("UPDATE instead of INSERT because of the optional trimming feature")],
    args: &[
        key("key", 0),
        token("nomkstream", "NOMKSTREAM").since("6.2.0").optional(),
        REFERENCES.since("8.2.0"),
        IDEMPOTENCE.since("8.6.0"),
        block("trim", TRIM_ARGS).optional(),
        oneof("id-selector", &[token("auto-id", "*"), string("id")]),
        block("data", &[string("field"), string("value")]).multiple(),
    ],
    history: &[
        ("6.2.0", "Added the `NOMKSTREAM` option, `MINID` trimming strategy and the `LIMIT` option."),
        ("7.0.0", "Added support for the `<ms>-*` explicit ID form."),
        ("8.2.0", "Added the `KEEPREF`, `DELREF` and `ACKED` options."),
        ("8.6.0", "Added the `IDMP` and `IDMPAUTO` options."),
    ],
    tips: &["nondeterministic_output"],
    reply: Shape::BULK_OR_NULL,
    run: Run::Function(xadd),
    ..Entry::DEFAULT
};

/// The id that a client asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WantedId {
    /// An id chosen by the clock.
    Auto,
    /// The next sequence number of this millisecond.
    At(u64),
    Exactly(StreamId),
}

/// The arguments of XADD.
struct Add<'a> {
    creates: bool,
    trim: Option<Trimming>,
    wanted: WantedId,
    /// The producer that may have sent the message before.
    sender: Option<Sender<'a>>,
    /// Field, value, field, value …
    pairs: &'a [&'a [u8]],
}

impl<'a> Add<'a> {
    fn parse(ctx: &Ctx<'a, '_>) -> Result<Add<'a>, CommandError> {
        let mut rest = &ctx.args[2..];
        let mut options = TrimOptions::default();
        let (mut creates, mut sender) = (true, None);
        // If all arguments are options, the id is missing as well as the pairs.
        let mut wanted = WantedId::Auto;
        while let [word, after @ ..] = rest {
            if *word == b"*" {
                rest = after;
                break;
            }
            if let Some(after) = options.take(rest)? {
                rest = after;
                continue;
            }
            // No id begins so.
            if let Some(b'i' | b'I') = word.first()
                && let Some((found, after)) = Sender::take(rest, sender.is_some())?
            {
                (sender, rest) = (Some(found), after);
                continue;
            }
            rest = after;
            if keyword_is(word, "nomkstream") {
                creates = false;
                continue;
            }
            wanted = match StreamId::parse_open(word) {
                Some(ms) => WantedId::At(ms),
                None => WantedId::Exactly(ids::parse_strict(word, 0)?),
            };
            break;
        }
        let trim = options.finish(&ctx.store, false)?;
        // A primary or a log may say which id it was.
        if sender.is_some() && wanted != WantedId::Auto && !ctx.store.tx.keeps_due {
            return Err(NOT_AUTO);
        }
        if rest.is_empty() || !rest.len().is_multiple_of(2) {
            return Err(CommandError::wrong_arity("xadd"));
        }
        if wanted == WantedId::Exactly(StreamId::MIN) {
            return Err(CommandError::new(ZERO));
        }
        Ok(Add { creates, trim, wanted, sender, pairs: rest })
    }

    fn id(&self, log: &Log, now_ms: u64) -> Result<StreamId, CommandError> {
        if log.last_id == StreamId::MAX {
            return Err(CommandError::new(EXHAUSTED));
        }
        let id = match self.wanted {
            WantedId::Auto => log.next_id(now_ms),
            WantedId::At(ms) => log.next_id_at(ms),
            WantedId::Exactly(id) => Some(id),
        };
        id.filter(|id| *id > log.last_id).ok_or_else(|| CommandError::new(TOO_SMALL))
    }
}

fn xadd(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let add = Add::parse(ctx)?;
    let (now_ms, limits) = (ctx.store.now().max(0) as u64, ctx.store.config().stream);
    if !add.creates && ctx.store.write_as::<Stream>(key)?.is_none() {
        ctx.reply.null();
        return Ok(());
    }
    if Log::is_too_large(add.pairs) {
        return Err(CommandError::new(TOO_LARGE));
    }
    let message = add.sender.map(|sender| sender.message(add.pairs));
    if let Some(message) = &message
        && !ctx.store.tx.keeps_due
        && message.reply_known(&mut ctx.store, key, &mut ctx.reply)?
    {
        return Ok(());
    }
    // A new stream accepts any id that got this far.
    let stream = ctx.store.upsert::<Stream>(key)?;
    let id = add.id(&stream.log, now_ms)?;
    stream.log.append(id, add.pairs, &limits).expect("size and id were checked");
    if let Some(message) = &message {
        message.record(stream, id, now_ms);
    }
    let trimmed = add.trim.as_ref().map(|trim| trim.apply(stream)).unwrap_or_default();
    let len = stream.log.len();
    let text = id.to_string();
    ctx.reply.bulk(text.as_bytes());
    ctx.store.changed_with(key, Change::new(Class::Stream, "xadd"), |store| {
        let len = len.to_string();
        let mut effect: Vec<&[u8]> = vec![b"XADD", key];
        let is_cut = trimmed.count > 0 && trimmed.picked.is_empty();
        let trim = &trimmed_to(&len)[..if is_cut { 3 } else { 0 }];
        if message.is_none() {
            effect.extend(trim);
        }
        effect.push(text.as_bytes());
        effect.extend(add.pairs);
        store.effect(&effect);
        if let Some(message) = &message {
            message.state(store, key, text.as_bytes());
            // Its entry may be trimmed away at once.
            if !trim.is_empty() {
                store.effect(&[&[&b"XTRIM"[..], key], trim].concat());
            }
        }
        effects::deleted(store, key, &trimmed.picked);
        trimmed.acknowledged.state(store, key);
    });
    if trimmed.count > 0 {
        let change = Change::new(Class::Stream, "xtrim").times(trimmed.acknowledged.count()).untold();
        ctx.store.also_changed(key, change);
    }
    ctx.store.got_more(key);
    Ok(())
}
