//! `incr` and `decr`: items as unsigned 64-bit numbers.

use engine::{Change, Class, CommandError, CommandResult, Ctx, Entry, Run};
use keyspace::Str;
use resp::memcached::number::parse_u64;

use super::{NON_NUMERIC, STORE, answer, line_unless_noreply};

pub(super) const INCR: Entry = Entry { name: "incr", run: Run::Function(incr), ..STORE };

fn incr(ctx: &mut Ctx) -> CommandResult {
    count(ctx, Way::Up)
}

pub(super) const DECR: Entry = Entry { name: "decr", run: Run::Function(decr), ..STORE };

fn decr(ctx: &mut Ctx) -> CommandResult {
    count(ctx, Way::Down)
}

/// The direction: up, wrapping at the end of the range, or down to 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Up,
    Down,
}

/// `<verb> <key> <delta> [noreply]`
fn count(ctx: &mut Ctx, way: Way) -> CommandResult {
    answer(ctx, |ctx| {
        let Some(delta) = parse_u64(ctx.args[2]) else {
            line_unless_noreply(ctx, "CLIENT_ERROR invalid numeric delta argument");
            return Ok(());
        };
        match add(ctx, ctx.args[1], way, delta)? {
            Counted::Now(number) => line_unless_noreply(ctx, itoa::Buffer::new().format(number)),
            Counted::NotFound => line_unless_noreply(ctx, "NOT_FOUND"),
            Counted::NotANumber => line_unless_noreply(ctx, NON_NUMERIC),
        }
        Ok(())
    })
}

/// The result of counting.
pub(super) enum Counted {
    Now(u64),
    NotFound,
    NotANumber,
}

/// Counts the item at `key`.
pub(super) fn add(ctx: &mut Ctx, key: &[u8], way: Way, delta: u64) -> Result<Counted, CommandError> {
    let old = match ctx.store.peek_as::<Str>(key)? {
        None => return Ok(Counted::NotFound),
        Some(string) => parse_u64(&string.bytes()),
    };
    let Some(old) = old else { return Ok(Counted::NotANumber) };
    let number = match way {
        Way::Up => old.wrapping_add(delta),
        Way::Down => old.saturating_sub(delta),
    };
    let mut text = itoa::Buffer::new();
    let text = text.format(number).as_bytes();
    if let Some(string) = ctx.store.write_as::<Str>(key)? {
        *string = Str::new(text);
    }
    ctx.store.changed_with(key, Change::new(Class::String, "incrby"), |store| {
        store.effect(&[b"SET", key, text, b"KEEPTTL"]);
        store.effect_of_marks(key);
    });
    Ok(Counted::Now(number))
}
