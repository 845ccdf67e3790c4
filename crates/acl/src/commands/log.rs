//! ACL LOG: shows what clients were denied.

use engine::{CommandResult, Shape, integer, keyword_is, oneof, subcommand_error, token};

use super::{Ctx, Entry, Run, SUBCOMMAND};
use crate::denial_log::LogEntry;

/// How many entries it shows by default.
const COUNT_DEFAULT: usize = 10;

pub(super) const ACL_LOG: Entry = Entry {
    name: "log",
    summary: "Lists recent security events generated due to ACL rules.",
    complexity: "O(N) with N being the number of entries shown.",
    arity: -2,
    args: &[oneof("operation", &[integer("count"), token("reset", "RESET")]).optional()],
    history: &[("7.2.0", "Added entry ID, timestamp created, and timestamp last updated.")],
    reply: Shape::OneOf(&[Shape::OK, Shape::Array(&Shape::Map(&Shape::Bulk, &Shape::Any))]),
    run: Run::Function(acl_log),
    ..SUBCOMMAND
};

fn acl_log(ctx: &mut Ctx) -> CommandResult {
    let count = match ctx.args[2..] {
        [] => COUNT_DEFAULT,
        [word] if keyword_is(word, "reset") => {
            ctx.host.users.log().clear();
            ctx.reply.ok();
            return Ok(());
        }
        [count] => engine::parse_i64(count)?.max(0) as usize,
        _ => return Err(subcommand_error(ctx.args)),
    };
    let now_ms = ctx.host.now_ms;
    let log = ctx.host.users.log();
    ctx.reply.array(count.min(log.entries().len()));
    for entry in log.entries().iter().take(count) {
        write(&mut ctx.reply, entry, now_ms);
    }
    Ok(())
}

fn write(reply: &mut resp::Reply<'_>, entry: &LogEntry, now_ms: u64) {
    reply.map(10);
    reply.bulk(b"count");
    reply.int(entry.count as i64);
    for (name, text) in [
        ("reason", entry.reason.name().as_bytes()),
        ("context", entry.context.name().as_bytes()),
        ("object", &entry.object),
        ("username", &entry.user),
    ] {
        reply.bulk(name.as_bytes());
        reply.bulk(text);
    }
    reply.bulk(b"age-seconds");
    reply.double(now_ms.saturating_sub(entry.updated_ms) as f64 / 1000.0);
    reply.bulk(b"client-info");
    reply.bulk(entry.client.trim_end().as_bytes());
    for (name, number) in [
        ("entry-id", entry.id),
        ("timestamp-created", entry.created_ms),
        ("timestamp-last-updated", entry.updated_ms),
    ] {
        reply.bulk(name.as_bytes());
        reply.int(number as i64);
    }
}
