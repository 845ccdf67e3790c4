//! `BITFIELD`: integers of any width at any bit of a string.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeyFlag, KeySpec, Run, Shape, block,
    integer, key, keyword_is, oneof, parse_i64, string, token,
};
use keyspace::{Str, StrRef};
use smallvec::SmallVec;

use super::parse_offset;

pub(super) const BITFIELD: Entry = Entry {
    name: "bitfield",
    summary: "Performs arbitrary bitfield integer operations on strings.",
    complexity: "O(1) for each subcommand specified",
    since: "3.2.0",
    group: Group::Bitmap,
    arity: -2,
    flags: &[Write, DenyOom],
    acl: &[Acl::Bitmap],
    keys: &[KeySpec::one(1, &[RW, Access, Update, VariableFlags])
        .notes("This command allows both access and modification of the key")],
    key_flags: Some(bitfield_key_flags),
    args: &[
        key("key", 0),
        oneof(
            "operation",
            &[
                block("get-block", &[string("encoding"), integer("offset")]).token("GET"),
                block(
                    "write",
                    &[
                        oneof(
                            "overflow-block",
                            &[token("wrap", "WRAP"), token("sat", "SAT"), token("fail", "FAIL")],
                        )
                        .token("OVERFLOW")
                        .optional(),
                        oneof(
                            "write-operation",
                            &[
                                block(
                                    "set-block",
                                    &[string("encoding"), integer("offset"), integer("value")],
                                )
                                .token("SET"),
                                block(
                                    "incrby-block",
                                    &[string("encoding"), integer("offset"), integer("increment")],
                                )
                                .token("INCRBY"),
                            ],
                        ),
                    ],
                ),
            ],
        )
        .optional()
        .multiple(),
    ],
    reply: Shape::Array(&Shape::OneOf(&[Shape::Int, Shape::Null])),
    run: Run::Function(bitfield),
    ..Entry::DEFAULT
};

fn bitfield_key_flags(args: &[&[u8]]) -> &'static [KeyFlag] {
    let mut rest = &args[2..];
    while let [option, values @ ..] = rest {
        rest = match values {
            [_, _, rest @ ..] if keyword_is(option, "GET") => rest,
            [_, rest @ ..] if keyword_is(option, "OVERFLOW") => rest,
            _ => return &[RW, Access, Update],
        };
    }
    &[RO, Access]
}

fn bitfield(ctx: &mut Ctx) -> CommandResult {
    let operations = FieldOperation::parse_all(ctx)?;
    let highest = operations.iter().filter(|operation| operation.action != Action::Get);
    match highest.map(|operation| operation.field.end()).max() {
        None => read(ctx, &operations),
        Some(end) => write(ctx, &operations, end.div_ceil(8) as usize),
    }
}

pub(super) const BITFIELD_RO: Entry = Entry {
    name: "bitfield_ro",
    summary: "Performs arbitrary read-only bitfield integer operations on strings.",
    complexity: "O(1) for each subcommand specified",
    since: "6.0.0",
    group: Group::Bitmap,
    arity: -2,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Bitmap],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[
        key("key", 0),
        block("get-block", &[string("encoding"), integer("offset")]).token("GET").optional().multiple_token(),
    ],
    reply: Shape::Array(&Shape::Int),
    run: Run::Function(bitfield_ro),
    ..Entry::DEFAULT
};

fn bitfield_ro(ctx: &mut Ctx) -> CommandResult {
    let operations = FieldOperation::parse_all(ctx)?;
    if operations.iter().any(|operation| operation.action != Action::Get) {
        return Err(CommandError::new("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    read(ctx, &operations)
}

fn read(ctx: &mut Ctx, operations: &[FieldOperation]) -> CommandResult {
    let bytes = ctx.store.read_as::<Str>(ctx.args[1])?.map(StrRef::bytes).unwrap_or_default();
    ctx.reply.array(operations.len());
    for operation in operations {
        ctx.reply.int(operation.field.get(&bytes));
    }
    Ok(())
}

/// Runs operations that include writes. The string is extended to at least `length` bytes.
fn write(ctx: &mut Ctx, operations: &[FieldOperation], length: usize) -> CommandResult {
    let key = ctx.args[1];
    let bytes = ctx.store.upsert::<Str>(key)?.make_mut();
    let grows = bytes.len() < length;
    if grows {
        bytes.resize(length, 0);
    }
    let mut count = 0;
    ctx.reply.array(operations.len());
    for operation in operations {
        let field = operation.field;
        let old = field.get(bytes);
        let (wanted, answers_old) = match operation.action {
            Action::Get => {
                ctx.reply.int(old);
                continue;
            }
            // In an unsigned field, a negative number stands for the large one with the same bits.
            Action::Set(value) if !field.signed => (i128::from(value as u64), true),
            Action::Set(value) => (i128::from(value), true),
            Action::Add(increment) => (i128::from(old) + i128::from(increment), false),
        };
        match field.fit(wanted, operation.overflow) {
            None => ctx.reply.null(),
            Some(new) => {
                field.set(bytes, new);
                count += usize::from(grows || new != old);
                ctx.reply.int(if answers_old { old } else { new });
            }
        }
    }
    if count > 0 {
        ctx.changed(key, Change::new(Class::String, "setbit").times(count));
    } else if grows {
        // Redis announces nothing if a string only grew, because no operation was performed.
        ctx.changed(key, Change::NONE);
    }
    Ok(())
}

/// The treatment of a number that does not fit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overflow {
    /// Its lower bits are kept.
    Wrap,
    /// The nearest number that fits is taken.
    Saturate,
    /// The operation is skipped.
    Fail,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Get,
    Set(i64),
    Add(i64),
}

struct FieldOperation {
    action: Action,
    field: Field,
    overflow: Overflow,
}

impl FieldOperation {
    fn parse_all(ctx: &Ctx) -> Result<SmallVec<[FieldOperation; 4]>, CommandError> {
        let mut operations = SmallVec::new();
        let mut overflow = Overflow::Wrap;
        let mut rest = &ctx.args[2..];
        while let [word, after @ ..] = rest {
            rest = match after {
                [kind, after @ ..] if keyword_is(word, "OVERFLOW") => {
                    overflow = parse_overflow(kind)?;
                    after
                }
                [kind, offset, after @ ..] if keyword_is(word, "GET") => {
                    let field = Field::parse(ctx, kind, offset)?;
                    operations.push(FieldOperation { action: Action::Get, field, overflow });
                    after
                }
                [kind, offset, number, after @ ..]
                    if keyword_is(word, "SET") || keyword_is(word, "INCRBY") =>
                {
                    let field = Field::parse(ctx, kind, offset)?;
                    let number = parse_i64(number)?;
                    let action =
                        if keyword_is(word, "SET") { Action::Set(number) } else { Action::Add(number) };
                    operations.push(FieldOperation { action, field, overflow });
                    after
                }
                _ => return Err(CommandError::SYNTAX),
            };
        }
        Ok(operations)
    }
}

fn parse_overflow(kind: &[u8]) -> Result<Overflow, CommandError> {
    match () {
        () if keyword_is(kind, "WRAP") => Ok(Overflow::Wrap),
        () if keyword_is(kind, "SAT") => Ok(Overflow::Saturate),
        () if keyword_is(kind, "FAIL") => Ok(Overflow::Fail),
        () => Err(CommandError::new("ERR Invalid OVERFLOW type specified")),
    }
}

/// Bytes that a field of 64 bits may touch.
const WINDOW_BYTES: usize = 9;
const WINDOW_BITS: u64 = WINDOW_BYTES as u64 * 8;

/// An integer of up to 64 bits (63 without a sign) somewhere in a string.
#[derive(Clone, Copy)]
struct Field {
    signed: bool,
    width: u64,
    /// The first bit.
    offset: u64,
}

impl Field {
    fn parse(ctx: &Ctx, kind: &[u8], offset: &[u8]) -> Result<Field, CommandError> {
        let invalid = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";
        let (signed, width) = match kind {
            [b'i', width @ ..] => (true, width),
            [b'u', width @ ..] => (false, width),
            _ => return Err(CommandError::new(invalid)),
        };
        let width = ds::num::parse_i64(width)
            .filter(|width| (1..=if signed { 64 } else { 63 }).contains(width))
            .ok_or_else(|| CommandError::new(invalid))? as u64;
        let offset = match offset {
            [b'#', number @ ..] => parse_offset(ctx, number, width)?,
            number => parse_offset(ctx, number, 1)?,
        };
        Ok(Field { signed, width, offset })
    }

    /// The bit after the last.
    fn end(self) -> u64 {
        self.offset + self.width
    }

    /// The bytes around the field as a number, zeros beyond the end of the string.
    fn window(self, bytes: &[u8]) -> u128 {
        let start = (self.offset / 8) as usize;
        let there = bytes.iter().skip(start).take(WINDOW_BYTES).chain(std::iter::repeat(&0));
        there.take(WINDOW_BYTES).fold(0, |window, &byte| window << 8 | u128::from(byte))
    }

    /// The distance of the field from the lowest bit of the window.
    fn shift(self) -> u64 {
        WINDOW_BITS - self.offset % 8 - self.width
    }

    fn mask(self) -> u128 {
        (1 << self.width) - 1
    }

    fn get(self, bytes: &[u8]) -> i64 {
        self.wrap(self.window(bytes) >> self.shift())
    }

    /// Writes `value` into bytes that reach at least to the end of the field.
    fn set(self, bytes: &mut [u8], value: i64) {
        let kept = self.window(bytes) & !(self.mask() << self.shift());
        let window = kept | (value as u128 & self.mask()) << self.shift();
        let start = (self.offset / 8) as usize;
        for (byte, new) in bytes[start..].iter_mut().zip(&window.to_be_bytes()[16 - WINDOW_BYTES..]) {
            *byte = *new;
        }
    }

    /// The lower bits of `number` as a number of this field.
    fn wrap(self, number: u128) -> i64 {
        let bits = number & self.mask();
        let is_negative = self.signed && bits >> (self.width - 1) != 0;
        if is_negative { (bits | !self.mask()) as i64 } else { bits as i64 }
    }

    /// The number that is stored for `wanted`; `None` if nothing is stored.
    fn fit(self, wanted: i128, overflow: Overflow) -> Option<i64> {
        let span = 1_i128 << self.width;
        let (min, max) = if self.signed { (-span / 2, span / 2 - 1) } else { (0, span - 1) };
        match overflow {
            _ if (min..=max).contains(&wanted) => Some(wanted as i64),
            Overflow::Wrap => Some(self.wrap(wanted as u128)),
            Overflow::Saturate => Some(wanted.clamp(min, max) as i64),
            Overflow::Fail => None,
        }
    }
}
