//! SUBSCRIBE, UNSUBSCRIBE, PSUBSCRIBE, PUNSUBSCRIBE and PUBLISH; and SSUBSCRIBE, SUNSUBSCRIBE and SPUBLISH, which have
//! a separate set of channels ([`Scope`]) without patterns.
//!
//! A channel is placed like a key: subscribing and publishing enter its shard. So a message either finds the
//! subscription or was published before it.

use std::sync::Arc;

use effectlog::Lsn;
use engine::Flag::*;
use engine::KeyFlag::NotKey;
use engine::{
    Channels, CommandResult, Group, KeySpec, Medium, Mode, Published, Receiver, Route, Rule, Shape, pattern,
    string,
};
use shard::{Scope, Subscriber};

use crate::overview::PUBSUB;
use crate::{Ctx, Entry, Run};

/// The commands of this crate.
pub const ENTRIES: &[Entry] =
    &[PSUBSCRIBE, PUBLISH, PUBSUB, PUNSUBSCRIBE, SPUBLISH, SSUBSCRIBE, SUBSCRIBE, SUNSUBSCRIBE, UNSUBSCRIBE];

const SUBSCRIBE: Entry = Entry {
    name: "subscribe",
    summary: "Listens for messages published to channels.",
    complexity: "O(N) where N is the number of channels to subscribe to.",
    since: "2.0.0",
    group: Group::PubSub,
    arity: -2,
    flags: &[PubSub, NoScript, Loading, Stale],
    rules: &[Rule::ForSubscribers],
    channels: Channels::From(1),
    route: Route::Channels(1),
    mode: Mode::Session,
    args: &[string("channel").multiple()],
    reply: Shape::Push,
    run: Run::Function(|ctx| subscribe(ctx, Scope::Global)),
    ..Entry::DEFAULT
};

const SSUBSCRIBE: Entry = Entry {
    name: "ssubscribe",
    summary: "Listens for messages published to shard channels.",
    complexity: "O(N) where N is the number of shard channels to subscribe to.",
    since: "7.0.0",
    keys: &[KeySpec::range(1, -1, 1, &[NotKey])],
    args: &[string("shardchannel").multiple()],
    run: Run::Function(|ctx| subscribe(ctx, Scope::Shard)),
    ..SUBSCRIBE
};

fn subscribe(ctx: &mut Ctx, scope: Scope) -> CommandResult {
    let subscriber = subscriber(ctx);
    for &channel in &ctx.args[1..] {
        if ctx.host.own().add_channel(scope, channel) {
            ctx.host.directory.add_channel(scope, channel, subscriber);
            let id = ctx.store.tx.hold.shards().placement().channel(channel);
            ctx.store.tx.hold.shard_mut(id).subscribers.add(scope, channel, subscriber);
        }
        confirm(ctx, scope, "subscribe", Some(channel));
    }
    Ok(())
}

const UNSUBSCRIBE: Entry = Entry {
    name: "unsubscribe",
    summary: "Stops listening to messages posted to channels.",
    complexity: "O(N) where N is the number of channels to unsubscribe.",
    since: "2.0.0",
    group: Group::PubSub,
    arity: -1,
    flags: &[PubSub, NoScript, Loading, Stale],
    rules: &[Rule::ForSubscribers, Rule::FollowsMessages],
    route: Route::Channels(1),
    mode: Mode::Session,
    args: &[string("channel").optional().multiple()],
    reply: Shape::Push,
    run: Run::Function(|ctx| unsubscribe(ctx, Scope::Global)),
    ..Entry::DEFAULT
};

const SUNSUBSCRIBE: Entry = Entry {
    name: "sunsubscribe",
    summary: "Stops listening to messages posted to shard channels.",
    complexity: "O(N) where N is the number of shard channels to unsubscribe.",
    since: "7.0.0",
    keys: &[KeySpec::range(1, -1, 1, &[NotKey])],
    args: &[string("shardchannel").optional().multiple()],
    run: Run::Function(|ctx| unsubscribe(ctx, Scope::Shard)),
    ..UNSUBSCRIBE
};

fn unsubscribe(ctx: &mut Ctx, scope: Scope) -> CommandResult {
    for &channel in &ctx.args[1..] {
        leave_channel(ctx, scope, channel);
        confirm(ctx, scope, "unsubscribe", Some(channel));
    }
    if ctx.args.len() == 1 {
        let channels = ctx.host.own().channels(scope).clone();
        for channel in &channels {
            leave_channel(ctx, scope, channel);
            confirm(ctx, scope, "unsubscribe", Some(channel));
        }
        if channels.is_empty() {
            confirm(ctx, scope, "unsubscribe", None);
        }
    }
    Ok(())
}

const PSUBSCRIBE: Entry = Entry {
    name: "psubscribe",
    summary: "Listens for messages published to channels that match one or more patterns.",
    complexity: "O(N) where N is the number of patterns to subscribe to.",
    since: "2.0.0",
    group: Group::PubSub,
    arity: -2,
    flags: &[PubSub, NoScript, Loading, Stale],
    rules: &[Rule::ForSubscribers],
    channels: Channels::Patterns(1),
    mode: Mode::Session,
    args: &[pattern("pattern").multiple()],
    reply: Shape::Push,
    run: Run::Function(psubscribe),
    ..Entry::DEFAULT
};

fn psubscribe(ctx: &mut Ctx) -> CommandResult {
    let subscriber = subscriber(ctx);
    for &pattern in &ctx.args[1..] {
        let shared: Arc<[u8]> = pattern.into();
        if ctx.host.own().add_pattern(&shared) {
            ctx.host.directory.add_pattern(&shared, subscriber);
        }
        confirm(ctx, Scope::Global, "psubscribe", Some(pattern));
    }
    Ok(())
}

const PUNSUBSCRIBE: Entry = Entry {
    name: "punsubscribe",
    summary: "Stops listening to messages published to channels that match one or more patterns.",
    complexity: "O(N) where N is the number of patterns to unsubscribe.",
    since: "2.0.0",
    group: Group::PubSub,
    arity: -1,
    flags: &[PubSub, NoScript, Loading, Stale],
    rules: &[Rule::ForSubscribers, Rule::FollowsMessages],
    mode: Mode::Session,
    args: &[pattern("pattern").optional().multiple()],
    reply: Shape::Push,
    run: Run::Function(punsubscribe),
    ..Entry::DEFAULT
};

fn punsubscribe(ctx: &mut Ctx) -> CommandResult {
    for &pattern in &ctx.args[1..] {
        leave_pattern(ctx, pattern);
        confirm(ctx, Scope::Global, "punsubscribe", Some(pattern));
    }
    if ctx.args.len() == 1 {
        let patterns = ctx.host.own().patterns().clone();
        for pattern in &patterns {
            leave_pattern(ctx, pattern);
            confirm(ctx, Scope::Global, "punsubscribe", Some(pattern));
        }
        if patterns.is_empty() {
            confirm(ctx, Scope::Global, "punsubscribe", None);
        }
    }
    Ok(())
}

fn subscriber(ctx: &Ctx) -> Subscriber {
    ctx.store.client.subscriber()
}

/// Confirms a change to the subscriptions, with the number of those that remain.
fn confirm(ctx: &mut Ctx, scope: Scope, what: &str, name: Option<&[u8]>) {
    let count = ctx.host.own().count(scope);
    let prefix = if scope == Scope::Shard { "s" } else { "" };
    ctx.reply.push(3);
    ctx.reply.bulk([prefix, what].concat().as_bytes());
    match name {
        Some(name) => ctx.reply.bulk(name),
        None => ctx.reply.null(),
    }
    ctx.reply.int(count as i64);
}

fn leave_channel(ctx: &mut Ctx, scope: Scope, channel: &[u8]) {
    let subscriber = subscriber(ctx);
    if ctx.host.own().remove_channel(scope, channel) {
        ctx.host.directory.remove_channel(scope, channel, subscriber);
        let id = ctx.store.tx.hold.shards().placement().channel(channel);
        ctx.store.tx.hold.shard_mut(id).subscribers.remove(scope, channel, subscriber);
    }
}

fn leave_pattern(ctx: &mut Ctx, pattern: &[u8]) {
    let subscriber = subscriber(ctx);
    if ctx.host.own().remove_pattern(pattern) {
        ctx.host.directory.remove_pattern(pattern, subscriber);
    }
}

/// Ends all subscriptions of the client without a reply. The shards of its channels must be entered.
pub fn leave_all(ctx: &mut Ctx) {
    let patterns = ctx.host.own().patterns().clone();
    for scope in [Scope::Global, Scope::Shard] {
        for channel in ctx.host.own().channels(scope).clone() {
            leave_channel(ctx, scope, &channel);
        }
    }
    for pattern in &patterns {
        leave_pattern(ctx, pattern);
    }
}

const PUBLISH: Entry = Entry {
    name: "publish",
    summary: "Posts a message to a channel.",
    complexity: "O(N+M) where N is the number of clients subscribed to the receiving channel and M is the total number of subscribed patterns (by any client).",
    since: "2.0.0",
    group: Group::PubSub,
    arity: 3,
    flags: &[PubSub, Loading, Stale, Fast, MayReplicate],
    rules: &[Rule::LeavesNothing],
    channels: Channels::One(1),
    route: Route::Channel(1),
    args: &[string("channel"), string("message")],
    reply: Shape::Int,
    run: Run::Function(|ctx| publish(ctx, Scope::Global)),
    ..Entry::DEFAULT
};

const SPUBLISH: Entry = Entry {
    name: "spublish",
    summary: "Post a message to a shard channel",
    complexity: "O(N) where N is the number of clients subscribed to the receiving shard channel.",
    since: "7.0.0",
    keys: &[KeySpec::one(1, &[NotKey])],
    args: &[string("shardchannel"), string("message")],
    run: Run::Function(|ctx| publish(ctx, Scope::Shard)),
    ..PUBLISH
};

fn publish(ctx: &mut Ctx, scope: Scope) -> CommandResult {
    let (channel, message) = (ctx.args[1], ctx.args[2]);
    let id = ctx.store.tx.hold.shards().placement().channel(channel);
    let subscribers = ctx.store.tx.hold.shard(id).subscribers.of(scope, channel);
    let mut to: Vec<Receiver> =
        subscribers.iter().map(|&subscriber| Receiver { subscriber, pattern: None }).collect();
    if scope == Scope::Global {
        ctx.host.directory.add_matching(channel, &mut to);
    }
    ctx.reply.int(to.len() as i64);
    if ctx.store.tx.record.is_on() && ctx.host.tells_replicas {
        ctx.store.tell_replicas(ctx.args);
    }
    if !to.is_empty() {
        let medium = Medium::Channel(scope);
        let (channel, message) = (channel.into(), message.into());
        let by = subscriber(ctx);
        let published =
            Published { to, medium, channel, message, held_for: Lsn::NONE, by: Some(by), memory: None };
        ctx.store.tx.publish_by(by, published);
    }
    Ok(())
}
