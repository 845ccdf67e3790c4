//! `BITOP`: combines strings bit by bit.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Mode, Pace, Run, Shape, key,
    keyword_is, oneof, token,
};
use keyspace::{Str, StrRef, Value};

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
            &[token("and", "AND"), token("or", "OR"), token("xor", "XOR"), token("not", "NOT")],
        ),
        key("destkey", 0),
        key("key", 1).multiple(),
    ],
    reply: Shape::Int,
    mode: Mode::Heavy,
    run: Run::Function(bitop),
    ..Entry::DEFAULT
};

fn bitop(ctx: &mut Ctx) -> CommandResult {
    let operation = Operation::parse(ctx.args[1])?;
    let (target, sources) = (ctx.args[2], &ctx.args[3..]);
    if operation == Operation::Not && sources.len() != 1 {
        return Err(CommandError::new("ERR BITOP NOT must be called with a single source key."));
    }
    let mut length = 0;
    for key in sources {
        length = length.max(ctx.store.read_as::<Str>(key)?.map_or(0, StrRef::len));
    }
    let (mut result, mut pace) = (vec![0; length], Pace::new(ctx.host));
    for (index, key) in sources.iter().enumerate() {
        let bytes = ctx.store.peek_as::<Str>(key)?.map(StrRef::bytes).unwrap_or_default();
        let covered = bytes.len();
        for (part, source) in result.chunks_mut(PART_BYTES).zip(bytes.chunks(PART_BYTES)) {
            operation.add(part, source, index == 0);
            pace.bytes(PART_BYTES);
        }
        if operation == Operation::And && index > 0 {
            result[covered.next_multiple_of(PART_BYTES).min(length)..].fill(0);
        }
    }
    if result.is_empty() {
        ctx.store.delete(target);
    } else {
        ctx.store.replace(target, Value::Str(Str::from(result)), None);
        ctx.changed(target, Change::new(Class::String, "set"));
    }
    ctx.reply.int(length as i64);
    Ok(())
}

/// Bytes that are combined at a time.
const PART_BYTES: usize = 64 * 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

impl Operation {
    fn parse(arg: &[u8]) -> Result<Operation, CommandError> {
        let words = [
            ("AND", Operation::And),
            ("OR", Operation::Or),
            ("XOR", Operation::Xor),
            ("NOT", Operation::Not),
        ];
        let found = words.into_iter().find(|(word, _)| keyword_is(arg, word));
        found.map(|(_, operation)| operation).ok_or(CommandError::SYNTAX)
    }

    /// Combines one more source into `result`; a shorter source is padded with zeros.
    fn add(self, result: &mut [u8], source: &[u8], is_first: bool) {
        let (covered, beyond) = result.split_at_mut(source.len());
        let pairs = covered.iter_mut().zip(source);
        match self {
            _ if is_first && self != Operation::Not => covered.copy_from_slice(source),
            Operation::And => {
                pairs.for_each(|(byte, other)| *byte &= other);
                beyond.fill(0);
            }
            Operation::Or => pairs.for_each(|(byte, other)| *byte |= other),
            Operation::Xor => pairs.for_each(|(byte, other)| *byte ^= other),
            Operation::Not => pairs.for_each(|(byte, other)| *byte = !other),
        }
    }
}
