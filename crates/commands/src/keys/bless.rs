//! `BLESS`: protects keys from eviction.
//!
//! The protection is one of a key's marks (`keyspace::Marks`), so snapshots, the journal and Darter's replicas have it.
//! `background` leaves such keys out when it looks for keys to evict. `BLESS SCAN` walks all keys.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, CommandError, CommandResult, Ctx, Cursor, Entry, Group, KeySpec, Route, Run, Shape, integer,
    key, keyword_is, pattern, token,
};
use keyspace::{Class, Marks};

use super::scan::{Filter, scan_for};

/// The only protection.
const NO_EVICT: &str = "NO-EVICT";
/// Keys that a call of `BLESS SCAN` visits by default.
const COUNT_DEFAULT: usize = 1024;

pub(super) const BLESS: Entry = Entry {
    name: "bless",
    summary: "A container for key-blessing commands.",
    complexity: "Depends on subcommand.",
    since: "8.12.0",
    group: Group::Generic,
    arity: -2,
    run: Run::Container,
    subcommands: &[BLESS_CLEAR, BLESS_GET, BLESS_HELP, BLESS_SCAN, BLESS_SET],
    ..Entry::DEFAULT
};

const BLESS_SET: Entry = Entry {
    name: "set",
    summary: "Adds protection flags to a key against memory pressure.",
    complexity: "O(1)",
    since: "8.12.0",
    group: Group::Generic,
    arity: 4,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::Dangerous],
    keys: &[KeySpec::one(2, &[RW, Update])],
    args: &[key("key", 0), token("no-evict", NO_EVICT)],
    reply: Shape::Int,
    run: Run::Function(bless_set),
    ..Entry::DEFAULT
};

fn bless_set(ctx: &mut Ctx) -> CommandResult {
    change(ctx, true)
}

const BLESS_CLEAR: Entry = Entry {
    name: "clear",
    summary: "Removes protection flags from a key.",
    flags: &[Write, Fast],
    run: Run::Function(bless_clear),
    ..BLESS_SET
};

fn bless_clear(ctx: &mut Ctx) -> CommandResult {
    change(ctx, false)
}

fn change(ctx: &mut Ctx, is_blessed: bool) -> CommandResult {
    check_flag(ctx.args[3])?;
    let key = ctx.args[2];
    let record = ctx.store.write(key).ok_or(CommandError::NO_SUCH_KEY)?;
    let marks = record.lend().marks();
    if marks.is_blessed != is_blessed {
        let marks = Marks { is_blessed, ..marks };
        ctx.store.set_marks(key, marks);
        let event = if is_blessed { "bless" } else { "unbless" };
        let text = marks.to_text();
        let effect: [&[u8]; 3] = [b"DARTER.MARK", key, text.as_bytes()];
        ctx.store.changed(key, Change::new(Class::Generic, event), &effect);
    }
    ctx.reply.int(i64::from(marks.is_blessed != is_blessed));
    Ok(())
}

fn check_flag(word: &[u8]) -> CommandResult {
    if keyword_is(word, NO_EVICT) { Ok(()) } else { Err(CommandError::SYNTAX) }
}

const BLESS_GET: Entry = Entry {
    name: "get",
    summary: "Returns the protection flags of a key.",
    complexity: "O(1)",
    since: "8.12.0",
    group: Group::Generic,
    arity: 3,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Keyspace],
    keys: &[KeySpec::one(2, &[RO])],
    args: &[key("key", 0)],
    reply: Shape::BULKS,
    run: Run::Function(bless_get),
    ..Entry::DEFAULT
};

fn bless_get(ctx: &mut Ctx) -> CommandResult {
    let record = ctx.store.peek(ctx.args[2]).ok_or(CommandError::NO_SUCH_KEY)?;
    if record.marks().is_blessed {
        ctx.reply.array(1);
        ctx.reply.bulk(NO_EVICT.as_bytes());
    } else {
        ctx.reply.array(0);
    }
    Ok(())
}

const BLESS_SCAN: Entry = Entry {
    name: "scan",
    summary: "Incrementally iterates the blessed keys of the current database that carry the given flag.",
    complexity: "O(1) for every call. O(N) for a complete iteration, where N is the number of keys of the database.",
    since: "8.12.0",
    group: Group::Generic,
    arity: -4,
    flags: &[ReadOnly],
    acl: &[Acl::Keyspace],
    args: &[
        integer("cursor"),
        token("no-evict", NO_EVICT),
        pattern("pattern").token("MATCH").optional(),
        integer("count").token("COUNT").optional(),
    ],
    tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
    reply: Shape::Tuple(&[Shape::Bulk, Shape::BULKS]),
    route: Route::Cursor(2),
    run: Run::Function(bless_scan),
    ..Entry::DEFAULT
};

fn bless_scan(ctx: &mut Ctx) -> CommandResult {
    let cursor = Cursor::parse(ctx.args[2])?;
    check_flag(ctx.args[3])?;
    let begin = Filter { count: COUNT_DEFAULT, pattern: None, type_name: None, is_blessed: true };
    let filter = begin.with(&ctx.args[4..])?;
    if filter.type_name.is_some() {
        return Err(CommandError::SYNTAX);
    }
    scan_for(ctx, cursor, &filter)
}

const BLESS_HELP: Entry = Entry {
    since: "8.12.0",
    group: Group::Generic,
    acl: &[Acl::Keyspace],
    run: Run::Function(bless_help),
    ..Entry::HELP
};

fn bless_help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(&[
        "SET <key> NO-EVICT",
        "    Protect the key from eviction.",
        "CLEAR <key> NO-EVICT",
        "    Let the key be evicted again.",
        "GET <key>",
        "    Return the protections of the key.",
        "SCAN <cursor> NO-EVICT [MATCH <pattern>] [COUNT <count>]",
        "    Iterate over the protected keys.",
    ])
}
