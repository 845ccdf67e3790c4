//! Fetching items by key.

use std::sync::Arc;

use engine::{CommandResult, Ctx, Entry, KeyFlag, KeySpec, Run};
use keyspace::{SHARED_BYTES_MIN, Str, StrRef, Type};
use resp::Output;
use resp::memcached::number::parse_i32;

use super::{BAD_EXPTIME, Expiry, READ, WRITE, answer, line};

pub(super) const GET: Entry = Entry {
    name: "get",
    keys: &[KeySpec::range(1, -1, 1, &[KeyFlag::RO, KeyFlag::Access])],
    run: Run::Function(get),
    ..READ
};

fn get(ctx: &mut Ctx) -> CommandResult {
    fetch_all(ctx, 1, false, None)
}

pub(super) const GETS: Entry = Entry { name: "gets", run: Run::Function(gets), ..GET };

fn gets(ctx: &mut Ctx) -> CommandResult {
    fetch_all(ctx, 1, true, None)
}

pub(super) const GAT: Entry = Entry {
    name: "gat",
    keys: &[KeySpec::range(2, -1, 1, &[KeyFlag::RW, KeyFlag::Access, KeyFlag::Update])],
    run: Run::Function(gat),
    ..WRITE
};

fn gat(ctx: &mut Ctx) -> CommandResult {
    fetch_and_touch(ctx, false)
}

pub(super) const GATS: Entry = Entry { name: "gats", run: Run::Function(gats), ..GAT };

fn gats(ctx: &mut Ctx) -> CommandResult {
    fetch_and_touch(ctx, true)
}

fn fetch_and_touch(ctx: &mut Ctx, with_cas: bool) -> CommandResult {
    match parse_i32(ctx.args[1]) {
        Some(exptime) => {
            let expiry = Expiry::new(exptime, ctx.store.now());
            fetch_all(ctx, 2, with_cas, Some(expiry))
        }
        None => {
            line(ctx, &[BAD_EXPTIME.as_bytes()]);
            Ok(())
        }
    }
}

/// Sends the items at the keys from argument `first` on, and sets their expiry if there is a new one.
fn fetch_all(ctx: &mut Ctx, first: usize, with_cas: bool, expiry: Option<Expiry>) -> CommandResult {
    answer(ctx, |ctx| {
        for &key in &ctx.args[first..] {
            fetch(ctx, key, with_cas)?;
            if let Some(expiry) = expiry
                && ctx.store.exists(key)
            {
                expiry.apply(ctx, key);
            }
        }
        ctx.reply.out().extend_from_slice(b"END\r\n");
        Ok(())
    })
}

/// `VALUE <key> <flags> <bytes> [<cas>]␍␊<value>␍␊`, if the item exists.
#[inline]
fn fetch(ctx: &mut Ctx, key: &[u8], with_cas: bool) -> CommandResult {
    let cas = if with_cas { ctx.store.cas(key) } else { 0 };
    let Some(record) = ctx.store.read_record(key) else { return Ok(()) };
    let value = Str::of(record.value()).ok_or(engine::CommandError::WRONG_TYPE)?;
    let out = ctx.reply.out();
    let mut number = itoa::Buffer::new();
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.extend_from_slice(b" ");
    out.extend_from_slice(number.format(record.marks().flags).as_bytes());
    out.extend_from_slice(b" ");
    out.extend_from_slice(number.format(value.len()).as_bytes());
    if with_cas {
        out.extend_from_slice(b" ");
        out.extend_from_slice(number.format(cas).as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    write_value(out, value);
    Ok(())
}

/// Appends a value and its line end.
#[inline]
pub(super) fn write_value(out: &mut Output, value: StrRef<'_>) {
    match value {
        StrRef::Int(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        StrRef::Shared(bytes) if bytes.len() >= SHARED_BYTES_MIN => out.push_shared(Arc::clone(bytes)),
        StrRef::Shared(bytes) => out.extend_from_slice(bytes),
        StrRef::Text(text) => out.extend_from_slice(text),
    }
    out.extend_from_slice(b"\r\n");
}
