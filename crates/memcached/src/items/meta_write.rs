//! `ms`, `md`, `ma`: storing, deleting and counting items with flags.

use engine::{CommandError, CommandResult, Ctx, Entry, Run};
use keyspace::{Marks, RecordRef, Str};
use resp::memcached::{MetaFlags, MetaMode, Verb, base64};

use super::count::{Counted, Way, add};
use super::set::{Ending, Item, Manner, store};
use super::{Expiry, NON_NUMERIC, STORE, WRITE, answer, line, store_string};

pub(super) const MS: Entry = Entry { name: "ms", run: Run::Function(ms), ..STORE };

fn ms(ctx: &mut Ctx) -> CommandResult {
    let (value, words) = ctx.args.split_last().expect("the parser adds the value");
    with_flags(ctx, Verb::MetaSet, words, |ctx, flags| {
        let manner = match flags.mode {
            MetaMode::Add => Manner::Add,
            MetaMode::Append => Manner::Append,
            MetaMode::Prepend => Manner::Prepend,
            _ if flags.compare.is_some() => Manner::Compare,
            MetaMode::Replace => Manner::Replace,
            MetaMode::Unsaid | MetaMode::CountDown => Manner::Set,
        };
        let item = Item {
            key: ctx.args[1],
            value,
            manner,
            flags: flags.client_flags,
            expiry: Expiry::new(flags.exptime.unwrap_or(0), ctx.store.now()),
            compare: flags.compare,
            may_be_stale: flags.marks_stale && manner == Manner::Compare,
        };
        let stored = store(ctx, &item)?;
        if stored == Ending::Stored {
            set_cas(ctx, flags);
        }
        let code = match stored {
            Ending::Stored => b"HD",
            Ending::Refused => b"NS",
            Ending::Exists => b"EX",
            Ending::NotFound => b"NF",
        };
        if stored != Ending::Stored || !flags.is_quiet {
            let cas = words[3..].iter().any(|word| word[0] == b'c').then(|| match stored {
                Ending::Stored => ctx.store.cas(item.key),
                _ => 0,
            });
            reply_words(ctx, code, &words[3..], flags, cas);
        }
        Ok(())
    })
}

pub(super) const MD: Entry = Entry { name: "md", run: Run::Function(md), ..WRITE };

fn md(ctx: &mut Ctx) -> CommandResult {
    with_flags(ctx, Verb::MetaDelete, ctx.args, |ctx, flags| {
        let key = ctx.args[1];
        let marks = ctx.store.peek(key).map(RecordRef::marks);
        let code = match marks {
            None => b"NF",
            Some(marks) if !is_same(flags, marks) => b"EX",
            Some(marks) if flags.marks_stale => {
                if let Some(exptime) = flags.exptime {
                    Expiry::new(exptime, ctx.store.now()).apply(ctx, key);
                }
                let cas = flags.cas.unwrap_or_else(|| ctx.store.next_cas(key));
                ctx.store.mark(key, Marks { cas, is_stale: true, was_token_sent: false, ..marks });
                b"HD"
            }
            Some(_) => {
                ctx.store.delete(key);
                b"HD"
            }
        };
        if code != b"HD" || !flags.is_quiet {
            reply_words(ctx, code, &ctx.args[2..], flags, None);
        }
        Ok(())
    })
}

pub(super) const MA: Entry = Entry { name: "ma", run: Run::Function(ma), ..STORE };

fn ma(ctx: &mut Ctx) -> CommandResult {
    with_flags(ctx, Verb::MetaArithmetic, ctx.args, |ctx, flags| {
        let (key, words) = (ctx.args[1], &ctx.args[2..]);
        let marks = ctx.store.peek(key).map(RecordRef::marks);
        let number = match (marks, flags.vivify) {
            (None, None) => {
                reply_words(ctx, b"NF", words, flags, None);
                return Ok(());
            }
            (None, Some(exptime)) => {
                let text = flags.initial.to_string();
                let expiry = Expiry::new(exptime, ctx.store.now());
                store_string(ctx, key, text.as_bytes(), expiry);
                flags.initial
            }
            // 0 is no number here, other than for `md`; and what is empty is no number before it is another version.
            (Some(marks), _)
                if flags.compare != Some(0) && !is_same(flags, marks) && !is_empty(ctx, key)? =>
            {
                reply_words(ctx, b"EX", words, flags, None);
                return Ok(());
            }
            (Some(_), _) => {
                let way = if flags.mode == MetaMode::CountDown { Way::Down } else { Way::Up };
                match add(ctx, key, way, flags.delta)? {
                    Counted::Now(number) => number,
                    Counted::NotANumber => return Err(CommandError::fixed(NON_NUMERIC)),
                    Counted::NotFound => unreachable!("it was there just before"),
                }
            }
        };
        set_cas(ctx, flags);
        reply_number(ctx, flags, number, marks.is_none());
        Ok(())
    })
}

/// Sends a number, and sets the item's new expiry.
fn reply_number(ctx: &mut Ctx, flags: &MetaFlags, number: u64, is_new: bool) {
    let (key, now) = (ctx.args[1], ctx.store.now());
    let text = number.to_string();
    let mut reply = if flags.value { format!("VA {}", text.len()).into_bytes() } else { b"HD".to_vec() };
    // A new item has its expiry only from the flag `N` or `T` on.
    let mut expiry = if is_new { Expiry::Never } else { Expiry::of(ctx.store.expiry(key)) };
    for word in &ctx.args[2..] {
        match word[0] {
            b'T' => expiry = Expiry::new(flags.exptime.unwrap_or(0), now),
            b'N' if is_new => expiry = Expiry::new(flags.vivify.unwrap_or(0), now),
            b't' => write_word(format!("t{}", expiry.seconds_left(now)).as_bytes(), &mut reply),
            b'c' => write_cas(ctx.store.cas(key), &mut reply),
            b'O' => write_word(word, &mut reply),
            b'k' => write_key(key, flags, &mut reply),
            _ => {}
        }
    }
    if flags.exptime.is_some() {
        expiry.apply(ctx, key);
    }
    // Quiet mode suppresses the usual case only. A missing item that was created is not one.
    if !flags.is_quiet || is_new {
        line(ctx, &[&reply]);
        if flags.value {
            line(ctx, &[text.as_bytes()]);
        }
    }
}

/// Runs `act` with the flags of a request. An error in the flags or the data becomes the reply.
fn with_flags<'a, 't>(
    ctx: &mut Ctx<'a, 't>,
    verb: Verb,
    words: &[&'a [u8]],
    act: impl FnOnce(&mut Ctx<'a, 't>, &MetaFlags) -> CommandResult,
) -> CommandResult {
    match MetaFlags::parse(verb, words) {
        Ok(flags) => answer(ctx, |ctx| act(ctx, &flags)),
        Err(error) => {
            line(ctx, &[error.as_bytes()]);
            Ok(())
        }
    }
}

/// Sets the item's cas number, if the request names one.
pub(super) fn set_cas(ctx: &mut Ctx, flags: &MetaFlags) {
    if let Some(cas) = flags.cas
        && let Some(marks) = ctx.store.peek(ctx.args[1]).map(RecordRef::marks)
    {
        ctx.store.mark(ctx.args[1], Marks { cas, ..marks });
    }
}

fn is_empty(ctx: &Ctx, key: &[u8]) -> Result<bool, CommandError> {
    Ok(ctx.store.peek_as::<Str>(key)?.is_some_and(|string| string.is_empty()))
}

/// Whether the item has the requested cas number, if the request names one.
fn is_same(flags: &MetaFlags, marks: Marks) -> bool {
    flags.compare.is_none_or(|wanted| wanted == marks.cas && wanted > 0)
}

fn reply_words(ctx: &mut Ctx, code: &[u8], words: &[&[u8]], flags: &MetaFlags, cas: Option<u64>) {
    let mut reply = code.to_vec();
    write_asked(words, ctx.args[1], flags, cas, &mut reply);
    line(ctx, &[&reply]);
}

/// Appends the flags that every reply carries: opaque, key and, if the item has one, cas number.
pub(super) fn write_asked(
    words: &[&[u8]],
    key: &[u8],
    flags: &MetaFlags,
    cas: Option<u64>,
    reply: &mut Vec<u8>,
) {
    for word in words {
        match (word[0], cas) {
            (b'O', _) => write_word(word, reply),
            (b'k', _) => write_key(key, flags, reply),
            (b'c', Some(cas)) => write_cas(cas, reply),
            _ => {}
        }
    }
}

pub(super) fn write_key(key: &[u8], flags: &MetaFlags, reply: &mut Vec<u8>) {
    reply.extend_from_slice(b" k");
    if flags.is_key_binary {
        base64::encode(key, reply);
        reply.extend_from_slice(b" b");
    } else {
        reply.extend_from_slice(key);
    }
}

pub(super) fn write_cas(cas: u64, reply: &mut Vec<u8>) {
    reply.extend_from_slice(b" c");
    reply.extend_from_slice(itoa::Buffer::new().format(cas).as_bytes());
}

pub(super) fn write_word(word: &[u8], reply: &mut Vec<u8>) {
    reply.push(b' ');
    reply.extend_from_slice(word);
}
