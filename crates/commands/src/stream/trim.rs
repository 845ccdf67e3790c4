//! XTRIM, and the same options of XADD.
//!
//! Since Redis 8.2 a trim may consider entries that are pending in groups: with `DELREF` a trimmed entry is no longer
//! pending anywhere; with `ACKED` entries stay that a group has not acknowledged, and later ones may go instead.

use ds::stream::{Keep, Stream, StreamId, Trim};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Arg, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, Store,
    block, integer, key, keyword_is, oneof, parse_i64, string, token,
};

use super::remove::{Acknowledged, REFERENCES, References};
use super::{effects, ids};

const BOTH: &str = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible";
const MAXLEN_NEGATIVE: &str = "ERR The MAXLEN argument must be >= 0.";
const LIMIT_NEGATIVE: &str = "ERR The LIMIT argument must be >= 0.";
const LIMIT_ALONE: &str = "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy";
const LIMIT_EXACT: &str = "ERR syntax error, LIMIT cannot be used without the special ~ option";
const NO_STRATEGY: &str = "ERR syntax error, XTRIM must be called with a trimming strategy";

/// Nodes that an approximate trim removes at most by default.
const NODES_MAX: usize = 100;
/// The bounds on the number of entries that result from it.
const LIMIT_DEFAULT: usize = 10_000;
const LIMIT_MAX: usize = 1_000_000;

/// `MAXLEN|MINID [=|~] threshold [LIMIT count]`
pub(super) const TRIM_ARGS: &[Arg] = &[
    oneof("strategy", &[token("maxlen", "MAXLEN"), token("minid", "MINID").since("6.2.0")]),
    oneof("operator", &[token("equal", "="), token("approximately", "~")]).optional(),
    string("threshold"),
    integer("count").token("LIMIT").since("6.2.0").optional(),
];

/// The options of a trim that have been read so far.
#[derive(Default)]
pub(super) struct TrimOptions {
    keep: Option<Keep>,
    is_approximate: bool,
    limit: Option<usize>,
    references: Option<References>,
}

/// A trim, and its effect on references to the trimmed entries.
pub(super) struct Trimming {
    trim: Trim,
    references: References,
}

/// The result of a trim.
#[derive(Default)]
pub(super) struct Trimmed {
    /// The number of entries removed.
    pub(super) count: usize,
    /// Removed entries that were pending in groups.
    pub(super) acknowledged: Acknowledged,
    /// Entries that were not the oldest; the effect names them.
    pub(super) picked: Vec<StreamId>,
}

impl Trimming {
    pub(super) fn apply(&self, stream: &mut Stream) -> Trimmed {
        match self.references {
            References::Keep => Trimmed { count: stream.log.trim(&self.trim), ..Trimmed::default() },
            References::Delete => {
                let (candidates, mut acknowledged) = (self.candidates(stream), Acknowledged::default());
                let count = stream.log.trim(&self.trim);
                candidates[..count].iter().for_each(|id| acknowledged.take(stream, *id));
                Trimmed { count, acknowledged, picked: Vec::new() }
            }
            References::Mind => self.pick(stream),
        }
    }

    /// The surplus entries, oldest first, then those that may go instead of entries that must stay.
    fn candidates(&self, stream: &Stream) -> Vec<StreamId> {
        let (end, count_max) = match self.trim.keep {
            Keep::Newest(_) if self.references == References::Mind => (StreamId::MAX, usize::MAX),
            Keep::Newest(kept) => (StreamId::MAX, stream.log.len().saturating_sub(kept)),
            Keep::From(id) => match id.prev() {
                Some(end) => (end, usize::MAX),
                None => return Vec::new(),
            },
        };
        stream.log.range(StreamId::MIN, end).map(|(id, _)| id).take(count_max).collect()
    }

    /// Deletes candidates that no group needs, until few enough entries are left.
    fn pick(&self, stream: &mut Stream) -> Trimmed {
        let (mut picked, mut acknowledged) = (Vec::new(), Acknowledged::default());
        for id in self.candidates(stream) {
            let is_over = match self.trim.keep {
                Keep::Newest(kept) => stream.log.len() <= kept,
                Keep::From(_) => false,
            };
            if is_over || (self.trim.limit > 0 && picked.len() >= self.trim.limit) {
                break;
            }
            if self.references.delete(stream, id, &mut acknowledged) == Some(true) {
                picked.push(id);
            }
        }
        Trimmed { count: picked.len(), acknowledged, picked }
    }
}

/// The words of an effect that trims to this length.
pub(super) fn trimmed_to(len: &str) -> [&[u8]; 3] {
    [b"MAXLEN", b"=", len.as_bytes()]
}

impl TrimOptions {
    /// Reads the option at the beginning of `args`, if there is one, and returns the rest.
    pub(super) fn take<'a, 'b>(
        &mut self,
        args: &'b [&'a [u8]],
    ) -> Result<Option<&'b [&'a [u8]]>, CommandError> {
        match *args {
            [word, ref rest @ ..] if !rest.is_empty() && keyword_is(word, "maxlen") => {
                let (count, rest) = self.threshold(rest)?;
                let count = parse_i64(count)?;
                let count = usize::try_from(count).map_err(|_| CommandError::new(MAXLEN_NEGATIVE))?;
                self.keep = Some(Keep::Newest(count));
                Ok(Some(rest))
            }
            [word, ref rest @ ..] if !rest.is_empty() && keyword_is(word, "minid") => {
                let (id, rest) = self.threshold(rest)?;
                self.keep = Some(Keep::From(ids::parse_strict(id, 0)?));
                Ok(Some(rest))
            }
            [word, limit, ref rest @ ..] if keyword_is(word, "limit") => {
                let limit = parse_i64(limit)?;
                self.limit = Some(usize::try_from(limit).map_err(|_| CommandError::new(LIMIT_NEGATIVE))?);
                Ok(Some(rest))
            }
            [word, ref rest @ ..] if self.references.is_none() => {
                self.references = References::from_word(word);
                Ok(self.references.map(|_| rest))
            }
            _ => Ok(None),
        }
    }

    /// `[=|~] threshold`
    fn threshold<'a, 'b>(
        &mut self,
        args: &'b [&'a [u8]],
    ) -> Result<(&'a [u8], &'b [&'a [u8]]), CommandError> {
        if self.keep.is_some() {
            return Err(CommandError::new(BOTH));
        }
        self.is_approximate = false;
        match *args {
            [b"~", threshold, ref rest @ ..] => {
                self.is_approximate = true;
                Ok((threshold, rest))
            }
            [b"=", threshold, ref rest @ ..] | [threshold, ref rest @ ..] => Ok((threshold, rest)),
            [] => Err(CommandError::SYNTAX),
        }
    }

    /// The trim that the options ask for, if any; `is_needed`: without one this is an error.
    pub(super) fn finish(self, store: &Store, is_needed: bool) -> Result<Option<Trimming>, CommandError> {
        let TrimOptions { keep, is_approximate, mut limit, references } = self;
        if store.tx.keeps_due {
            // The command is from a primary or a log. Redis tells replicas the exact number of remaining
            // entries, but does not remove the words of the limit.
            limit = limit.map(|_| 0).filter(|_| is_approximate);
        }
        match (keep, limit) {
            (None, Some(1..)) => Err(CommandError::new(LIMIT_ALONE)),
            (None, _) if is_needed => Err(CommandError::new(NO_STRATEGY)),
            (_, Some(_)) if !is_approximate => Err(CommandError::new(LIMIT_EXACT)),
            (None, _) => Ok(None),
            (Some(keep), limit) => {
                let default =
                    if is_approximate { default_limit(store.config().stream.node_entries_max) } else { 0 };
                let trim = Trim { keep, is_approximate, limit: limit.unwrap_or(default) };
                Ok(Some(Trimming { trim, references: references.unwrap_or_default() }))
            }
        }
    }
}

fn default_limit(node_entries_max: usize) -> usize {
    match node_entries_max.saturating_mul(NODES_MAX) {
        0 => LIMIT_DEFAULT,
        limit => limit.min(LIMIT_MAX),
    }
}

pub(super) const XTRIM: Entry = Entry {
    name: "xtrim",
    summary: "Deletes messages from the beginning of a stream.",
    complexity: "O(N), with N being the number of evicted entries. Constant times are very small however, \
            since entries are organized in macro nodes containing multiple entries that can be released with \
            a single deallocation.",
    since: "5.0.0",
    group: Group::Stream,
    arity: -4,
    flags: &[Write],
    acl: &[Acl::Stream],
    keys: &[KeySpec::one(1, &[RW, Delete])],
    args: &[key("key", 0), block("trim", TRIM_ARGS), REFERENCES.since("8.2.0")],
    history: &[
        ("6.2.0", "Added the `MINID` trimming strategy and the `LIMIT` option."),
        ("8.2.0", "Added the `KEEPREF`, `DELREF` and `ACKED` options."),
    ],
    tips: &["nondeterministic_output"],
    reply: Shape::Int,
    run: Run::Function(xtrim),
    ..Entry::DEFAULT
};

fn xtrim(ctx: &mut Ctx) -> CommandResult {
    let (key, mut rest) = (ctx.args[1], &ctx.args[2..]);
    let mut options = TrimOptions::default();
    while !rest.is_empty() {
        rest = options.take(rest)?.ok_or(CommandError::SYNTAX)?;
    }
    let trim = options.finish(&ctx.store, true)?.ok_or(CommandError::SYNTAX)?;
    let Some(stream) = ctx.store.write_as::<Stream>(key)? else {
        ctx.reply.int(0);
        return Ok(());
    };
    let (trimmed, len) = (trim.apply(stream), stream.log.len());
    if trimmed.count > 0 {
        ctx.store.changed_with(key, Change::new(Class::Stream, "xtrim").times(trimmed.count), |store| {
            if trimmed.picked.is_empty() {
                store.effect(&[&[&b"XTRIM"[..], key], &trimmed_to(&len.to_string())[..]].concat());
            } else {
                effects::deleted(store, key, &trimmed.picked);
            }
            trimmed.acknowledged.state(store, key);
        });
        let count = trimmed.acknowledged.count();
        ctx.store.also_changed(key, Change::UNNAMED.times(count).untold());
    }
    ctx.reply.int(trimmed.count as i64);
    Ok(())
}
