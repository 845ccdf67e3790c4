//! LPOP, RPOP and LMPOP, and the pop that the blocking commands share with them.

use command::Flag::*;
use command::KeyFlag::*;
use command::{
    Acl, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Route, Run, Shape, Store, integer,
    key, keyword_is, oneof, parse_count, token,
};
use ds::list::{End, List};

use super::{parse_end, pop_command, pop_event};

pub(super) const LPOP: Entry = Entry {
    name: "lpop",
    summary: "Returns the first elements in a list after removing it. Deletes the list if the last element was \
            popped.",
    complexity: "O(N) where N is the number of elements returned",
    since: "1.0.0",
    group: Group::List,
    arity: -2,
    flags: &[Write, Fast],
    acl: &[Acl::List],
    keys: &[KeySpec::one(1, &[RW, Access, Delete])],
    args: &[key("key", 0), integer("count").optional().since("6.2.0")],
    history: &[("6.2.0", "Added the `count` argument.")],
    reply: Shape::OneOf(&[Shape::Bulk, Shape::BULKS, Shape::Null]),
    run: Run::Function(lpop),
    ..Entry::DEFAULT
};

fn lpop(ctx: &mut Ctx) -> CommandResult {
    pop(ctx, End::Head)
}

pub(super) const RPOP: Entry = Entry {
    name: "rpop",
    summary: "Returns and removes the last elements of a list. Deletes the list if the last element was \
            popped.",
    run: Run::Function(rpop),
    ..LPOP
};

fn rpop(ctx: &mut Ctx) -> CommandResult {
    pop(ctx, End::Tail)
}

#[inline]
fn pop(ctx: &mut Ctx, end: End) -> CommandResult {
    let (key, count) = match *ctx.args {
        [_, key] => (key, None),
        [_, key, count] => (key, Some(parse_count(count)?)),
        _ => return Err(CommandError::wrong_arity(&ctx.command.full_name)),
    };
    let reply = &mut ctx.reply;
    let Some(list) = ctx.store.write_as::<List>(key)? else {
        match count {
            None => reply.null(),
            Some(_) => reply.null_array(),
        }
        return Ok(());
    };
    let count = match count {
        None => {
            list.pop_with(end, |value| reply.bulk(value));
            1
        }
        Some(0) => {
            reply.array(0);
            return Ok(());
        }
        Some(count) => {
            let count = count.min(list.len());
            reply.array(count);
            for _ in 0..count {
                list.pop_with(end, |value| reply.bulk(value));
            }
            count
        }
    };
    let emptied = list.is_empty();
    popped(&mut ctx.store, key, end, count, emptied);
    ctx.effect_same();
    Ok(())
}

/// Says that elements, which count as `count` changes, were taken from `end` of `key`, and deletes it if it is empty now.
#[inline]
pub(super) fn popped(store: &mut Store, key: &[u8], end: End, count: usize, emptied: bool) {
    store.changed_elements(key, Class::List, pop_event(end), count);
    if emptied {
        store.delete_if_empty(key);
    }
}

/// What a command pops from the first of several keys that has something.
#[derive(Clone, Copy)]
pub(super) struct Pop {
    /// From which end.
    pub(super) end: End,
    /// At most how many, with the reply that goes with counts; otherwise one element.
    pub(super) count: Option<usize>,
}

impl Pop {
    /// Pops from `key`, with the key in the reply; false, and no reply, if there is no such key.
    #[inline]
    pub(super) fn try_key(self, ctx: &mut Ctx, key: &[u8]) -> Result<bool, CommandError> {
        let reply = &mut ctx.reply;
        let Some(list) = ctx.store.write_as::<List>(key)? else { return Ok(false) };
        reply.array(2);
        reply.bulk(key);
        let count = self.count.unwrap_or(1).min(list.len());
        if self.count.is_some() {
            reply.array(count);
        }
        for _ in 0..count {
            list.pop_with(self.end, |value| reply.bulk(value));
        }
        let emptied = list.is_empty();
        popped(&mut ctx.store, key, self.end, count, emptied);
        self.record(&mut ctx.store, key, count);
        Ok(true)
    }

    fn record(self, store: &mut Store, key: &[u8], count: usize) {
        let command = pop_command(self.end);
        match self.count {
            None => store.effect(&[command, key]),
            Some(_) => store.effect_with(|store| {
                store.effect(&[command, key, itoa::Buffer::new().format(count).as_bytes()]);
            }),
        }
    }
}

pub(super) const LMPOP: Entry = Entry {
    name: "lmpop",
    summary: "Returns multiple elements from a list after removing them. Deletes the list if the last element \
            was popped.",
    complexity: "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
    since: "7.0.0",
    group: Group::List,
    arity: -4,
    flags: &[Write],
    acl: &[Acl::List],
    keys: &[KeySpec::numbered(1, &[RW, Access, Delete])],
    route: Route::KeysInTurn,
    args: &[
        integer("numkeys"),
        key("key", 0).multiple(),
        oneof("where", &[token("left", "LEFT"), token("right", "RIGHT")]),
        integer("count").token("COUNT").optional(),
    ],
    reply: Shape::OneOf(&[Shape::Tuple(&[Shape::Bulk, Shape::BULKS]), Shape::Null]),
    run: Run::Function(lmpop),
    ..Entry::DEFAULT
};

fn lmpop(ctx: &mut Ctx) -> CommandResult {
    let (keys, pop) = parse_mpop(&ctx.args[1..])?;
    if !ctx.in_turn(keys, |ctx, key| pop.try_key(ctx, key))? {
        ctx.reply.null_array();
    }
    Ok(())
}

/// The keys and the pop that `numkeys key [key ...] LEFT|RIGHT [COUNT count]` says.
pub(super) fn parse_mpop<'k, 'a>(args: &'k [&'a [u8]]) -> Result<(&'k [&'a [u8]], Pop), CommandError> {
    let key_count = parse_positive(args[0], CommandError::NUMKEYS_TOO_SMALL)?;
    let (keys, rest) = args[1..].split_at_checked(key_count).ok_or(CommandError::SYNTAX)?;
    let (end, options) = rest.split_first().ok_or(CommandError::SYNTAX)?;
    let end = parse_end(end)?;
    let count = match *options {
        [] => 1,
        [option, count, ..] if keyword_is(option, "count") => {
            let count = parse_positive(count, CommandError::new("ERR count should be greater than 0"))?;
            if options.len() > 2 {
                return Err(CommandError::SYNTAX);
            }
            count
        }
        _ => return Err(CommandError::SYNTAX),
    };
    Ok((keys, Pop { end, count: Some(count) }))
}

fn parse_positive(arg: &[u8], error: CommandError) -> Result<usize, CommandError> {
    match ds::num::parse_i64(arg) {
        Some(number) if number > 0 => Ok(number as usize),
        _ => Err(error),
    }
}
