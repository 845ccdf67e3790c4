//! What the pops of lists and sorted sets that wait for a key have in common.

use command::{BlockOn, CommandError, CommandResult, Ctx, Serve, When};
use keyspace::Kind;

/// Pops by `pop` from the first of `keys` that holds something. If none does, the client waits `timeout_ms` (0: for ever)
/// for a value of `kind`, to be served by `serve`, or gets a null array where it may not wait.
///
/// A client that may be gone when the reply comes home is served like one that waited, so that what it misses goes back.
#[inline]
pub(crate) fn pop_or_block(
    ctx: &mut Ctx,
    keys: &[&[u8]],
    kind: Kind,
    timeout_ms: u64,
    serve: Serve,
    pop: impl Fn(&mut Ctx, &[u8]) -> Result<bool, CommandError>,
) -> CommandResult {
    let found = ctx.in_turn(keys, |ctx, key| {
        if ctx.store.client.may_be_gone && ctx.store.exists(key) {
            return serve(ctx, key);
        }
        pop(ctx, key)
    })?;
    if found {
        return Ok(());
    }
    if ctx.may_block() {
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
    } else {
        ctx.reply.null_array();
    }
    Ok(())
}
