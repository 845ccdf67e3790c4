//! CLUSTER SLOT-STATS: how many keys each slot has.
//!
//! The single node has all slots. Keys are counted by scanning all of them. What commands on the keys of a slot cost is not
//! counted (`cluster-slot-stats-enabled` has no effect), so slots are ordered by `key-count` only.

use engine::Flag::*;
use engine::{
    CommandError, CommandResult, Route, Shape, block, integer, keyword_is, oneof, parse_i64, string, token,
};

use crate::cluster::slot::{slot, valid_slot};
use crate::cluster::{CHANGING, Ctx, Entry, Run, SLOTS, SUBCOMMAND, check_mode};

/// The only figure of a slot.
const KEY_COUNT: &str = "key-count";

pub(crate) const CLUSTER_SLOT_STATS: Entry = Entry {
    name: "slot-stats",
    summary: "Return an array of slot usage statistics for slots assigned to the current node.",
    complexity: "O(N) where N is the number of keys of the database",
    since: "8.2.0",
    arity: -4,
    flags: &[Stale, Loading],
    route: Route::Global,
    args: &[oneof(
        "filter",
        &[
            block("slotsrange", &[integer("start-slot"), integer("end-slot")]).token("SLOTSRANGE"),
            block(
                "orderby",
                &[
                    string("metric"),
                    integer("limit").token("LIMIT").optional(),
                    oneof("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional(),
                ],
            )
            .token("ORDERBY"),
        ],
    )],
    tips: &[CHANGING[0], "request_policy:all_shards"],
    reply: Shape::Array(&Shape::Tuple(&[Shape::Int, Shape::Map(&Shape::Bulk, &Shape::Int)])),
    run: Run::Function(cluster_slot_stats),
    ..SUBCOMMAND
};

fn cluster_slot_stats(ctx: &mut Ctx) -> CommandResult {
    check_mode(ctx)?;
    let shown: Vec<(u16, u64)> = match ctx.args[2..] {
        [word, first, last] if keyword_is(word, "SLOTSRANGE") => {
            let (first, last) = (parse_slot(first)?, parse_slot(last)?);
            if first > last {
                return Err(CommandError::new(format!(
                    "ERR Start slot number {first} is greater than end slot number {last}"
                )));
            }
            let counts = key_counts(ctx);
            (first..=last).map(|slot| (slot, counts[usize::from(slot)])).collect()
        }
        [word, metric, ref options @ ..] if keyword_is(word, "ORDERBY") => {
            if !keyword_is(metric, KEY_COUNT) {
                return Err(CommandError::fixed("ERR Unrecognized sort metric for ORDERBY."));
            }
            let order = SlotOrder::parse(options)?;
            let mut counts: Vec<(u16, u64)> = (0..SLOTS).zip(key_counts(ctx)).collect();
            // Slots with equal numbers ascend in either order.
            counts.sort_by_key(|(slot, count)| (if order.descends { !count } else { *count }, *slot));
            counts.truncate(order.limit);
            counts
        }
        _ => return Err(engine::subcommand_error(ctx.args)),
    };
    ctx.reply.array(shown.len());
    for (slot, count) in shown {
        ctx.reply.array(2);
        ctx.reply.int(slot.into());
        ctx.reply.map(1);
        ctx.reply.bulk(KEY_COUNT.as_bytes());
        ctx.reply.int(count as i64);
    }
    Ok(())
}

fn parse_slot(arg: &[u8]) -> Result<u16, CommandError> {
    let slot = parse_i64(arg).ok().and_then(valid_slot);
    slot.ok_or(CommandError::fixed("ERR Invalid or out of range slot"))
}

/// The number of keys of each slot in database 0, the only one in cluster mode.
fn key_counts(ctx: &Ctx) -> Vec<u64> {
    let hold = &ctx.store.tx.hold;
    let mut counts = vec![0; usize::from(SLOTS)];
    let used = hold.shards().used().filter_map(|id| hold.shard(id).dbs.used(0));
    used.flat_map(|db| db.iter()).for_each(|record| counts[usize::from(slot(record.key()))] += 1);
    counts
}

/// How slots are ordered, and how many are shown.
struct SlotOrder {
    limit: usize,
    descends: bool,
}

impl SlotOrder {
    fn parse(options: &[&[u8]]) -> Result<SlotOrder, CommandError> {
        let (mut limit, mut descends) = (None, None);
        let mut rest = options;
        while let [word, after @ ..] = rest {
            let is_repeated;
            (is_repeated, rest) = match after {
                [number, after @ ..] if keyword_is(word, "LIMIT") => {
                    let number = parse_i64(number).ok().and_then(|number| usize::try_from(number).ok());
                    let number = number.filter(|number| (1..=usize::from(SLOTS)).contains(number));
                    let number = number.ok_or(CommandError::fixed(
                        "ERR Limit has to lie in between 1 and 16384 (maximum number of slots).",
                    ))?;
                    (limit.replace(number).is_some(), after)
                }
                _ if keyword_is(word, "ASC") => (descends.replace(false).is_some(), after),
                _ if keyword_is(word, "DESC") => (descends.replace(true).is_some(), after),
                _ => return Err(CommandError::SYNTAX),
            };
            if is_repeated {
                return Err(CommandError::fixed("ERR Multiple filters of the same type are disallowed."));
            }
        }
        Ok(SlotOrder { limit: limit.unwrap_or(usize::from(SLOTS)), descends: descends.unwrap_or(true) })
    }
}
