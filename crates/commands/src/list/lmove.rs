//! LMOVE and RPOPLPUSH: from an end of one list to an end of another, or of the same.

use command::Flag::*;
use command::KeyFlag::*;
use command::{
    Acl, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, key, oneof, token,
};
use ds::list::{End, List};

use super::pop::popped;
use super::{parse_end, pop_event, push_event};

pub(super) const LMOVE: Entry = Entry {
    name: "lmove",
    summary: "Returns an element after popping it from one list and pushing it to another. Deletes the list if \
            the last element was moved.",
    complexity: "O(1)",
    since: "6.2.0",
    group: Group::List,
    arity: 5,
    flags: &[Write, DenyOom],
    acl: &[Acl::List],
    keys: &[KeySpec::one(1, &[RW, Access, Delete]), KeySpec::one(2, &[RW, Insert])],
    args: &[
        key("source", 0),
        key("destination", 1),
        oneof("wherefrom", &[token("left", "LEFT"), token("right", "RIGHT")]),
        oneof("whereto", &[token("left", "LEFT"), token("right", "RIGHT")]),
    ],
    reply: Shape::BULK_OR_NULL,
    run: Run::Function(lmove),
    ..Entry::DEFAULT
};

fn lmove(ctx: &mut Ctx) -> CommandResult {
    let (from, to) = (parse_end(ctx.args[3])?, parse_end(ctx.args[4])?);
    run(ctx, from, to)
}

pub(super) const RPOPLPUSH: Entry = Entry {
    name: "rpoplpush",
    summary: "Returns the last element of a list after removing and pushing it to another list. Deletes the \
            list if the last element was popped.",
    complexity: "O(1)",
    since: "1.2.0",
    group: Group::List,
    arity: 3,
    flags: &[Write, DenyOom],
    acl: &[Acl::List],
    keys: &[KeySpec::one(1, &[RW, Access, Delete]), KeySpec::one(2, &[RW, Insert])],
    args: &[key("source", 0), key("destination", 1)],
    deprecated: Some(("6.2.0", "`LMOVE` with the `RIGHT` and `LEFT` arguments")),
    reply: Shape::BULK_OR_NULL,
    run: Run::Function(rpoplpush),
    ..Entry::DEFAULT
};

fn rpoplpush(ctx: &mut Ctx) -> CommandResult {
    run(ctx, End::Tail, End::Head)
}

fn run(ctx: &mut Ctx, from: End, to: End) -> CommandResult {
    if !try_move(ctx, from, to)? {
        ctx.reply.null();
    }
    Ok(())
}

/// Moves an element from the key at argument 1 to the key at argument 2, with the element as the reply; false, and no
/// reply, if there is none.
pub(super) fn try_move(ctx: &mut Ctx, from: End, to: End) -> Result<bool, CommandError> {
    let (source, destination) = (ctx.args[1], ctx.args[2]);
    let refused = ctx.store.peek_as::<List>(destination).err();
    let Some(list) = ctx.store.write_as::<List>(source)? else { return Ok(false) };
    if let Some(error) = refused {
        return Err(error);
    }
    let value = list.pop(from).expect("a list in the keyspace has elements");
    let emptied = list.is_empty();
    let limits = &ctx.store.config().list;
    let list = ctx.store.upsert::<List>(destination)?;
    list.push(to, &value);
    list.compress_inner(limits);
    ctx.store.changed(destination, Class::List, push_event(to));
    if source == destination {
        ctx.store.changed_elements(source, Class::List, pop_event(from), 0);
    } else {
        popped(&mut ctx.store, source, from, 0, emptied);
    }
    ctx.store.effect(&[b"LMOVE", source, destination, end_word(from), end_word(to)]);
    ctx.reply.bulk(&value);
    Ok(true)
}

fn end_word(end: End) -> &'static [u8] {
    match end {
        End::Head => b"LEFT",
        End::Tail => b"RIGHT",
    }
}
