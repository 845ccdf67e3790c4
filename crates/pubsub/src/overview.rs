//! PUBSUB: shows which channels have subscribers, and how many.

use engine::Flag::*;
use engine::{CommandResult, Group, Mode, Route, Shape, pattern, string, subcommand_error};
use shard::Scope;

use crate::{Ctx, Entry, Run};

/// PUBSUB and its subcommands.
pub(crate) const PUBSUB: Entry = Entry {
    name: "pubsub",
    summary: "A container for Pub/Sub commands.",
    complexity: "Depends on subcommand.",
    since: "2.8.0",
    group: Group::PubSub,
    arity: -2,
    subcommands: &[
        PUBSUB_CHANNELS,
        PUBSUB_HELP,
        PUBSUB_NUMPAT,
        PUBSUB_NUMSUB,
        PUBSUB_SHARDCHANNELS,
        PUBSUB_SHARDNUMSUB,
    ],
    ..Entry::DEFAULT
};

const PUBSUB_CHANNELS: Entry = Entry {
    name: "channels",
    summary: "Returns the active channels.",
    complexity: "O(N) where N is the number of active channels, and assuming constant time pattern matching (relatively short channels and patterns)",
    since: "2.8.0",
    group: Group::PubSub,
    arity: -2,
    flags: &[PubSub, Loading, Stale],
    route: Route::Global,
    args: &[pattern("pattern").optional()],
    reply: Shape::BULKS,
    run: Run::Function(|ctx| pubsub_channels(ctx, Scope::Global)),
    ..Entry::DEFAULT
};

const PUBSUB_SHARDCHANNELS: Entry = Entry {
    name: "shardchannels",
    summary: "Returns the active shard channels.",
    complexity: "O(N) where N is the number of active shard channels, and assuming constant time pattern matching (relatively short shard channels).",
    since: "7.0.0",
    run: Run::Function(|ctx| pubsub_channels(ctx, Scope::Shard)),
    ..PUBSUB_CHANNELS
};

fn pubsub_channels(ctx: &mut Ctx, scope: Scope) -> CommandResult {
    let wanted = match *ctx.args {
        [_, _] => None,
        [_, _, wanted] => Some(wanted),
        _ => return Err(subcommand_error(ctx.args)),
    };
    let mark = ctx.reply.deferred();
    let mut count = 0;
    for id in ctx.store.tx.hold.shards().used() {
        for channel in ctx.store.tx.hold.shard(id).subscribers.channels(scope) {
            if wanted.is_none_or(|wanted| ds::glob::matches(wanted, channel, false)) {
                ctx.reply.bulk(channel);
                count += 1;
            }
        }
    }
    ctx.reply.finish_array(mark, count);
    Ok(())
}

const PUBSUB_NUMSUB: Entry = Entry {
    name: "numsub",
    summary: "Returns a count of subscribers to channels.",
    complexity: "O(N) for the NUMSUB subcommand, where N is the number of requested channels",
    since: "2.8.0",
    group: Group::PubSub,
    arity: -2,
    flags: &[PubSub, Loading, Stale],
    route: Route::Channels(2),
    args: &[string("channel").optional().multiple()],
    reply: Shape::Array(&Shape::OneOf(&[Shape::Bulk, Shape::Int])),
    // Its channels may lie on several shards.
    mode: Mode::Session,
    run: Run::Function(|ctx| pubsub_numsub(ctx, Scope::Global)),
    ..Entry::DEFAULT
};

const PUBSUB_SHARDNUMSUB: Entry = Entry {
    name: "shardnumsub",
    summary: "Returns the count of subscribers of shard channels.",
    complexity: "O(N) for the SHARDNUMSUB subcommand, where N is the number of requested shard channels",
    since: "7.0.0",
    args: &[string("shardchannel").optional().multiple()],
    run: Run::Function(|ctx| pubsub_numsub(ctx, Scope::Shard)),
    ..PUBSUB_NUMSUB
};

fn pubsub_numsub(ctx: &mut Ctx, scope: Scope) -> CommandResult {
    ctx.reply.array((ctx.args.len() - 2) * 2);
    for &channel in &ctx.args[2..] {
        let id = ctx.store.tx.hold.shards().placement().channel(channel);
        ctx.reply.bulk(channel);
        ctx.reply.int(ctx.store.tx.hold.shard(id).subscribers.of(scope, channel).len() as i64);
    }
    Ok(())
}

const PUBSUB_NUMPAT: Entry = Entry {
    name: "numpat",
    summary: "Returns a count of unique pattern subscriptions.",
    since: "2.8.0",
    group: Group::PubSub,
    arity: 2,
    flags: &[PubSub, Loading, Stale],
    reply: Shape::Int,
    run: Run::Function(pubsub_numpat),
    ..Entry::DEFAULT
};

fn pubsub_numpat(ctx: &mut Ctx) -> CommandResult {
    ctx.reply.int(ctx.host.directory.pattern_count() as i64);
    Ok(())
}

const PUBSUB_HELP: Entry =
    Entry { since: "6.2.0", group: Group::PubSub, run: Run::Function(pubsub_help), ..Entry::HELP };

fn pubsub_help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(&[
        "CHANNELS [<pattern>]",
        "    Return the currently active channels matching a <pattern> (default: '*').",
        "NUMPAT",
        "    Return number of subscriptions to patterns.",
        "NUMSUB [<channel> ...]",
        "    Return the number of subscribers for the specified channels, excluding",
        "    pattern subscriptions(default: no channels).",
        "SHARDCHANNELS [<pattern>]",
        "    Return the currently active shard level channels matching a <pattern> (default: '*').",
        "SHARDNUMSUB [<shardchannel> ...]",
        "    Return the number of subscribers for the specified shard level channel(s)",
    ])
}
