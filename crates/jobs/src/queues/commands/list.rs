//! QUEUE LIST: lists all queues of a database, without entering a shard.

use ds::glob;
use engine::Flag::*;
use engine::{Acl, CommandError, CommandResult, Group, Shape, keyword_is, string};
use keyspace::queue::Figures;
use keyspace::queue::{Class, Row, rows_of};
use resp::Reply;

use crate::queues::{Ctx, Entry, Run};

pub(super) const LIST: Entry = Entry {
    name: "list",
    summary: "Lists the queues of the database, those that wait first, the oldest of them at the top.",
    complexity: "O(N) where N is the number of queues",
    since: "7.2.0",
    group: Group::Queue,
    arity: -2,
    flags: &[ReadOnly],
    acl: &[Acl::Queue],
    args: &[string("pattern").token("MATCH").optional(), string("name").token("SYSTEM").optional()],
    tips: &["nondeterministic_output"],
    reply: Shape::Array(&Shape::Map(&Shape::Bulk, &Shape::Any)),
    run: Run::Function(list),
    ..Entry::DEFAULT
};

fn list(ctx: &mut Ctx) -> CommandResult {
    let (mut pattern, mut system) = (None, None);
    for option in ctx.args[2..].chunks(2) {
        match *option {
            [word, value] if keyword_is(word, "MATCH") => pattern = Some(value),
            [word, value] if keyword_is(word, "SYSTEM") => system = Some(value),
            _ => return Err(CommandError::SYNTAX),
        }
    }
    let db = ctx.store.client.db;
    let is_wanted = |figures: &Figures| {
        let name_of_system = || Class::of_number(figures.class).system.name().as_bytes();
        figures.db() == db
            && system.is_none_or(|system| name_of_system().eq_ignore_ascii_case(system))
            && pattern.is_none_or(|pattern| glob::matches(pattern, &figures.name, false))
    };
    let mut rows = rows_of(ctx.store.tx.hold.shards().queues(), ctx.store.tx.steady as u64, is_wanted);
    rows.sort_unstable_by(Row::order);
    ctx.reply.array(rows.len());
    for row in rows {
        ctx.reply.map(field_count(&row));
        tell(&mut ctx.reply, &row);
    }
    Ok(())
}

/// The number of fields that [`tell`] writes.
pub(super) fn field_count(row: &Row) -> usize {
    10 + usize::from(row.jobs.is_some())
}

/// The fields that every command reports about a queue.
pub(super) fn tell(reply: &mut Reply, row: &Row) {
    reply.bulk(b"name");
    reply.bulk(&row.name);
    reply.bulk(b"system");
    reply.bulk(row.system.name().as_bytes());
    reply.bulk(b"state");
    reply.bulk(row.state.name().as_bytes());
    reply.bulk(b"depth");
    reply.int(row.depth as i64);
    reply.bulk(b"oldest_ms");
    match row.oldest_ms {
        Some(age) => reply.int(age as i64),
        None => reply.null(),
    }
    for (name, rate) in [("in_per_s", row.in_per_s[0]), ("out_per_s", row.out_per_s[0])] {
        reply.bulk(name.as_bytes());
        reply.double_text(&format!("{rate:.2}"));
    }
    reply.bulk(b"waiters");
    reply.int(row.waiters as i64);
    reply.bulk(b"paused");
    reply.int(row.is_paused.into());
    reply.bulk(b"bytes");
    reply.int(row.memory_bytes as i64);
    let Some(jobs) = &row.jobs else { return };
    reply.bulk(b"jobs");
    reply.map(jobs.rows().count());
    for (name, number) in jobs.rows() {
        reply.bulk(name.as_bytes());
        match number {
            Some(number) => reply.int(number as i64),
            None => reply.null(),
        }
    }
}
