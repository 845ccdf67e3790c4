//! Storing items.

use engine::{Change, Class, CommandError, CommandResult, Ctx, Entry, Run};
use keyspace::{Kind, Marks, Str};
use resp::memcached::has_noreply;
use resp::memcached::number::{parse_i32, parse_u32, parse_u64};

use super::{Expiry, STORE, WRITE, answer_line, limits, line_words, store_string};

pub(super) const SET: Entry = Entry { name: "set", run: Run::Function(set), ..STORE };

fn set(ctx: &mut Ctx) -> CommandResult {
    store_as(ctx, Manner::Set)
}

pub(super) const ADD: Entry = Entry { name: "add", run: Run::Function(add), ..STORE };

fn add(ctx: &mut Ctx) -> CommandResult {
    store_as(ctx, Manner::Add)
}

pub(super) const REPLACE: Entry = Entry { name: "replace", run: Run::Function(replace), ..STORE };

fn replace(ctx: &mut Ctx) -> CommandResult {
    store_as(ctx, Manner::Replace)
}

pub(super) const APPEND: Entry = Entry { name: "append", run: Run::Function(append), ..STORE };

fn append(ctx: &mut Ctx) -> CommandResult {
    store_as(ctx, Manner::Append)
}

pub(super) const PREPEND: Entry = Entry { name: "prepend", run: Run::Function(prepend), ..STORE };

fn prepend(ctx: &mut Ctx) -> CommandResult {
    store_as(ctx, Manner::Prepend)
}

pub(super) const CAS: Entry = Entry { name: "cas", run: Run::Function(cas), ..STORE };

fn cas(ctx: &mut Ctx) -> CommandResult {
    store_as(ctx, Manner::Compare)
}

pub(super) const TOO_LARGE: Entry = Entry { name: "too-large", run: Run::Function(too_large), ..WRITE };

/// Answers a request whose value is too large. If the request would have replaced the old value in any case, this
/// deletes the old value, so that no client reads it any more.
fn too_large(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    if matches!(ctx.args[0], b"set" | b"ms") {
        ctx.store.delete(key);
    }
    if ctx.args[0] == b"ms" || !has_noreply(ctx.args) {
        super::line(ctx, &[b"SERVER_ERROR object too large for cache"]);
    }
    Ok(())
}

/// The condition for storing a value, and where it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Manner {
    Set,
    /// Only if there is no item.
    Add,
    /// Only if there is an item.
    Replace,
    Append,
    Prepend,
    /// Only if there is an item with the right cas number.
    Compare,
}

/// A value to be stored.
pub(super) struct Item<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    pub(super) manner: Manner,
    pub(super) flags: u32,
    pub(super) expiry: Expiry,
    /// The cas number that the old value must have.
    pub(super) compare: Option<u64>,
    /// If the request's cas number is older than the item's, the value is stored as stale.
    pub(super) may_be_stale: bool,
}

/// The result of storing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    Stored,
    /// The item should be missing and exists, or the other way round.
    Refused,
    /// The item has another cas number.
    Exists,
    NotFound,
}

/// `<verb> <key> <flags> <exptime> <bytes> [<cas>] [noreply]`, value
fn store_as(ctx: &mut Ctx, manner: Manner) -> CommandResult {
    answer_line(ctx, |ctx| {
        let words = line_words(ctx.args);
        // The parser has read the numbers once.
        let item = Item {
            key: words[1],
            value: ctx.args[words.len()],
            manner,
            flags: parse_u32(words[2]).unwrap_or(0),
            expiry: Expiry::new(parse_i32(words[3]).unwrap_or(0), ctx.store.now()),
            compare: if manner == Manner::Compare { parse_u64(words[5]) } else { None },
            may_be_stale: false,
        };
        Ok(match store(ctx, &item)? {
            Ending::Stored => "STORED",
            Ending::Refused => "NOT_STORED",
            Ending::Exists => "EXISTS",
            Ending::NotFound => "NOT_FOUND",
        })
    })
}

/// The result of comparing cas numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compared {
    /// The request names none.
    Unasked,
    Same,
    Older,
    Other,
}

fn compare(ctx: &mut Ctx, item: &Item, old: Marks) -> Compared {
    match item.compare {
        // memcached treats 0 as no number.
        None | Some(0) => Compared::Unasked,
        Some(wanted) if wanted == old.cas => Compared::Same,
        // No client has seen the number of this item, so it counts as later than any that a client can name.
        Some(wanted) if item.may_be_stale && old.cas == 0 && wanted < ctx.store.next_cas(item.key) => {
            Compared::Older
        }
        Some(wanted) if item.may_be_stale && wanted < old.cas => Compared::Older,
        Some(_) => Compared::Other,
    }
}

/// Stores an item.
pub(super) fn store(ctx: &mut Ctx, item: &Item) -> Result<Ending, CommandError> {
    // Without a condition the old item does not matter.
    let old = match item.manner {
        Manner::Set => None,
        _ => ctx.store.peek(item.key).map(|record| (record.marks(), record.expiry(), record.value().kind())),
    };
    match (item.manner, old) {
        (Manner::Set, _) | (Manner::Add, None) | (Manner::Replace, Some(_)) => {
            put(ctx, item, item.expiry, Marks { flags: item.flags, ..Marks::default() });
            Ok(Ending::Stored)
        }
        (Manner::Add, Some(_)) | (Manner::Replace | Manner::Append | Manner::Prepend, None) => {
            Ok(Ending::Refused)
        }
        (Manner::Compare, None) => Ok(Ending::NotFound),
        (Manner::Compare, Some((marks, expiry, _))) => {
            let plain = Marks { flags: item.flags, ..Marks::default() };
            match compare(ctx, item, marks) {
                Compared::Same => put(ctx, item, item.expiry, plain),
                Compared::Older => {
                    let stale = Marks { is_stale: true, was_token_sent: marks.was_token_sent, ..plain };
                    put(ctx, item, Expiry::of(expiry), stale);
                }
                Compared::Unasked | Compared::Other => return Ok(Ending::Exists),
            }
            Ok(Ending::Stored)
        }
        (Manner::Append | Manner::Prepend, Some((marks, _, kind))) => {
            if kind != Kind::Str {
                return Err(CommandError::WRONG_TYPE);
            }
            match compare(ctx, item, marks) {
                Compared::Unasked | Compared::Same => extend(ctx, item, marks.flags),
                Compared::Older | Compared::Other => Ok(Ending::Exists),
            }
        }
    }
}

#[inline]
fn put(ctx: &mut Ctx, item: &Item, expiry: Expiry, marks: Marks) {
    store_string(ctx, item.key, item.value, expiry);
    if marks != Marks::default() {
        // Protection from eviction belongs to the key, not to the item.
        let is_blessed = ctx.store.peek(item.key).is_some_and(|record| record.marks().is_blessed);
        ctx.store.mark(item.key, Marks { is_blessed, ..marks });
    }
}

/// Extends the existing value at its end or front. Flags and expiry remain.
fn extend(ctx: &mut Ctx, item: &Item, flags: u32) -> Result<Ending, CommandError> {
    let (key, added, limits) = (item.key, item.value, limits(ctx));
    let old_bytes = ctx.store.peek_as::<Str>(key)?.map_or(0, |string| string.len());
    if !limits.allow(key.len(), old_bytes + added.len(), flags) {
        return Ok(Ending::Refused);
    }
    let Some(string) = ctx.store.write_as::<Str>(key)? else { return Ok(Ending::Refused) };
    let bytes = string.make_mut();
    if item.manner == Manner::Append {
        bytes.extend_from_slice(added);
        ctx.store.changed(key, Change::new(Class::String, "append"), &[b"APPEND", key, added]);
    } else {
        bytes.splice(..0, added.iter().copied());
        ctx.store.changed_with(key, Change::new(Class::String, "setrange"), |store| {
            let whole = store.peek_as::<Str>(key).ok().flatten().map(|string| string.bytes().into_owned());
            store.effect(&[b"SETRANGE", key, b"0", &whole.unwrap_or_default()]);
        });
    }
    Ok(Ending::Stored)
}
