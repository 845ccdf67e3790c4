//! XTRIM, and the options that XADD has beside it.

use command::Flag::*;
use command::KeyFlag::*;
use command::{
    Acl, Arg, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, block, integer,
    key, keyword_is, oneof, parse_i64, string, token,
};
use ds::stream::{Keep, Stream, Trim};
use keyspace::Config;

use super::ids;

const BOTH: &str = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible";
const MAXLEN_NEGATIVE: &str = "ERR The MAXLEN argument must be >= 0.";
const LIMIT_NEGATIVE: &str = "ERR The LIMIT argument must be >= 0.";
const LIMIT_ALONE: &str = "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy";
const LIMIT_EXACT: &str = "ERR syntax error, LIMIT cannot be used without the special ~ option";
const NO_STRATEGY: &str = "ERR syntax error, XTRIM must be called with a trimming strategy";

/// Nodes that an approximate trim takes away at most unless it says otherwise.
const NODES_MAX: usize = 100;
/// The bounds of the number of entries that follows from it.
const LIMIT_DEFAULT: usize = 10_000;
const LIMIT_MAX: usize = 1_000_000;

/// `MAXLEN|MINID [=|~] threshold [LIMIT count]`
pub(super) const TRIM_ARGS: &[Arg] = &[
    oneof("strategy", &[token("maxlen", "MAXLEN"), token("minid", "MINID").since("6.2.0")]),
    oneof("operator", &[token("equal", "="), token("approximately", "~")]).optional(),
    string("threshold"),
    integer("count").token("LIMIT").since("6.2.0").optional(),
];

/// The options of a trim, as they are met.
#[derive(Default)]
pub(super) struct TrimOptions {
    keep: Option<Keep>,
    is_approximate: bool,
    limit: Option<usize>,
}

impl TrimOptions {
    /// Takes the option at the beginning of `args`, if one is there, and gives what follows it.
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

    /// The trim that they ask for, if any; `is_needed`: there must be one.
    pub(super) fn finish(self, config: &Config, is_needed: bool) -> Result<Option<Trim>, CommandError> {
        let TrimOptions { keep, is_approximate, limit } = self;
        match (keep, limit) {
            (None, Some(1..)) => Err(CommandError::new(LIMIT_ALONE)),
            (None, _) if is_needed => Err(CommandError::new(NO_STRATEGY)),
            (_, Some(_)) if !is_approximate => Err(CommandError::new(LIMIT_EXACT)),
            (None, _) => Ok(None),
            (Some(keep), limit) => {
                let default = if is_approximate { default_limit(config.stream.node_entries_max) } else { 0 };
                Ok(Some(Trim { keep, is_approximate, limit: limit.unwrap_or(default) }))
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
    args: &[key("key", 0), block("trim", TRIM_ARGS)],
    history: &[("6.2.0", "Added the `MINID` trimming strategy and the `LIMIT` option.")],
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
    let trim = options.finish(ctx.store.config(), true)?.ok_or(CommandError::SYNTAX)?;
    let stream = ctx.store.write_as::<Stream>(key)?;
    let (gone, len) = stream.map_or((0, 0), |stream| (stream.log.trim(&trim), stream.log.len()));
    if gone > 0 {
        ctx.store.changed_elements(key, Class::Stream, "xtrim", gone);
        ctx.store.effect(key, &[b"XTRIM", key, b"MAXLEN", b"=", len.to_string().as_bytes()]);
    }
    ctx.reply.int(gone as i64);
    Ok(())
}
