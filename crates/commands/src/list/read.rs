//! The commands that only read a list.

use ds::list::visit_ahead;

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, integer, key, keyword_is,
    parse_i64, string,
};
use keyspace::List;

use crate::index_range::index_range;

pub(super) const LLEN: Entry = Entry {
    name: "llen",
    summary: "Returns the length of a list.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::List,
    arity: 2,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::List],
    keys: &[KeySpec::one(1, &[RO])],
    args: &[key("key", 0)],
    reply: Shape::Int,
    run: Run::Function(llen),
    ..Entry::DEFAULT
};

fn llen(ctx: &mut Ctx) -> CommandResult {
    let len = ctx.store.read_as::<List>(ctx.args[1])?.map_or(0, |list| list.len());
    ctx.reply.int(len as i64);
    Ok(())
}

pub(super) const LINDEX: Entry = Entry {
    name: "lindex",
    summary: "Returns an element from a list by its index.",
    complexity: "O(N) where N is the number of elements to traverse to get to the element at index. This makes \
            asking for the first or the last element of the list O(1).",
    since: "1.0.0",
    group: Group::List,
    arity: 3,
    flags: &[ReadOnly],
    acl: &[Acl::List],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), integer("index")],
    reply: Shape::BULK_OR_NULL,
    run: Run::Function(lindex),
    ..Entry::DEFAULT
};

fn lindex(ctx: &mut Ctx) -> CommandResult {
    let value = match ctx.store.read_as::<List>(ctx.args[1])? {
        None => None,
        Some(list) => list.get(parse_i64(ctx.args[2])?),
    };
    match value {
        None => ctx.reply.null(),
        Some(value) => ctx.reply.bulk(&value),
    }
    Ok(())
}

pub(super) const LRANGE: Entry = Entry {
    name: "lrange",
    summary: "Returns a range of elements from a list.",
    complexity: "O(S+N) where S is the distance of start offset from HEAD for small lists, from nearest end (HEAD \
            or TAIL) for large lists; and N is the number of elements in the specified range.",
    since: "1.0.0",
    group: Group::List,
    arity: 4,
    flags: &[ReadOnly],
    acl: &[Acl::List],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), integer("start"), integer("stop")],
    reply: Shape::BULKS,
    run: Run::Function(lrange),
    ..Entry::DEFAULT
};

fn lrange(ctx: &mut Ctx) -> CommandResult {
    let (start, stop) = (parse_i64(ctx.args[2])?, parse_i64(ctx.args[3])?);
    let Some(list) = ctx.store.read_as::<List>(ctx.args[1])? else {
        ctx.reply.array(0);
        return Ok(());
    };
    let range = index_range(start, stop, list.len());
    ctx.reply.array(range.len());
    let mut pace = Pace::new(ctx.host);
    ctx.reply.bulks(|bulks| {
        visit_ahead(list, range, |bytes, len| {
            bulks.push_ahead(bytes, len);
            pace.step();
        });
    });
    Ok(())
}

pub(super) const LPOS: Entry = Entry {
    name: "lpos",
    summary: "Returns the index of matching elements in a list.",
    complexity: "O(N) where N is the number of elements in the list, for the average case. When searching for \
            elements near the head or the tail of the list, or when the MAXLEN option is provided, the \
            command may run in constant time.",
    since: "6.0.6",
    group: Group::List,
    arity: -3,
    flags: &[ReadOnly],
    acl: &[Acl::List],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[
        key("key", 0),
        string("element"),
        integer("rank").token("RANK").optional(),
        integer("num-matches").token("COUNT").optional(),
        integer("len").token("MAXLEN").optional(),
    ],
    reply: Shape::OneOf(&[Shape::Int, Shape::Null, Shape::Array(&Shape::Int)]),
    run: Run::Function(lpos),
    ..Entry::DEFAULT
};

fn lpos(ctx: &mut Ctx) -> CommandResult {
    let search = Search::parse(&ctx.args[3..])?;
    let list = ctx.store.read_as::<List>(ctx.args[1])?;
    let mut pace = Pace::new(ctx.host);
    let mut matches = list.map(|list| search.matches(list, ctx.args[2], &mut pace)).into_iter().flatten();
    let Some(count) = search.count else {
        match matches.next() {
            None => ctx.reply.null(),
            Some(index) => ctx.reply.int(index),
        }
        return Ok(());
    };
    let count_max = if count == 0 { usize::MAX } else { count };
    let mark = ctx.reply.deferred();
    let mut found = 0;
    for index in matches.take(count_max) {
        ctx.reply.int(index);
        found += 1;
    }
    ctx.reply.finish_array(mark, found);
    Ok(())
}

/// The options of LPOS.
struct Search {
    /// The number of matches to skip.
    skip: usize,
    /// Whether to search from the tail to the head.
    reverse: bool,
    /// The number of matches to report, 0 for all. If given, the reply is an array.
    count: Option<usize>,
    /// The number of elements to compare.
    len_max: usize,
}

impl Search {
    fn parse(options: &[&[u8]]) -> Result<Search, CommandError> {
        let mut search = Search { skip: 0, reverse: false, count: None, len_max: usize::MAX };
        for option in options.chunks(2) {
            let &[name, value] = option else { return Err(CommandError::SYNTAX) };
            if keyword_is(name, "rank") {
                let rank = parse_rank(value)?;
                (search.skip, search.reverse) = (rank.unsigned_abs() as usize - 1, rank < 0);
            } else if keyword_is(name, "count") {
                search.count = Some(parse_not_negative(value, "ERR COUNT can't be negative")?);
            } else if keyword_is(name, "maxlen") {
                let len_max = parse_not_negative(value, "ERR MAXLEN can't be negative")?;
                search.len_max = if len_max == 0 { usize::MAX } else { len_max };
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(search)
    }

    /// The indexes, counted from the head, of the elements that equal `wanted`.
    fn matches<'l>(
        &self,
        list: &'l List,
        wanted: &'l [u8],
        pace: &'l mut Pace<'_>,
    ) -> impl Iterator<Item = i64> {
        let (reverse, last) = (self.reverse, list.len() as i64 - 1);
        let places = list.positions(wanted, reverse, self.len_max, |count| pace.steps(count));
        let places = places.skip(self.skip);
        places.map(move |place| if reverse { last - place as i64 } else { place as i64 })
    }
}

fn parse_rank(arg: &[u8]) -> Result<i64, CommandError> {
    match parse_i64(arg)? {
        0 => Err(CommandError::new(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
             or use negative to start from the end of the list",
        )),
        i64::MIN => Err(CommandError::new(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        )),
        rank => Ok(rank),
    }
}

fn parse_not_negative(arg: &[u8], error: &'static str) -> Result<usize, CommandError> {
    match ds::num::parse_i64(arg) {
        Some(number) if number >= 0 => Ok(number as usize),
        _ => Err(CommandError::new(error)),
    }
}
