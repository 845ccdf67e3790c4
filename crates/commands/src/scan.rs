//! The common parts of HSCAN, SSCAN and ZSCAN: most of their entries, their options, and the frame of their
//! reply.

use engine::Flag::ReadOnly;
use engine::KeyFlag::{Access, RO};
use engine::{
    CommandError, CommandResult, Ctx, Entry, KeySpec, Pace, Shape, integer, key, keyword_is, parse_cursor,
    parse_i64, pattern,
};
use keyspace::Type;
use resp::{Mark, Reply};

/// The common part of their entries.
pub(crate) const ENTRY: Entry = Entry {
    complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the \
            cursor to return back to 0. N is the number of elements inside the collection.",
    since: "2.8.0",
    arity: -3,
    flags: &[ReadOnly],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[
        key("key", 0),
        integer("cursor"),
        pattern("pattern").token("MATCH").optional(),
        integer("count").token("COUNT").optional(),
    ],
    tips: &["nondeterministic_output"],
    reply: Shape::Tuple(&[Shape::Bulk, Shape::BULKS]),
    ..Entry::DEFAULT
};

/// Elements that a step visits by default.
const COUNT_DEFAULT: usize = 10;

/// `[MATCH pattern] [COUNT count]`, and `[NOVALUES]` of HSCAN.
pub(crate) struct ScanOptions<'a> {
    pattern: Option<&'a [u8]>,
    /// About how many elements to visit.
    pub(crate) count: usize,
    /// Whether to leave out the values.
    pub(crate) no_values: bool,
}

impl<'a> ScanOptions<'a> {
    /// Parses the arguments after the cursor. `has_values` says that `NOVALUES` is allowed.
    fn parse(mut args: &[&'a [u8]], has_values: bool) -> Result<Self, CommandError> {
        let mut options = ScanOptions { pattern: None, count: COUNT_DEFAULT, no_values: false };
        loop {
            args = match *args {
                [] => return Ok(options),
                [name, count, ref rest @ ..] if keyword_is(name, "count") => {
                    options.count = match parse_i64(count)? {
                        count if count >= 1 => count as usize,
                        _ => return Err(CommandError::SYNTAX),
                    };
                    rest
                }
                [name, pattern, ref rest @ ..] if keyword_is(name, "match") => {
                    options.pattern = (pattern != b"*").then_some(pattern);
                    rest
                }
                [name, ref rest @ ..] if has_values && keyword_is(name, "novalues") => {
                    options.no_values = true;
                    rest
                }
                _ => return Err(CommandError::SYNTAX),
            };
        }
    }

    /// Whether to report `element`.
    pub(crate) fn wants(&self, element: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| ds::glob::matches(pattern, element, false))
    }
}

/// Replies with one step through the collection at argument 1. `step` writes elements, beginning at the
/// cursor, counts them, and returns the next cursor. `has_values` is that of [`ScanOptions::parse`].
pub(crate) fn reply_step<T: Type>(
    ctx: &mut Ctx,
    has_values: bool,
    step: impl FnOnce(T::Ref<'_>, u64, &ScanOptions, &mut Reply, &mut usize, &mut Pace<'_>) -> u64,
) -> CommandResult {
    let cursor = parse_cursor(ctx.args[2])?;
    let (reply, mut pace) = (&mut ctx.reply, Pace::new(ctx.host));
    let mark = reply.deferred();
    let (mut next, mut count) = (0, 0);
    if let Some(collection) = ctx.store.read_as::<T>(ctx.args[1])? {
        let options = ScanOptions::parse(&ctx.args[3..], has_values)?;
        next = step(collection, cursor, &options, reply, &mut count, &mut pace);
    }
    finish(reply, mark, next, count);
    Ok(())
}

/// Turns the `count` elements written since `mark` into the reply of a step that ends at `cursor`.
fn finish(reply: &mut Reply, mark: Mark, cursor: u64, count: usize) {
    reply.finish_array(mark, count);
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(cursor);
    let head = format!("*2\r\n${}\r\n{digits}\r\n", digits.len());
    reply.out().insert_at(mark, head.as_bytes());
}
