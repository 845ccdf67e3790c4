//! `CMS.MERGE`: a weighted sum of sketches.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Mode, Pace, Run, Shape, integer,
    key, keyword_is, parse_i64,
};
use sketches::CountMin;
use sketches::count_min::MergeError;

use super::NO_KEY;

const BAD_NUMKEYS: CommandError = CommandError::fixed("CMS: invalid numkeys");
const NUMKEYS_TOO_SMALL: CommandError = CommandError::fixed("CMS: Number of keys must be positive");
const OTHER_KEYS: CommandError = CommandError::fixed("CMS: wrong number of keys");
const OTHER_WEIGHTS: CommandError = CommandError::fixed("CMS: wrong number of keys/weights");
const BAD_WEIGHT: CommandError = CommandError::fixed("CMS: invalid weight value");
const OTHER_SIZE: CommandError = CommandError::fixed("CMS: width/depth is not equal");
const OVERFLOW: CommandError = CommandError::fixed("CMS: MERGE overflow");
const NO_MEMORY: CommandError = CommandError::fixed("CMS: Insufficient memory to create the key");
/// Adding a row's cells takes about as long as this many usual steps.
const STEPS_PER_PIECE: usize = 8;

pub(super) const CMS_MERGE: Entry = Entry {
    name: "cms.merge",
    summary: "Stores the weighted sum of count-min sketches in another one.",
    complexity: "O(n) where n is the number of sketches",
    since: "2.0.0",
    group: Group::CountMin,
    arity: -4,
    flags: &[Write, DenyOom],
    acl: &[Acl::CountMin],
    keys: &[KeySpec::one(1, &[RW, Update]), KeySpec::numbered(2, &[RO, Access])],
    args: &[
        key("destination", 0),
        integer("numkeys"),
        key("source", 1).multiple(),
        integer("weight").token("WEIGHTS").optional().multiple(),
    ],
    reply: Shape::OK,
    mode: Mode::Heavy,
    run: Run::Function(merge),
    ..Entry::DEFAULT
};

fn merge(ctx: &mut Ctx) -> CommandResult {
    let [_, target, count, ref rest @ ..] = *ctx.args else { unreachable!("the arity says so") };
    let (width, depth) = match ctx.store.read_as::<CountMin>(target)? {
        Some(counts) => (counts.width(), counts.depth()),
        None => return Err(NO_KEY),
    };
    let count = parse_i64(count).map_err(|_| BAD_NUMKEYS)?;
    let count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(NUMKEYS_TOO_SMALL)?;
    let (keys, weights) = sources(rest, count)?;
    let mut parts: Vec<(&CountMin, i64)> = Vec::with_capacity(count);
    for (index, key) in keys.iter().enumerate() {
        let weight = weights.get(index).map_or(Ok(1), |weight| parse_i64(weight).map_err(|_| BAD_WEIGHT))?;
        let counts = ctx.store.peek_as::<CountMin>(key)?.ok_or(NO_KEY)?;
        if (counts.width(), counts.depth()) != (width, depth) {
            return Err(OTHER_SIZE);
        }
        parts.push((counts, weight));
    }
    let mut pace = Pace::new(ctx.host);
    let merged = CountMin::merged(&parts, || pace.steps(STEPS_PER_PIECE)).map_err(|error| match error {
        MergeError::Overflow => OVERFLOW,
        MergeError::TooLarge => NO_MEMORY,
    })?;
    *ctx.store.write_as::<CountMin>(target)?.expect("it was just read") = merged;
    ctx.changed(target, Change::UNNAMED);
    ctx.reply.ok();
    Ok(())
}

/// Some arguments.
type Words<'a> = &'a [&'a [u8]];

/// The keys and their weights; no weights if there is no word for them.
fn sources<'a>(rest: Words<'a>, count: usize) -> Result<(Words<'a>, Words<'a>), CommandError> {
    match rest.iter().position(|word| keyword_is(word, "WEIGHTS")) {
        None if rest.len() == count => Ok((rest, &[])),
        None => Err(OTHER_KEYS),
        Some(word) if word == count && Some(rest.len()) == count.checked_mul(2).map(|double| double + 1) => {
            Ok((&rest[..count], &rest[count + 1..]))
        }
        Some(_) => Err(OTHER_WEIGHTS),
    }
}
