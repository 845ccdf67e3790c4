//! Brings messages to the connections of clients that asked for them: those of channels and patterns, and news of keys
//! that they track. What is sent to whom, and how it reads, is in `pubsub`; here are inboxes, sessions and outputs.

use command::{Forget, Medium, Needs, OwnedArgs, Post, Published, Task, Work};
use proactor::ConnId;
use pubsub::{Directory, Door, Encodings, Keys, Subscriptions, Way};
use resp::{Output, Proto, Reply};
use session::Session;
use shard::Subscriber;

use crate::message::Message;
use crate::thread::{Thread, ThreadHost};

impl Door for ThreadHost {
    fn subscriptions(&mut self) -> &mut Subscriptions {
        &mut self.session().subscriptions
    }

    fn directory(&self) -> &Directory {
        &self.shared.directory
    }

    fn deliver_before_reply(&mut self, reply: &mut Reply) {
        self.mailroom.fetch();
        let session = self.current.as_deref().expect("a command runs for a client");
        let to = (session.client.connection, session.client.proto);
        for message in self.mailroom.come_mut() {
            let published = match message {
                Message::Deliver(published) => std::slice::from_mut(published),
                Message::Done(_, published) => published,
                _ => continue,
            };
            for published in published {
                pubsub::deliver_to(published, to, &session.subscriptions, reply.out());
            }
        }
    }
}

impl ThreadHost {
    /// The shards of all that the current client subscribed to.
    pub(crate) fn subscribed_needs(&mut self) -> Needs {
        let placement = self.shared.shards.placement();
        let session = self.session();
        if session.tracking.as_ref().is_some_and(|tracking| tracking.broadcasts) {
            // Its prefixes are known to all of them.
            return Needs::All;
        }
        let channels = session.subscriptions.all_channels();
        Needs::several(channels.map(|(_, channel)| placement.channel(channel)).collect())
    }
}

impl Thread {
    /// Sends what was published, ahead of the other posts and while the shards are held.
    #[inline]
    pub(crate) fn send_published(&mut self) {
        for post in self.tx.posts.extract_if(.., |post| matches!(post, Post::Published(_))) {
            if let Post::Published(published) = post {
                self.host.mailroom.publish(published);
            }
        }
    }

    /// Sends the events of the running transaction to those who subscribed, while the changed keys are still held.
    pub(crate) fn send_events(&mut self) {
        let shared = self.host.shared;
        shared.directory.send_events(&mut self.tx.posts, |published| self.host.mailroom.publish(published));
    }

    /// Writes a message to its subscribers on this thread.
    pub(crate) fn deliver(&mut self, published: &Published) {
        let Medium::Channel(scope) = published.medium else { return self.deliver_news(published) };
        let mut encodings = Encodings::default();
        for receiver in &published.to {
            let conn = ConnId::from_bits(receiver.subscriber.connection);
            let pattern = receiver.pattern.as_deref();
            let Some(session) = self.host.connections.session(conn) else { continue };
            if !session.subscriptions.has(scope, &published.channel, pattern) {
                continue;
            }
            let bytes = encodings.get(published, scope, pattern, session.client.proto);
            if let Some(output) = self.host.driver.output_mut(conn) {
                let mark = output.mark();
                output.push_shared(bytes);
                output.hold_from(mark, published.held_for);
            }
            self.check_output(conn);
        }
    }

    /// A session ends, and its subscriptions.
    pub(crate) fn end_subscriptions(&mut self, session: &mut Session) {
        let subscriptions = std::mem::take(&mut session.subscriptions);
        let subscriber = Subscriber { thread: self.host.id, connection: session.client.connection };
        self.host.shared.directory.forget(&subscriptions, subscriber);
        for (scope, channel) in subscriptions.all_channels() {
            self.forget(0, channel, Forget::Subscription(scope, subscriber));
        }
    }

    /// A session ends, and what it tracks.
    pub(crate) fn end_tracking(&mut self, session: &mut Session) {
        let Some(tracking) = session.tracking.take() else { return };
        self.host.shared.directory.end_tracking();
        if !tracking.broadcasts {
            return;
        }
        let subscriber = Subscriber { thread: self.host.id, connection: session.client.connection };
        for id in self.host.shared.shards.ids() {
            let forget = Work::Forget(Forget::Prefixes(subscriber));
            self.send_task(id, Task::new(forget, id, session.client, OwnedArgs::default()));
        }
    }

    /// Tells clients of this thread, or those to whom they redirect, that a key has changed.
    fn deliver_news(&mut self, published: &Published) {
        for receiver in &published.to {
            let conn = ConnId::from_bits(receiver.subscriber.connection);
            self.tell_tracker(conn, Some(&Keys::from([published.message.clone()])));
        }
    }

    /// Tells all clients of this thread that track keys that all keys have changed.
    pub(crate) fn tell_all_trackers(&mut self) {
        let tracking = self.host.connections.iter_mut().filter(|(_, session)| session.tracking.is_some());
        let conns: Vec<ConnId> = tracking.map(|(conn, _)| conn).collect();
        for conn in conns {
            self.tell_tracker(conn, None);
        }
    }

    /// Sends what this turn has to tell those who track prefixes.
    #[inline]
    pub(crate) fn send_broadcasts(&mut self) {
        while let Some((thread, connection, keys)) = self.host.broadcasts.pop_first() {
            if thread == self.host.id {
                self.tell_tracker(ConnId::from_bits(connection), Some(&keys));
            } else {
                self.host.mailroom.send(thread, Message::Changed(connection, keys));
            }
        }
    }

    /// Tells a client that tracks keys, or the one to which it redirects, that `keys` have changed; `None`: all keys.
    pub(crate) fn tell_tracker(&mut self, conn: ConnId, keys: Option<&Keys>) {
        let Some(session) = self.host.connections.session(conn) else { return };
        let Some(tracking) = &mut session.tracking else { return };
        let shared = self.host.shared;
        match (tracking.way(|id| shared.clients().get(&id).copied()), keys) {
            (Way::Itself, _) => self.tell_of(conn, keys),
            (Way::To(target), _) if target.thread == self.host.id => {
                self.tell_of(ConnId::from_bits(target.connection), keys);
            }
            (Way::To(target), Some(keys)) => {
                self.host.mailroom.send(target.thread, Message::ChangedFor(target.connection, keys.clone()));
            }
            (Way::To(target), None) => {
                self.host.mailroom.send(target.thread, Message::FlushedFor(target.connection));
            }
            (Way::Broken(redirect), _) if session.client.proto == Proto::Resp3 => {
                self.push_to(conn, |reply| pubsub::write_broken_redirect(reply, redirect));
            }
            (Way::Broken(_), _) => {}
        }
    }

    /// Tells a client that `keys` have changed; `None`: all keys.
    pub(crate) fn tell_of(&mut self, conn: ConnId, keys: Option<&Keys>) {
        let Some(session) = self.host.connections.session(conn) else { return };
        if session.client.proto == Proto::Resp3 || session.is_subscriber() {
            self.push_to(conn, |reply| pubsub::write_news(reply, keys));
        }
    }

    fn push_to(&mut self, conn: ConnId, write: impl FnOnce(&mut Reply)) {
        let Some(session) = self.host.connections.session(conn) else { return };
        let mut out = Output::new();
        write(&mut Reply::new(&mut out, session.client.proto));
        if let Some(output) = self.host.driver.output_mut(conn) {
            output.append(&mut out);
        }
        self.check_output(conn);
    }
}
