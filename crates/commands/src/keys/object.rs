//! `OBJECT`: how values are stored.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{Acl, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, key};
use keyspace::{RecordRef, StrRef, ValueRef, access};

const INT_OR_NULL: Shape = Shape::OneOf(&[Shape::Int, Shape::Null]);

pub(super) const OBJECT: Entry = Entry {
    name: "object",
    summary: "A container for object introspection commands.",
    complexity: "Depends on subcommand.",
    since: "2.2.3",
    group: Group::Generic,
    arity: -2,
    run: Run::Container,
    subcommands: &[OBJECT_IDLETIME, OBJECT_HELP, OBJECT_FREQ, OBJECT_ENCODING, OBJECT_REFCOUNT],
    ..Entry::DEFAULT
};

/// The common part of the subcommands about a key.
const SUBCOMMAND: Entry = Entry {
    since: "2.2.3",
    group: Group::Generic,
    arity: 3,
    flags: &[ReadOnly],
    acl: &[Acl::Keyspace],
    keys: &[KeySpec::one(2, &[RO])],
    args: &[key("key", 0)],
    tips: &["nondeterministic_output"],
    reply: INT_OR_NULL,
    ..Entry::DEFAULT
};

const OBJECT_ENCODING: Entry = Entry {
    name: "encoding",
    summary: "Returns the internal encoding of a Redis object.",
    reply: Shape::BULK_OR_NULL,
    run: Run::Function(object_encoding),
    ..SUBCOMMAND
};

fn object_encoding(ctx: &mut Ctx) -> CommandResult {
    match ctx.store.peek(ctx.args[2]) {
        None => ctx.reply.null(),
        Some(record) => ctx.reply.bulk(record.value().encoding().as_bytes()),
    }
    Ok(())
}

const OBJECT_FREQ: Entry = Entry {
    name: "freq",
    summary: "Returns the logarithmic access frequency counter of a Redis object.",
    since: "4.0.0",
    run: Run::Function(object_freq),
    ..SUBCOMMAND
};

fn object_freq(ctx: &mut Ctx) -> CommandResult {
    match (ctx.store.peek(ctx.args[2]), ctx.store.config().lfu) {
        (None, _) => ctx.reply.null(),
        (Some(_), None) => {
            let text = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
                 switching between policies at runtime LRU and LFU data will take some time to adjust.";
            return Err(CommandError::new(text));
        }
        (Some(record), Some(lfu)) => {
            ctx.reply.int(i64::from(lfu.counter(record.access(), ctx.store.now())));
        }
    }
    Ok(())
}

const OBJECT_HELP: Entry = Entry {
    since: "6.2.0",
    group: Group::Generic,
    acl: &[Acl::Keyspace],
    run: Run::Function(object_help),
    ..Entry::HELP
};

fn object_help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(&[
        "ENCODING <key>",
        "    Return the kind of internal representation used in order to store the value",
        "    associated with a <key>.",
        "FREQ <key>",
        "    Return the access frequency index of the <key>. The returned integer is",
        "    proportional to the logarithm of the recent access frequency of the key.",
        "IDLETIME <key>",
        "    Return the idle time of the <key>, that is the approximated number of",
        "    seconds elapsed since the last access to the key.",
        "REFCOUNT <key>",
        "    Return the number of references of the value associated with the specified",
        "    <key>.",
    ])
}

const OBJECT_IDLETIME: Entry = Entry {
    name: "idletime",
    summary: "Returns the time since the last access to a Redis object.",
    run: Run::Function(object_idletime),
    ..SUBCOMMAND
};

fn object_idletime(ctx: &mut Ctx) -> CommandResult {
    match ctx.store.peek(ctx.args[2]) {
        None => ctx.reply.null(),
        Some(_) if ctx.store.config().lfu.is_some() => {
            let text = "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching \
                 between policies at runtime LRU and LFU data will take some time to adjust.";
            return Err(CommandError::new(text));
        }
        Some(record) => {
            let clock = access::lru_clock(ctx.store.now());
            ctx.reply.int(i64::from(record.idle_seconds(clock)));
        }
    }
    Ok(())
}

const OBJECT_REFCOUNT: Entry = Entry {
    name: "refcount",
    summary: "Returns the reference count of a value of a key.",
    run: Run::Function(object_refcount),
    ..SUBCOMMAND
};

fn object_refcount(ctx: &mut Ctx) -> CommandResult {
    match ctx.store.peek(ctx.args[2]).map(RecordRef::value) {
        None => ctx.reply.null(),
        // Redis shares small integers and says so.
        Some(ValueRef::Str(StrRef::Int(0..10_000))) => ctx.reply.int(i64::from(i32::MAX)),
        Some(_) => ctx.reply.int(1),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use engine::{Client, Local};
    use keyspace::Lfu;
    use resp::{Output, Proto};

    /// In a transcript the clock moves, and may reach the next second between two steps.
    #[test]
    fn keys_are_idle_since_they_were_used() {
        let mut local = Local::new(crate::FAMILIES);
        local.line("SET s v");
        assert_eq!(local.line("OBJECT IDLETIME s"), ":0\r\n");
        local.now += 90_000;
        assert_eq!(local.line("OBJECT IDLETIME s"), ":90\r\n");
        local.line("EXISTS s");
        assert_eq!(local.line("OBJECT IDLETIME s"), ":90\r\n");
        let client = Client { no_touch: false, ..Client::internal(0, Proto::Resp2) };
        local.run(client, &[b"GET", b"s"], &mut (), &mut Output::new());
        assert_eq!(local.line("OBJECT IDLETIME s"), ":0\r\n");
    }

    #[test]
    fn keys_are_counted_as_they_are_used() {
        let mut local = Local::new(crate::FAMILIES);
        local.config.lfu = Some(Lfu { log_factor: 0, decay_minutes: 1 });
        let client = Client { no_touch: false, ..Client::internal(0, Proto::Resp2) };
        let uses: [(&[&[u8]], _, _); 9] = [
            (&[b"SET", b"s", b"v"], true, 5),
            (&[b"GET", b"s"], true, 6),
            (&[b"GET", b"s"], false, 6),
            (&[b"SET", b"s", b"w"], true, 7),
            (&[b"SET", b"s", b"v"], false, 7),
            (&[b"APPEND", b"s", b"v"], true, 8),
            (&[b"TOUCH", b"s"], false, 9),
            (&[b"TTL", b"s"], true, 9),
            (&[b"RENAME", b"s", b"s"], true, 10),
        ];
        for (args, touches, frequency) in uses {
            let client = Client { no_touch: !touches, ..client };
            local.run(client, args, &mut (), &mut Output::new());
            assert_eq!(
                local.line("OBJECT FREQ s"),
                format!(":{frequency}\r\n"),
                "{}",
                args[0].escape_ascii()
            );
        }
        local.now += 4 * 60_000;
        assert_eq!(local.line("OBJECT FREQ s"), ":6\r\n");
    }
}
