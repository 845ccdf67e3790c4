//! QUEUE INFO: shows everything known about one queue.

use std::collections::BTreeMap;

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{Acl, CommandError, CommandResult, Group, KeySpec, Shape, key};
use keyspace::List;
use keyspace::ValueRef;
use keyspace::queue::{Book, PERIODS_S, Quantiles, WAIT_BOUNDS_MS, WaitTimes};
use keyspace::queue::{Row, rows_of};

use super::list::{field_count, tell};
use crate::queues::beside::{is_beside, may_be_beside};
use crate::queues::counts::count_jobs;
use crate::queues::{Ctx, Entry, Label, Run};

/// The names of the [`PERIODS_S`].
const PERIODS: [&str; PERIODS_S.len()] = ["1m", "10m", "1h"];
/// The most groups of waiting clients that are shown.
const GROUPS_MAX: usize = 100;

pub(super) const INFO: Entry = Entry {
    name: "info",
    summary: "Returns what is known of a queue: rates, waiting times, who waits, and what lies beside it.",
    complexity: "O(N) where N is the number of queues and of clients that wait",
    since: "7.2.0",
    group: Group::Queue,
    arity: 3,
    flags: &[ReadOnly],
    acl: &[Acl::Queue],
    keys: &[KeySpec::one(2, &[RO, Access])],
    args: &[key("queue", 0)],
    tips: &["nondeterministic_output"],
    reply: Shape::Map(&Shape::Bulk, &Shape::Any),
    run: Run::Function(info),
    ..Entry::DEFAULT
};

fn info(ctx: &mut Ctx) -> CommandResult {
    let (key, now_ms, db) = (ctx.args[2], ctx.store.tx.steady as u64, ctx.store.client.db);
    let (id, hash) = ctx.store.locate(key);
    let queues = ctx.store.db(id).queues();
    let figures = queues.figures(hash, key).ok_or(CommandError::fixed("ERR no such queue"))?;
    let mut row = Row::new(figures, now_ms);
    if figures.has_jobs() {
        row.note_jobs(count_jobs(&ctx.store, key)?);
    }
    let times = [Some(figures.first_ms), figures.last_ms()[0], figures.last_ms()[1]];
    // The shard is held, and there may be very many queues: most are ruled out in place.
    let mut beside = rows_of(queues.known(), now_ms, |other| may_be_beside(&row, other));
    beside.retain(|other| is_beside(&row, other));
    let of_list = match ctx.store.peek(key).map(|record| record.value()) {
        Some(ValueRef::List(list)) => book_of(list),
        _ => None,
    };
    let waits = of_list.or_else(|| queues.idle_book(hash, key)).and_then(Book::waits);
    let unsettled = waits.map_or((0, 0), WaitTimes::unsettled);
    let quantiles = PERIODS_S.map(|period_s| waits?.quantiles(now_ms, period_s));
    let waiting: Vec<u64> =
        ctx.store.tx.hold.shard(id).waiters.of(db, key).map(|waiter| waiter.wait.client.id).collect();
    ctx.reply.map(13 + field_count(&row));
    tell(&mut ctx.reply, &row);
    tell_rates(ctx, &row);
    for (name, time_ms) in ["known_since_ms", "last_push_ms", "last_pop_ms"].into_iter().zip(times) {
        ctx.reply.bulk(name.as_bytes());
        match time_ms {
            Some(time_ms) => ctx.reply.int(time_ms as i64),
            None => ctx.reply.null(),
        }
    }
    tell_waits(ctx, &row, quantiles, unsettled);
    tell_waiting(ctx, &waiting);
    tell_beside(ctx, &beside);
    Ok(())
}

fn book_of(list: &List) -> Option<&Book> {
    list.seen()?.book()
}

fn tell_rates(ctx: &mut Ctx, row: &Row) {
    for (name, rate) in [
        ("in_per_s_1m", row.in_per_s[1]),
        ("out_per_s_1m", row.out_per_s[1]),
        ("in_per_s_10m", row.in_per_s[2]),
        ("out_per_s_10m", row.out_per_s[2]),
    ] {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.double_text(&format!("{rate:.2}"));
    }
    for (name, total) in [("pushed", row.pushed), ("popped", row.popped)] {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.int(total as i64);
    }
}

/// The waiting times of each period, and a histogram of waiting times since the queue became known.
fn tell_waits(
    ctx: &mut Ctx,
    row: &Row,
    quantiles: [Option<Quantiles>; PERIODS.len()],
    (unsettled, wait_ms): (u64, u64),
) {
    let reply = &mut ctx.reply;
    reply.bulk(b"waits");
    reply.map(PERIODS.len());
    for (period, known) in PERIODS.into_iter().zip(quantiles) {
        reply.bulk(period.as_bytes());
        let Some(known) = known else {
            reply.null();
            continue;
        };
        let fields = [
            ("count", known.count),
            ("p50", known.p50_ms),
            ("p95", known.p95_ms),
            ("p99", known.p99_ms),
            ("max", known.max_ms),
        ];
        reply.map(fields.len());
        for (name, number) in fields {
            reply.bulk(name.as_bytes());
            reply.int(number as i64);
        }
    }
    reply.bulk(b"wait_histogram");
    reply.array(WAIT_BOUNDS_MS.len());
    let mut counts = row.waits.counts;
    if let Some(class) = WAIT_BOUNDS_MS.iter().position(|bound| wait_ms <= *bound) {
        counts[class] += unsettled;
    }
    for (bound, count) in WAIT_BOUNDS_MS.iter().zip(counts) {
        reply.map(2);
        reply.bulk(b"le_ms");
        reply.int(*bound as i64);
        reply.bulk(b"count");
        reply.int(count as i64);
    }
}

/// The waiting clients, grouped by name and library.
fn tell_waiting(ctx: &mut Ctx, waiting: &[u64]) {
    let mut groups: BTreeMap<Label, i64> = BTreeMap::new();
    for client in waiting {
        *groups.entry((ctx.host.label)(*client)).or_default() += 1;
    }
    let reply = &mut ctx.reply;
    reply.bulk(b"waiting");
    reply.array(groups.len().min(GROUPS_MAX));
    for (label, count) in groups.iter().take(GROUPS_MAX) {
        reply.map(3);
        for (name, text) in [("name", &label.name), ("library", &label.library)] {
            reply.bulk(name.as_bytes());
            reply.bulk(text);
        }
        reply.bulk(b"clients");
        reply.int(*count);
    }
}

fn tell_beside(ctx: &mut Ctx, beside: &[Row]) {
    ctx.reply.bulk(b"beside");
    ctx.reply.array(beside.len());
    for row in beside {
        ctx.reply.map(field_count(row));
        tell(&mut ctx.reply, row);
    }
}
