//! `me` and `mn`: commands that only report something.

use engine::{CommandResult, Ctx, Entry, Run};
use resp::memcached::base64;

use super::{Expiry, READ, line};

pub(super) const MN: Entry = Entry { name: "mn", keys: &[], run: Run::Function(mn), ..READ };

fn mn(ctx: &mut Ctx) -> CommandResult {
    line(ctx, &[b"MN"]);
    Ok(())
}

pub(super) const ME: Entry = Entry { name: "me", run: Run::Function(me), ..READ };

/// `ME <key> exp=<seconds, negative> la=<seconds> cas=<number> fetch=<yes or no> cls=1 size=<bytes>`
fn me(ctx: &mut Ctx) -> CommandResult {
    let (key, now) = (ctx.args[1], ctx.store.now());
    let cas = ctx.store.cas(key);
    let Some(record) = ctx.store.peek(key) else {
        line(ctx, &[b"EN"]);
        return Ok(());
    };
    let left = Expiry::of(record.expiry()).seconds_left(now);
    let text = format!(
        " exp={} la={} cas={cas} fetch={} cls=1 size={}",
        if left < 0 { -1 } else { -left },
        record.idle_seconds((now / 1000) as u32),
        if record.was_read() { "yes" } else { "no" },
        record.memory_bytes(),
    );
    let mut shown = key.to_vec();
    if ctx.args.get(2).is_some_and(|word| *word == b"b") {
        shown.clear();
        base64::encode(key, &mut shown);
    }
    line(ctx, &[b"ME ", &shown, text.as_bytes()]);
    Ok(())
}
