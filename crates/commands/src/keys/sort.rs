//! `SORT` and `SORT_RO`.
//!
//! ```text
//! elements ──▶ weigh each (itself, or what BY finds) ──▶ sort ──▶ LIMIT ──▶ each, or what every GET finds ──▶ answer, STORE
//! ```
//!
//! A pattern after `BY` or `GET` turns each element into a key, which may be in any shard, so such a call enters all
//! shards. A pattern without `*` after `BY` means that nothing is sorted.
//!
//! Texts are compared byte by byte, as in the C locale.

use std::cmp::Ordering;

use ds::hash::Hash;
use ds::list::End;
use ds::partial_sort::partial_sort;
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Arg, Begin, Change, Class, CommandError, CommandResult, Ctx, Entry, Find, Group, KeyFlag, KeySpec,
    Mode, Pace, Route, Run, Shape, Store, block, integer, key, keyword_is, oneof, parse_i64, pattern,
    peek_shown, token,
};
use keyspace::List;
use keyspace::{Str, Value, ValueRef};

use super::rebuild;

const fn unknown_spec(flags: &'static [KeyFlag], notes: &'static str) -> KeySpec {
    KeySpec { flags, begin: Begin::Unknown, find: Find::Unknown, notes }
}

const SORTED: KeySpec = KeySpec::one(1, &[RO, Access]);
const LOOKED_UP: KeySpec = unknown_spec(
    &[RO, Access],
    "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort",
);
const STORED: KeySpec = unknown_spec(
    &[OW, Update],
    "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument array",
);

const BY: Arg = pattern("by-pattern").token("BY").of_keys(1).display("pattern").optional();
const LIMIT: Arg = block("limit", &[integer("offset"), integer("count")]).token("LIMIT").optional();
const GET: Arg =
    pattern("get-pattern").token("GET").of_keys(1).display("pattern").optional().multiple_token();
const ORDER: Arg = oneof("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional();
const ALPHA: Arg = token("sorting", "ALPHA").optional();

pub(super) const SORT: Entry = Entry {
    name: "sort",
    summary: "Sorts the elements in a list, a set, or a sorted set, optionally storing the result.",
    complexity: "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned elements. When the elements are not sorted, complexity is O(N).",
    since: "1.0.0",
    group: Group::Generic,
    arity: -2,
    flags: &[Write, DenyOom],
    acl: &[Acl::Set, Acl::SortedSet, Acl::List, Acl::Dangerous],
    keys: &[SORTED, LOOKED_UP, STORED],
    route: Route::Sort,
    mode: Mode::Heavy,
    args: &[key("key", 0), BY, LIMIT, GET, ORDER, ALPHA, key("destination", 2).token("STORE").optional()],
    reply: Shape::OneOf(&[Shape::Array(&Shape::BULK_OR_NULL), Shape::Int]),
    run: Run::Function(|ctx| sort(ctx, true)),
    ..Entry::DEFAULT
};

pub(super) const SORT_RO: Entry = Entry {
    name: "sort_ro",
    summary: "Returns the sorted elements of a list, a set, or a sorted set.",
    since: "7.0.0",
    flags: &[ReadOnly],
    keys: &[SORTED, LOOKED_UP],
    args: &[key("key", 0), BY, LIMIT, GET, ORDER, ALPHA],
    reply: Shape::Array(&Shape::BULK_OR_NULL),
    run: Run::Function(|ctx| sort(ctx, false)),
    ..SORT
};

fn sort(ctx: &mut Ctx, may_store: bool) -> CommandResult {
    let key = ctx.args[1];
    let mut options = SortOptions::parse(&ctx.args[2..], may_store, ctx.store.client.reads_all_keys)?;
    let is_set = match ctx.store.read(key) {
        None | Some(ValueRef::List(_)) => false,
        Some(ValueRef::Set(_)) => true,
        Some(ValueRef::ZSet(_)) => {
            // As in Redis; `OBJECT ENCODING` shows it.
            ctx.store.write_as::<ds::zset::ZSet>(key)?.expect("it was just read").make_large();
            false
        }
        Some(
            ValueRef::Str(_)
            | ValueRef::Hash(_)
            | ValueRef::Compressed(_)
            | ValueRef::Stream(_)
            | ValueRef::Sketch(_),
        ) => {
            return Err(CommandError::WRONG_TYPE);
        }
    };
    if is_set && options.keeps_order() && (options.target.is_some() || ctx.store.client.in_script) {
        // The order of a set is arbitrary, so sort it.
        (options.by, options.alpha) = (None, true);
    }
    let mut pace = Pace::new(ctx.host);
    let elements = elements(&ctx.store, key, options.keeps_order() && options.descending, &mut pace);
    let (start, end) = options.range(elements.len());
    let elements = if options.keeps_order() {
        elements.into_iter().skip(start).take(end - start).collect()
    } else {
        let mut weighed = options.weigh(&mut ctx.store, elements, &mut pace)?;
        options.order(&mut weighed, start, end, &mut pace);
        weighed.drain(start..end).map(|(element, _)| element).collect()
    };
    options.conclude(ctx, elements)
}

/// All elements; in order if the type has one.
fn elements(store: &Store, key: &[u8], reverse: bool, pace: &mut Pace<'_>) -> Vec<Vec<u8>> {
    match peek_shown(store, key) {
        Some(ValueRef::List(list)) => {
            let from = if reverse { -1 } else { 0 };
            list.iter(from, reverse).inspect(|_| pace.step()).map(|element| element.to_vec()).collect()
        }
        Some(ValueRef::Set(set)) => {
            set.iter().inspect(|_| pace.step()).map(|member| member.to_vec()).collect()
        }
        Some(ValueRef::ZSet(zset)) => {
            let from = if reverse { zset.len() - 1 } else { 0 };
            let members = zset.iter_from_rank(from, reverse).inspect(|_| pace.step());
            members.map(|(member, _)| member.into_owned()).collect()
        }
        Some(
            ValueRef::Str(_)
            | ValueRef::Hash(_)
            | ValueRef::Compressed(_)
            | ValueRef::Stream(_)
            | ValueRef::Sketch(_),
        )
        | None => Vec::new(),
    }
}

/// The sort key of an element.
enum Weight {
    Number(f64),
    Text(Vec<u8>),
    /// The key or field to sort by does not exist.
    None,
}

#[derive(Default)]
struct SortOptions<'a> {
    by: Option<&'a [u8]>,
    get: Vec<&'a [u8]>,
    offset: i64,
    /// The number of elements; negative: all.
    count: i64,
    descending: bool,
    alpha: bool,
    target: Option<&'a [u8]>,
}

impl<'a> SortOptions<'a> {
    /// `reads_all` says that the client may read all keys, because patterns can name any.
    fn parse(
        mut args: &'a [&'a [u8]],
        may_store: bool,
        reads_all: bool,
    ) -> Result<SortOptions<'a>, CommandError> {
        let mut options = SortOptions { count: -1, ..SortOptions::default() };
        while let [word, after @ ..] = args {
            let is = |name| keyword_is(word, name);
            args = after;
            match after {
                _ if is("asc") => options.descending = false,
                _ if is("desc") => options.descending = true,
                _ if is("alpha") => options.alpha = true,
                [offset, count, rest @ ..] if is("limit") => {
                    (options.offset, options.count) = (parse_i64(offset)?, parse_i64(count)?);
                    args = rest;
                }
                [target, rest @ ..] if may_store && is("store") => {
                    options.target = Some(target);
                    args = rest;
                }
                [by, ..] if is("by") && !reads_all && text_of(by).contains(&b'*') => {
                    return Err(CommandError::fixed(
                        "ERR BY option of SORT denied due to insufficient ACL permissions.",
                    ));
                }
                [_, ..] if is("get") && !reads_all => {
                    return Err(CommandError::fixed(
                        "ERR GET option of SORT denied due to insufficient ACL permissions.",
                    ));
                }
                [by, rest @ ..] if is("by") => {
                    options.by = Some(by);
                    args = rest;
                }
                [get, rest @ ..] if is("get") => {
                    options.get.push(get);
                    args = rest;
                }
                _ => return Err(CommandError::SYNTAX),
            }
        }
        Ok(options)
    }

    /// Whether the elements keep their order.
    fn keeps_order(&self) -> bool {
        self.by.is_some_and(|by| !text_of(by).contains(&b'*'))
    }

    /// The requested part of `length` sorted elements.
    fn range(&self, length: usize) -> (usize, usize) {
        let start = (self.offset.max(0) as usize).min(length);
        let end = usize::try_from(self.count).map_or(length, |count| start.saturating_add(count).min(length));
        (start, end)
    }

    fn weigh(
        &self,
        store: &mut Store,
        elements: Vec<Vec<u8>>,
        pace: &mut Pace<'_>,
    ) -> Result<Vec<(Vec<u8>, Weight)>, CommandError> {
        let mut weighed = Vec::with_capacity(elements.len());
        for element in elements {
            pace.step();
            let by = self.by.map(|pattern| look_up(store, pattern, &element));
            let weight = match (self.alpha, by) {
                (true, Some(Some(text))) => Weight::Text(text),
                (true, _) => Weight::None,
                (false, Some(None)) => Weight::Number(0.0),
                (false, Some(Some(text))) => Weight::Number(number(&text)?),
                (false, None) => Weight::Number(number(&element)?),
            };
            weighed.push((element, weight));
        }
        Ok(weighed)
    }

    /// Sorts, at least so far that the elements from `start` to `end` are in place.
    fn order(&self, weighed: &mut [(Vec<u8>, Weight)], start: usize, end: usize, pace: &mut Pace<'_>) {
        // The stored order must not depend on where a text seems to end.
        let shown = |text: &[u8]| text_of(text).len();
        let texts = |one: &[u8], other: &[u8]| match self.target {
            Some(_) => one.cmp(other),
            None => one[..shown(one)].cmp(&other[..shown(other)]),
        };
        let mut compare = |(one, one_weight): &(Vec<u8>, Weight),
                           (other, other_weight): &(Vec<u8>, Weight)| {
            pace.step();
            let order = match (one_weight, other_weight) {
                (Weight::Number(a), Weight::Number(b)) => {
                    a.partial_cmp(b).filter(|order| order.is_ne()).unwrap_or_else(|| one.cmp(other))
                }
                (Weight::Text(a), Weight::Text(b)) => texts(a, b),
                (Weight::None, Weight::None) if self.by.is_none() => texts(one, other),
                (Weight::None, Weight::None) => Ordering::Equal,
                (Weight::None, _) => Ordering::Less,
                (_, _) => Ordering::Greater,
            };
            if self.descending { order.reverse() } else { order }
        };
        if self.by.is_some() && end - start < weighed.len() {
            partial_sort(weighed, start..end, &mut compare);
        } else {
            weighed.sort_by(compare);
        }
    }

    /// Replies with the elements, or with the texts that GET selects for each; or stores them.
    fn conclude(&self, ctx: &mut Ctx, elements: Vec<Vec<u8>>) -> CommandResult {
        let mut results: Vec<Option<Vec<u8>>> = Vec::new();
        let mut pace = Pace::new(ctx.host);
        if self.get.is_empty() {
            results.extend(elements.into_iter().map(Some));
        } else {
            for element in &elements {
                results.extend(self.get.iter().map(|pattern| look_up(&mut ctx.store, pattern, element)));
                pace.steps(self.get.len());
            }
        }
        let Some(target) = self.target else {
            ctx.reply.array(results.len());
            for result in &results {
                match result {
                    Some(text) => ctx.reply.bulk(text),
                    None => ctx.reply.null(),
                }
                pace.step();
            }
            return Ok(());
        };
        ctx.reply.int(results.len() as i64);
        if results.is_empty() {
            ctx.store.delete(target);
            return Ok(());
        }
        let mut list = List::new();
        for result in &results {
            list.push(End::Tail, result.as_deref().unwrap_or_default());
            pace.step();
        }
        ctx.store.set(target, Value::List(Box::new(list)));
        let change = Change::new(Class::List, "sortstore").times(results.len());
        // The effect is not the request, which determines neither the order of equal elements nor the values
        // that its patterns read.
        ctx.store.changed_with(target, change, |store| rebuild::record(store, target));
        Ok(())
    }
}

/// The text as C sees it: up to the first zero byte.
fn text_of(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// A weight as `strtod` reads it.
fn number(text: &[u8]) -> Result<f64, CommandError> {
    ds::num::parse_strtod(text)
        .filter(|(value, in_range)| *in_range && !value.is_subnormal())
        .map(|(value, _)| value)
        .ok_or(CommandError::fixed("ERR One or more scores can't be converted into double"))
}

/// Finds the text that `pattern` selects for `element`. `#` is the element itself. Otherwise the element
/// replaces `*`, and the result is the string at that key, or the field after `->` of the hash at the key
/// before it.
fn look_up(store: &mut Store, pattern: &[u8], element: &[u8]) -> Option<Vec<u8>> {
    if pattern == b"#" {
        return Some(element.to_vec());
    }
    let text = text_of(pattern);
    let star = text.iter().position(|&byte| byte == b'*')?;
    let arrow = text[star + 1..].windows(2).position(|two| two == b"->").map(|at| star + 1 + at);
    let arrow = arrow.filter(|arrow| arrow + 2 < text.len());
    let end = arrow.unwrap_or(pattern.len());
    let key = [&pattern[..star], element, &pattern[star + 1..end]].concat();
    match arrow {
        None => Some(store.read_as::<Str>(&key).ok()??.bytes().into_owned()),
        Some(arrow) => {
            Some(store.read_as::<Hash>(&key).ok()??.get(&pattern[arrow + 2..])?.bytes().into_owned())
        }
    }
}
