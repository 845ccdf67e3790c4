//! What HEXPIRE and SEXPIRE and their relatives share: the elements of a collection, fields of a hash or members of a
//! set, expire one by one.
//!
//! Effects contain absolute times, so that they mean the same whenever they are replayed. A time in the past deletes
//! the element.

use ds::hash::{Hash, HashRef};
use ds::set::{Set, SetRef};
use engine::{Arg, Change, Class, CommandError, CommandResult, Ctx, keyword_is, oneof, parse_i64, token};
use keyspace::{Changing, Packable, Type, UnixMs};

/// The latest point in time that Redis can store.
const EXPIRY_MAX: UnixMs = 0xffff_ffff_ffff >> 2;

const NO_ELEMENT: i64 = -2;
const NO_EXPIRY: i64 = -1;
const REFUSED: i64 = 0;
const DONE: i64 = 1;
const DELETED: i64 = 2;

pub(crate) const CONDITION: Arg =
    oneof("condition", &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")])
        .optional();

/// How a command writes times.
#[derive(Clone, Copy)]
pub(crate) struct Unit {
    pub(crate) ms: i64,
    /// Whether times count from 1970 rather than from now.
    pub(crate) is_absolute: bool,
}

impl Unit {
    pub(crate) const SECONDS: Unit = Unit { ms: 1000, is_absolute: false };
    pub(crate) const MS: Unit = Unit { ms: 1, is_absolute: false };
    pub(crate) const UNIX_SECONDS: Unit = Unit { ms: 1000, is_absolute: true };
    pub(crate) const UNIX_MS: Unit = Unit { ms: 1, is_absolute: true };

    /// The unit of a point in time after `word`.
    pub(crate) fn after(word: &[u8]) -> Option<Unit> {
        let units =
            [("EX", Unit::SECONDS), ("PX", Unit::MS), ("EXAT", Unit::UNIX_SECONDS), ("PXAT", Unit::UNIX_MS)];
        units.into_iter().find(|(name, _)| keyword_is(word, name)).map(|(_, unit)| unit)
    }

    /// The point in time that `arg` names.
    pub(crate) fn parse(self, ctx: &Ctx, arg: &[u8]) -> Result<UnixMs, CommandError> {
        let number = parse_i64(arg)?;
        if number < 0 {
            return Err(CommandError::fixed("ERR invalid expire time, must be >= 0"));
        }
        let base = if self.is_absolute { 0 } else { ctx.store.now() };
        let at = number.checked_mul(self.ms).and_then(|ms| ms.checked_add(base));
        at.filter(|at| *at <= EXPIRY_MAX).ok_or_else(|| CommandError::invalid_expire(&ctx.command.full_name))
    }
}

/// The effect of HSETEX and SADDEX on the expiry of elements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewExpiry {
    Gone,
    Kept,
    At(UnixMs),
}

/// When an element gets an expiry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Condition {
    Always,
    IfNone,
    IfSome,
    IfLater,
    IfEarlier,
}

impl Condition {
    /// The condition that `word` is.
    pub(crate) fn of(word: &[u8]) -> Option<Condition> {
        let words = [
            ("NX", Condition::IfNone),
            ("XX", Condition::IfSome),
            ("GT", Condition::IfLater),
            ("LT", Condition::IfEarlier),
        ];
        words.into_iter().find(|(name, _)| keyword_is(word, name)).map(|(_, condition)| condition)
    }

    /// An element without expiry counts as expiring last; still, `GT` never sets its expiry.
    fn allows(self, old: Option<UnixMs>, new: UnixMs) -> bool {
        match self {
            Condition::Always => true,
            Condition::IfNone => old.is_none(),
            Condition::IfSome => old.is_some(),
            Condition::IfLater => old.is_some_and(|old| old < new),
            Condition::IfEarlier => old.is_none_or(|old| old > new),
        }
    }
}

/// Names of events and commands that differ between types.
pub(crate) struct Terms {
    class: Class,
    /// The event, and the command, that say that elements were deleted.
    deleted: (&'static str, &'static [u8]),
    /// Those that say that they got an expiry.
    expiring: (&'static str, &'static [u8]),
    /// Those that say that they lost it.
    persistent: (&'static str, &'static [u8]),
    /// The word before the elements.
    word: &'static [u8],
}

/// A borrowed collection with elements that may expire.
pub(crate) trait Timed: Copy {
    fn has(self, element: &[u8]) -> bool;
    fn time(self, element: &[u8]) -> Option<UnixMs>;
}

/// A collection with elements that may expire.
pub(crate) trait Expiring:
    Packable + for<'a> Type<Mut<'a> = Changing<'a, Self>, Ref<'a>: Timed>
{
    const TERMS: Terms;
    fn timed(&self) -> impl Timed;
    fn set_time(&mut self, element: &[u8], at: UnixMs);
    fn clear_time(&mut self, element: &[u8]) -> bool;
    fn take_out(&mut self, element: &[u8]) -> bool;
}

macro_rules! expiring {
    ($owned:ident, $lent:ident, $terms:expr) => {
        impl Timed for $lent<'_> {
            fn has(self, element: &[u8]) -> bool {
                self.contains(element)
            }

            fn time(self, element: &[u8]) -> Option<UnixMs> {
                self.expiry(element)
            }
        }

        impl Expiring for $owned {
            const TERMS: Terms = $terms;

            fn timed(&self) -> impl Timed {
                self.lend()
            }

            fn set_time(&mut self, element: &[u8], at: UnixMs) {
                self.set_expiry(element, at);
            }

            fn clear_time(&mut self, element: &[u8]) -> bool {
                self.persist(element)
            }

            fn take_out(&mut self, element: &[u8]) -> bool {
                self.remove(element)
            }
        }
    };
}
expiring!(
    Hash,
    HashRef,
    Terms {
        class: Class::Hash,
        deleted: ("hdel", b"HDEL"),
        expiring: ("hexpire", b"HPEXPIREAT"),
        persistent: ("hpersist", b"HPERSIST"),
        word: b"FIELDS",
    }
);
expiring!(
    Set,
    SetRef,
    Terms {
        class: Class::Set,
        deleted: ("srem", b"SREM"),
        expiring: ("sexpire", b"SPEXPIREAT"),
        persistent: ("spersist", b"SPERSIST"),
        word: b"MEMBERS",
    }
);

/// Sets when elements of the collection at `key` expire, where the condition holds, and replies for each.
pub(crate) fn expire<T: Expiring>(
    ctx: &mut Ctx,
    elements: &[&[u8]],
    condition: Condition,
    at: UnixMs,
) -> CommandResult {
    let key = ctx.args[1];
    let is_over = ctx.store.is_past(at);
    ctx.reply.array(elements.len());
    let Some(mut collection) = ctx.store.write_as::<T>(key)? else {
        elements.iter().for_each(|_| ctx.reply.int(NO_ELEMENT));
        return Ok(());
    };
    let mut touched = Vec::new();
    for element in elements {
        let outcome = match () {
            () if !collection.timed().has(element) => NO_ELEMENT,
            () if !condition.allows(collection.timed().time(element), at) => REFUSED,
            () if is_over => {
                collection.take_out(element);
                DELETED
            }
            () => {
                collection.set_time(element, at);
                DONE
            }
        };
        if outcome > REFUSED {
            touched.push(*element);
        }
        ctx.reply.int(outcome);
    }
    drop(collection);
    note_expiries::<T>(ctx, &touched, at, touched.len());
    Ok(())
}

/// Announces that elements got an expiry, or were deleted because it had passed. This counts as `changes` changes.
pub(crate) fn note_expiries<T: Expiring>(ctx: &mut Ctx, elements: &[&[u8]], at: UnixMs, changes: usize) {
    if elements.is_empty() {
        return;
    }
    let (key, terms) = (ctx.args[1], T::TERMS);
    let is_over = ctx.store.is_past(at);
    let (event, command) = if is_over { terms.deleted } else { terms.expiring };
    ctx.store.changed_with(key, Change::new(terms.class, event).times(changes), |store| {
        let (at, count) = (at.to_string(), elements.len().to_string());
        let head: &[&[u8]] = if is_over {
            &[command, key]
        } else {
            &[command, key, at.as_bytes(), terms.word, count.as_bytes()]
        };
        store.effect(&[head, elements].concat());
    });
    if is_over {
        ctx.store.delete_if_empty(key);
    } else {
        ctx.store.note_volatile_elements(key);
    }
}

/// Announces that elements no longer expire. This counts as `changes` changes.
pub(crate) fn note_persistent<T: Expiring>(ctx: &mut Ctx, elements: &[&[u8]], changes: usize) {
    if elements.is_empty() {
        return;
    }
    let (key, Terms { class, persistent: (event, command), word, .. }) = (ctx.args[1], T::TERMS);
    ctx.store.changed_with(key, Change::new(class, event).times(changes), |store| {
        let count = elements.len().to_string();
        store.effect(&[&[command, key, word, count.as_bytes()], elements].concat());
    });
}

/// Replies when elements of the collection at argument 1 expire; a wrong type is reported before wrong arguments.
pub(crate) fn tell<T: Expiring>(
    ctx: &mut Ctx,
    unit: Unit,
    elements: Result<&[&[u8]], CommandError>,
) -> CommandResult {
    let base = if unit.is_absolute { 0 } else { ctx.store.now() };
    let collection = ctx.store.read_as::<T>(ctx.args[1])?;
    let elements = elements?;
    ctx.reply.array(elements.len());
    for element in elements {
        let collection = collection.filter(|collection| collection.has(element));
        ctx.reply.int(match collection.map(|collection| collection.time(element)) {
            None => NO_ELEMENT,
            Some(None) => NO_EXPIRY,
            // Seconds are rounded up.
            Some(Some(at)) => (at - base + unit.ms - 1) / unit.ms,
        });
    }
    Ok(())
}

/// Removes the expiries of elements of the collection at argument 1, and replies for each. A wrong type is reported
/// before wrong arguments.
pub(crate) fn persist<T: Expiring>(ctx: &mut Ctx, elements: Result<&[&[u8]], CommandError>) -> CommandResult {
    let mut collection = ctx.store.write_as::<T>(ctx.args[1])?;
    let elements = elements?;
    ctx.reply.array(elements.len());
    let mut touched = Vec::new();
    for element in elements {
        let collection = collection.as_mut().filter(|collection| collection.timed().has(element));
        ctx.reply.int(match collection.map(|collection| collection.clear_time(element)) {
            None => NO_ELEMENT,
            Some(false) => NO_EXPIRY,
            Some(true) => {
                touched.push(*element);
                DONE
            }
        });
    }
    drop(collection);
    note_persistent::<T>(ctx, &touched, touched.len());
    Ok(())
}
