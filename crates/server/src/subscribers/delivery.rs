//! Delivering published messages.
//!
//! ```text
//!   PUBLISH, on any thread that entered the channel's shard ── one message per thread with receivers ──▶ its inbox
//!   there: encoded once per protocol (and pattern), appended to the output of every receiver
//! ```
//!
//! Messages of one publisher reach one subscriber in their order: a thread sends what it published before it
//! delegates the publisher's next command or answers for a delegated one, and what it sends itself stands in the same
//! inbox as what others send it. What a publisher sends himself comes after the reply.
//!
//! Messages are sent while the channel's shard is held. So all receivers get the messages of one channel in the same order;
//! and a client that unsubscribes, which enters the shard, finds all that it was counted for in the inbox of its thread, and
//! gets it before the reply. For a pattern, which has no shard, a message that is on its way just then is dropped.
//!
//! Keyspace events enter no shard: who subscribed to their channels is known in a list of its own, beside the shards. They
//! are sent before the changed keys are let go of, so the events of a key arrive in the order of its changes. Threads that
//! sleep are woken after that.

use std::sync::Arc;

use command::{Medium, Needs, Post, Published, Receiver};
use proactor::ConnId;
use resp::{Output, Proto, Reply};
use shard::Scope;

use crate::message::Message;
use crate::subscribers::patterns::PatternMap;
use crate::thread::{Thread, ThreadHost};

/// Whether keyspace events are published on this channel.
pub(crate) fn is_for_events(channel: &[u8]) -> bool {
    channel.starts_with(b"__keyspace@") || channel.starts_with(b"__keyevent@")
}

impl ThreadHost {
    /// Sends a published message to the threads of its receivers.
    pub(crate) fn send_out(&mut self, published: Published) {
        self.push_out(published);
        self.wake_sleepers();
    }

    /// Wakes those who were sent something.
    #[inline]
    pub(crate) fn wake_sleepers(&mut self) {
        while let Some(thread) = self.sleepers.pop() {
            self.shared.threads[usize::from(thread)].ring();
        }
    }

    fn push_out(&mut self, mut published: Published) {
        published.to.sort_by_key(|receiver| receiver.subscriber.thread);
        while let Some(last) = published.to.last() {
            let thread = last.subscriber.thread;
            let start = published.to.partition_point(|receiver| receiver.subscriber.thread < thread);
            let (medium, channel, message) =
                (published.medium, published.channel.clone(), published.message.clone());
            let to = published.to.split_off(start);
            let published = Published { to, medium, channel, message, held_for: published.held_for };
            if self.shared.threads[usize::from(thread)].push(Message::Deliver(published)) {
                self.sleepers.add(thread);
            }
        }
    }

    /// Writes what was published for the current client, and is here but not delivered, before its reply.
    pub(crate) fn deliver_before_reply(&mut self, reply: &mut Reply) {
        self.fetch_mail();
        let session = self.current.as_deref_mut().expect("a command runs for a client");
        for message in &mut self.own_mail {
            let published = match message {
                Message::Deliver(published) => std::slice::from_mut(published),
                Message::Done(_, published) => published,
                _ => continue,
            };
            for published in published {
                let Medium::Channel(scope) = published.medium else { continue };
                let is_for_it =
                    |receiver: &mut Receiver| receiver.subscriber.connection == session.client.connection;
                for receiver in published.to.extract_if(.., is_for_it).collect::<Vec<_>>() {
                    if session.is_subscribed(scope, &published.channel, receiver.pattern.as_deref()) {
                        let pattern = receiver.pattern.as_deref();
                        reply.out().push_shared(encode(published, scope, pattern, session.client.proto));
                    }
                }
            }
        }
    }

    /// The shards of all that the current client subscribed to.
    pub(crate) fn subscribed_needs(&mut self) -> Needs {
        let placement = self.shared.shards.placement();
        let session = self.session();
        if session.tracking.as_ref().is_some_and(|tracking| tracking.broadcasts) {
            // Its prefixes are known to all of them.
            return Needs::All;
        }
        let channels = session.channels.iter().chain(&session.shard_channels);
        Needs::several(channels.map(|channel| placement.channel(channel)).collect())
    }
}

/// The pattern that a message was encoded for, if any, and its bytes.
type Encoded<'a> = (Option<&'a [u8]>, Arc<Vec<u8>>);

impl Thread {
    /// Takes what the last task published out of the posts, as far as its receivers are on `thread`.
    pub(crate) fn take_published_for(&mut self, thread: u16) -> Vec<Published> {
        let mut taken = Vec::new();
        for post in &mut self.tx.posts {
            if let Post::Published(published) = post {
                let all = std::mem::take(&mut published.to);
                let (there, elsewhere) =
                    all.into_iter().partition(|receiver| receiver.subscriber.thread == thread);
                published.to = elsewhere;
                let (channel, message) = (published.channel.clone(), published.message.clone());
                let (medium, held_for) = (published.medium, published.held_for);
                taken.push(Published { to: there, medium, channel, message, held_for });
            }
        }
        taken
    }

    /// Sends what was published, ahead of the other posts and while the shards are held.
    #[inline]
    pub(crate) fn send_published(&mut self) {
        for post in self.tx.posts.extract_if(.., |post| matches!(post, Post::Published(_))) {
            if let Post::Published(published) = post {
                self.host.push_out(published);
            }
        }
    }

    /// Writes a message to its subscribers on this thread.
    pub(crate) fn deliver(&mut self, published: &Published) {
        let Medium::Channel(scope) = published.medium else { return self.deliver_invalidation(published) };
        // The last encoding for each protocol.
        let mut encoded: [Option<Encoded>; 2] = [None, None];
        for receiver in &published.to {
            let conn = ConnId::from_bits(receiver.subscriber.connection);
            let pattern = receiver.pattern.as_deref();
            let Some(session) = self.host.connections.session(conn) else { continue };
            if !session.is_subscribed(scope, &published.channel, pattern) {
                continue;
            }
            let proto = session.client.proto;
            let slot = &mut encoded[usize::from(proto == Proto::Resp3)];
            let bytes = match slot {
                Some((for_pattern, bytes)) if *for_pattern == pattern => bytes,
                _ => &slot.insert((pattern, encode(published, scope, pattern, proto))).1,
            };
            if let Some(output) = self.host.driver.output_mut(conn) {
                let mark = output.mark();
                output.push_shared(bytes.clone());
                output.hold_from(mark, published.held_for);
            }
            self.check_output(conn);
        }
    }

    /// Sends the events of the running transaction to those who subscribed. That is done while the changed keys are still
    /// held: whoever changes them next sends his events after these.
    pub(crate) fn send_events(&mut self) {
        let events: Vec<Post> =
            self.tx.posts.extract_if(.., |post| matches!(post, Post::Event { .. })).collect();
        let shared = self.host.shared;
        if events.is_empty() || shared.patterns.len() + shared.event_channels.len() == 0 {
            return;
        }
        let (channels, patterns) = (shared.event_channels.snapshot(), shared.patterns.snapshot());
        for event in events {
            let Post::Event { channel, message } = event else { continue };
            let subscribed = channels.get(&*channel).into_iter().flatten();
            let mut to: Vec<Receiver> =
                subscribed.map(|&subscriber| Receiver { subscriber, pattern: None }).collect();
            to.extend(matching(&patterns, &channel));
            let medium = Medium::Channel(Scope::Global);
            let (channel, message) = (channel.into(), message.into());
            self.host.push_out(Published { to, medium, channel, message, held_for: 0 });
        }
    }
}

/// Those who get what is published on `channel` by patterns.
pub(crate) fn matching(patterns: &PatternMap, channel: &[u8]) -> impl Iterator<Item = Receiver> {
    let matching = patterns.iter().filter(move |(pattern, _)| ds::glob::matches(pattern, channel, false));
    matching.flat_map(|(pattern, subscribers)| {
        subscribers.iter().map(|&subscriber| Receiver { subscriber, pattern: Some(pattern.clone()) })
    })
}

/// The message as a client gets it.
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
