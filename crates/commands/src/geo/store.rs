//! Sorts what a search has found, and stores it under a key.

use std::cmp::Ordering;

use ds::partial_sort::partial_sort;
use ds::zset::ZSet;
use engine::{Change, Class, CommandResult, Ctx, Pace};

use super::search::{Found, GeoCommand, Order};
use crate::keys::rebuild;
use crate::zset::put_result;

/// Sorts by distance, at least so far that the first `wanted` members are in order.
pub(super) fn sort(found: &mut [Found], wanted: usize, order: Option<Order>, pace: &mut Pace<'_>) {
    let Some(order) = order else { return };
    let mut compare = |a: &Found, b: &Found| {
        pace.step();
        match order {
            Order::Ascending => by_distance(a, b),
            Order::Descending => by_distance(b, a),
        }
    };
    if wanted == found.len() {
        found.sort_by(compare);
    } else {
        partial_sort(found, 0..wanted, &mut compare);
    }
}

/// A distance that is NaN equals every other.
fn by_distance(one: &Found, other: &Found) -> Ordering {
    one.distance.partial_cmp(&other.distance).unwrap_or(Ordering::Equal)
}

/// Stores members with their scores, or their distances, under `target`.
pub(super) fn store(
    ctx: &mut Ctx,
    target: &[u8],
    found: &[Found],
    with_distance: bool,
    kind: GeoCommand,
) -> CommandResult {
    let limits = &ctx.store.config().zset;
    let (mut result, mut pace) = (ZSet::new(), Pace::new(ctx.host));
    for found in found {
        result.insert(&found.member, if with_distance { found.distance } else { found.score }, limits);
        pace.step();
    }
    let event = if kind == GeoCommand::SearchStore { "geosearchstore" } else { "georadiusstore" };
    let change = Change::new(Class::ZSet, event).times(found.len());
    // The effect is not the request: another store might calculate distances a little differently, or order
    // equal ones differently.
    put_result(ctx, target, result, change, |store| rebuild::record(store, target))
}
