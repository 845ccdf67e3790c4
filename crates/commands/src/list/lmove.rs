//! LMOVE and RPOPLPUSH move an element from an end of a list to an end of the same or another list. BLMOVE
//! and BRPOPLPUSH wait for an element. A move loses nothing if its client is gone, so nothing
//! has to be put back.

use ds::list::End;

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Removed, Room, Run, Serve,
    Shape, Store, TakeOrWait, Taking, Took, When, double, end_word, key, note_place, oneof,
    parse_timeout_in_seconds, pop_event, push_event, take_from, token,
};
use keyspace::Kind;
use keyspace::List;
use smallvec::SmallVec;

use super::parse_end;

/// An element of up to this length is moved without allocating memory in between.
const COPIED_BYTES: usize = 512;

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

/// Moves an element from the key at argument 1 to the key at argument 2, and replies with it. False, without
/// a reply, if there is no element.
#[inline(never)]
fn try_move(ctx: &mut Ctx, from: End, to: End) -> Result<bool, CommandError> {
    let (source, destination) = (ctx.args[1], ctx.args[2]);
    note_place(&mut ctx.store, source);
    let refused = ctx.store.peek_as::<List>(destination).err();
    let mut moving = Moving { source, destination, from, to, refused, value: SmallVec::new() };
    let is_found = take_from(&mut ctx.store, source, &mut moving)?;
    if is_found {
        ctx.reply.bulk(&moving.value);
    }
    Ok(is_found)
}

/// A move under way.
struct Moving<'a> {
    source: &'a [u8],
    destination: &'a [u8],
    from: End,
    to: End,
    /// Why nothing can be pushed to the destination.
    refused: Option<CommandError>,
    value: SmallVec<[u8; COPIED_BYTES]>,
}

impl Taking for Moving<'_> {
    type Value = List;
    const IS_LIMITED: bool = true;

    #[inline(always)]
    fn refusal(&mut self) -> Option<CommandError> {
        self.refused.take()
    }

    #[inline(always)]
    fn remove(&mut self, list: &mut List, _: Room) -> Removed {
        let read = list.pop_with(self.from, |value| self.value.extend_from_slice(value));
        read.expect("a list in the keyspace has elements");
        Removed::of(list, 1)
    }

    #[inline(never)]
    fn place(&mut self, store: &mut Store) -> Result<(), CommandError> {
        let limits = store.config().list;
        let list = store.upsert::<List>(self.destination)?;
        list.push(self.to, &self.value);
        list.compress_inner(&limits);
        store.also_changed(self.destination, Change::new(Class::List, push_event(self.to)));
        Ok(())
    }

    /// The push counts as the change.
    #[inline(always)]
    fn change(&self, _: usize) -> Change {
        Change::new(Class::List, pop_event(self.from)).times(0)
    }

    #[inline(always)]
    fn effect(&mut self, store: &mut Store, _: &[u8], _: usize) {
        store.effect(&[b"LMOVE", self.source, self.destination, end_word(self.from), end_word(self.to)]);
    }
}

pub(super) const BLMOVE: Entry = Entry {
    name: "blmove",
    summary: "Pops an element from a list, pushes it to another list and returns it. Blocks until an element \
            is available otherwise. Deletes the list if the last element was moved.",
    complexity: "O(1)",
    since: "6.2.0",
    group: Group::List,
    arity: 6,
    flags: &[Write, DenyOom, Blocking],
    acl: &[Acl::List],
    keys: &[KeySpec::one(1, &[RW, Access, Delete]), KeySpec::one(2, &[RW, Insert])],
    args: &[
        key("source", 0),
        key("destination", 1),
        oneof("wherefrom", &[token("left", "LEFT"), token("right", "RIGHT")]),
        oneof("whereto", &[token("left", "LEFT"), token("right", "RIGHT")]),
        double("timeout"),
    ],
    reply: Shape::BULK_OR_NULL,
    run: Run::Function(blmove),
    ..Entry::DEFAULT
};

fn blmove(ctx: &mut Ctx) -> CommandResult {
    let (from, to) = (parse_end(ctx.args[3])?, parse_end(ctx.args[4])?);
    move_or_block(ctx, from, to, ctx.args[5], serve_blmove)
}

fn serve_blmove(ctx: &mut Ctx, _: &[u8]) -> Result<bool, CommandError> {
    let (from, to) = (parse_end(ctx.args[3])?, parse_end(ctx.args[4])?);
    try_move(ctx, from, to)
}

pub(super) const BRPOPLPUSH: Entry = Entry {
    name: "brpoplpush",
    summary: "Pops an element from a list, pushes it to another list and returns it. Block until an element is \
            available otherwise. Deletes the list if the last element was popped.",
    complexity: "O(1)",
    since: "2.2.0",
    group: Group::List,
    arity: 4,
    flags: &[Write, DenyOom, Blocking],
    acl: &[Acl::List],
    keys: &[KeySpec::one(1, &[RW, Access, Delete]), KeySpec::one(2, &[RW, Insert])],
    args: &[key("source", 0), key("destination", 1), double("timeout")],
    history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
    deprecated: Some(("6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments")),
    reply: Shape::BULK_OR_NULL,
    run: Run::Function(brpoplpush),
    ..Entry::DEFAULT
};

fn brpoplpush(ctx: &mut Ctx) -> CommandResult {
    move_or_block(ctx, End::Tail, End::Head, ctx.args[3], serve_brpoplpush)
}

fn serve_brpoplpush(ctx: &mut Ctx, _: &[u8]) -> Result<bool, CommandError> {
    try_move(ctx, End::Tail, End::Head)
}

fn move_or_block(ctx: &mut Ctx, from: End, to: End, timeout: &[u8], serve: Serve) -> CommandResult {
    let timeout_ms = Some(parse_timeout_in_seconds(timeout, ctx.store.now())?);
    let (keys, also, when) = (&ctx.args[1..2], Some(ctx.args[2]), When::Holds(Kind::List));
    let ask = TakeOrWait { keys, order: None, when, also, timeout_ms, owes: false, serve };
    if ctx.take_or_wait(&ask, |ctx, _, _| try_move(ctx, from, to))? == Took::Nothing {
        ctx.reply.null();
    }
    Ok(())
}
