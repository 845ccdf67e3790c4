//! Lets subscribers hear what they tell themselves, and runs the commands of `pubsub`.
//!
//! Not here: messages to other clients (`connections/delivery.rs`).

use clients::Invalid;
use engine::{CommandResult, Medium, Needs, OwnCall, Rule};
use proactor::ConnId;
use pubsub::{Function, Keys, Subscribing, Way};
use resp::{Output, Proto, Reply};

use crate::message::{Message, News};
use crate::thread::{Thread, ThreadHost};

/// Writes the messages that have arrived for the current client, and the news that keys which it tracks have changed.
/// As in Redis, a message of a client to itself comes right after the reply to the command that caused it, rather than
/// at the end of the pipeline.
pub(crate) fn deliver_to_current(host: &mut ThreadHost, out: &mut Output) {
    host.net.mailroom.fetch();
    let client = host.session().client;
    let (own, conn) = (client.subscriber(), ConnId::from_bits(client.connection));
    let tracks = host.session().tracking.is_some();
    let mut arrived = Vec::new();
    for message in host.net.mailroom.come_mut() {
        let published = match message {
            Message::Deliver(published) => std::slice::from_mut(published),
            Message::Done(_, published) => published,
            Message::News(News::Flushed(told @ None), _) if tracks => {
                *told = Some(conn);
                // All keys have changed.
                arrived.push(None);
                continue;
            }
            _ => continue,
        };
        let taken = published.iter_mut().filter_map(|published| pubsub::take_for(published, own));
        arrived.extend(taken.map(Some));
    }
    for arrived in &arrived {
        match arrived {
            Some(published) if published.medium == Medium::Invalidation => {
                let keys = Keys::from([published.message.clone()]);
                tell_current(host, Invalid::Read { keys: &keys, is_own: published.by == Some(own) }, out);
            }
            Some(published) => {
                pubsub::write_message(published, &host.session().subscriptions, client.proto, out);
            }
            None => tell_current(host, Invalid::All, out),
        }
    }
}

/// Tells the current client, or the connection to which it redirects, that keys have changed.
fn tell_current(host: &mut ThreadHost, invalid: Invalid<'_>, out: &mut Output) {
    let registry = &host.shared.registry;
    let Some(way) = invalid.way(host.session(), registry) else { return };
    let client = host.session().client;
    let is_subscriber = host.session().is_subscriber();
    let mut reply = Reply::new(out, client.proto);
    match way {
        Way::To(target) if target == client.subscriber() => {
            if client.proto == Proto::Resp3 || is_subscriber {
                pubsub::write_news(&mut reply, invalid.keys());
            }
        }
        Way::To(target) => {
            host.outputs.delivery.tell_target(target, invalid.keys(), &mut host.net);
        }
        Way::Itself | Way::Broken(_) => invalid.write(way, &mut reply),
    }
}

/// Writes messages of the current client to itself, after the reply to its command.
#[cold]
pub(crate) fn hear_itself(thread: &mut Thread, out: &mut Output) {
    thread.tx.told_itself = false;
    // This also sends published messages.
    thread.leave_all();
    deliver_to_current(&mut thread.host, out);
}

/// Runs a command of `pubsub`.
pub(crate) fn run(host: &mut ThreadHost, function: Function, mut call: OwnCall<'_, '_>) -> CommandResult {
    if call.command.entry.is_under(Rule::FollowsMessages) {
        deliver_before_reply(host, &mut call);
    }
    function(&mut call.on(&mut subscribing(host)))
}

/// Delivers messages that the client is still to get before the reply to a call. Does nothing inside MULTI, where the
/// reply to EXEC has already begun.
pub(crate) fn deliver_before_reply(host: &mut ThreadHost, call: &mut OwnCall<'_, '_>) {
    if !call.store.client.deny_blocking {
        deliver_to_current(host, call.reply.out());
    }
}

/// What the commands of `pubsub` work with.
pub(crate) fn subscribing(host: &mut ThreadHost) -> Subscribing<'_> {
    let shared = host.shared;
    Subscribing {
        subscriptions: host.current.as_deref_mut().map(|session| &mut session.subscriptions),
        directory: &shared.directory,
        tells_replicas: shared.journal.is_streaming(),
    }
}

impl ThreadHost {
    /// The shards of all channels to which the current client is subscribed.
    pub(crate) fn subscribed_needs(&mut self) -> Needs {
        let placement = self.shared.shards.placement();
        let session = self.session();
        if session.tracking.as_ref().is_some_and(|tracking| tracking.broadcasts) {
            // Its prefixes are known to all shards.
            return Needs::All;
        }
        let channels = session.subscriptions.all_channels();
        Needs::several(channels.map(|(_, channel)| placement.channel(channel)).collect())
    }
}
