//! The sorted-set commands.
//!
//! Every range, whether of scores, of members or of indexes, is first converted to a range of ranks
//! ([`span`]); after that, all are handled alike. Ranges are written to the reply straight from the tree.
//! Commands that combine several sets build the result as a sorted set and then store it or write it out
//! ([`combine`]).
//!
//! Scores are converted from and to text without loss: a client can send back a score that it has read as a bound, and
//! hits the same member.

pub(crate) mod add;
mod blocking;
mod combine;
mod due;
#[cfg(test)]
mod due_tests;
mod pop;
mod range;
mod read;
mod remove;
mod sample;
mod sources;
mod span;
#[cfg(test)]
mod tests;
mod transfer;

use std::borrow::Cow;

use ds::zset::ZSet;
use engine::{ArgSlices, Change, Class, CommandResult, Ctx, Entry, Pace, Shape, Store};
use keyspace::Value;
use resp::{DoubleBuffer, Proto, Reply};
use smallvec::SmallVec;

/// The sorted-set commands.
pub const ENTRIES: &[Entry] = &[
    add::ZADD,
    add::ZINCRBY,
    transfer::BZMOVE,
    blocking::BZMPOP,
    blocking::BZPOPMAX,
    blocking::BZPOPMIN,
    due::BZTSMOVE,
    due::BZTSPOP,
    combine::ZDIFF,
    combine::ZDIFFSTORE,
    combine::ZINTER,
    combine::ZINTERCARD,
    combine::ZINTERSTORE,
    combine::ZUNION,
    combine::ZUNIONSTORE,
    transfer::ZMOVE,
    transfer::ZMOVEMEMBER,
    pop::ZMPOP,
    pop::ZPOPMAX,
    pop::ZPOPMIN,
    range::ZRANGE,
    range::ZRANGEBYLEX,
    range::ZRANGEBYSCORE,
    range::ZRANGESTORE,
    range::ZREVRANGE,
    range::ZREVRANGEBYLEX,
    range::ZREVRANGEBYSCORE,
    read::ZCARD,
    read::ZCOUNT,
    read::ZLEXCOUNT,
    read::ZMSCORE,
    read::ZRANK,
    read::ZREVRANK,
    read::ZSCORE,
    remove::ZREM,
    remove::ZREMRANGEBYLEX,
    remove::ZREMRANGEBYRANK,
    remove::ZREMRANGEBYSCORE,
    sample::ZRANDMEMBER,
    sample::ZSCAN,
];

/// A score, or nothing.
const SCORE_OR_NULL: Shape = Shape::OneOf(&[Shape::Double, Shape::Null]);
/// A member and its score.
const PAIR: Shape = Shape::Tuple(&[Shape::Bulk, Shape::Double]);
/// Members without or with scores, in any [`Layout`].
const MEMBERS: Shape = Shape::OneOf(&[Shape::BULKS, Shape::Array(&PAIR)]);

/// The form of members in a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    /// Only the members.
    Members,
    /// Each member followed by its score.
    Flat,
    /// Each member with its score in an array of two.
    Pairs,
}

impl Layout {
    /// The layout for commands with the option `WITHSCORES`.
    fn with_scores(with_scores: bool, reply: &Reply) -> Layout {
        match (with_scores, reply.proto()) {
            (false, _) => Layout::Members,
            (true, Proto::Resp2) => Layout::Flat,
            (true, Proto::Resp3) => Layout::Pairs,
        }
    }
}

/// Replies with an array of `members`.
fn reply_members<'a>(
    reply: &mut Reply,
    members: impl ExactSizeIterator<Item = (Cow<'a, [u8]>, f64)>,
    layout: Layout,
    pace: &mut Pace<'_>,
) {
    let values_each = if layout == Layout::Flat { 2 } else { 1 };
    reply.array(members.len() * values_each);
    // Internal iteration lets sorted sets walk through their leaves.
    match (layout, reply.proto()) {
        (Layout::Members, _) => reply.bulks(|bulks| {
            members.for_each(|(member, _)| {
                bulks.push(&member);
                pace.step();
            });
        }),
        (Layout::Flat, Proto::Resp2) => reply.bulks(|bulks| {
            members.for_each(|(member, score)| {
                bulks.push(&member);
                bulks.push_double(score);
                pace.step();
            });
        }),
        (Layout::Flat, Proto::Resp3) | (Layout::Pairs, _) => {
            members.for_each(|(member, score)| {
                reply_member(reply, &member, score, layout);
                pace.step();
            });
        }
    }
}

/// Writes one of several members to the reply.
#[inline]
fn reply_member(reply: &mut Reply, member: &[u8], score: f64, layout: Layout) {
    if layout == Layout::Pairs {
        reply.array(2);
    }
    reply.bulk(member);
    if layout != Layout::Members {
        reply.double(score);
    }
}

/// Calls `run` with `ZADD key score member …`.
fn with_zadd(key: &[u8], members: &[(Cow<'_, [u8]>, f64)], run: impl FnOnce(&[&[u8]])) {
    let mut buffers: SmallVec<[DoubleBuffer; 1]> = members.iter().map(|_| DoubleBuffer::new()).collect();
    let texts = buffers.iter_mut().zip(members).map(|(buffer, &(_, score))| buffer.format(score));
    let mut args: ArgSlices = [b"ZADD".as_slice(), key].into_iter().collect();
    for ((member, _), text) in members.iter().zip(texts) {
        args.extend([text.as_bytes(), &**member]);
    }
    run(&args);
}

/// Stores `result` under `key`, deletes the key if it is empty, and replies with the number of members. The
/// effect is the request: it depends only on the sources, and the result may be large.
fn store_result(ctx: &mut Ctx, key: &[u8], result: ZSet, event: &'static str) -> CommandResult {
    let args = ctx.args;
    put_result(ctx, key, result, Change::new(Class::ZSet, event), |store| store.effect(args))
}

/// Stores `result` under `key`, deletes the key if it is empty, and replies with the number of members.
/// `state` states the effect of the stored result.
pub(crate) fn put_result(
    ctx: &mut Ctx,
    key: &[u8],
    result: ZSet,
    change: Change,
    state: impl FnOnce(&mut Store),
) -> CommandResult {
    ctx.reply.int(result.lend().len() as i64);
    if result.lend().is_empty() {
        ctx.store.delete(key);
        return Ok(());
    }
    ctx.store.set(key, Value::ZSet(Box::new(result)));
    ctx.store.changed_with(key, change, state);
    Ok(())
}
