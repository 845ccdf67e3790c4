//! XNACK: pending entries that their consumers give back.
//!
//! A released entry stays pending, but no consumer has it, so any other can claim it at once. Those that were released
//! are claimed before all others, in the order in which they were.
//!
//! The effect states the number of deliveries, so it does not depend on the mode. `FORCE` is there twice: a command in
//! the stream may only be replaced by a shorter one, and servers that do not know XNACK get an XCLAIM for a consumer
//! without a name ([`effectlog::Dialect`]), which is longer than XNACK with one.

use ds::stream::{Pending, StreamId};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, Store, block, integer,
    key, keyword_is, oneof, parse_i64, string, token,
};

use super::effects::CLAIMED_AT_ONCE_MAX;
use super::{group_mut, ids};

const NO_MODE: CommandError = CommandError::fixed("ERR mode must be SILENT, FAIL, or FATAL");
const NUMBER_NOT_POSITIVE: CommandError = CommandError::fixed("ERR numids must be a positive integer");
const NUMBER_TOO_LARGE: CommandError = CommandError::fixed("ERR number of IDs doesn't match numids");
const NO_IDS: CommandError = CommandError::fixed("ERR syntax error, expected IDS keyword");
const COUNT_NEGATIVE: CommandError = CommandError::fixed("ERR Invalid RETRYCOUNT value, must be >= 0");
/// Redis takes the number of ids as an `int`.
const NUMBER_MAX: i64 = i32::MAX as i64;

pub(super) const XNACK: Entry = Entry {
    name: "xnack",
    summary: "Releases pending messages back to the group's PEL without acknowledging them, making them available \
            for re-delivery.",
    complexity: "O(1) for each message ID processed.",
    since: "8.8.0",
    group: Group::Stream,
    arity: -7,
    flags: &[Write, Fast],
    acl: &[Acl::Stream],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[
        key("key", 0),
        string("group"),
        oneof("mode", &[token("silent", "SILENT"), token("fail", "FAIL"), token("fatal", "FATAL")]),
        block("ids", &[integer("numids"), string("id").multiple()]).token("IDS"),
        integer("count").token("RETRYCOUNT").optional(),
        token("force", "FORCE").optional(),
    ],
    reply: Shape::Int,
    run: Run::Function(xnack),
    ..Entry::DEFAULT
};

/// How releasing an entry changes its number of deliveries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Counting {
    /// As if it had not been delivered.
    Silent,
    Fail,
    /// As if it had been delivered as often as can be.
    Fatal,
    Exactly(i64),
}

impl Counting {
    fn of_mode(word: &[u8]) -> Result<Counting, CommandError> {
        let modes = [("silent", Counting::Silent), ("fail", Counting::Fail), ("fatal", Counting::Fatal)];
        let known = modes.iter().find(|(known, _)| keyword_is(word, known));
        known.map(|(_, mode)| *mode).ok_or(NO_MODE)
    }

    fn after(self, before: i64) -> i64 {
        match self {
            Counting::Silent => before.saturating_sub(1).max(0),
            Counting::Fail => before,
            Counting::Fatal => i64::MAX,
            Counting::Exactly(count) => count,
        }
    }
}

/// The arguments behind the mode.
struct Release<'a> {
    ids: &'a [&'a [u8]],
    retry_count: Option<i64>,
    /// Whether entries that are not pending are released as well.
    forces: bool,
}

impl<'a> Release<'a> {
    fn parse(mut args: &'a [&'a [u8]]) -> Result<Release<'a>, CommandError> {
        let mut options = Release { ids: &[], retry_count: None, forces: false };
        while !args.is_empty() {
            args = match *args {
                [word, ref rest @ ..] if keyword_is(word, "force") => {
                    options.forces = true;
                    rest
                }
                [word, count, ref rest @ ..] if keyword_is(word, "retrycount") => {
                    options.retry_count = Some(parse_i64(count)?);
                    if options.retry_count < Some(0) {
                        return Err(COUNT_NEGATIVE);
                    }
                    rest
                }
                [word, number, ref rest @ ..] if keyword_is(word, "ids") => {
                    let number = match parse_i64(number) {
                        Ok(number @ 1..=NUMBER_MAX) => number as usize,
                        _ => return Err(NUMBER_NOT_POSITIVE),
                    };
                    let (listed, after) = rest.split_at_checked(number).ok_or(NUMBER_TOO_LARGE)?;
                    options.ids = listed;
                    after
                }
                [word, ..] => {
                    return Err(CommandError::quoting("ERR Unrecognized XNACK option '", word, "'"));
                }
                [] => args,
            };
        }
        if options.ids.is_empty() { Err(NO_IDS) } else { Ok(options) }
    }
}

fn xnack(ctx: &mut Ctx) -> CommandResult {
    let (key, name) = (ctx.args[1], ctx.args[2]);
    group_mut(&mut ctx.store, key, name)?;
    let mode = Counting::of_mode(ctx.args[3])?;
    let Release { ids, retry_count, forces } = Release::parse(&ctx.args[4..])?;
    let (ids, counting) = (ids::parse_all(ids)?, retry_count.map_or(mode, Counting::Exactly));
    let (log, group) = group_mut(&mut ctx.store, key, name)?;
    let mut released = Vec::new();
    for id in ids {
        let before = match group.pending(id) {
            Some(pending) => pending.delivery_count,
            None if forces && log.contains(id) => 0,
            None => continue,
        };
        let count = counting.after(before);
        group.assign(id, Pending::released(count));
        released.push((id, count));
    }
    ctx.reply.int(released.len() as i64);
    let change = Change::UNNAMED.times(released.len()).untold();
    ctx.store.changed_with(key, change, |store| state(store, key, name, &released));
    if !released.is_empty() {
        ctx.note_times(key);
    }
    Ok(())
}

/// States that entries were released in this order, with their numbers of deliveries.
fn state(store: &mut Store, key: &[u8], group: &[u8], released: &[(StreamId, i64)]) {
    for line in lines(key, group, released) {
        store.effect(&line.iter().map(|word| &**word).collect::<Vec<&[u8]>>());
    }
}

/// The commands that release entries in this order, with their numbers of deliveries.
pub(super) fn lines(key: &[u8], group: &[u8], released: &[(StreamId, i64)]) -> Vec<Vec<Box<[u8]>>> {
    let mut lines = Vec::new();
    for same_count in released.chunk_by(|one, other| one.1 == other.1) {
        let count = same_count[0].1.to_string();
        for chunk in same_count.chunks(CLAIMED_AT_ONCE_MAX) {
            let number = chunk.len().to_string();
            let words: [&[u8]; 6] = [b"XNACK", key, group, b"SILENT", b"IDS", number.as_bytes()];
            let mut line: Vec<Box<[u8]>> = words.iter().map(|&word| word.into()).collect();
            line.extend(chunk.iter().map(|(id, _)| id.to_string().into_bytes().into()));
            let rest: [&[u8]; 4] = [b"RETRYCOUNT", count.as_bytes(), b"FORCE", b"FORCE"];
            line.extend(rest.iter().map(|&word| Box::from(word)));
            lines.push(line);
        }
    }
    lines
}
