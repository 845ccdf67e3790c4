//! `touch` and `delete`: set when an item expires, and delete it.

use engine::{CommandResult, Ctx, Entry, Run};
use resp::memcached::number::parse_i32;

use super::{BAD_EXPTIME, Expiry, WRITE, answer_line};

pub(super) const TOUCH: Entry = Entry { name: "touch", run: Run::Function(touch), ..WRITE };

fn touch(ctx: &mut Ctx) -> CommandResult {
    answer_line(ctx, |ctx| {
        let key = ctx.args[1];
        let Some(exptime) = parse_i32(ctx.args[2]) else { return Ok(BAD_EXPTIME) };
        if ctx.store.read_record(key).is_none() {
            return Ok("NOT_FOUND");
        }
        Expiry::new(exptime, ctx.store.now()).apply(ctx, key);
        Ok("TOUCHED")
    })
}

pub(super) const DELETE: Entry = Entry { name: "delete", run: Run::Function(delete), ..WRITE };

fn delete(ctx: &mut Ctx) -> CommandResult {
    answer_line(ctx, |ctx| Ok(if ctx.store.delete(ctx.args[1]) { "DELETED" } else { "NOT_FOUND" }))
}
