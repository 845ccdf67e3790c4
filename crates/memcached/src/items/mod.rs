//! The commands on items, which are the strings of database 0 with their [`Marks`](keyspace::Marks). A change by a
//! Redis command removes the cas number; a replacement also removes the flags. The effects of these commands are
//! commands of Redis.

mod count;
mod debug;
mod get;
mod item;
mod meta_get;
mod meta_write;
mod set;

use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Flag, Group, KeyFlag, KeySpec, Run,
};
use keyspace::UnixMs;
use resp::memcached::{ItemLimits, Verb, has_noreply};

/// The entry of a verb about items.
pub fn entry(verb: Verb) -> Option<&'static Entry> {
    Some(match verb {
        Verb::Get => &get::GET,
        Verb::Gets => &get::GETS,
        Verb::Gat => &get::GAT,
        Verb::Gats => &get::GATS,
        Verb::Set => &set::SET,
        Verb::Add => &set::ADD,
        Verb::Replace => &set::REPLACE,
        Verb::Append => &set::APPEND,
        Verb::Prepend => &set::PREPEND,
        Verb::Cas => &set::CAS,
        Verb::TooLarge => &set::TOO_LARGE,
        Verb::Touch => &item::TOUCH,
        Verb::Incr => &count::INCR,
        Verb::Decr => &count::DECR,
        Verb::Delete => &item::DELETE,
        Verb::MetaGet => &meta_get::MG,
        Verb::MetaSet => &meta_write::MS,
        Verb::MetaDelete => &meta_write::MD,
        Verb::MetaArithmetic => &meta_write::MA,
        Verb::MetaNoop => &debug::MN,
        Verb::MetaDebug => &debug::ME,
        Verb::FlushAll | Verb::Stats | Verb::Version | Verb::Verbosity | Verb::CacheMemlimit | Verb::Quit => {
            return None;
        }
    })
}

const BAD_EXPTIME: &str = "CLIENT_ERROR invalid exptime argument";
const NON_NUMERIC: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";

/// The base of commands that read one key.
const READ: Entry = Entry {
    summary: "memcached",
    since: "1.6.18",
    group: Group::String,
    arity: -1,
    flags: &[Flag::ReadOnly, Flag::Fast],
    acl: &[Acl::String],
    keys: &[KeySpec::one(1, &[KeyFlag::RO, KeyFlag::Access])],
    run: Run::Container,
    ..Entry::DEFAULT
};

/// The base of commands that change one key.
const WRITE: Entry = Entry {
    flags: &[Flag::Write, Flag::Fast],
    keys: &[KeySpec::one(1, &[KeyFlag::RW, KeyFlag::Access, KeyFlag::Update])],
    ..READ
};

/// The base of commands that store data.
const STORE: Entry = Entry { flags: &[Flag::Write, Flag::DenyOom, Flag::Fast], ..WRITE };

/// When an item expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expiry {
    Never,
    At(UnixMs),
    /// It has expired already.
    Past,
}

impl Expiry {
    /// From `exptime`: seconds from now or, if they are more than 30 days, since 1970.
    fn new(exptime: i32, now: UnixMs) -> Expiry {
        const RELATIVE_S_MAX: i32 = 60 * 60 * 24 * 30;
        let ms = UnixMs::from(exptime) * 1000;
        match exptime {
            0 => Expiry::Never,
            ..0 => Expiry::Past,
            1..=RELATIVE_S_MAX => Expiry::At(now + ms),
            _ if ms <= now => Expiry::Past,
            _ => Expiry::At(ms),
        }
    }

    fn of(expiry: Option<UnixMs>) -> Expiry {
        expiry.map_or(Expiry::Never, Expiry::At)
    }

    /// The remaining seconds, rounded up; -1 if it never expires.
    fn seconds_left(self, now: UnixMs) -> i64 {
        match self {
            Expiry::Never => -1,
            Expiry::Past => 0,
            Expiry::At(expiry) => (expiry - now + 999).div_euclid(1000).max(0),
        }
    }

    /// Sets the expiry of the item at `key`.
    fn apply(self, ctx: &mut Ctx, key: &[u8]) {
        match self {
            Expiry::Never => _ = ctx.store.persist(key),
            Expiry::At(expiry) => ctx.store.expire_at(key, expiry),
            Expiry::Past => _ = ctx.store.delete(key),
        }
    }
}

/// The limits of an item's size.
fn limits(ctx: &Ctx) -> ItemLimits {
    ItemLimits { item_bytes_max: ctx.store.config().item_bytes_max as usize, takes_long_lines: true }
}

/// Runs `act`. An error in the data becomes the reply.
fn answer<'a, 't>(
    ctx: &mut Ctx<'a, 't>,
    act: impl FnOnce(&mut Ctx<'a, 't>) -> CommandResult,
) -> CommandResult {
    let mark = ctx.reply.out().mark();
    if let Err(error) = act(ctx) {
        ctx.reply.out().truncate(mark);
        let is_whole = error.text().starts_with(b"CLIENT_ERROR ");
        line(ctx, &[if is_whole { b"" } else { b"SERVER_ERROR " }, error.text()]);
    }
    Ok(())
}

/// Runs `act` and sends the line that it returns, unless the client wants no reply.
fn answer_line<'a, 't>(
    ctx: &mut Ctx<'a, 't>,
    act: impl FnOnce(&mut Ctx<'a, 't>) -> Result<&'static str, CommandError>,
) -> CommandResult {
    answer(ctx, |ctx| {
        let text = act(ctx)?;
        line_unless_noreply(ctx, text);
        Ok(())
    })
}

fn line_unless_noreply(ctx: &mut Ctx, text: &str) {
    if !has_noreply(line_words(ctx.args)) {
        line(ctx, &[text.as_bytes()]);
    }
}

/// The words of a request's line, without the value.
fn line_words<'a>(args: &'a [&'a [u8]]) -> &'a [&'a [u8]] {
    let stores = matches!(args[0], b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas");
    &args[..args.len() - usize::from(stores)]
}

fn line(ctx: &mut Ctx, parts: &[&[u8]]) {
    let out = ctx.reply.out();
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out.extend_from_slice(b"\r\n");
}

/// Replaces the value of any type at the key by a string, with events and effect. The key's marks are reset.
fn store_string(ctx: &mut Ctx, key: &[u8], value: &[u8], expiry: Expiry) {
    match expiry {
        Expiry::Past => _ = ctx.store.delete(key),
        Expiry::Never => {
            ctx.store.set_string(key, value, None);
            ctx.store.changed(key, Change::new(Class::String, "set"), &[b"SET", key, value]);
        }
        Expiry::At(expiry) => {
            ctx.store.set_string(key, value, Some(expiry));
            ctx.store.changed_with(key, Change::new(Class::String, "set"), |store| {
                let mut text = itoa::Buffer::new();
                store.effect(&[b"SET", key, value, b"PXAT", text.format(expiry).as_bytes()]);
            });
            ctx.store.notify(Class::Generic, "expire", key);
        }
    }
}
