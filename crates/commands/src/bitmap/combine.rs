//! `BITOP`: combines strings bit by bit.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Mode, Pace, Run, Shape,
    Store, key, keyword_is, oneof, token,
};
use keyspace::{Str, StrRef, Value};

use crate::keys::rebuild;

pub(super) const BITOP: Entry = Entry {
    name: "bitop",
    summary: "Performs bitwise operations on multiple strings, and stores the result.",
    complexity: "O(N)",
    since: "2.6.0",
    group: Group::Bitmap,
    arity: -4,
    flags: &[Write, DenyOom],
    acl: &[Acl::Bitmap],
    keys: &[KeySpec::one(2, &[OW, Update]), KeySpec::range(3, -1, 1, &[RO, Access])],
    args: &[
        oneof(
            "operation",
            &[
                token("and", "AND"),
                token("or", "OR"),
                token("xor", "XOR"),
                token("not", "NOT"),
                token("diff", "DIFF").since("8.2.0"),
                token("diff1", "DIFF1").since("8.2.0"),
                token("andor", "ANDOR").since("8.2.0"),
                token("one", "ONE").since("8.2.0"),
            ],
        ),
        key("destkey", 0),
        key("key", 1).multiple(),
    ],
    history: &[("8.2.0", "Added the `DIFF`, `DIFF1`, `ANDOR`, and `ONE` operations.")],
    reply: Shape::Int,
    mode: Mode::Heavy,
    run: Run::Function(bitop),
    ..Entry::DEFAULT
};

fn bitop(ctx: &mut Ctx) -> CommandResult {
    let operation = BitOperation::parse(ctx.args[1])?;
    let (target, sources) = (ctx.args[2], &ctx.args[3..]);
    if operation == BitOperation::Not && sources.len() != 1 {
        return Err(CommandError::new("ERR BITOP NOT must be called with a single source key."));
    }
    if operation.sets_first_apart() && sources.len() < 2 {
        let name = String::from_utf8_lossy(ctx.args[1]).to_uppercase();
        return Err(CommandError::new(format!(
            "ERR BITOP {name} must be called with at least two source keys."
        )));
    }
    let mut length = 0;
    for key in sources {
        length = length.max(ctx.store.read_as::<Str>(key)?.map_or(0, StrRef::len));
    }
    let mut pace = Pace::new(ctx.host);
    let result = combined(&ctx.store, operation, sources, length, &mut pace)?;
    if result.is_empty() {
        ctx.store.delete(target);
    } else {
        ctx.store.replace(target, Value::Str(Str::from(result)), None);
        let change = Change::new(Class::String, "set");
        if operation.is_new() {
            ctx.store.changed_with(target, change, |store| rebuild::record(store, target));
        } else {
            ctx.changed(target, change);
        }
    }
    ctx.reply.int(length as i64);
    Ok(())
}

/// The combination of the strings at `sources`, of which the longest has `length` bytes.
fn combined(
    store: &Store,
    operation: BitOperation,
    sources: &[&[u8]],
    length: usize,
    pace: &mut Pace<'_>,
) -> Result<Vec<u8>, CommandError> {
    let bytes_of = |key: &[u8]| Ok(store.peek_as::<Str>(key)?.map(StrRef::bytes).unwrap_or_default());
    let mut result = vec![0; length];
    // Bits that are set in several sources.
    let mut repeated = if operation == BitOperation::One { vec![0; length] } else { Vec::new() };
    let skipped = usize::from(operation.sets_first_apart());
    for (index, key) in sources[skipped..].iter().enumerate() {
        let bytes = bytes_of(key)?;
        let covered = bytes.len();
        let mut repeated = repeated.chunks_mut(PART_BYTES);
        for (part, source) in result.chunks_mut(PART_BYTES).zip(bytes.chunks(PART_BYTES)) {
            if let Some(repeated) = repeated.next() {
                note_repeated(repeated, part, source);
            }
            operation.add(part, source, index == 0);
            pace.bytes(PART_BYTES);
        }
        if operation == BitOperation::And && index > 0 {
            result[covered.next_multiple_of(PART_BYTES).min(length)..].fill(0);
        }
    }
    if operation == BitOperation::One {
        for (part, repeated) in result.chunks_mut(PART_BYTES).zip(repeated.chunks(PART_BYTES)) {
            part.iter_mut().zip(repeated).for_each(|(byte, repeated)| *byte &= !repeated);
            pace.bytes(PART_BYTES);
        }
    }
    if operation.sets_first_apart() {
        let first = bytes_of(sources[0])?;
        let mut first = first.chunks(PART_BYTES);
        for part in result.chunks_mut(PART_BYTES) {
            operation.join_first(part, first.next().unwrap_or_default());
            pace.bytes(PART_BYTES);
        }
    }
    Ok(result)
}

/// Bytes that are combined at a time.
const PART_BYTES: usize = 64 * 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
enum BitOperation {
    And,
    Or,
    Xor,
    Not,
    /// The bits of the first source that no other has.
    Diff,
    /// The bits that others have, and the first source has not.
    Diff1,
    /// The bits of the first source that any other has.
    AndOr,
    /// The bits that exactly one source has.
    One,
}

impl BitOperation {
    fn parse(arg: &[u8]) -> Result<BitOperation, CommandError> {
        let words = [
            ("AND", BitOperation::And),
            ("OR", BitOperation::Or),
            ("XOR", BitOperation::Xor),
            ("NOT", BitOperation::Not),
            ("DIFF", BitOperation::Diff),
            ("DIFF1", BitOperation::Diff1),
            ("ANDOR", BitOperation::AndOr),
            ("ONE", BitOperation::One),
        ];
        let found = words.into_iter().find(|(word, _)| keyword_is(arg, word));
        found.map(|(_, operation)| operation).ok_or(CommandError::SYNTAX)
    }

    /// Whether the first source is combined with all others, which are combined by OR.
    fn sets_first_apart(self) -> bool {
        matches!(self, BitOperation::Diff | BitOperation::Diff1 | BitOperation::AndOr)
    }

    /// Whether Redis 7 does not know it.
    fn is_new(self) -> bool {
        self.sets_first_apart() || self == BitOperation::One
    }

    /// Combines the first source, which is set apart, with the others in `others`.
    fn join_first(self, others: &mut [u8], first: &[u8]) {
        let (covered, beyond) = others.split_at_mut(first.len().min(others.len()));
        let pairs = covered.iter_mut().zip(first);
        match self {
            BitOperation::Diff => pairs.for_each(|(byte, first)| *byte = first & !*byte),
            BitOperation::Diff1 => return pairs.for_each(|(byte, first)| *byte &= !first),
            BitOperation::AndOr => pairs.for_each(|(byte, first)| *byte &= first),
            _ => unreachable!("no source is set apart"),
        }
        beyond.fill(0);
    }

    /// Combines one more source into `result`; a shorter source is padded with zeros.
    fn add(self, result: &mut [u8], source: &[u8], is_first: bool) {
        let (covered, beyond) = result.split_at_mut(source.len());
        let pairs = covered.iter_mut().zip(source);
        match self {
            _ if is_first && self != BitOperation::Not => covered.copy_from_slice(source),
            BitOperation::And => {
                pairs.for_each(|(byte, other)| *byte &= other);
                beyond.fill(0);
            }
            BitOperation::Or
            | BitOperation::Diff
            | BitOperation::Diff1
            | BitOperation::AndOr
            | BitOperation::One => pairs.for_each(|(byte, other)| *byte |= other),
            BitOperation::Xor => pairs.for_each(|(byte, other)| *byte ^= other),
            BitOperation::Not => pairs.for_each(|(byte, other)| *byte = !other),
        }
    }
}

/// Notes the bits of `source` that are in `seen` already.
fn note_repeated(repeated: &mut [u8], seen: &[u8], source: &[u8]) {
    for ((repeated, seen), byte) in repeated.iter_mut().zip(seen).zip(source) {
        *repeated |= seen & byte;
    }
}
