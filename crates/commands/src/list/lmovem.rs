//! LMOVEM moves several elements from an end of a list to an end of the same or another list. BLMOVEM waits until there
//! are enough. A move loses nothing if its client is gone, so nothing has to be put back.
//!
//! ```text
//! a b c d ─ from LEFT, COUNT 2 ─→ block a b      BULK:  the block keeps its order wherever it goes
//! a b c d ─ from RIGHT, COUNT 2 → block c d      OBO:   as if moved one by one, so it turns round
//!                                                       if it goes to the end that it came from
//! ```
//!
//! A queue whose rate is limited looks as if it had no more elements than may be taken. `EXACTLY` moves all or nothing.
//!
//! The effect is a pop and pushes, which any replica knows. Within one list, LMOVE would not always give the same order.

use ds::list::End;

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, Host, KeySpec, Pace, Removed, Room,
    Run, Shape, Store, TakeOrWait, Taking, Took, When, block, double, integer, key, keyword_is, note_place,
    oneof, parse_count, parse_timeout_in_seconds, pop_command, pop_event, room, take_from, token,
};
use keyspace::queue::pop_several_with;
use keyspace::{Kind, List};
use smallvec::SmallVec;

use super::parse_end;
use super::push::{push_moved, state_pushes};

pub(super) const LMOVEM: Entry = Entry {
    name: "lmovem",
    summary: "Moves up to (or exactly) a number of elements from one list to another and returns them. Deletes the \
            source list if it becomes empty.",
    complexity: "O(N) where N is the number of elements moved.",
    since: "8.10.0",
    group: Group::List,
    arity: -5,
    flags: &[Write, DenyOom],
    acl: &[Acl::List],
    keys: &[KeySpec::one(1, &[RW, Access, Delete]), KeySpec::one(2, &[RW, Insert])],
    args: &[
        key("source", 0),
        key("destination", 1),
        oneof("wherefrom", &[token("left", "LEFT"), token("right", "RIGHT")]),
        oneof("whereto", &[token("left", "LEFT"), token("right", "RIGHT")]),
        block(
            "how-many",
            &[
                oneof("selector", &[integer("count").token("COUNT"), integer("exactly").token("EXACTLY")]),
                oneof("ordering", &[token("obo", "OBO"), token("bulk", "BULK")]),
            ],
        )
        .optional(),
    ],
    reply: Shape::OneOf(&[Shape::BULKS, Shape::Null]),
    run: Run::Function(lmovem),
    ..Entry::DEFAULT
};

fn lmovem(ctx: &mut Ctx) -> CommandResult {
    let request = MoveRequest::parse(ctx.args, 5)?;
    if !try_move(ctx, request)? {
        ctx.reply.null_array();
    }
    Ok(())
}

pub(super) const BLMOVEM: Entry = Entry {
    name: "blmovem",
    summary: "Moves up to (or exactly) a number of elements from one list to another and returns them. Blocks until \
            the elements are available otherwise. Deletes the source list if it becomes empty.",
    arity: -6,
    flags: &[Write, DenyOom, Blocking],
    args: &[
        key("source", 0),
        key("destination", 1),
        oneof("wherefrom", &[token("left", "LEFT"), token("right", "RIGHT")]),
        oneof("whereto", &[token("left", "LEFT"), token("right", "RIGHT")]),
        double("timeout"),
        block(
            "how-many",
            &[
                oneof("selector", &[integer("count").token("COUNT"), integer("exactly").token("EXACTLY")]),
                oneof("ordering", &[token("obo", "OBO"), token("bulk", "BULK")]),
            ],
        )
        .optional(),
    ],
    run: Run::Function(blmovem),
    ..LMOVEM
};

fn blmovem(ctx: &mut Ctx) -> CommandResult {
    let request = MoveRequest::parse(ctx.args, 6)?;
    let timeout_ms = Some(parse_timeout_in_seconds(ctx.args[5], ctx.store.now())?);
    let (keys, also) = (&ctx.args[1..2], Some(ctx.args[2]));
    let when = match request.least() {
        1 => When::Holds(Kind::List),
        _ => When::Suffices(has_enough),
    };
    let ask = TakeOrWait { keys, order: None, when, also, timeout_ms, owes: false, serve: serve_blmovem };
    if ctx.take_or_wait(&ask, |ctx, _, _| try_move(ctx, request))? == Took::Nothing {
        ctx.reply.null_array();
    }
    Ok(())
}

fn serve_blmovem(ctx: &mut Ctx, _: &[u8]) -> Result<bool, CommandError> {
    let request = MoveRequest::parse(ctx.args, 6)?;
    try_move(ctx, request)
}

/// Whether a BLMOVEM with these arguments gets all that it waits for.
fn has_enough(store: &Store, args: &[&[u8]], key: &[u8]) -> bool {
    let (Ok(request), Ok(Some(list))) = (MoveRequest::parse(args, 6), store.peek_as::<List>(key)) else {
        return false;
    };
    // If the limit cannot be read, the client is to get the error.
    room(store, key, true).map_or(true, |room| room.fit(list.len()) >= request.least())
}

/// What is to be moved, and where.
#[derive(Clone, Copy)]
struct MoveRequest {
    from: End,
    to: End,
    /// The most elements to move; not 0.
    count: usize,
    /// Whether fewer are not moved either.
    is_exact: bool,
    /// Whether they are moved as if one by one.
    one_by_one: bool,
}

impl MoveRequest {
    /// Parses the ends, and the optional words at argument `at`.
    fn parse(args: &[&[u8]], at: usize) -> Result<MoveRequest, CommandError> {
        let (from, to) = (parse_end(args[3])?, parse_end(args[4])?);
        let request = MoveRequest { from, to, count: 1, is_exact: false, one_by_one: true };
        let [selector, count, order] = args[at..] else {
            return if args.len() == at { Ok(request) } else { Err(CommandError::SYNTAX) };
        };
        let is_exact = keyword_is(selector, "EXACTLY");
        let one_by_one = keyword_is(order, "OBO");
        if !(is_exact || keyword_is(selector, "COUNT")) || !(one_by_one || keyword_is(order, "BULK")) {
            return Err(CommandError::SYNTAX);
        }
        let count = parse_count(count).ok().filter(|count| *count > 0);
        let count = count.ok_or(CommandError::fixed("ERR count should be greater than 0"))?;
        Ok(MoveRequest { from, to, count, is_exact, one_by_one })
    }

    /// The fewest elements that are moved, if any.
    fn least(self) -> usize {
        if self.is_exact { self.count } else { 1 }
    }

    /// Whether the elements lie at the destination, from its head on, in the order in which they are popped.
    fn keeps_pop_order(self) -> bool {
        let turns = self.one_by_one && self.from == self.to;
        (self.from == End::Head) != turns
    }
}

/// Moves elements from the key at argument 1 to the key at argument 2, and replies with them. False, without a reply,
/// if there are not enough.
#[inline(never)]
fn try_move(ctx: &mut Ctx, request: MoveRequest) -> Result<bool, CommandError> {
    let (source, destination) = (ctx.args[1], ctx.args[2]);
    note_place(&mut ctx.store, source);
    let refused = ctx.store.peek_as::<List>(destination).err();
    let (popped, host) = (Popped::default(), &mut *ctx.host);
    let mut moving = Moving { source, destination, request, refused, popped, was_all: false, host };
    take_from(&mut ctx.store, source, &mut moving)?;
    let popped = moving.popped;
    if popped.ends.is_empty() {
        return Ok(false);
    }
    ctx.reply.array(popped.ends.len());
    popped.in_order(request.keeps_pop_order()).iter().for_each(|element| ctx.reply.bulk(element));
    Ok(true)
}

/// The elements of a move, in the order in which they were popped.
#[derive(Default)]
struct Popped {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Popped {
    fn add(&mut self, element: &[u8]) {
        self.bytes.extend_from_slice(element);
        self.ends.push(self.bytes.len());
    }

    /// The elements, as popped or the other way round.
    fn in_order(&self, as_popped: bool) -> SmallVec<[&[u8]; 16]> {
        let mut start = 0;
        let part = |&end: &usize| &self.bytes[std::mem::replace(&mut start, end)..end];
        let mut elements: SmallVec<[&[u8]; 16]> = self.ends.iter().map(part).collect();
        if !as_popped {
            elements.reverse();
        }
        elements
    }
}

/// A move under way.
struct Moving<'a, 'h> {
    source: &'a [u8],
    destination: &'a [u8],
    request: MoveRequest,
    /// Why nothing can be pushed to the destination.
    refused: Option<CommandError>,
    popped: Popped,
    /// Whether the list had no other elements.
    was_all: bool,
    host: &'h mut dyn Host,
}

impl Moving<'_, '_> {
    /// The elements in the order in which they are pushed to the destination.
    fn pushed(&self) -> SmallVec<[&[u8]; 16]> {
        self.popped.in_order(self.request.keeps_pop_order() == (self.request.to == End::Tail))
    }
}

impl Taking for Moving<'_, '_> {
    type Value = List;
    const IS_LIMITED: bool = true;

    fn refusal(&mut self) -> Option<CommandError> {
        self.refused.take()
    }

    fn remove(&mut self, list: &mut List, room: Room) -> Removed {
        let available = room.fit(list.len());
        let count = match self.request.least() <= available {
            true => self.request.count.min(available),
            false => 0,
        };
        let mut pace = Pace::new(&mut *self.host);
        pop_several_with(list, self.request.from, count, |element| {
            self.popped.add(element);
            pace.step();
        });
        self.was_all = list.is_empty();
        Removed::of(list, count)
    }

    fn place(&mut self, store: &mut Store) -> Result<(), CommandError> {
        push_moved(store, self.destination, self.request.to, &self.pushed())
    }

    /// The pushes count as the change.
    fn change(&self, _: usize) -> Change {
        Change::new(Class::List, pop_event(self.request.from)).times(0)
    }

    fn effect(&mut self, store: &mut Store, _: &[u8], count: usize) {
        let mut number = itoa::Buffer::new();
        let mut pop = |store: &mut Store, end: End| {
            store.effect(&[pop_command(end), self.source, number.format(count).as_bytes()]);
        };
        let MoveRequest { from, to, .. } = self.request;
        if self.source == self.destination && self.was_all {
            // A pop would delete the list, and with it its expiry: the elements in their new order come first.
            let in_order = self.popped.in_order(self.request.keeps_pop_order());
            state_pushes(store, self.destination, End::Tail, &in_order);
            return pop(store, End::Head);
        }
        pop(store, from);
        state_pushes(store, self.destination, to, &self.pushed());
    }
}
