//! `INCREX`: a counter with bounds and an expiry, such as the window of a rate limiter.
//!
//! ```text
//! INCREX hits UBOUND 100 EX 60 ENX
//!                 │          └── the window begins with the first hit, and later ones leave it alone
//!                 └── the hit that would be the 101st changes nothing: the reply is [100, 0]
//! ```
//!
//! A sum out of bounds, or out of the range of its type, changes neither value nor expiry; with `SATURATE` it becomes
//! the bound. The effect is `SET`, because a replica of an earlier version does not know the command, and because the
//! digits of a sum of floats are those of this machine.

use std::cmp::Ordering;

use ds::num::LongDouble;
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, double, integer,
    key, keyword_is, oneof, string, token, unix_time,
};
use keyspace::{Str, UnixMs};

use super::options::Unit;

const ENX_ALONE: CommandError = CommandError::fixed("ERR ENX flag requires an expiration");
const NOT_AN_INCREMENT: CommandError = CommandError::fixed("ERR Increment is not an integer or out of range");
const NOT_A_FLOAT_INCREMENT: CommandError = CommandError::fixed("ERR Increment is not a valid float");
const INFINITE_INCREMENT: CommandError = CommandError::fixed("ERR BYFLOAT increment cannot be Infinity");
const INFINITE_VALUE: CommandError = CommandError::fixed("ERR value cannot be Infinity");
const BOUNDS_CROSSED: CommandError = CommandError::fixed("ERR LBOUND can't be greater than UBOUND");
const APPLIED_OVERFLOW: CommandError = CommandError::fixed("ERR applied increment would overflow");

pub(super) const INCREX: Entry = Entry {
    name: "increx",
    summary: "Increments the numeric value of a key by a number and sets its expiration time. Uses 0 as initial \
            value if the key doesn't exist.",
    complexity: "O(1)",
    since: "8.8.0",
    group: Group::String,
    arity: -2,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[RW, Access, Update])],
    args: &[
        key("key", 0),
        oneof("condition", &[token("nx", "NX"), token("xx", "XX")]).optional(),
        oneof("increment", &[double("float").token("BYFLOAT"), integer("integer").token("BYINT")]).optional(),
        token("saturate", "SATURATE").optional(),
        string("lowerbound").token("LBOUND").optional(),
        string("upperbound").token("UBOUND").optional(),
        oneof(
            "expiration",
            &[
                integer("seconds").token("EX"),
                integer("milliseconds").token("PX"),
                unix_time("unix-time-seconds").token("EXAT"),
                unix_time("unix-time-milliseconds").token("PXAT"),
                token("persist", "PERSIST"),
            ],
        )
        .optional(),
        token("enx", "ENX").optional(),
    ],
    reply: Shape::OneOf(&[
        Shape::Tuple(&[Shape::Int, Shape::Int]),
        Shape::Tuple(&[Shape::Double, Shape::Double]),
        Shape::Null,
    ]),
    note: "`NX` and `XX` are options of Valkey 9.2",
    run: Run::Function(increx),
    ..Entry::DEFAULT
};

/// The effect on the expiry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expiry<'a> {
    Kept,
    Removed,
    At(Unit, &'a [u8]),
}

/// The words after the key; each may come once.
struct IncrementOptions<'a> {
    /// `XX` (true) or `NX` (false).
    must_exist: Option<bool>,
    /// Whether it counts in floats, and the increment.
    by: Option<(bool, &'a [u8])>,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    saturates: bool,
    expiry: Expiry<'a>,
    /// Whether an expiry that there is stays.
    only_without_expiry: bool,
}

impl<'a> IncrementOptions<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<IncrementOptions<'a>, CommandError> {
        let mut options = IncrementOptions {
            must_exist: None,
            by: None,
            lower: None,
            upper: None,
            saturates: false,
            expiry: Expiry::Kept,
            only_without_expiry: false,
        };
        let mut rest = args.iter().copied();
        while let Some(word) = rest.next() {
            let is = |name: &str| keyword_is(word, name);
            let is_new = if is("NX") || is("XX") {
                options.must_exist.replace(is("XX")).is_none()
            } else if is("SATURATE") {
                !std::mem::replace(&mut options.saturates, true)
            } else if is("ENX") {
                !std::mem::replace(&mut options.only_without_expiry, true)
            } else if is("PERSIST") {
                std::mem::replace(&mut options.expiry, Expiry::Removed) == Expiry::Kept
            } else {
                options.add(word, rest.next().ok_or(CommandError::SYNTAX)?)?
            };
            if !is_new {
                return Err(CommandError::SYNTAX);
            }
        }
        match (options.only_without_expiry, options.expiry) {
            (true, Expiry::Removed) => Err(CommandError::SYNTAX),
            (true, Expiry::Kept) => Err(ENX_ALONE),
            _ => Ok(options),
        }
    }

    /// Adds an option with a value; false if it is not the first of its kind.
    fn add(&mut self, word: &[u8], value: &'a [u8]) -> Result<bool, CommandError> {
        let is = |name: &str| keyword_is(word, name);
        if is("BYINT") || is("BYFLOAT") {
            return Ok(self.by.replace((is("BYFLOAT"), value)).is_none());
        }
        if is("LBOUND") {
            return Ok(self.lower.replace(value).is_none());
        }
        if is("UBOUND") {
            return Ok(self.upper.replace(value).is_none());
        }
        let unit = Unit::named(word).ok_or(CommandError::SYNTAX)?;
        Ok(std::mem::replace(&mut self.expiry, Expiry::At(unit, value)) == Expiry::Kept)
    }
}

/// What a counter counts in.
trait Number: Copy {
    const EVENT: &'static str;
    const ZERO: Self;
    const MIN: Self;
    const MAX: Self;
    /// The error if the difference of two values is none.
    const NO_DIFFERENCE: CommandError;

    /// A bound.
    fn bound(text: &[u8]) -> Option<Self>;
    /// The text of the error if a bound is none.
    fn not_a_bound(name: &str) -> String;
    /// The value of a key.
    fn of(string: &Str) -> Result<Self, CommandError>;
    /// The sum, if it is within the bounds.
    fn sum(self, increment: Self, lower: Self, upper: Self) -> Sum<Self>;
    /// How much more this is than `before`.
    fn since(self, before: Self) -> Option<Self>;
    fn order(self, other: Self) -> Ordering;
    fn to_str(self) -> Str;
    fn reply(self, ctx: &mut Ctx);
}

/// A sum, or the bound that it exceeds.
enum Sum<N> {
    Within(N),
    Beyond(N),
}

impl Number for i64 {
    const EVENT: &'static str = "incrby";
    const ZERO: i64 = 0;
    const MIN: i64 = i64::MIN;
    const MAX: i64 = i64::MAX;
    const NO_DIFFERENCE: CommandError = APPLIED_OVERFLOW;

    fn bound(text: &[u8]) -> Option<i64> {
        ds::num::parse_i64(text)
    }

    fn not_a_bound(name: &str) -> String {
        format!("ERR {name} is not an integer or out of range")
    }

    fn of(string: &Str) -> Result<i64, CommandError> {
        string.int().ok_or(CommandError::NOT_AN_INTEGER)
    }

    fn sum(self, increment: i64, lower: i64, upper: i64) -> Sum<i64> {
        let sum = i128::from(self) + i128::from(increment);
        if sum > i128::from(upper) {
            Sum::Beyond(upper)
        } else if sum < i128::from(lower) {
            Sum::Beyond(lower)
        } else {
            Sum::Within(sum as i64)
        }
    }

    fn since(self, before: i64) -> Option<i64> {
        self.checked_sub(before)
    }

    fn order(self, other: i64) -> Ordering {
        self.cmp(&other)
    }

    fn to_str(self) -> Str {
        Str::Int(self)
    }

    fn reply(self, ctx: &mut Ctx) {
        ctx.reply.int(self);
    }
}

impl Number for LongDouble {
    const EVENT: &'static str = "incrbyfloat";
    const ZERO: LongDouble = LongDouble::ZERO;
    const MIN: LongDouble = LongDouble::MIN;
    const MAX: LongDouble = LongDouble::MAX;
    const NO_DIFFERENCE: CommandError = CommandError::NAN_OR_INFINITY;

    fn bound(text: &[u8]) -> Option<LongDouble> {
        LongDouble::parse(text)
    }

    fn not_a_bound(name: &str) -> String {
        format!("ERR {name} is not a valid float")
    }

    fn of(string: &Str) -> Result<LongDouble, CommandError> {
        let value = LongDouble::parse(&string.bytes()).ok_or(CommandError::NOT_A_FLOAT)?;
        if value.is_finite() { Ok(value) } else { Err(INFINITE_VALUE) }
    }

    fn sum(self, increment: LongDouble, lower: LongDouble, upper: LongDouble) -> Sum<LongDouble> {
        // Infinite bounds are none.
        let lower = if lower.is_finite() { lower } else { LongDouble::MIN };
        let upper = if upper.is_finite() { upper } else { LongDouble::MAX };
        match self.checked_add(increment) {
            Some(sum) if sum.order(upper).is_gt() => Sum::Beyond(upper),
            Some(sum) if sum.order(lower).is_lt() => Sum::Beyond(lower),
            Some(sum) => Sum::Within(sum),
            None if increment.order(LongDouble::ZERO).is_gt() => Sum::Beyond(upper),
            None => Sum::Beyond(lower),
        }
    }

    fn since(self, before: LongDouble) -> Option<LongDouble> {
        self.checked_add(before.negated())
    }

    fn order(self, other: LongDouble) -> Ordering {
        self.compare(other)
    }

    fn to_str(self) -> Str {
        // Text even if it is an integer, as INCRBYFLOAT stores it.
        Str::text(&text_of(self))
    }

    fn reply(self, ctx: &mut Ctx) {
        ctx.reply.double_text(&String::from_utf8_lossy(&text_of(self)));
    }
}

fn text_of(number: LongDouble) -> Vec<u8> {
    let mut text = Vec::new();
    number.format(&mut text);
    text
}

fn increx(ctx: &mut Ctx) -> CommandResult {
    let options = IncrementOptions::parse(&ctx.args[2..])?;
    match options.by {
        None => count(ctx, &options, 1),
        Some((false, by)) => count(ctx, &options, ds::num::parse_i64(by).ok_or(NOT_AN_INCREMENT)?),
        Some((true, by)) => {
            let by = LongDouble::parse(by).ok_or(NOT_A_FLOAT_INCREMENT)?;
            if !by.is_finite() {
                return Err(INFINITE_INCREMENT);
            }
            count(ctx, &options, by)
        }
    }
}

fn count<N: Number>(ctx: &mut Ctx, options: &IncrementOptions, increment: N) -> CommandResult {
    let bound = |text: Option<&[u8]>, name, missing| match text {
        None => Ok(missing),
        Some(text) => N::bound(text).ok_or_else(|| CommandError::new(N::not_a_bound(name))),
    };
    let lower = bound(options.lower, "LBOUND", N::MIN)?;
    let upper = bound(options.upper, "UBOUND", N::MAX)?;
    if lower.order(upper).is_gt() {
        return Err(BOUNDS_CROSSED);
    }
    let at = match options.expiry {
        Expiry::At(unit, time) => Some(unit.expiry(ctx, time)?),
        Expiry::Kept | Expiry::Removed => None,
    };
    let key = ctx.args[1];
    if options.must_exist.is_some_and(|must_exist| must_exist != ctx.store.exists(key)) {
        ctx.reply.null();
        return Ok(());
    }
    let old = ctx.store.write_as::<Str>(key)?.map_or(Ok(N::ZERO), |string| N::of(string))?;
    let new = match old.sum(increment, lower, upper) {
        Sum::Within(sum) => sum,
        Sum::Beyond(bound) if options.saturates => bound,
        Sum::Beyond(_) => {
            answer(ctx, old, N::ZERO);
            return Ok(());
        }
    };
    let applied = new.since(old).ok_or(N::NO_DIFFERENCE)?;
    let had_expiry = ctx.store.expiry(key).is_some();
    let at = at.filter(|_| !(options.only_without_expiry && had_expiry));
    if at.is_some_and(|at| ctx.store.is_past(at)) {
        ctx.store.delete(key);
    } else {
        let persists = options.expiry == Expiry::Removed && had_expiry;
        store(ctx, key, new.to_str(), N::EVENT, at, persists)?;
    }
    answer(ctx, new, applied);
    Ok(())
}

/// Stores a new value, and sets (`at`) or removes (`persists`) the expiry.
fn store(
    ctx: &mut Ctx,
    key: &[u8],
    value: Str,
    event: &'static str,
    at: Option<UnixMs>,
    persists: bool,
) -> CommandResult {
    let text = ctx.store.records_effects().then(|| value.bytes().into_owned());
    *ctx.store.upsert::<Str>(key)? = value;
    if at.is_some() || persists {
        ctx.store.set_expiry(key, at);
    }
    ctx.store.changed_with(key, Change::new(Class::String, event), |store| {
        let (text, mut time) = (text.unwrap_or_default(), itoa::Buffer::new());
        match at {
            Some(at) => store.effect(&[b"SET", key, &text, b"PXAT", time.format(at).as_bytes()]),
            None if persists => store.effect(&[b"SET", key, &text]),
            None => store.effect(&[b"SET", key, &text, b"KEEPTTL"]),
        }
    });
    if at.is_some() {
        ctx.store.notify(Class::Generic, "expire", key);
    } else if persists {
        ctx.store.notify(Class::Generic, "persist", key);
    }
    Ok(())
}

fn answer<N: Number>(ctx: &mut Ctx, value: N, applied: N) {
    ctx.reply.array(2);
    value.reply(ctx);
    applied.reply(ctx);
}
