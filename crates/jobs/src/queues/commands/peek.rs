//! QUEUE PEEK: shows the elements that workers will take next.

use std::borrow::Cow;

use ds::list::End;
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{Acl, CommandError, CommandResult, Group, KeySpec, integer, key, keyword_is};
use keyspace::ValueRef;

use super::{COUNT_DEFAULT, FOUND, parse_count, reply_found, wrong_type};
use crate::queues::ends::popping_end;
use crate::queues::slices::{Found, Position};
use crate::queues::{Ctx, Entry, Run};

/// The most elements that are shown.
const COUNT_MAX: usize = 1000;

pub(super) const PEEK: Entry = Entry {
    name: "peek",
    summary: "Returns the elements of a queue that workers will take next.",
    complexity: "O(N) where N is the number of elements returned; 1000 at most.",
    since: "7.2.0",
    group: Group::Queue,
    arity: -3,
    flags: &[ReadOnly],
    acl: &[Acl::Queue],
    keys: &[KeySpec::one(2, &[RO, Access])],
    args: &[key("queue", 0), integer("count").token("COUNT").optional()],
    reply: FOUND,
    run: Run::Function(peek),
    ..Entry::DEFAULT
};

fn peek(ctx: &mut Ctx) -> CommandResult {
    let count = match *ctx.args {
        [_, _, _] => COUNT_DEFAULT,
        [_, _, _, word, count] if keyword_is(word, "count") => parse_count(count)?,
        _ => return Err(CommandError::SYNTAX),
    };
    let (key, count) = (ctx.args[2], count.min(COUNT_MAX));
    let end = popping_end(&ctx.store, key);
    let found: Vec<Found> = match ctx.store.read(key) {
        None => Vec::new(),
        Some(ValueRef::List(list)) => {
            let (from, reverse) = match end {
                End::Head => (0, false),
                End::Tail => (-1, true),
            };
            let elements = list.iter(from, reverse).take(count);
            let index = |taken_before: i64| if reverse { -1 - taken_before } else { taken_before };
            let found = |(taken_before, element): (i64, ds::list::Element<'_>)| Found {
                position: Position::Index(index(taken_before)),
                payload: (*element).into(),
            };
            (0..).zip(elements).map(found).collect()
        }
        Some(ValueRef::ZSet(zset)) => {
            let found = |(member, score): (Cow<'_, [u8]>, f64)| Found {
                position: Position::Score(score),
                payload: member.into(),
            };
            zset.iter().take(count).map(found).collect()
        }
        Some(other) => return Err(wrong_type(other.kind())),
    };
    reply_found(ctx, &found);
    Ok(())
}
