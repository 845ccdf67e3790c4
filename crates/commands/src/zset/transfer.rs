//! ZMOVE, BZMOVE and ZMOVEMEMBER move members with their scores from one sorted set to another.
//!
//! A member that the destination has already gets the score that it had in the source. Nothing is moved from a set to
//! itself. A move loses nothing if its client is gone, so nothing has to be put back.
//!
//! The effects are ZREM and ZADD with the members that were moved, which any replica knows.

use std::ops::Range;

use ds::zset::{ZSet, ZSetRef};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, ArgSlices, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, Host, KeySpec, Pace,
    Removed, Room, Run, Shape, Store, TakeOrWait, Taking, Took, When, are_any_promoted, block, double,
    integer, key, keyword_is, note_promoted, oneof, parse_count, parse_timeout_in_seconds, string, take_from,
    token,
};
use keyspace::{Kind, Type};
use resp::DoubleBuffer;

use super::span::{By, Span};

/// The most members in one command that is recorded as an effect.
const EFFECT_MEMBERS_MAX: usize = 1024;

const COUNT_NOT_POSITIVE: CommandError = CommandError::fixed("ERR count should be greater than 0");
const NO_MEMBERS: CommandError =
    CommandError::fixed("ERR Mandatory argument MEMBERS is missing or not at the right position");
const NUMBER_NOT_POSITIVE: CommandError =
    CommandError::fixed("ERR Number of members must be a positive integer");
const OTHER_NUMBER: CommandError =
    CommandError::fixed("ERR The `num-members` parameter must match the number of arguments");

/// The members that were moved, or null.
const MOVED: Shape = Shape::OneOf(&[Shape::BULKS, Shape::Null]);

pub(super) const ZMOVE: Entry = Entry {
    name: "zmove",
    summary: "Moves highest- or lowest-scoring members, or a score range of members, from one sorted set to \
            another, preserving scores. Deletes the source sorted set if the last member was moved.",
    complexity: "O(log(N) + K*(log(N)+log(M))) where N and M are the source and destination sizes and K is the \
            number of moved members.",
    since: "8.12.0",
    group: Group::SortedSet,
    arity: -4,
    flags: &[Write, DenyOom],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[RW, Access, Delete]), KeySpec::one(2, &[RW, Update])],
    args: &[
        key("source", 0),
        key("destination", 1),
        oneof(
            "selection",
            &[
                token("min", "MIN"),
                token("max", "MAX"),
                block("score-range", &[double("score-min"), double("score-max")]).token("BYSCORE"),
            ],
        ),
        integer("count").token("COUNT").optional(),
    ],
    reply: MOVED,
    run: Run::Function(zmove),
    ..Entry::DEFAULT
};

fn zmove(ctx: &mut Ctx) -> CommandResult {
    let (choice, rest) = Choice::parse(&ctx.args[3..])?;
    let choice = choice.limited(rest)?;
    if !try_move(ctx, choice)? {
        ctx.reply.null_array();
    }
    Ok(())
}

pub(super) const BZMOVE: Entry = Entry {
    name: "bzmove",
    summary: "Moves highest- or lowest-scoring members from one sorted set to another, preserving scores. Blocks \
            until a member is available otherwise. Deletes the source sorted set if the last member was moved.",
    complexity: "O(K*(log(N)+log(M))) where K is the number of moved members and N and M are the source and \
            destination sizes.",
    arity: -5,
    flags: &[Write, DenyOom, Blocking],
    args: &[
        key("source", 0),
        key("destination", 1),
        oneof("where", &[token("min", "MIN"), token("max", "MAX")]),
        double("timeout"),
        integer("count").token("COUNT").optional(),
    ],
    run: Run::Function(bzmove),
    ..ZMOVE
};

fn bzmove(ctx: &mut Ctx) -> CommandResult {
    let choice = blocking_choice(ctx.args)?;
    let timeout_ms = Some(parse_timeout_in_seconds(ctx.args[4], ctx.store.now())?);
    let (keys, also) = (&ctx.args[1..2], Some(ctx.args[2]));
    // From a set to itself nothing is moved, now or later.
    let timeout_ms = timeout_ms.filter(|_| ctx.args[1] != ctx.args[2]);
    let when = When::Holds(Kind::ZSet);
    let ask = TakeOrWait { keys, order: None, when, also, timeout_ms, owes: false, serve: serve_bzmove };
    if ctx.take_or_wait(&ask, |ctx, _, _| try_move(ctx, choice))? == Took::Nothing {
        ctx.reply.null_array();
    }
    Ok(())
}

fn serve_bzmove(ctx: &mut Ctx, _: &[u8]) -> Result<bool, CommandError> {
    let choice = blocking_choice(ctx.args)?;
    try_move(ctx, choice)
}

fn blocking_choice<'a>(args: &[&'a [u8]]) -> Result<Choice<'a>, CommandError> {
    let (choice, _) = Choice::parse(&args[3..4])?;
    choice.limited(&args[5..])
}

/// The members to move.
#[derive(Clone, Copy)]
struct Choice<'a> {
    which: Which<'a>,
    /// The most members; not 0.
    count: usize,
}

#[derive(Clone, Copy)]
enum Which<'a> {
    Lowest,
    Highest,
    Within(Span<'a>),
}

impl<'a> Choice<'a> {
    /// Parses `MIN`, `MAX` or `BYSCORE min max`; also returns the arguments after it.
    fn parse<'k>(args: &'k [&'a [u8]]) -> Result<(Choice<'a>, &'k [&'a [u8]]), CommandError> {
        match *args {
            [word, ref rest @ ..] if keyword_is(word, "MIN") => {
                Ok((Choice { which: Which::Lowest, count: 1 }, rest))
            }
            [word, ref rest @ ..] if keyword_is(word, "MAX") => {
                Ok((Choice { which: Which::Highest, count: 1 }, rest))
            }
            [word, min, max, ref rest @ ..] if keyword_is(word, "BYSCORE") => {
                let which = Which::Within(Span::parse(By::Score, min, max)?);
                Ok((Choice { which, count: usize::MAX }, rest))
            }
            _ => Err(CommandError::SYNTAX),
        }
    }

    /// This choice with `[COUNT count]`.
    fn limited(self, args: &[&[u8]]) -> Result<Choice<'a>, CommandError> {
        match *args {
            [] => Ok(self),
            [word, count] if keyword_is(word, "COUNT") => {
                let count = parse_count(count).ok().filter(|count| *count > 0).ok_or(COUNT_NOT_POSITIVE)?;
                Ok(Choice { count, ..self })
            }
            _ => Err(CommandError::SYNTAX),
        }
    }

    /// The ranks of the members of `zset` that it takes.
    fn ranks(&self, zset: ZSetRef<'_>) -> Range<usize> {
        let len = zset.len();
        match self.which {
            Which::Lowest => 0..self.count.min(len),
            Which::Highest => len.saturating_sub(self.count)..len,
            Which::Within(span) => {
                let ranks = span.ranks(zset, false);
                ranks.start..ranks.end.min(ranks.start.saturating_add(self.count)).max(ranks.start)
            }
        }
    }
}

type Members = Vec<(Vec<u8>, f64)>;

/// Moves members from the set at argument 1 to the set at argument 2, and replies with them. False, without a reply,
/// if there are none.
fn try_move(ctx: &mut Ctx, choice: Choice) -> Result<bool, CommandError> {
    let (source, destination) = (ctx.args[1], ctx.args[2]);
    let refused = ctx.store.peek_as::<ZSet>(destination).err();
    if source == destination {
        return refused.map_or(Ok(false), Err);
    }
    let host = &mut *ctx.host;
    let mut moving = Moving { destination, choice, refused, moved: Vec::new(), host };
    take_from(&mut ctx.store, source, &mut moving)?;
    let moved = moving.moved;
    if moved.is_empty() {
        return Ok(false);
    }
    ctx.reply.array(moved.len());
    moved.iter().for_each(|(member, _)| ctx.reply.bulk(member));
    Ok(true)
}

/// A move under way.
struct Moving<'a, 'h> {
    destination: &'a [u8],
    choice: Choice<'a>,
    /// Why nothing can be added to the destination.
    refused: Option<CommandError>,
    moved: Members,
    host: &'h mut dyn Host,
}

impl Taking for Moving<'_, '_> {
    type Value = ZSet;
    const IS_LIMITED: bool = false;

    fn refusal(&mut self) -> Option<CommandError> {
        self.refused.take()
    }

    fn remove(&mut self, mut zset: <ZSet as Type>::Mut<'_>, _: Room) -> Removed {
        let ranks = self.choice.ranks(zset.lend());
        let mut pace = Pace::new(&mut *self.host);
        let count = zset.remove_rank_range(ranks, &mut |member, score| {
            self.moved.push((member.to_vec(), score));
            pace.step();
        });
        if matches!(self.choice.which, Which::Highest) {
            self.moved.reverse();
        }
        Removed { count, is_empty: zset.lend().is_empty() }
    }

    fn place(&mut self, store: &mut Store) -> Result<(), CommandError> {
        place(store, self.destination, &self.moved)
    }

    /// The additions count as the change.
    fn change(&self, _: usize) -> Change {
        Change::new(Class::ZSet, "zrem").times(0)
    }

    fn effect(&mut self, store: &mut Store, key: &[u8], _: usize) {
        state_move(store, key, self.destination, &self.moved);
    }
}

/// Adds members to the destination, and announces that; the effect is that of the removal.
fn place(store: &mut Store, destination: &[u8], members: &Members) -> Result<(), CommandError> {
    let limits = store.config().zset;
    let mut zset = store.upsert::<ZSet>(destination)?;
    for (member, score) in members {
        zset.insert(member, *score, &limits);
    }
    drop(zset);
    store.also_changed(destination, Change::new(Class::ZSet, "zadd").times(members.len()));
    if are_any_promoted(store) {
        note_promoted(store, destination);
    }
    Ok(())
}

/// Records a move.
fn state_move(store: &mut Store, source: &[u8], destination: &[u8], members: &Members) {
    for some in members.chunks(EFFECT_MEMBERS_MAX) {
        let mut effect: ArgSlices = [&b"ZREM"[..], source].into_iter().collect();
        effect.extend(some.iter().map(|(member, _)| &**member));
        store.effect(&effect);
        let mut buffers: Vec<DoubleBuffer> = some.iter().map(|_| DoubleBuffer::new()).collect();
        let scores = buffers.iter_mut().zip(some).map(|(buffer, (_, score))| buffer.format(*score));
        let mut effect: ArgSlices = [&b"ZADD"[..], destination].into_iter().collect();
        for ((member, _), score) in some.iter().zip(scores) {
            effect.extend([score.as_bytes(), &**member]);
        }
        store.effect(&effect);
    }
}

pub(super) const ZMOVEMEMBER: Entry = Entry {
    name: "zmovemember",
    summary: "Moves specified members from one sorted set to another, preserving scores. Can restrict moves to \
            members absent from or present in the destination. Deletes the source sorted set if the last member was \
            moved.",
    complexity: "O(K*(log(N)+log(M))) where K is the number of given members and N and M are the source and \
            destination sizes.",
    arity: -6,
    args: &[
        key("source", 0),
        key("destination", 1),
        oneof("condition", &[token("nx", "NX"), token("xx", "XX")]).optional(),
        block("members", &[integer("num-members"), string("member").multiple()]).token("MEMBERS"),
    ],
    run: Run::Function(zmovemember),
    ..ZMOVE
};

fn zmovemember(ctx: &mut Ctx) -> CommandResult {
    let (source, destination) = (ctx.args[1], ctx.args[2]);
    let (must_be_there, rest) = match &ctx.args[3..] {
        [word, rest @ ..] if keyword_is(word, "NX") => (Some(false), rest),
        [word, rest @ ..] if keyword_is(word, "XX") => (Some(true), rest),
        rest => (None, rest),
    };
    let members = parse_members(rest)?;
    if ctx.store.write_as::<ZSet>(source)?.is_none() {
        ctx.reply.null_array();
        return Ok(());
    }
    ctx.store.peek_as::<ZSet>(destination)?;
    let (mut moved, mut pace) = (Members::new(), Pace::new(ctx.host));
    for member in members.iter().filter(|_| source != destination) {
        pace.step();
        let has =
            |key: &[u8]| ctx.store.peek_as::<ZSet>(key).map(|zset| zset.and_then(|zset| zset.score(member)));
        let Some(score) = has(source)? else { continue };
        if must_be_there.is_some() && must_be_there != Some(has(destination)?.is_some()) {
            continue;
        }
        if let Some(mut zset) = ctx.store.write_as::<ZSet>(source)? {
            zset.remove(member);
        }
        moved.push((member.to_vec(), score));
    }
    if moved.is_empty() {
        ctx.reply.null_array();
        return Ok(());
    }
    place(&mut ctx.store, destination, &moved)?;
    let change = Change::new(Class::ZSet, "zrem").times(0);
    ctx.store.changed_with(source, change, |store| state_move(store, source, destination, &moved));
    ctx.store.delete_if_empty(source);
    ctx.reply.array(moved.len());
    moved.iter().for_each(|(member, _)| ctx.reply.bulk(member));
    Ok(())
}

/// Parses `MEMBERS number member …`.
fn parse_members<'k, 'a>(args: &'k [&'a [u8]]) -> Result<&'k [&'a [u8]], CommandError> {
    let [word, number, members @ ..] = args else { return Err(NO_MEMBERS) };
    if !keyword_is(word, "MEMBERS") {
        return Err(NO_MEMBERS);
    }
    let number = parse_count(number).ok().filter(|number| *number > 0).ok_or(NUMBER_NOT_POSITIVE)?;
    if number == members.len() { Ok(members) } else { Err(OTHER_NUMBER) }
}
