//! The commands that pop: LPOP, RPOP and LMPOP; and BLPOP, BRPOP and BLMPOP, which wait if the lists are
//! empty.
//!
//! A waiter is served by the pop that its command would do. The effect is that of the command that does not wait.
//! A pop that owes its elements prepares the command that puts them back if the client turns out to be gone.
//!
//! Sorted sets are popped in the same way (`zset/pop.rs`, `zset/blocking.rs`). Both share [`Pop`] and the
//! functions below it.

use ds::list::{Element, End};

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, ArgSlices, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, Host, KeySpec, OwnedArgs,
    Pace, Removed, Room, Route, Run, Serve, Shape, Store, TakeOrWait, Taking, Took, When, double, integer,
    key, keyword_is, oneof, parse_count, parse_timeout_in_seconds, pop_command, pop_event, push_command,
    take_from, token,
};
use keyspace::Kind;
use keyspace::List;
use keyspace::queue::pop_several_with;
use resp::Reply;
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
    let pop = ListPop { end, count };
    let mut popping = Popping { as_sent: Some(ctx.args), ..pop.popping(&mut ctx.reply, ctx.host) };
    if !take_from(&mut ctx.store, key, &mut popping)? {
        match count {
            None => ctx.reply.null(),
            Some(_) => ctx.reply.null_array(),
        }
    }
    Ok(())
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
    fn try_key(self, ctx: &mut Ctx, key: &[u8], owes: bool) -> Result<bool, CommandError> {
        let mut restore = owes.then(|| ctx.spare_args());
        let popping = self.popping(&mut ctx.reply, ctx.host);
        let mut popping = Popping { key: Some(key), restore: restore.as_mut(), ..popping };
        let is_found = take_from(&mut ctx.store, key, &mut popping)?;
        if let Some(restore) = restore.filter(|_| is_found) {
            ctx.restore_with(restore);
        }
        Ok(is_found)
    }
}

impl ListPop {
    #[inline(always)]
    fn popping<'c, 'r>(self, reply: &'c mut Reply<'r>, host: &'c mut dyn Host) -> Popping<'c, 'r> {
        Popping { pop: self, reply, host, key: None, as_sent: None, restore: None, is_limited: false }
    }
}

/// A pop under way.
struct Popping<'c, 'r> {
    pop: ListPop,
    reply: &'c mut Reply<'r>,
    host: &'c mut dyn Host,
    /// The key, if the reply names it.
    key: Option<&'c [u8]>,
    /// The request, if it is its own effect.
    as_sent: Option<&'c [&'c [u8]]>,
    /// Where the command is put that puts the elements back.
    restore: Option<&'c mut OwnedArgs>,
    /// Whether a limit decided how many elements there are.
    is_limited: bool,
}

impl Taking for Popping<'_, '_> {
    type Value = List;
    const IS_LIMITED: bool = true;

    #[inline(always)]
    fn leaving(&self) -> Option<(End, usize)> {
        Some((self.pop.end, self.pop.count.unwrap_or(1)))
    }

    // One copy for all commands, into which the pop of one element is inlined.
    #[inline(never)]
    fn remove(&mut self, list: &mut List, room: Room) -> Removed {
        let ListPop { end, count } = self.pop;
        self.is_limited = room != Room::ANY;
        let taken = room.fit(count.unwrap_or(1).min(list.len()));
        if let Some(key) = self.key {
            self.reply.array(2);
            self.reply.bulk(key);
            if let Some(restore) = &mut self.restore {
                note_back(restore, key, list, (end, taken));
            }
        }
        if count.is_some() {
            self.reply.array(taken);
        }
        match taken {
            1 => _ = list.pop_with(end, |value| self.reply.bulk(value)),
            _ => self.remove_several(list, end, taken),
        }
        Removed::of(list, taken)
    }

    #[inline(always)]
    fn change(&self, count: usize) -> Change {
        Change::new(Class::List, pop_event(self.pop.end)).times(count)
    }

    #[inline(always)]
    fn effect(&mut self, store: &mut Store, key: &[u8], count: usize) {
        let sent = self.as_sent;
        if let Some(args) = sent.filter(|_| !self.is_limited || self.pop.count.is_none()) {
            return store.effect(args);
        }
        let command = sent.map_or(pop_command(self.pop.end), |args| args[0]);
        match self.pop.count {
            None => store.effect(&[command, key]),
            Some(_) => store.effect(&[command, key, itoa::Buffer::new().format(count).as_bytes()]),
        }
    }
}

impl Popping<'_, '_> {
    #[inline(never)]
    fn remove_several(&mut self, list: &mut List, end: End, count: usize) {
        let mut pace = Pace::new(&mut *self.host);
        pop_several_with(list, end, count, |value| {
            self.reply.bulk(value);
            pace.step();
        });
    }
}

/// Prepares the command that puts `count` elements back, which are about to be popped from one end.
fn note_back(restore: &mut OwnedArgs, key: &[u8], list: &List, (end, count): (End, usize)) {
    // The element that was popped last goes back first.
    let (from, reverse) = match end {
        End::Head => (count as i64 - 1, true),
        End::Tail => (-(count as i64), false),
    };
    let values: SmallVec<[Element; 1]> = list.iter(from, reverse).take(count).collect();
    let mut args: ArgSlices = [push_command(end), key].into_iter().collect();
    args.extend(values.iter().map(|value| &**value));
    restore.set(&args);
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
    pop_or_block(ctx, keys, BLPOP_POP, timeout, |ctx, key| BLPOP_POP.try_key(ctx, key, true))
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
    pop_or_block(ctx, keys, BRPOP_POP, timeout, |ctx, key| BRPOP_POP.try_key(ctx, key, true))
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
    pop_or_block(ctx, keys, pop, ctx.args[1], |ctx, key| {
        let (_, pop) = parse_several::<ListPop>(&ctx.args[2..])?;
        pop.try_key(ctx, key, true)
    })
}

/// The elements that a command pops, and its reply.
pub(crate) trait Pop: Copy {
    /// The type that it pops from.
    const KIND: Kind;

    /// One element from the end that `word` names, with the reply of `LMPOP` or `ZMPOP`.
    fn one(word: &[u8]) -> Result<Self, CommandError>;

    /// This pop for at most `count` elements.
    fn up_to(self, count: usize) -> Self;

    /// Pops from `key`, with the key in the reply. False, without a reply, if the key does not exist. If it `owes`
    /// the elements to a client that may be gone, it names the command that puts them back.
    fn try_key(self, ctx: &mut Ctx, key: &[u8], owes: bool) -> Result<bool, CommandError>;
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

/// Pops from the first of `keys` that exists, or replies with a null array.
pub(crate) fn pop_or_null<P: Pop>(ctx: &mut Ctx, keys: &[&[u8]], pop: P) -> CommandResult {
    run(ctx, keys, pop, None, |_, _| unreachable!("it does not wait"))
}

/// Pops from the first of `keys` that exists. If none does, the client waits for up to `timeout` seconds (0:
/// forever) and is served by `serve`. A client that may not wait gets a null array.
#[inline(always)]
pub(crate) fn pop_or_block<P: Pop>(
    ctx: &mut Ctx,
    keys: &[&[u8]],
    pop: P,
    timeout: &[u8],
    serve: Serve,
) -> CommandResult {
    let timeout_ms = parse_timeout_in_seconds(timeout, ctx.store.now())?;
    run(ctx, keys, pop, Some(timeout_ms), serve)
}

#[inline(always)]
fn run<P: Pop>(
    ctx: &mut Ctx,
    keys: &[&[u8]],
    pop: P,
    timeout_ms: Option<u64>,
    serve: Serve,
) -> CommandResult {
    let (when, owes) = (When::Holds(P::KIND), timeout_ms.is_some());
    let ask = TakeOrWait { keys, order: None, when, also: None, timeout_ms, owes, serve };
    if ctx.take_or_wait(&ask, |ctx, key, owes| pop.try_key(ctx, key, owes))? == Took::Nothing {
        ctx.reply.null_array();
    }
    Ok(())
}
