//! `MSETEX`: sets several keys on one condition, with one expiry.
//!
//! The effect is one `SET` for each key, with a point in time.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Begin, CommandError, CommandResult, Ctx, Entry, Find, Group, KeySpec, Run, Shape, block, integer,
    key, oneof, string, token, unix_time,
};

use super::options::{Condition, ExpiryOption, For, Options};
use super::write::{PAIRS_PER_BREATH, store};

const INVALID_NUMKEYS: CommandError = CommandError::fixed("ERR invalid numkeys value");
const TOO_FEW_PAIRS: CommandError = CommandError::fixed("ERR wrong number of key-value pairs");

pub(super) const MSETEX: Entry = Entry {
    name: "msetex",
    summary: "Atomically sets multiple string keys with a shared expiration.",
    complexity: "O(N) where N is the number of keys to set.",
    since: "8.4.0",
    group: Group::String,
    arity: -4,
    flags: &[Write, DenyOom],
    acl: &[Acl::String],
    keys: &[KeySpec {
        flags: &[OW, Update],
        begin: Begin::Index(1),
        find: Find::KeyNum { number: 0, first: 1, step: 2 },
        notes: "",
    }],
    args: &[
        integer("numkeys"),
        block("data", &[key("key", 0), string("value")]).multiple(),
        oneof("condition", &[token("nx", "NX"), token("xx", "XX")]).optional(),
        oneof(
            "expiration",
            &[
                integer("seconds").token("EX"),
                integer("milliseconds").token("PX"),
                unix_time("unix-time-seconds").token("EXAT"),
                unix_time("unix-time-milliseconds").token("PXAT"),
                token("keepttl", "KEEPTTL"),
            ],
        )
        .optional(),
    ],
    tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
    reply: Shape::Int,
    run: Run::Function(msetex),
    ..Entry::DEFAULT
};

fn msetex(ctx: &mut Ctx) -> CommandResult {
    let count = ds::num::parse_i64(ctx.args[1]).filter(|count| (1..=i64::from(i32::MAX)).contains(count));
    let arg_count = count.ok_or(INVALID_NUMKEYS)? as usize * 2;
    let (pairs, options) = ctx.args[2..].split_at_checked(arg_count).ok_or(TOO_FEW_PAIRS)?;
    let options = Options::parse(options, For::MSetEx)?;
    let at = match options.expiry {
        ExpiryOption::At(unit, time) => Some(unit.expiry(ctx, time)?),
        ExpiryOption::Unsaid | ExpiryOption::Keep | ExpiryOption::Persist => None,
    };
    let mut keys = pairs.iter().step_by(2);
    let goes = match options.condition {
        None => true,
        Some(Condition::IfAbsent) => !keys.any(|key| ctx.store.exists(key)),
        Some(Condition::IfPresent) => keys.all(|key| ctx.store.exists(key)),
        Some(Condition::If(_)) => unreachable!("only SET compares values"),
    };
    if goes {
        for (index, pair) in pairs.chunks_exact(2).enumerate() {
            let (key, value) = (pair[0], pair[1]);
            let expiry = if options.expiry == ExpiryOption::Keep { ctx.store.expiry(key) } else { at };
            store(ctx, key, value, expiry, at.is_some());
            if index % PAIRS_PER_BREATH == PAIRS_PER_BREATH - 1 {
                ctx.host.breathe();
            }
        }
    }
    ctx.reply.int(i64::from(goes));
    Ok(())
}
