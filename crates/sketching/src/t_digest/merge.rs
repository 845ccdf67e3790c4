//! `TDIGEST.MERGE`: the numbers of several digests in one.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Mode, Pace, Run, Shape, integer,
    key, keyword_is, parse_i64, token,
};
use keyspace::Value;
use sketches::{Sketch, TDigest};

use super::change::parse_compression;
use super::{NO_KEY, steps};

const NOT_NUMKEYS: CommandError = CommandError::fixed("ERR T-Digest: error parsing numkeys");
const NUMKEYS_TOO_SMALL: CommandError =
    CommandError::fixed("ERR T-Digest: numkeys needs to be a positive integer");
const WRONG_KEYWORD: CommandError = CommandError::fixed("ERR T-Digest: wrong keyword");
const NO_MEMORY: CommandError = CommandError::fixed("ERR T-Digest: allocation of destination digest failed");
const OVERFLOW: CommandError = CommandError::fixed("ERR T-Digest: overflow detected");

pub(super) const TDIGEST_MERGE: Entry = Entry {
    name: "tdigest.merge",
    summary: "Adds the numbers of t-digests to another one, which is created if it doesn't exist.",
    complexity: "O(N*K), where N is the number of centroids and K being the number of input sketches",
    since: "2.4.0",
    group: Group::TDigest,
    arity: -4,
    flags: &[Write, DenyOom],
    acl: &[Acl::TDigest],
    keys: &[KeySpec::one(1, &[RW, Insert]), KeySpec::numbered(2, &[RO, Access])],
    args: &[
        key("destination-key", 0),
        integer("numkeys"),
        key("source-key", 1).multiple(),
        integer("compression").token("COMPRESSION").optional(),
        token("override", "OVERRIDE").optional(),
    ],
    reply: Shape::OK,
    mode: Mode::Heavy,
    run: Run::Function(merge),
    ..Entry::DEFAULT
};

fn merge(ctx: &mut Ctx) -> CommandResult {
    let [_, target, count, ref rest @ ..] = *ctx.args else { unreachable!("the arity says so") };
    ctx.store.read_as::<TDigest>(target)?;
    let count = parse_i64(count).map_err(|_| NOT_NUMKEYS)?;
    let count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(NUMKEYS_TOO_SMALL)?;
    let (keys, options) =
        rest.split_at_checked(count).ok_or_else(|| CommandError::wrong_arity("tdigest.merge"))?;
    let (compression, overrides) = parse_options(options)?;
    let before = ctx.store.peek_as::<TDigest>(target)?;
    let sources = keys
        .iter()
        .map(|key| ctx.store.peek_as::<TDigest>(key)?.ok_or(NO_KEY))
        .collect::<Result<Vec<_>, _>>()?;
    let largest = sources.iter().map(|digest| digest.compression()).max().unwrap_or_default();
    let compression = match (compression, before) {
        (Some(compression), _) => compression,
        (None, Some(before)) if !overrides => before.compression(),
        (None, _) => largest,
    };
    let mut merged = TDigest::new(compression).map_err(|_| NO_MEMORY)?;
    let mut pace = Pace::new(ctx.host);
    for digest in before.filter(|_| !overrides).into_iter().chain(sources) {
        pace.steps(steps(digest));
        merged.add_all(digest).map_err(|_| OVERFLOW)?;
    }
    match ctx.store.write_as::<TDigest>(target)? {
        Some(digest) => *digest = merged,
        None => ctx.store.set(target, Value::Sketch(Box::new(Sketch::TDigest(merged)))),
    }
    ctx.changed(target, Change::UNNAMED);
    ctx.reply.ok();
    Ok(())
}

/// The compression, if there is one, and whether the destination's numbers are replaced.
fn parse_options(options: &[&[u8]]) -> Result<(Option<u64>, bool), CommandError> {
    let (mut compression, mut overrides) = (None, false);
    let mut rest = options.iter();
    while let Some(word) = rest.next() {
        if keyword_is(word, "COMPRESSION") {
            let value = rest.next().ok_or_else(|| CommandError::wrong_arity("tdigest.merge"))?;
            compression = Some(parse_compression(value)?);
        } else if keyword_is(word, "OVERRIDE") {
            overrides = true;
        } else {
            return Err(WRONG_KEYWORD);
        }
    }
    Ok((compression, overrides))
}
