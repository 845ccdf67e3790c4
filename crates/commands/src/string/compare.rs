//! Compare and set, compare and delete: the conditions of `SET` that look at the old value, `DELEX` and `DELIFEQ`, and
//! `DIGEST`.
//!
//! A digest stands for a value that is too large to be sent again: it is the value's XXH3 hash with 64 bits, written as
//! 16 hexadecimal digits. The value of an integer is its text.
//!
//! The effect of a deletion is `DEL`, and that of a conditional `SET` a plain one: a replica need not know conditions.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Ctx, Entry, Group, KeyFlag, KeySpec, Run, Shape, key, keyword_is,
    oneof, string,
};
use keyspace::{Str, StrRef};
use xxhash_rust::xxh3::xxh3_64;

/// The number of hexadecimal digits in a digest.
const DIGEST_DIGITS: usize = 16;

const NOT_A_DIGEST: CommandError = CommandError::fixed("ERR must be exactly 16 hexadecimal characters");
const NOT_A_STRING: CommandError =
    CommandError::fixed("ERR Key should be of string type if conditions are specified");
const NOT_A_CONDITION: CommandError =
    CommandError::fixed("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE");

/// A condition on the old value of a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Comparison<'a> {
    /// The text that the value, or its digest, is compared with.
    operand: &'a [u8],
    /// Whether the digest is compared.
    is_digest: bool,
    /// Whether they must be equal, rather than differ.
    must_equal: bool,
}

/// Whether `word` introduces a comparison.
pub(super) fn is_comparison(word: &[u8]) -> bool {
    parts(word).is_some()
}

/// For a word that introduces a comparison: whether it compares the digest, and whether that must be equal.
fn parts(word: &[u8]) -> Option<(bool, bool)> {
    let is = |name: &str| keyword_is(word, name);
    match word.len() {
        4 if is("IFEQ") => Some((false, true)),
        4 if is("IFNE") => Some((false, false)),
        5 if is("IFDEQ") => Some((true, true)),
        5 if is("IFDNE") => Some((true, false)),
        _ => None,
    }
}

impl<'a> Comparison<'a> {
    /// The comparison that `word` introduces; `None` if it introduces none.
    ///
    /// # Errors
    /// If `operand` should be a digest and has another length.
    pub(super) fn parse(word: &[u8], operand: &'a [u8]) -> Result<Option<Comparison<'a>>, CommandError> {
        let Some((is_digest, must_equal)) = parts(word) else { return Ok(None) };
        if is_digest && operand.len() != DIGEST_DIGITS {
            return Err(NOT_A_DIGEST);
        }
        Ok(Some(Comparison { operand, is_digest, must_equal }))
    }

    /// Whether it holds for `old`. A value that does not exist differs from everything.
    pub(super) fn holds(self, old: Option<StrRef<'_>>) -> bool {
        let is_equal = old.is_some_and(|old| match (self.is_digest, old) {
            (true, old) => self.operand.eq_ignore_ascii_case(&digest(old)),
            (false, StrRef::Int(number)) => itoa::Buffer::new().format(number).as_bytes() == self.operand,
            (false, StrRef::Text(text)) => text == self.operand,
            (false, StrRef::Shared(bytes)) => bytes.as_slice() == self.operand,
        });
        is_equal == self.must_equal
    }
}

/// The digest of a string.
fn digest(string: StrRef<'_>) -> [u8; DIGEST_DIGITS] {
    let mut rest = match string {
        StrRef::Int(number) => xxh3_64(itoa::Buffer::new().format(number).as_bytes()),
        StrRef::Text(text) => xxh3_64(text),
        StrRef::Shared(bytes) => xxh3_64(bytes),
    };
    let mut digits = [b'0'; DIGEST_DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(rest & 0xf) as usize];
        rest >>= 4;
    }
    digits
}

pub(super) const DIGEST: Entry = Entry {
    name: "digest",
    summary: "Returns the XXH3 hash of a string value.",
    complexity: "O(N) where N is the length of the string value.",
    since: "8.4.0",
    group: Group::String,
    arity: 2,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0)],
    reply: Shape::BULK_OR_NULL,
    run: Run::Function(reply_digest),
    ..Entry::DEFAULT
};

fn reply_digest(ctx: &mut Ctx) -> CommandResult {
    match ctx.store.read_as::<Str>(ctx.args[1])? {
        Some(string) => ctx.reply.bulk(&digest(string)),
        None => ctx.reply.null(),
    }
    Ok(())
}

pub(super) const DELEX: Entry = Entry {
    name: "delex",
    summary: "Conditionally removes the specified key based on value or digest comparison.",
    complexity: "O(1) for IFEQ/IFNE, O(N) for IFDEQ/IFDNE where N is the length of the string value.",
    since: "8.4.0",
    group: Group::String,
    arity: -2,
    flags: &[Write, Fast],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[RW, Delete, VariableFlags])],
    key_flags: Some(delex_key_flags),
    args: &[
        key("key", 0),
        oneof(
            "condition",
            &[
                string("ifeq-value").token("IFEQ"),
                string("ifne-value").token("IFNE"),
                string("ifdeq-digest").token("IFDEQ"),
                string("ifdne-digest").token("IFDNE"),
            ],
        )
        .optional(),
    ],
    reply: Shape::Int,
    run: Run::Function(delex),
    ..Entry::DEFAULT
};

fn delex_key_flags(args: &[&[u8]]) -> &'static [KeyFlag] {
    if args.len() > 2 { &[RW, Access, Delete] } else { &[RM, Delete] }
}

fn delex(ctx: &mut Ctx) -> CommandResult {
    let comparison = match *ctx.args {
        [_, _] => None,
        [_, _, word, operand] => Some(Comparison::parse(word, operand)?.ok_or(NOT_A_CONDITION)?),
        _ => return Err(CommandError::wrong_arity(&ctx.command.full_name)),
    };
    let key = ctx.args[1];
    let goes = match comparison {
        None => true,
        Some(comparison) => {
            let old = ctx.store.peek_as::<Str>(key).map_err(|_| NOT_A_STRING)?;
            old.is_some() && comparison.holds(old)
        }
    };
    let is_gone = goes && ctx.store.delete(key);
    ctx.reply.int(i64::from(is_gone));
    Ok(())
}

pub(super) const DELIFEQ: Entry = Entry {
    name: "delifeq",
    summary: "Deletes a key if its value is the given string.",
    complexity: "O(1)",
    since: "",
    group: Group::String,
    arity: 3,
    flags: &[Write, Fast],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[RM, Access, Delete])],
    args: &[key("key", 0), string("value")],
    reply: Shape::Int,
    note: "A command of Valkey 9.0",
    run: Run::Function(delifeq),
    ..Entry::DEFAULT
};

fn delifeq(ctx: &mut Ctx) -> CommandResult {
    let (key, operand) = (ctx.args[1], ctx.args[2]);
    let comparison = Comparison { operand, is_digest: false, must_equal: true };
    let is_gone = comparison.holds(ctx.store.peek_as::<Str>(key)?) && ctx.store.delete(key);
    ctx.reply.int(i64::from(is_gone));
    Ok(())
}
