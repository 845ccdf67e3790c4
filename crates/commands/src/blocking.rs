//! What the pops of lists and sorted sets that found nothing have in common.

use command::{BlockOn, Ctx, Serve, When};
use keyspace::Kind;

/// The client waits `timeout_ms` (0: for ever) for a value of `kind` at one of `keys`, to be served by `serve`, or gets a
/// null array where it may not wait.
pub(crate) fn block_or_null(ctx: &mut Ctx, keys: &[&[u8]], kind: Kind, timeout_ms: u64, serve: Serve) {
    if !ctx.may_block() {
        return ctx.reply.null_array();
    }
    let (args, when) = (ctx.args, When::Holds(kind));
    ctx.block(&BlockOn {
        args,
        keys,
        when,
        also: None,
        timeout_ms,
        heeds_loss: false,
        serve,
        null_array: true,
    });
}
