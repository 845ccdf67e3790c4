//! The commands that pop: LPOP, RPOP and LMPOP; and BLPOP, BRPOP and BLMPOP, which wait if the lists are
//! empty.
//!
//! ```text
//! arguments ─→ try the keys in order ─→ found: reply, done
//!                     │ nothing
//!                     ├─→ may not block (MULTI, script): null, done
//!                     └─→ a waiter at every key … a client creates a list there ─→ serve_…
//! ```
//!
//! A `serve_…` function runs on the thread whose command created the list, after that command, MULTI or
//! script is complete, with the arguments, database and protocol of the waiting client. It finds a list at
//! the key that became ready, and does what the command would do there now. The effect is that of the command
//! that does not wait. It also prepares a command that puts back the popped elements if the client turns out
//! to be gone.
//!
//! Sorted sets are popped in the same way (`zset/pop.rs`, `zset/blocking.rs`). Both share [`Pop`] and the
//! functions below it.

use ds::list::{Element, End, List};
use ds::queue::pop_several_with;
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, ArgSlices, BlockOn, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace,
    Room, Route, Run, Serve, Shape, Store, When, double, integer, key, keyword_is, note_pops, oneof,
    parse_count, parse_timeout_in_seconds, pop_command, pop_event, push_command, room, take_from_list, token,
    took,
};
use keyspace::Kind;
use smallvec::SmallVec;

use super::parse_end;

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
    if ctx.store.config().recovers {
        note_pops(&mut ctx.store, key, end, count.unwrap_or(1));
    }
    let reply = &mut ctx.reply;
    let Some((list, room)) = take_from_list(&mut ctx.store, key)? else {
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
            let count = room.fit(count.min(list.len()));
            reply.array(count);
            let mut pace = Pace::new(ctx.host);
            pop_several_with(list, end, count, |value| {
                reply.bulk(value);
                pace.step();
            });
            count
        }
    };
    let emptied = list.is_empty();
    let args = ctx.args;
    popped(&mut ctx.store, key, (end, count), emptied, |store| match (room, args) {
        (Room::ANY, _) | (_, [_, _]) => store.effect(args),
        // As many as the queue had room for.
        _ => store.effect(&[args[0], key, itoa::Buffer::new().format(count).as_bytes()]),
    });
    took(&mut ctx.store, key, room, count)
}

/// Announces that elements, which count as `count` changes, were taken from `end` of `key`, and deletes the list if it
/// is empty. `state` records the effect.
#[inline]
pub(super) fn popped(
    store: &mut Store,
    key: &[u8],
    (end, count): (End, usize),
    emptied: bool,
    state: impl FnOnce(&mut Store),
) {
    store.changed_with(key, Change::new(Class::List, pop_event(end)).times(count), state);
    if emptied {
        store.delete_if_empty(key);
    }
}

/// A pop from the first of several keys that exists.
#[derive(Clone, Copy)]
struct ListPop {
    /// The end to pop from.
    end: End,
    /// The most elements to take, which makes the reply an array; without it one element.
    count: Option<usize>,
}

impl Pop for ListPop {
    const KIND: Kind = Kind::List;

    fn one(word: &[u8]) -> Result<Self, CommandError> {
        Ok(ListPop { end: parse_end(word)?, count: Some(1) })
    }

    fn up_to(self, count: usize) -> Self {
        ListPop { count: Some(count), ..self }
    }

    #[inline]
    fn try_key(self, ctx: &mut Ctx, key: &[u8]) -> Result<bool, CommandError> {
        if ctx.store.config().recovers {
            note_pops(&mut ctx.store, key, self.end, self.count.unwrap_or(1));
        }
        let reply = &mut ctx.reply;
        let Some((list, room)) = take_from_list(&mut ctx.store, key)? else { return Ok(false) };
        reply.array(2);
        reply.bulk(key);
        let count = room.fit(self.count.unwrap_or(1).min(list.len()));
        if self.count.is_some() {
            reply.array(count);
        }
        let mut pace = Pace::new(ctx.host);
        pop_several_with(list, self.end, count, |value| {
            reply.bulk(value);
            pace.step();
        });
        let emptied = list.is_empty();
        popped(&mut ctx.store, key, (self.end, count), emptied, |store| self.state(store, key, count));
        took(&mut ctx.store, key, room, count)?;
        Ok(true)
    }
}

impl ListPop {
    fn state(self, store: &mut Store, key: &[u8], count: usize) {
        let command = pop_command(self.end);
        match self.count {
            None => store.effect(&[command, key]),
            Some(_) => store.effect(&[command, key, itoa::Buffer::new().format(count).as_bytes()]),
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
    let (keys, pop) = parse_several::<ListPop>(&ctx.args[1..])?;
    pop_or_null(ctx, keys, pop)
}

const BLPOP_POP: ListPop = ListPop { end: End::Head, count: None };
const BRPOP_POP: ListPop = ListPop { end: End::Tail, count: None };

pub(super) const BLPOP: Entry = Entry {
    name: "blpop",
    summary: "Removes and returns the first element in a list. Blocks until an element is available otherwise. \
            Deletes the list if the last element was popped.",
    complexity: "O(N) where N is the number of provided keys.",
    since: "2.0.0",
    group: Group::List,
    arity: -3,
    flags: &[Write, Blocking],
    acl: &[Acl::List],
    keys: &[KeySpec::range(1, -2, 1, &[RW, Access, Delete])],
    route: Route::KeysInTurn,
    args: &[key("key", 0).multiple(), double("timeout")],
    history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
    reply: Shape::OneOf(&[Shape::Tuple(&[Shape::Bulk, Shape::Bulk]), Shape::Null]),
    run: Run::Function(blpop),
    ..Entry::DEFAULT
};

fn blpop(ctx: &mut Ctx) -> CommandResult {
    let [_, keys @ .., timeout] = ctx.args else { unreachable!("the arity says so") };
    pop_or_block(ctx, keys, BLPOP_POP, timeout, serve_blpop)
}

fn serve_blpop(ctx: &mut Ctx, key: &[u8]) -> Result<bool, CommandError> {
    serve_pop(ctx, key, BLPOP_POP)
}

pub(super) const BRPOP: Entry = Entry {
    name: "brpop",
    summary: "Removes and returns the last element in a list. Blocks until an element is available otherwise. \
            Deletes the list if the last element was popped.",
    run: Run::Function(brpop),
    ..BLPOP
};

fn brpop(ctx: &mut Ctx) -> CommandResult {
    let [_, keys @ .., timeout] = ctx.args else { unreachable!("the arity says so") };
    pop_or_block(ctx, keys, BRPOP_POP, timeout, serve_brpop)
}

fn serve_brpop(ctx: &mut Ctx, key: &[u8]) -> Result<bool, CommandError> {
    serve_pop(ctx, key, BRPOP_POP)
}

pub(super) const BLMPOP: Entry = Entry {
    name: "blmpop",
    summary: "Pops the first element from one of multiple lists. Blocks until an element is available \
            otherwise. Deletes the list if the last element was popped.",
    complexity: "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
    since: "7.0.0",
    group: Group::List,
    arity: -5,
    flags: &[Write, Blocking],
    acl: &[Acl::List],
    keys: &[KeySpec::numbered(2, &[RW, Access, Delete])],
    route: Route::KeysInTurn,
    args: &[
        double("timeout"),
        integer("numkeys"),
        key("key", 0).multiple(),
        oneof("where", &[token("left", "LEFT"), token("right", "RIGHT")]),
        integer("count").token("COUNT").optional(),
    ],
    reply: Shape::OneOf(&[Shape::Tuple(&[Shape::Bulk, Shape::BULKS]), Shape::Null]),
    run: Run::Function(blmpop),
    ..Entry::DEFAULT
};

fn blmpop(ctx: &mut Ctx) -> CommandResult {
    let (keys, pop) = parse_several::<ListPop>(&ctx.args[2..])?;
    pop_or_block(ctx, keys, pop, ctx.args[1], serve_blmpop)
}

fn serve_blmpop(ctx: &mut Ctx, key: &[u8]) -> Result<bool, CommandError> {
    let (_, pop) = parse_several::<ListPop>(&ctx.args[2..])?;
    serve_pop(ctx, key, pop)
}

/// Pops for a waiter, and names the command that puts the element back. False, without a reply, if the list
/// does not exist.
fn serve_pop(ctx: &mut Ctx, key: &[u8], pop: ListPop) -> Result<bool, CommandError> {
    let mut restore = ctx.spare_args();
    let Some(list) = ctx.store.peek_as::<List>(key)? else { return Ok(false) };
    // The element that was popped last goes back first.
    let count = room(&ctx.store, key)?.fit(pop.count.unwrap_or(1).min(list.len()));
    let (from, reverse) = match pop.end {
        End::Head => (count as i64 - 1, true),
        End::Tail => (-(count as i64), false),
    };
    {
        let values: SmallVec<[Element; 1]> = list.iter(from, reverse).take(count).collect();
        let mut args: ArgSlices = [push_command(pop.end), key].into_iter().collect();
        args.extend(values.iter().map(|value| &**value));
        restore.set(&args);
    }
    if !pop.try_key(ctx, key)? {
        return Ok(false);
    }
    ctx.restore_with(restore);
    Ok(true)
}

/// The elements that a command pops, and its reply.
pub(crate) trait Pop: Copy {
    /// The type that it pops from.
    const KIND: Kind;

    /// One element from the end that `word` names, with the reply of `LMPOP` or `ZMPOP`.
    fn one(word: &[u8]) -> Result<Self, CommandError>;

    /// This pop for at most `count` elements.
    fn up_to(self, count: usize) -> Self;

    /// Pops from `key`, with the key in the reply. False, without a reply, if the key does not exist.
    fn try_key(self, ctx: &mut Ctx, key: &[u8]) -> Result<bool, CommandError>;
}

/// Reads `numkeys key [key ...] LEFT|RIGHT|MIN|MAX [COUNT count]`.
pub(crate) fn parse_several<'k, 'a, P: Pop>(
    args: &'k [&'a [u8]],
) -> Result<(&'k [&'a [u8]], P), CommandError> {
    let key_count = parse_positive(args[0], CommandError::NUMKEYS_TOO_SMALL)?;
    let (keys, rest) = args[1..].split_at_checked(key_count).ok_or(CommandError::SYNTAX)?;
    let (word, options) = rest.split_first().ok_or(CommandError::SYNTAX)?;
    let pop = P::one(word)?;
    let pop = match *options {
        [] => pop,
        [option, count, ..] if keyword_is(option, "COUNT") => {
            let count = parse_positive(count, CommandError::new("ERR count should be greater than 0"))?;
            if options.len() > 2 {
                return Err(CommandError::SYNTAX);
            }
            pop.up_to(count)
        }
        _ => return Err(CommandError::SYNTAX),
    };
    Ok((keys, pop))
}

fn parse_positive(arg: &[u8], error: CommandError) -> Result<usize, CommandError> {
    parse_count(arg).ok().filter(|number| *number > 0).ok_or(error)
}

/// Pops from the first of `keys` that exists. False, without a reply, if none does.
///
/// A client that may be gone when the reply arrives is served like one that waited, with `owed`, so that
/// elements that it misses are put back.
#[inline]
fn pop_in_turn<P: Pop>(
    ctx: &mut Ctx,
    keys: &[&[u8]],
    pop: P,
    owed: Option<Serve>,
) -> Result<bool, CommandError> {
    for (index, key) in keys.iter().enumerate() {
        if index > 0 {
            ctx.enter_next(key)?;
        }
        let found = match owed {
            Some(serve) if ctx.store.client.may_be_gone && ctx.store.exists(key) => serve(ctx, key)?,
            _ => pop.try_key(ctx, key)?,
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Pops from the first of `keys` that exists, or replies with a null array.
pub(crate) fn pop_or_null<P: Pop>(ctx: &mut Ctx, keys: &[&[u8]], pop: P) -> CommandResult {
    if !pop_in_turn(ctx, keys, pop, None)? {
        ctx.reply.null_array();
    }
    Ok(())
}

/// Pops from the first of `keys` that exists. If none does, the client waits for up to `timeout` seconds (0:
/// forever) and is served by `serve`. A client that may not wait gets a null array.
#[inline]
pub(crate) fn pop_or_block<P: Pop>(
    ctx: &mut Ctx,
    keys: &[&[u8]],
    pop: P,
    timeout: &[u8],
    serve: Serve,
) -> CommandResult {
    let timeout_ms = parse_timeout_in_seconds(timeout, ctx.store.now())?;
    if !pop_in_turn(ctx, keys, pop, Some(serve))? {
        block_or_null(ctx, keys, P::KIND, timeout_ms, serve);
    }
    Ok(())
}

fn block_or_null(ctx: &mut Ctx, keys: &[&[u8]], kind: Kind, timeout_ms: u64, serve: Serve) {
    if !ctx.may_block() {
        return ctx.reply.null_array();
    }
    let (args, when) = (ctx.args, When::Holds(kind));
    ctx.block(&BlockOn {
        args,
        keys,
        when,
        also: None,
        timeout_ms,
        heeds_loss: false,
        serve,
        null_array: true,
    });
}
