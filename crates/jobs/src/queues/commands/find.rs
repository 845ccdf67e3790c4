//! QUEUE FIND: elements that contain a text, or the job with an id.
//!
//! A list is searched from the end where elements are added towards the end where workers take. The cursor is
//! the number of unread elements at the latter end. So elements added in the meantime do not shift it, and
//! each element taken in the meantime makes the search read one element twice, never skip one. (Only elements
//! that are put back where workers take may be missed, as many as were put back.)
//!
//! A sorted set is searched from the lowest score. The cursor is a score, and the number of its members that
//! were read.

use ds::list::End;

use ds::zset::{ScoreBound, ZSetRef};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Group, KeySpec, Shape, integer, key, keyword_is, oneof, parse_cursor,
    parse_f64, string,
};
use keyspace::List;
use keyspace::ValueRef;

use super::{COUNT_DEFAULT, FOUND, parse_count, reply_found, wrong_type};
use crate::queues::ends::popping_end;
use crate::queues::pattern::Pattern;
use crate::queues::slices::{self, Found, Place, Position, Progress, ScoredPlace, Step};
use crate::queues::{Ctx, Entry, Run};

/// A search that has worked this long replies with what it has found, and a cursor.
const WORK_NS_MAX: u64 = 50_000_000;
/// A search that has found this many bytes also replies, with a cursor.
const FOUND_BYTES_MAX: usize = 1 << 20;
/// Members of a sorted set that one step reads.
const STEP_MEMBERS: usize = 16;

pub(super) const FIND: Entry = Entry {
    name: "find",
    summary: "Returns the elements of a queue that contain a text, or the job with an id, and a cursor for the next call.",
    complexity: "O(N) where N is the number of elements searched, in slices that hold up nobody.",
    since: "7.2.0",
    group: Group::Queue,
    arity: -5,
    flags: &[ReadOnly],
    acl: &[Acl::Queue],
    keys: &[KeySpec::one(2, &[RO, Access])],
    mode: engine::Mode::Session,
    args: &[
        key("queue", 0),
        oneof("wanted", &[string("text").token("TEXT"), string("id").token("ID")]),
        string("cursor").token("CURSOR").optional(),
        integer("count").token("COUNT").optional(),
    ],
    reply: Shape::Tuple(&[Shape::Bulk, FOUND]),
    run: Run::Function(find),
    ..Entry::DEFAULT
};

struct Call<'a> {
    key: &'a [u8],
    pattern: Pattern<'a>,
    cursor: Cursor,
    count: usize,
}

/// Where a client asks a search to begin.
#[derive(Clone, Copy)]
enum Cursor {
    Begin,
    Unread(usize),
    Scored(f64, usize),
}

impl<'a> Call<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<Self, CommandError> {
        let [_, _, key, word, value, ref options @ ..] = *args else { return Err(CommandError::SYNTAX) };
        let pattern = Pattern::parse(word, value)?.ok_or(CommandError::SYNTAX)?;
        let mut call = Call { key, pattern, cursor: Cursor::Begin, count: COUNT_DEFAULT };
        for option in options.chunks(2) {
            match *option {
                [word, value] if keyword_is(word, "cursor") => call.cursor = Cursor::parse(value)?,
                [word, value] if keyword_is(word, "count") => call.count = parse_count(value)?,
                _ => return Err(CommandError::SYNTAX),
            }
        }
        Ok(call)
    }
}

impl Cursor {
    fn parse(text: &[u8]) -> Result<Cursor, CommandError> {
        const INVALID: CommandError = CommandError::fixed("ERR invalid cursor");
        if let Some(colon) = text.iter().position(|byte| *byte == b':') {
            let score = parse_f64(&text[..colon]).map_err(|_| INVALID)?;
            let ties = parse_cursor(&text[colon + 1..])?;
            return Ok(Cursor::Scored(score, ties as usize));
        }
        Ok(match parse_cursor(text)? {
            0 => Cursor::Begin,
            unread => Cursor::Unread(usize::try_from(unread).unwrap_or(usize::MAX)),
        })
    }
}

fn find(ctx: &mut Ctx) -> CommandResult {
    let call = Call::parse(ctx.args)?;
    slices::run(
        ctx,
        |ctx, progress, _| {
            let step = search(ctx, &call, progress)?;
            let is_enough = progress.found.len() >= call.count
                || progress.found_bytes >= FOUND_BYTES_MAX
                || progress.worked_ns >= WORK_NS_MAX;
            Ok(if is_enough { Step::End } else { step })
        },
        |ctx, progress| {
            let cursor = cursor_of(ctx, &call, progress);
            ctx.reply.array(2);
            ctx.reply.bulk(&cursor);
            reply_found(ctx, &progress.found);
            Ok(())
        },
    )
}

/// Reads a node of a list, or a few members of a sorted set.
fn search(ctx: &mut Ctx, call: &Call<'_>, progress: &mut Progress) -> Result<Step, CommandError> {
    let end = popping_end(&ctx.store, call.key);
    // Counts as one use of the key, regardless of the number of slices.
    let value = if progress.is_begun {
        ctx.store.peek(call.key).map(|record| record.value())
    } else {
        ctx.store.read(call.key)
    };
    match value {
        None => {
            progress.place = Place::Unread(0);
            Ok(Step::End)
        }
        Some(ValueRef::List(list)) => Ok(search_list(list, end, call, progress)),
        Some(ValueRef::ZSet(zset)) => Ok(search_zset(zset, call, progress)),
        Some(other) => Err(wrong_type(other.kind())),
    }
}

fn search_list(list: &List, end: End, call: &Call<'_>, progress: &mut Progress) -> Step {
    let (end, len) = (end, list.len());
    let unread = match (&progress.place, call.cursor) {
        (Place::Unread(unread), _) => (*unread).min(len),
        (_, Cursor::Unread(unread)) => unread.min(len),
        _ => len,
    };
    if unread == 0 {
        progress.place = Place::Unread(0);
        return Step::End;
    }
    let index = match end {
        End::Head => unread - 1,
        End::Tail => len - unread,
    };
    let (at, within) = list.locate(index);
    let first = index - within;
    let unread = list.read_node(at, |node| {
        let behind = match end {
            End::Head => first,
            End::Tail => len - first - node.count(),
        };
        if !call.pattern.may_be_in(node.bytes()) {
            return behind;
        }
        let is_unread = |(place, _): &(usize, &[u8])| match end {
            End::Head => *place <= within,
            End::Tail => *place >= within,
        };
        let wanted = |(_, element): &(usize, &[u8])| call.pattern.matches(element);
        let mut hits: Vec<(usize, &[u8])> =
            (0..).zip(node.elements()).filter(is_unread).filter(wanted).collect();
        if end == End::Head {
            hits.reverse();
        }
        for (place, element) in hits {
            let index = first + place;
            let (shown, behind) = match end {
                End::Head => (index as i64, index),
                End::Tail => (index as i64 - len as i64, len - index - 1),
            };
            progress.note(Position::Index(shown), element);
            if progress.found.len() >= call.count || progress.found_bytes >= FOUND_BYTES_MAX {
                return behind;
            }
        }
        behind
    });
    progress.place = Place::Unread(unread);
    if unread == 0 { Step::End } else { Step::More }
}

fn search_zset(zset: ZSetRef<'_>, call: &Call<'_>, progress: &mut Progress) -> Step {
    let rank = match (&progress.place, call.cursor) {
        (Place::Scored(place), _) => place.rank(zset),
        (_, Cursor::Scored(score, ties)) => ScoredPlace { score, ties, member: None }.rank(zset),
        _ => 0,
    };
    let mut last = None;
    for (member, score) in zset.iter_from_rank(rank, false).take(STEP_MEMBERS) {
        let is_found = call.pattern.matches(&member);
        if is_found {
            progress.note(Position::Score(score), &member);
        }
        last = Some((member, score));
        let is_enough = progress.found.len() >= call.count || progress.found_bytes >= FOUND_BYTES_MAX;
        if is_found && is_enough {
            break;
        }
    }
    let next = last.and_then(|(member, score)| {
        let next = zset.rank(&member)? + 1;
        let ties = next - zset.score_range(ScoreBound::Inclusive(score), ScoreBound::Inclusive(score)).start;
        progress.place = Place::Scored(ScoredPlace { score, ties, member: Some(member.into()) });
        (next < zset.len()).then_some(next)
    });
    if next.is_some() {
        return Step::More;
    }
    progress.place = Place::Unread(0);
    Step::End
}

/// The cursor to continue with; `0` if the search has reached the end.
fn cursor_of(ctx: &Ctx, call: &Call<'_>, progress: &Progress) -> Vec<u8> {
    match &progress.place {
        Place::Unread(unread) => itoa::Buffer::new().format(*unread).into(),
        Place::Scored(place) if ctx.store.exists(call.key) => {
            let mut text = Vec::new();
            resp::format_double(place.score, &mut text);
            text.push(b':');
            text.extend_from_slice(itoa::Buffer::new().format(place.ties).as_bytes());
            text
        }
        Place::Scored(_) | Place::Begin | Place::Behind(..) => b"0".to_vec(),
    }
}

impl Progress {
    fn note(&mut self, position: Position, element: &[u8]) {
        self.found_bytes += element.len();
        self.found.push(Found { position, payload: element.into() });
    }
}
