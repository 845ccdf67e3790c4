//! `ZRANGE`, its older forms, and `ZRANGESTORE`: one parser, one walk.

use ds::zset::{Iter, ZSet, ZSetRef};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Mode, Pace, Run, Shape,
    block, double, integer, key, keyword_is, oneof, parse_i64, string, token,
};

use super::span::{By, Span};
use super::{Layout, MEMBERS, put_result, reply_members, store_result};
use crate::keys::rebuild;

const LIMIT_OF_RANKS: &str =
    "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
const WITHSCORES_OF_LEX: &str = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";

/// The options that a command's name implies; `None` leaves one to the arguments.
#[derive(Clone, Copy)]
struct Form {
    by: Option<By>,
    reverse: Option<bool>,
    /// Whether the range is stored, not returned.
    stores: bool,
}

impl Form {
    /// The form of an older command, which has neither `BY…` nor `REV`.
    const fn fixed(by: By, reverse: bool) -> Form {
        Form { by: Some(by), reverse: Some(reverse), stores: false }
    }
}

/// A parsed range.
struct Query<'a> {
    span: Span<'a>,
    reverse: bool,
    /// Members to skip; all of them if negative.
    offset: i64,
    /// The most members to return; no limit if negative.
    limit: i64,
    with_scores: bool,
}

impl<'a> Query<'a> {
    /// Parses the ends of the range and the options after them.
    fn parse(form: Form, args: &[&'a [u8]]) -> Result<Query<'a>, CommandError> {
        let [first, last, options @ ..] = args else { return Err(CommandError::SYNTAX) };
        let Form { mut by, mut reverse, stores } = form;
        let (mut offset, mut limit, mut with_scores) = (0, -1, false);
        let mut options = options.iter();
        while let Some(word) = options.next() {
            if !stores && keyword_is(word, "withscores") {
                with_scores = true;
            } else if keyword_is(word, "limit") && options.len() >= 2 {
                let mut number = || parse_i64(options.next().expect("there are two more"));
                (offset, limit) = (number()?, number()?);
            } else if reverse.is_none() && keyword_is(word, "rev") {
                reverse = Some(true);
            } else if by.is_none() && keyword_is(word, "bylex") {
                by = Some(By::Lex);
            } else if by.is_none() && keyword_is(word, "byscore") {
                by = Some(By::Score);
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
        if by == By::Rank {
            if limit != -1 {
                return Err(CommandError::new(LIMIT_OF_RANKS));
            }
            offset = 0;
        }
        if with_scores && by == By::Lex {
            return Err(CommandError::new(WITHSCORES_OF_LEX));
        }
        let (min, max) = if reverse && by != By::Rank { (last, first) } else { (first, last) };
        Ok(Query { span: Span::parse(by, min, max)?, reverse, offset, limit, with_scores })
    }

    /// The members of `zset` in the range.
    fn members<'z>(&self, zset: ZSetRef<'z>) -> Iter<'z> {
        let ranks = self.span.ranks(zset, self.reverse);
        let skipped = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let wanted = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let count = ranks.len().saturating_sub(skipped).min(wanted);
        let first = match count {
            0 => 0,
            _ if self.reverse => ranks.end - 1 - skipped,
            _ => ranks.start + skipped,
        };
        zset.iter_from_rank(first, self.reverse).limited(count)
    }
}

/// Replies with the range at arguments 2 and 3 of the set at argument 1.
fn reply_range(ctx: &mut Ctx, form: Form) -> CommandResult {
    let query = Query::parse(form, &ctx.args[2..])?;
    let mut pace = Pace::new(ctx.host);
    match ctx.store.read_as::<ZSet>(ctx.args[1])? {
        None => ctx.reply.array(0),
        Some(zset) => {
            let layout = Layout::with_scores(query.with_scores, &ctx.reply);
            reply_members(&mut ctx.reply, query.members(zset), layout, &mut pace);
        }
    }
    Ok(())
}

pub(super) const ZRANGE: Entry = Entry {
    name: "zrange",
    summary: "Returns members in a sorted set within a range of indexes.",
    complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
            elements returned.",
    since: "1.2.0",
    group: Group::SortedSet,
    arity: -4,
    flags: &[ReadOnly],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[
        key("key", 0),
        string("start"),
        string("stop"),
        oneof("sortby", &[token("byscore", "BYSCORE"), token("bylex", "BYLEX")]).optional().since("6.2.0"),
        token("rev", "REV").optional().since("6.2.0"),
        block("limit", &[integer("offset"), integer("count")]).token("LIMIT").optional().since("6.2.0"),
        token("withscores", "WITHSCORES").optional(),
    ],
    history: &[("6.2.0", "Added the `REV`, `BYSCORE`, `BYLEX` and `LIMIT` options.")],
    reply: MEMBERS,
    run: Run::Function(zrange),
    ..Entry::DEFAULT
};

fn zrange(ctx: &mut Ctx) -> CommandResult {
    reply_range(ctx, Form { by: None, reverse: None, stores: false })
}

pub(super) const ZRANGESTORE: Entry = Entry {
    name: "zrangestore",
    summary: "Stores a range of members from sorted set in a key.",
    complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
            elements stored into the destination key.",
    since: "6.2.0",
    group: Group::SortedSet,
    arity: -5,
    flags: &[Write, DenyOom],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[OW, Update]), KeySpec::one(2, &[RO, Access])],
    mode: Mode::Heavy,
    args: &[
        key("dst", 0),
        key("src", 1),
        string("min"),
        string("max"),
        oneof("sortby", &[token("byscore", "BYSCORE"), token("bylex", "BYLEX")]).optional(),
        token("rev", "REV").optional(),
        block("limit", &[integer("offset"), integer("count")]).token("LIMIT").optional(),
    ],
    reply: Shape::Int,
    run: Run::Function(zrangestore),
    ..Entry::DEFAULT
};

fn zrangestore(ctx: &mut Ctx) -> CommandResult {
    let query = Query::parse(Form { by: None, reverse: None, stores: true }, &ctx.args[3..])?;
    let limits = &ctx.store.config().zset;
    let (mut result, mut is_open, mut pace) = (ZSet::new(), false, Pace::new(ctx.host));
    if let Some(zset) = ctx.store.read_as::<ZSet>(ctx.args[2])? {
        is_open = query.span.is_open(zset);
        for (member, score) in query.members(zset) {
            result.insert(&member, score, limits);
            pace.step();
        }
    }
    if is_open {
        let (key, change) = (ctx.args[1], Change::new(Class::ZSet, "zrangestore"));
        return put_result(ctx, key, result, change, |store| rebuild::record(store, key));
    }
    store_result(ctx, ctx.args[1], result, "zrangestore")
}

pub(super) const ZREVRANGE: Entry = Entry {
    name: "zrevrange",
    summary: "Returns members in a sorted set within a range of indexes in reverse order.",
    complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
            elements returned.",
    since: "1.2.0",
    group: Group::SortedSet,
    arity: -4,
    flags: &[ReadOnly],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), integer("start"), integer("stop"), token("withscores", "WITHSCORES").optional()],
    deprecated: Some(("6.2.0", "`ZRANGE` with the `REV` argument")),
    reply: MEMBERS,
    run: Run::Function(zrevrange),
    ..Entry::DEFAULT
};

fn zrevrange(ctx: &mut Ctx) -> CommandResult {
    reply_range(ctx, Form::fixed(By::Rank, true))
}

pub(super) const ZRANGEBYSCORE: Entry = Entry {
    name: "zrangebyscore",
    summary: "Returns members in a sorted set within a range of scores.",
    complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
            elements being returned. If M is constant (e.g. always asking for the first 10 elements with \
            LIMIT), you can consider it O(log(N)).",
    since: "1.0.5",
    group: Group::SortedSet,
    arity: -4,
    flags: &[ReadOnly],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[
        key("key", 0),
        double("min"),
        double("max"),
        token("withscores", "WITHSCORES").optional().since("2.0.0"),
        block("limit", &[integer("offset"), integer("count")]).token("LIMIT").optional(),
    ],
    history: &[("2.0.0", "Added the `WITHSCORES` modifier.")],
    deprecated: Some(("6.2.0", "`ZRANGE` with the `BYSCORE` argument")),
    reply: MEMBERS,
    run: Run::Function(zrangebyscore),
    ..Entry::DEFAULT
};

fn zrangebyscore(ctx: &mut Ctx) -> CommandResult {
    reply_range(ctx, Form::fixed(By::Score, false))
}

pub(super) const ZREVRANGEBYSCORE: Entry = Entry {
    name: "zrevrangebyscore",
    summary: "Returns members in a sorted set within a range of scores in reverse order.",
    since: "2.2.0",
    args: &[
        key("key", 0),
        double("max"),
        double("min"),
        token("withscores", "WITHSCORES").optional(),
        block("limit", &[integer("offset"), integer("count")]).token("LIMIT").optional(),
    ],
    history: &[("2.1.6", "`min` and `max` can be exclusive.")],
    deprecated: Some(("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments")),
    run: Run::Function(zrevrangebyscore),
    ..ZRANGEBYSCORE
};

fn zrevrangebyscore(ctx: &mut Ctx) -> CommandResult {
    reply_range(ctx, Form::fixed(By::Score, true))
}

pub(super) const ZRANGEBYLEX: Entry = Entry {
    name: "zrangebylex",
    summary: "Returns members in a sorted set within a lexicographical range.",
    complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
            elements being returned. If M is constant (e.g. always asking for the first 10 elements with \
            LIMIT), you can consider it O(log(N)).",
    since: "2.8.9",
    group: Group::SortedSet,
    arity: -4,
    flags: &[ReadOnly],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[
        key("key", 0),
        string("min"),
        string("max"),
        block("limit", &[integer("offset"), integer("count")]).token("LIMIT").optional(),
    ],
    deprecated: Some(("6.2.0", "`ZRANGE` with the `BYLEX` argument")),
    reply: Shape::BULKS,
    run: Run::Function(zrangebylex),
    ..Entry::DEFAULT
};

fn zrangebylex(ctx: &mut Ctx) -> CommandResult {
    reply_range(ctx, Form::fixed(By::Lex, false))
}

pub(super) const ZREVRANGEBYLEX: Entry = Entry {
    name: "zrevrangebylex",
    summary: "Returns members in a sorted set within a lexicographical range in reverse order.",
    args: &[
        key("key", 0),
        string("max"),
        string("min"),
        block("limit", &[integer("offset"), integer("count")]).token("LIMIT").optional(),
    ],
    deprecated: Some(("6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments")),
    run: Run::Function(zrevrangebylex),
    ..ZRANGEBYLEX
};

fn zrevrangebylex(ctx: &mut Ctx) -> CommandResult {
    reply_range(ctx, Form::fixed(By::Lex, true))
}
