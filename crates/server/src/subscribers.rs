//! Lets subscribers hear what they tell themselves, and runs the commands of `pubsub`.
//!
//! Not here: messages to other clients (`connections/delivery.rs`).

use clients::Invalid;
use clients::session::Session;
use engine::{CommandResult, Medium, OwnCall, Rule};
use proactor::ConnId;
use pubsub::{Function, Keys, Subscribing, Way};
use resp::{Output, Proto, Reply};

use crate::connections::delivery::Delivery;
use crate::connections::network::Network;
use crate::message::{Message, News};
use crate::thread::{Thread, ThreadHost, running};

/// Writes the messages that have arrived for a client whose command runs, and the news that keys which it tracks have changed.
/// As in Redis, a message of a client to itself comes right after the reply to the command that caused it, rather than
/// at the end of the pipeline.
pub(crate) fn deliver_to(
    session: &mut Session,
    net: &mut Network,
    delivery: &mut Delivery,
    out: &mut Output,
) {
    net.messages.fetch();
    let client = session.client;
    let (own, conn) = (client.subscriber(), ConnId::from_bits(client.connection));
    let tracks = session.tracking.is_some();
    let mut arrived = Vec::new();
    for message in net.messages.come_mut() {
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
                let is_own = published.by == Some(own);
                tell(session, net, delivery, Invalid::Read { keys: &keys, is_own }, out);
            }
            Some(published) => {
                pubsub::write_message(published, &session.subscriptions, client.proto, out);
            }
            None => tell(session, net, delivery, Invalid::All, out),
        }
    }
}

/// Tells a client whose command runs, or the connection to which it redirects, that keys have changed.
fn tell(
    session: &mut Session,
    net: &mut Network,
    delivery: &mut Delivery,
    invalid: Invalid<'_>,
    out: &mut Output,
) {
    let Some(way) = invalid.way(session, net.registry) else { return };
    let client = session.client;
    let is_subscriber = session.is_subscriber();
    let mut reply = Reply::new(out, client.proto);
    match way {
        Way::To(target) if target == client.subscriber() => {
            if client.proto == Proto::Resp3 || is_subscriber {
                pubsub::write_news(&mut reply, invalid.keys());
            }
        }
        Way::To(target) => {
            delivery.tell_target(target, invalid.keys(), net);
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
    let ThreadHost { current, net, outputs, .. } = &mut thread.host;
    deliver_to(running(current), net, &mut outputs.delivery, out);
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
        let ThreadHost { current, net, outputs, .. } = host;
        deliver_to(running(current), net, &mut outputs.delivery, call.reply.out());
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
