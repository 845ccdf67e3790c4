//! Delivers published messages to their receivers.
//!
//! ```text
//!   PUBLISH, on any thread that entered the channel's shard ── one message per thread with receivers ──▶ its inbox
//!   there: encoded once per protocol (and pattern), appended to the output of every receiver
//! ```
//!
//! Messages of one publisher reach one subscriber in order: a thread sends what it published before it delegates the
//! publisher's next command or replies for a delegated one, and its own messages go through the same inbox as those of
//! other threads. A publisher's message to itself comes right after the reply, before the reply to its next command.
//!
//! Messages are sent while the channel's shard is held. So all receivers get the messages of one channel in the same
//! order. A client that unsubscribes enters the shard, finds all messages for which it was counted in the inbox of its
//! thread, and gets them before the reply. For a pattern, which has no shard, a message that is on its way at that
//! moment is dropped.
//!
//! Keyspace events enter no shard: a separate list, beside the shards, has the subscribers of their channels. They are
//! sent before the shards of the changed keys are left, so the events of a key arrive in the order of its changes.
//! Sleeping threads are woken after that.
//!
//! This file divides messages among threads, and encodes them. Inboxes and outputs are the server's.

use std::sync::Arc;

use engine::{Medium, Published, Receiver, TxMessage};
use resp::{Output, Proto, Reply};
use shard::{Scope, Subscriber};

use crate::subscriptions::Subscriptions;

/// Splits a message by the threads of its receivers; `send` gets one part for each thread.
pub fn split_by_thread(mut published: Published, mut send: impl FnMut(u16, Published)) {
    published.to.sort_by_key(|receiver| receiver.subscriber.thread);
    while let Some(last) = published.to.last() {
        let thread = last.subscriber.thread;
        let start = published.to.partition_point(|receiver| receiver.subscriber.thread < thread);
        let to = published.to.split_off(start);
        send(thread, published.to_others(to));
    }
}

/// Takes messages for receivers on `thread` out of `outbox`.
pub fn take_for_thread(outbox: &mut [TxMessage], thread: u16) -> Vec<Published> {
    let mut taken = Vec::new();
    for message in outbox {
        if let TxMessage::Published(published) = message {
            let all = std::mem::take(&mut published.to);
            let (there, elsewhere) =
                all.into_iter().partition(|receiver| receiver.subscriber.thread == thread);
            published.to = elsewhere;
            taken.push(published.to_others(there));
        }
    }
    taken
}

/// Takes out what a client gets of a message; `None`: nothing.
pub fn take_for(published: &mut Published, client: Subscriber) -> Option<Published> {
    let to: Vec<Receiver> = published.to.extract_if(.., |receiver| receiver.subscriber == client).collect();
    (!to.is_empty()).then(|| published.to_others(to))
}

/// Whether a receiver of a message on a channel of this kind still gets it: it is subscribed, or published the message
/// itself.
pub fn is_for(
    published: &Published,
    receiver: &Receiver,
    scope: Scope,
    subscriptions: &Subscriptions,
) -> bool {
    published.by == Some(receiver.subscriber)
        || subscriptions.has(scope, &published.channel, receiver.pattern.as_deref())
}

/// Writes a message on a channel to one client, for those of its subscriptions that still exist.
pub fn write_message(published: &Published, subscriptions: &Subscriptions, proto: Proto, out: &mut Output) {
    let Medium::Channel(scope) = published.medium else { return };
    for receiver in published.to.iter().filter(|receiver| is_for(published, receiver, scope, subscriptions)) {
        let mark = out.mark();
        out.push_shared(encode(published, scope, receiver.pattern.as_deref(), proto));
        out.hold_from(mark, published.held_for.get());
    }
}

/// Caches the encoded message: all receivers of the same bytes share them. Receivers are sorted by pattern, so one
/// encoding for each protocol suffices.
#[derive(Default)]
pub struct Encodings<'a>([Option<Encoded<'a>>; 2]);

/// An encoded message, and the pattern that it was encoded for, if any.
type Encoded<'a> = (Option<&'a [u8]>, Arc<Vec<u8>>);

impl<'a> Encodings<'a> {
    /// The message for a client of protocol `proto` that subscribed to `pattern`, or to the channel (`None`).
    pub fn get(
        &mut self,
        published: &Published,
        scope: Scope,
        pattern: Option<&'a [u8]>,
        proto: Proto,
    ) -> Arc<Vec<u8>> {
        let slot = &mut self.0[usize::from(proto == Proto::Resp3)];
        match slot {
            Some((for_pattern, bytes)) if *for_pattern == pattern => bytes.clone(),
            _ => slot.insert((pattern, encode(published, scope, pattern, proto))).1.clone(),
        }
    }
}

/// Encodes the message.
fn encode(published: &Published, scope: Scope, pattern: Option<&[u8]>, proto: Proto) -> Arc<Vec<u8>> {
    let mut out = Output::new();
    let mut reply = Reply::new(&mut out, proto);
    match pattern {
        None => {
            reply.push(3);
            reply.bulk(match scope {
                Scope::Global => b"message",
                Scope::Shard => b"smessage",
            });
        }
        Some(pattern) => {
            reply.push(4);
            reply.bulk(b"pmessage");
            reply.bulk(pattern);
        }
    }
    reply.bulk(&published.channel);
    reply.bulk(&published.message);
    Arc::new(out.to_vec())
}

#[cfg(test)]
mod tests {
    use effectlog::Lsn;

    use super::*;

    fn published(to: &[(u16, u64, Option<&str>)]) -> Published {
        let receiver = |&(thread, connection, pattern): &(u16, u64, Option<&str>)| Receiver {
            subscriber: Subscriber { thread, connection },
            pattern: pattern.map(|pattern| pattern.as_bytes().into()),
        };
        let (channel, message) = (Arc::from(*b"news"), Arc::from(*b"hello"));
        let medium = Medium::Channel(Scope::Global);
        let to = to.iter().map(receiver).collect();
        Published { to, medium, channel, message, held_for: Lsn::new(7), by: None, memory: None }
    }

    fn connections(published: &Published) -> Vec<u64> {
        published.to.iter().map(|receiver| receiver.subscriber.connection).collect()
    }

    const TO: &[(u16, u64, Option<&str>)] =
        &[(1, 10, None), (0, 20, None), (1, 30, None), (0, 20, Some("n*")), (1, 10, Some("n*"))];

    #[test]
    fn each_thread_gets_one_message_with_its_receivers_in_their_order() {
        let mut sent = Vec::new();
        split_by_thread(published(TO), |thread, part| {
            assert_eq!(part.held_for, Lsn::new(7));
            sent.push((thread, connections(&part)));
        });
        assert_eq!(sent, [(1, vec![10, 30, 10]), (0, vec![20, 20])]);
    }

    #[test]
    fn what_is_for_one_thread_is_taken_out() {
        let mut outbox = [TxMessage::Flushed, TxMessage::Published(published(TO))];
        let taken = take_for_thread(&mut outbox, 1);
        assert_eq!(taken.iter().map(connections).collect::<Vec<_>>(), [[10, 30, 10]]);
        let TxMessage::Published(left) = &outbox[1] else { panic!("it stays in its place") };
        assert_eq!(connections(left), [20, 20]);
    }

    #[test]
    fn a_client_that_leaves_gets_what_it_is_still_subscribed_to() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.add_pattern(&Arc::from(*b"n*"));
        let mut message = published(TO);
        let mut out = Output::new();
        let client = Subscriber { thread: 0, connection: 20 };
        let mut taken = take_for(&mut message, client).expect("it is a receiver");
        write_message(&taken, &subscriptions, Proto::Resp3, &mut out);
        const BY_PATTERN: &[u8] = b">4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$5\r\nhello\r\n";
        assert_eq!(out.to_vec(), BY_PATTERN);
        assert_eq!(connections(&message), [10, 30, 10]);
        assert!(take_for(&mut message, client).is_none());
        // A client's own message reaches it even if it has unsubscribed since publishing.
        (taken.by, out) = (Some(client), Output::new());
        write_message(&taken, &subscriptions, Proto::Resp3, &mut out);
        let by_name: &[u8] = b">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n";
        assert_eq!(out.to_vec(), [by_name, BY_PATTERN].concat());
    }

    #[test]
    fn a_message_is_encoded_once_for_those_who_get_the_same() {
        let message = published(&[]);
        let mut encodings = Encodings::default();
        let mut get = |pattern, proto| encodings.get(&message, Scope::Global, pattern, proto);
        let first = get(None, Proto::Resp2);
        assert_eq!(**first, *b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n");
        let third = get(None, Proto::Resp3);
        assert!(
            Arc::ptr_eq(&first, &get(None, Proto::Resp2)) && Arc::ptr_eq(&third, &get(None, Proto::Resp3))
        );
        assert!(third.starts_with(b">3\r\n") && get(Some(b"n*"), Proto::Resp2).starts_with(b"*4\r\n"));
    }
}
