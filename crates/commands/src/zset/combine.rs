//! Union, intersection and difference of sorted sets and sets.

use std::ops::ControlFlow;

use ds::zset::ZSetLimits;
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Arg, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Mode, Pace, Run, Shape,
    Store, integer, key, keyword_is, oneof, parse_count, parse_i64, token,
};
use keyspace::ValueRef;
use smallvec::{SmallVec, smallvec};

use super::sources::{Aggregate, Collected, ZsetInput, difference, intersect, union};
use super::{Layout, MEMBERS, put_result, reply_members, store_result};
use crate::keys::rebuild;

const NOT_A_WEIGHT: &str = "ERR weight value is not a float";
const LIMIT_NEGATIVE: &str = "ERR LIMIT can't be negative";

/// The operation on the inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CombineOperation {
    Union,
    Intersection,
    Difference,
}

/// The parsed inputs and options of a command.
struct CombineQuery<'a> {
    keys: &'a [&'a [u8]],
    /// One for each key.
    weights: SmallVec<[f64; 8]>,
    aggregate: Aggregate,
    with_scores: bool,
    /// The `LIMIT` of `ZINTERCARD`; 0: unlimited.
    limit: usize,
}

/// The options of a command in addition to `WEIGHTS` and `AGGREGATE`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CombineForm {
    /// `WITHSCORES`
    Answers,
    /// None.
    Stores,
    /// `LIMIT`, without `WEIGHTS` and `AGGREGATE`.
    Counts,
}

impl<'a> CombineQuery<'a> {
    /// Parses the number of keys at argument `at` and the arguments after it, and checks the types of the
    /// keys before the options, as Redis does.
    fn parse(
        ctx: &mut Ctx<'a, '_>,
        at: usize,
        operation: CombineOperation,
        form: CombineForm,
    ) -> Result<Self, CommandError> {
        let number = parse_i64(ctx.args[at])?;
        if number < 1 {
            let name = &ctx.command.full_name;
            return Err(CommandError::new(format!(
                "ERR at least 1 input key is needed for '{name}' command"
            )));
        }
        let (keys, options) =
            ctx.args[at + 1..].split_at_checked(number as usize).ok_or(CommandError::SYNTAX)?;
        for key in keys {
            if !matches!(ctx.store.read(key), None | Some(ValueRef::Set(_) | ValueRef::ZSet(_))) {
                return Err(CommandError::WRONG_TYPE);
            }
        }
        let mut query = CombineQuery {
            keys,
            weights: smallvec![1.0; keys.len()],
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: 0,
        };
        query.parse_options(
            options,
            operation != CombineOperation::Difference && form != CombineForm::Counts,
            form,
        )?;
        Ok(query)
    }

    fn parse_options(
        &mut self,
        mut options: &[&[u8]],
        has_weights: bool,
        form: CombineForm,
    ) -> Result<(), CommandError> {
        while let [word, rest @ ..] = options {
            options = if has_weights && keyword_is(word, "weights") && rest.len() >= self.keys.len() {
                let (weights, rest) = rest.split_at(self.keys.len());
                for (weight, text) in self.weights.iter_mut().zip(weights) {
                    *weight = ds::num::parse_f64(text).ok_or_else(|| CommandError::new(NOT_A_WEIGHT))?;
                }
                rest
            } else if has_weights && keyword_is(word, "aggregate") && !rest.is_empty() {
                self.aggregate = match rest[0] {
                    word if keyword_is(word, "sum") => Aggregate::Sum,
                    word if keyword_is(word, "min") => Aggregate::Min,
                    word if keyword_is(word, "max") => Aggregate::Max,
                    word if keyword_is(word, "count") => Aggregate::Count,
                    _ => return Err(CommandError::SYNTAX),
                };
                &rest[1..]
            } else if form == CombineForm::Answers && keyword_is(word, "withscores") {
                self.with_scores = true;
                rest
            } else if form == CombineForm::Counts && keyword_is(word, "limit") && !rest.is_empty() {
                self.limit = parse_count(rest[0]).map_err(|_| CommandError::new(LIMIT_NEGATIVE))?;
                &rest[1..]
            } else {
                return Err(CommandError::SYNTAX);
            };
        }
        Ok(())
    }

    fn sources<'s>(&self, store: &'s Store) -> Vec<ZsetInput<'s>> {
        let weighted = self.keys.iter().zip(&self.weights);
        weighted.map(|(key, weight)| ZsetInput::of(store, key, *weight, self.aggregate)).collect()
    }

    fn run<'l>(
        &self,
        store: &Store,
        operation: CombineOperation,
        limits: &'l ZSetLimits,
        pace: &mut Pace<'_>,
    ) -> Collected<'l> {
        let sources = self.sources(store);
        let mut result = Collected::new(limits);
        match operation {
            CombineOperation::Union => union(sources, self.aggregate, &mut result, pace),
            CombineOperation::Difference => difference(&sources, &mut result, pace),
            CombineOperation::Intersection => {
                let mut insert = |member: &[u8], score| {
                    result.insert(member, score);
                    ControlFlow::Continue(())
                };
                intersect(sources, self.aggregate, &mut insert, pace);
            }
        }
        result
    }
}

/// Limits under which a set keeps negative zeros from its first member. Redis collects every reply in such a
/// set, and every stored result until that turns out to be small.
const ALWAYS_LARGE: ZSetLimits = ZSetLimits { entries_max: 0, value_bytes_max: 0, pack_bytes_min: 0 };

/// `operation numkeys key …`: replies with the members.
fn answer(ctx: &mut Ctx, operation: CombineOperation) -> CommandResult {
    let query = CombineQuery::parse(ctx, 1, operation, CombineForm::Answers)?;
    let mut pace = Pace::new(ctx.host);
    let result = query.run(&ctx.store, operation, &ALWAYS_LARGE, &mut pace).set;
    let layout = Layout::with_scores(query.with_scores, &ctx.reply);
    reply_members(&mut ctx.reply, result.lend().iter(), layout, &mut pace);
    Ok(())
}

/// `operation destination numkeys key …`: stores the members.
fn store(ctx: &mut Ctx, operation: CombineOperation, event: &'static str) -> CommandResult {
    let query = CombineQuery::parse(ctx, 2, operation, CombineForm::Stores)?;
    let mut pace = Pace::new(ctx.host);
    let mut result = query.run(&ctx.store, operation, &ctx.store.config().zset, &mut pace);
    if result.has_lost_a_sign() {
        result = query.run(&ctx.store, operation, &ALWAYS_LARGE, &mut pace);
    }
    let (key, result) = (ctx.args[1], result.set);
    if query.aggregate == Aggregate::Count {
        // Redis 7 does not know the request.
        return put_result(ctx, key, result, Change::new(Class::ZSet, event), |store| {
            rebuild::record(store, key)
        });
    }
    store_result(ctx, key, result, event)
}

const AGGREGATE: Arg = oneof(
    "aggregate",
    &[token("sum", "SUM"), token("min", "MIN"), token("max", "MAX"), token("count", "COUNT").since("8.8.0")],
)
.token("AGGREGATE")
.optional();

const HISTORY: &[(&str, &str)] = &[("8.8.0", "Added the `COUNT` option of `AGGREGATE`.")];

pub(super) const ZUNION: Entry = Entry {
    name: "zunion",
    summary: "Returns the union of multiple sorted sets.",
    complexity: "O(N)+O(M*log(M)) with N being the sum of the sizes of the input sorted sets, and M being \
            the number of elements in the resulting sorted set.",
    since: "6.2.0",
    group: Group::SortedSet,
    arity: -3,
    flags: &[ReadOnly],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::numbered(1, &[RO, Access])],
    args: &[
        integer("numkeys"),
        key("key", 0).multiple(),
        integer("weight").token("WEIGHTS").optional().multiple(),
        AGGREGATE,
        token("withscores", "WITHSCORES").optional(),
    ],
    history: HISTORY,
    reply: MEMBERS,
    run: Run::Function(zunion),
    ..Entry::DEFAULT
};

fn zunion(ctx: &mut Ctx) -> CommandResult {
    answer(ctx, CombineOperation::Union)
}

pub(super) const ZINTER: Entry = Entry {
    name: "zinter",
    summary: "Returns the intersect of multiple sorted sets.",
    complexity: "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the \
            number of input sorted sets and M being the number of elements in the resulting sorted set.",
    run: Run::Function(zinter),
    ..ZUNION
};

fn zinter(ctx: &mut Ctx) -> CommandResult {
    answer(ctx, CombineOperation::Intersection)
}

pub(super) const ZDIFF: Entry = Entry {
    name: "zdiff",
    summary: "Returns the difference between multiple sorted sets.",
    complexity: "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N \
            is the size of the first set, and K is the size of the result set.",
    since: "6.2.0",
    group: Group::SortedSet,
    arity: -3,
    flags: &[ReadOnly],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::numbered(1, &[RO, Access])],
    args: &[integer("numkeys"), key("key", 0).multiple(), token("withscores", "WITHSCORES").optional()],
    reply: MEMBERS,
    run: Run::Function(zdiff),
    ..Entry::DEFAULT
};

fn zdiff(ctx: &mut Ctx) -> CommandResult {
    answer(ctx, CombineOperation::Difference)
}

pub(super) const ZUNIONSTORE: Entry = Entry {
    name: "zunionstore",
    summary: "Stores the union of multiple sorted sets in a key.",
    complexity: "O(N)+O(M log(M)) with N being the sum of the sizes of the input sorted sets, and M being \
            the number of elements in the resulting sorted set.",
    since: "2.0.0",
    group: Group::SortedSet,
    arity: -4,
    flags: &[Write, DenyOom],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[OW, Update]), KeySpec::numbered(2, &[RO, Access])],
    mode: Mode::Heavy,
    args: &[
        key("destination", 0),
        integer("numkeys"),
        key("key", 1).multiple(),
        integer("weight").token("WEIGHTS").optional().multiple(),
        AGGREGATE,
    ],
    history: HISTORY,
    reply: Shape::Int,
    run: Run::Function(zunionstore),
    ..Entry::DEFAULT
};

fn zunionstore(ctx: &mut Ctx) -> CommandResult {
    store(ctx, CombineOperation::Union, "zunionstore")
}

pub(super) const ZINTERSTORE: Entry = Entry {
    name: "zinterstore",
    summary: "Stores the intersect of multiple sorted sets in a key.",
    complexity: "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the \
            number of input sorted sets and M being the number of elements in the resulting sorted set.",
    run: Run::Function(zinterstore),
    ..ZUNIONSTORE
};

fn zinterstore(ctx: &mut Ctx) -> CommandResult {
    store(ctx, CombineOperation::Intersection, "zinterstore")
}

pub(super) const ZDIFFSTORE: Entry = Entry {
    name: "zdiffstore",
    summary: "Stores the difference of multiple sorted sets in a key.",
    complexity: "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N \
            is the size of the first set, and K is the size of the result set.",
    since: "6.2.0",
    group: Group::SortedSet,
    arity: -4,
    flags: &[Write, DenyOom],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::one(1, &[OW, Update]), KeySpec::numbered(2, &[RO, Access])],
    mode: Mode::Heavy,
    args: &[key("destination", 0), integer("numkeys"), key("key", 1).multiple()],
    reply: Shape::Int,
    run: Run::Function(zdiffstore),
    ..Entry::DEFAULT
};

fn zdiffstore(ctx: &mut Ctx) -> CommandResult {
    store(ctx, CombineOperation::Difference, "zdiffstore")
}

pub(super) const ZINTERCARD: Entry = Entry {
    name: "zintercard",
    summary: "Returns the number of members of the intersect of multiple sorted sets.",
    complexity: "O(N*K) worst case with N being the smallest input sorted set, K being the number of input \
            sorted sets.",
    since: "7.0.0",
    group: Group::SortedSet,
    arity: -3,
    flags: &[ReadOnly],
    acl: &[Acl::SortedSet],
    keys: &[KeySpec::numbered(1, &[RO, Access])],
    args: &[integer("numkeys"), key("key", 0).multiple(), integer("limit").token("LIMIT").optional()],
    reply: Shape::Int,
    run: Run::Function(zintercard),
    ..Entry::DEFAULT
};

fn zintercard(ctx: &mut Ctx) -> CommandResult {
    let query = CombineQuery::parse(ctx, 1, CombineOperation::Intersection, CombineForm::Counts)?;
    let (mut count, mut pace) = (0, Pace::new(ctx.host));
    let mut tell = |_: &[u8], _| {
        count += 1;
        if count == query.limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    intersect(query.sources(&ctx.store), query.aggregate, &mut tell, &mut pace);
    ctx.reply.int(count as i64);
    Ok(())
}
