//! `mg`: fetches an item with the details that the client asks for.
//!
//! ```text
//!   mg <key> <flag>*␍␊  →  HD <flag>*␍␊   VA <bytes> <flag>*␍␊<value>␍␊   EN␍␊
//! ```
//!
//! If several clients find an item missing, about to expire or stale, one of them *wins* and has to fetch a new value
//! (`W`); the others are told that this is being done (`Z`).

use engine::{CommandError, CommandResult, Ctx, Entry, Run};
use keyspace::{Marks, RecordRef, Str, Type, UnixMs};
use resp::memcached::{MetaFlags, Verb};

use super::get::write_value;
use super::meta_write::{set_cas, write_asked, write_cas, write_key, write_word};
use super::{Expiry, STORE, answer, line, store_string};

pub(super) const MG: Entry = Entry { name: "mg", run: Run::Function(mg), ..STORE };

fn mg(ctx: &mut Ctx) -> CommandResult {
    match MetaFlags::parse(Verb::MetaGet, ctx.args) {
        Ok(flags) => answer(ctx, |ctx| fetch(ctx, &flags)),
        Err(error) => {
            line(ctx, &[error.as_bytes()]);
            Ok(())
        }
    }
}

/// The item that was found.
struct Found {
    marks: Marks,
    expiry: Expiry,
    length: usize,
    idle_seconds: u32,
    was_read: bool,
    /// The request itself created it.
    is_new: bool,
}

impl Found {
    fn new(record: RecordRef<'_>, now: UnixMs) -> Result<Found, CommandError> {
        let value = Str::of(record.value()).ok_or(CommandError::WRONG_TYPE)?;
        Ok(Found {
            marks: record.marks(),
            expiry: Expiry::of(record.expiry()),
            length: value.len(),
            idle_seconds: record.idle_seconds((now / 1000) as u32),
            was_read: record.was_read(),
            is_new: false,
        })
    }
}

fn fetch(ctx: &mut Ctx, flags: &MetaFlags) -> CommandResult {
    let (key, now) = (ctx.args[1], ctx.store.now());
    let found = match (ctx.store.peek(key), flags.vivify) {
        (Some(record), _) => Found::new(record, now)?,
        (None, Some(_)) => {
            store_string(ctx, key, b"", Expiry::Never);
            set_cas(ctx, flags);
            let marks = ctx.store.peek(key).map(RecordRef::marks).unwrap_or_default();
            Found { marks, expiry: Expiry::Never, length: 0, idle_seconds: 0, was_read: false, is_new: true }
        }
        (None, None) => {
            // Counted as a miss.
            ctx.store.read(key);
            if !flags.is_quiet {
                let mut reply = b"EN".to_vec();
                write_asked(&ctx.args[2..], key, flags, None, &mut reply);
                line(ctx, &[&reply]);
            }
            return Ok(());
        }
    };
    let mut reply = if flags.value { format!("VA {}", found.length).into_bytes() } else { b"HD".to_vec() };
    let (expiry, won) = write_words(ctx, flags, &found, &mut reply);
    line(ctx, &[&reply]);
    // A cas number may have been given out for the reply.
    let marks = ctx.store.peek(key).map_or(found.marks, RecordRef::marks);
    if won {
        ctx.store.mark(key, Marks { was_token_sent: true, ..marks });
    }
    let record = if flags.no_update { ctx.store.peek(key) } else { ctx.store.read_record(key) };
    if flags.value
        && let Some(value) = record.and_then(|record| Str::of(record.value()))
    {
        write_value(ctx.reply.out(), value);
    }
    if expiry != found.expiry {
        expiry.apply(ctx, key);
    }
    Ok(())
}

/// Appends what the flags ask for, in their order, and the flags that say which client fetches a new value. Returns the
/// item's new expiry, and whether it is this client.
fn write_words(ctx: &mut Ctx, flags: &MetaFlags, found: &Found, reply: &mut Vec<u8>) -> (Expiry, bool) {
    let (key, now) = (ctx.args[1], ctx.store.now());
    let mut expiry = found.expiry;
    let mut won = false;
    let time = |exptime: Option<i32>| Expiry::new(exptime.unwrap_or(0), now);
    for word in &ctx.args[2..] {
        match word[0] {
            b'T' => expiry = time(flags.exptime),
            b'N' if found.is_new => (expiry, won) = (time(flags.vivify), true),
            b'R' => {
                let (left, enough) = (expiry.seconds_left(now), time(flags.recache).seconds_left(now));
                won |= !found.is_new && !found.marks.was_token_sent && left >= 0 && left < enough;
            }
            b's' => write_number(b's', found.length as i64, reply),
            b't' => write_number(b't', expiry.seconds_left(now), reply),
            b'f' => write_number(b'f', i64::from(found.marks.flags), reply),
            b'l' => write_number(b'l', i64::from(found.idle_seconds), reply),
            b'h' => write_number(b'h', i64::from(found.was_read), reply),
            b'c' => write_cas(ctx.store.cas(key), reply),
            b'O' => write_word(word, reply),
            b'k' => write_key(key, flags, reply),
            _ => {}
        }
    }
    if found.marks.was_token_sent {
        write_word(b"Z", reply);
    }
    if found.marks.is_stale {
        write_word(b"X", reply);
        won |= !found.marks.was_token_sent;
    }
    if won {
        write_word(b"W", reply);
    }
    (expiry, won)
}

fn write_number(letter: u8, number: i64, reply: &mut Vec<u8>) {
    reply.extend_from_slice(&[b' ', letter]);
    reply.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
