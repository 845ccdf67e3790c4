//! Writes messages to the connections of clients that asked for them: messages of channels and patterns, invalidations
//! of tracked keys, and lines of MONITOR. `pubsub` and `observe` decide who gets what, and in what form; this file has
//! the sessions and outputs.
//!
//! Not here: what happens to a client whose output grows too large (`connections/bounds.rs`). After deliveries its
//! thread asks for the connections that got something.

use std::collections::VecDeque;
use std::sync::Arc;

use command::{Medium, Needs, Published};
use observe::Monitors;
use proactor::{ConnId, Driver};
use pubsub::{Broadcasts, Directory, Door, Encodings, Keys, Subscriptions, Way};
use resp::{Output, Proto, Reply};
use shard::Subscriber;

use crate::connections::Connections;
use crate::mailroom::Mailroom;
use crate::message::{Message, News};
use crate::thread::ThreadHost;
use clients::{Moves, Registry, Whereabouts};

/// What clients are sent unasked, and which outputs grew by it.
#[derive(Default)]
pub(crate) struct Delivery {
    /// This turn's invalidations for clients that track prefixes.
    pub(crate) broadcasts: Broadcasts,
    /// Connections that got something: the size of their outputs has yet to be checked.
    written: VecDeque<ConnId>,
}

/// What delivery needs from its thread.
pub(crate) struct Around<'h> {
    pub(crate) connections: &'h mut Connections,
    pub(crate) driver: &'h mut Driver,
    pub(crate) mailroom: &'h mut Mailroom,
    pub(crate) registry: &'h Registry,
    pub(crate) moves: &'h Moves,
}

impl Delivery {
    /// A connection that got something, once for each time.
    pub(crate) fn pop_written(&mut self) -> Option<ConnId> {
        self.written.pop_front()
    }

    /// Writes a message to its subscribers on this thread.
    pub(crate) fn deliver(&mut self, published: &Published, around: &mut Around<'_>) {
        let Medium::Channel(scope) = published.medium else {
            for receiver in &published.to {
                let keys = Keys::from([published.message.clone()]);
                self.tell(News::Changed(receiver.subscriber.connection, keys), around);
            }
            return;
        };
        let mut encodings = Encodings::default();
        for receiver in &published.to {
            let conn = ConnId::from_bits(receiver.subscriber.connection);
            let pattern = receiver.pattern.as_deref();
            let Some(session) = around.connections.session(conn) else { continue };
            if !session.subscriptions.has(scope, &published.channel, pattern) {
                continue;
            }
            let bytes = encodings.get(published, scope, pattern, session.client.proto);
            self.write(conn, around, |output| {
                let mark = output.mark();
                output.push_shared(bytes);
                output.hold_from(mark, published.held_for);
            });
        }
    }

    /// Writes a line to the monitors of this thread.
    pub(crate) fn show(&mut self, line: &Arc<Vec<u8>>, monitors: &Monitors, around: &mut Around<'_>) {
        for conn in monitors.conns().iter().rev() {
            self.write(*conn, around, |output| output.push_shared(line.clone()));
        }
    }

    /// Tells clients of this thread, or the connections to which they redirect, that keys have changed.
    pub(crate) fn tell(&mut self, news: News, around: &mut Around<'_>) {
        match news {
            News::Flushed => {
                let tracking =
                    around.connections.iter_mut().filter(|(_, session)| session.tracking.is_some());
                let conns: Vec<ConnId> = tracking.map(|(conn, _)| conn).collect();
                for conn in conns {
                    self.tell_tracker(conn, None, around);
                }
            }
            News::FlushedFor(target) => self.tell_target(target, None, around),
            News::Changed(connection, keys) => {
                self.tell_tracker(ConnId::from_bits(connection), Some(&keys), around);
            }
            News::ChangedFor(target, keys) => self.tell_target(target, Some(&keys), around),
        }
    }

    /// Sends this turn's invalidations to clients that track prefixes.
    pub(crate) fn send_broadcasts(&mut self, around: &mut Around<'_>) {
        while let Some((thread, connection, keys)) = self.broadcasts.pop_first() {
            let news = News::Changed(connection, keys);
            if thread == around.mailroom.thread() {
                self.tell(news, around);
            } else {
                around.mailroom.send(thread, Message::News(news));
            }
        }
    }

    /// Tells a client that tracks keys, or the connection to which it redirects, that `keys` have changed; `None`: all
    /// keys.
    fn tell_tracker(&mut self, conn: ConnId, keys: Option<&Keys>, around: &mut Around<'_>) {
        let Some(session) = around.connections.session(conn) else { return };
        let Some(tracking) = &mut session.tracking else { return };
        match tracking.way(|id| around.registry.place(id)) {
            Way::Itself => self.tell_of(conn, keys, around),
            Way::To(target) => self.tell_target(target, keys, around),
            Way::Broken(redirect) if session.client.proto == Proto::Resp3 => {
                self.push(conn, around, |reply| pubsub::write_broken_redirect(reply, redirect));
            }
            Way::Broken(_) => {}
        }
    }

    /// Tells the connection to which a client redirects, on any thread.
    fn tell_target(&mut self, target: Subscriber, keys: Option<&Keys>, around: &mut Around<'_>) {
        let here = around.mailroom.thread();
        let thread = match around.moves.find(target, here) {
            Whereabouts::Here(conn) => return self.tell_of(conn, keys, around),
            Whereabouts::WentTo(thread) => thread,
            Whereabouts::Nowhere if target.thread == here => return,
            Whereabouts::Nowhere => target.thread,
        };
        let news = keys.map_or(News::FlushedFor(target), |keys| News::ChangedFor(target, keys.clone()));
        around.mailroom.send(thread, Message::News(news));
    }

    /// Tells a client that `keys` have changed; `None`: all keys.
    fn tell_of(&mut self, conn: ConnId, keys: Option<&Keys>, around: &mut Around<'_>) {
        let Some(session) = around.connections.session(conn) else { return };
        if session.client.proto == Proto::Resp3 || session.is_subscriber() {
            self.push(conn, around, |reply| pubsub::write_news(reply, keys));
        }
    }

    fn push(&mut self, conn: ConnId, around: &mut Around<'_>, push: impl FnOnce(&mut Reply)) {
        let Some(session) = around.connections.session(conn) else { return };
        let mut out = Output::new();
        push(&mut Reply::new(&mut out, session.client.proto));
        self.write(conn, around, |output| output.append(&mut out));
    }

    fn write(&mut self, conn: ConnId, around: &mut Around<'_>, write: impl FnOnce(&mut Output)) {
        if let Some(output) = around.driver.output_mut(conn) {
            write(output);
            self.written.push_back(conn);
        }
    }
}

impl Door for ThreadHost {
    fn subscriptions(&mut self) -> &mut Subscriptions {
        &mut self.session().subscriptions
    }

    fn directory(&self) -> &Directory {
        &self.shared.directory
    }

    fn tells_replicas(&self) -> bool {
        self.shared.journal.is_streaming()
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
    /// The shards of all channels to which the current client is subscribed.
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

impl ThreadHost {
    /// The delivery of this thread, with what it needs.
    pub(crate) fn delivery(&mut self) -> (&mut Delivery, &Monitors, Around<'_>) {
        let ThreadHost { delivery, monitors, connections, driver, mailroom, shared, moves, .. } = self;
        let registry = &shared.registry;
        (delivery, monitors, Around { connections, driver, mailroom, registry, moves })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use command::{Client, Receiver, Table};
    use proactor::{Event, SimConfig, SimNet, Waker};
    use pubsub::ClientTracking;
    use session::{Parser, Protocol, Session};
    use shard::{Scope, Subscriber};

    use super::*;
    use crate::mailroom::Remote;
    use crate::tests::settings;
    use crate::users::default_users;

    /// A thread that has nothing but connections: two threads there are, and this is number 0.
    struct World {
        connections: Connections,
        driver: Driver,
        mailroom: Mailroom,
        registry: Registry,
        conns: Vec<ConnId>,
    }

    impl World {
        fn new(client_count: usize) -> World {
            let net = SimNet::new(1, SimConfig::default());
            let settings = settings(&[]);
            let mut driver = net.driver(&settings.driver_config());
            driver.listen(net.listener("here")).expect("a simulated driver listens");
            let clients: Vec<_> = (0..client_count).filter_map(|_| net.connect("here")).collect();
            let (mut accepted, mut events) = (Vec::new(), Vec::new());
            while accepted.len() < clients.len() && net.advance() {
                driver.turn(Some(Duration::ZERO), &mut events).expect("a simulated driver does not fail");
                accepted.append(&mut events);
            }
            assert_eq!(accepted.len(), client_count);
            let remotes = [(); 2].map(|()| Remote::new(Arc::new(Waker::without_bell())));
            let mailroom = Mailroom::new(0, Vec::leak(remotes.into()));
            let users = default_users(&settings, &Table::new(&[]));
            let (registry, mut connections) = (Registry::default(), Connections::default());
            let mut conns = Vec::new();
            for event in accepted {
                let Event::Accepted { socket, .. } = event else { panic!("nobody sends anything") };
                let conn = driver.adopt(socket);
                let place = Subscriber { thread: 0, connection: conn.to_bits() };
                let id = registry.enter(place);
                let client = Client { id, connection: place.connection, ..Client::internal(0, Proto::Resp3) };
                let session = Session::new(client, users.access(), 0);
                connections.add(conn, Box::new(Parser::new(Protocol::Redis)), Box::new(session));
                conns.push(conn);
            }
            World { connections, driver, mailroom, registry, conns }
        }

        fn session(&mut self, index: usize) -> &mut Session {
            self.connections.session(self.conns[index]).expect("it is connected")
        }

        /// Tracks keys, and has another client told of them.
        fn track(&mut self, index: usize, redirect: u64) {
            self.session(index).tracking = Some(Box::new(ClientTracking { redirect, ..Default::default() }));
        }

        /// What lies in the outputs of all clients after `deliver`, and the connections that are to be looked at.
        fn after(
            &mut self,
            deliver: impl FnOnce(&mut Delivery, &mut Around<'_>),
        ) -> (Vec<String>, Vec<ConnId>) {
            let World { connections, driver, mailroom, registry, .. } = self;
            let mut delivery = Delivery::default();
            let moves = &Moves::default();
            deliver(&mut delivery, &mut Around { connections, driver, mailroom, registry, moves });
            let written = std::iter::from_fn(|| delivery.pop_written()).collect();
            let output = |conn: &ConnId| self.driver.output_mut(*conn).expect("it is open").to_vec();
            let outputs = self.conns.iter().map(output);
            (outputs.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect(), written)
        }
    }

    #[test]
    fn a_message_is_written_to_those_who_are_still_subscribed() {
        let mut world = World::new(2);
        world.session(0).subscriptions.add_pattern(&Arc::from(*b"n*"));
        let to = [0, 1].map(|index| Receiver {
            subscriber: Subscriber { thread: 0, connection: world.conns[index].to_bits() },
            pattern: Some(Arc::from(*b"n*")),
        });
        let (channel, message) = (Arc::from(*b"news"), Arc::from(*b"hi"));
        let medium = Medium::Channel(Scope::Global);
        let published = Published { to: to.into(), medium, channel, message, held_for: 0 };
        let (outputs, written) = world.after(|delivery, around| delivery.deliver(&published, around));
        assert_eq!(outputs, [">4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$2\r\nhi\r\n", ""]);
        assert_eq!(written, [world.conns[0]]);
    }

    #[test]
    fn news_of_keys_go_where_they_are_redirected() {
        const TOLD: &str = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
        let check = |redirect: u64, expected: [&str; 2], is_sent: bool| {
            let mut world = World::new(2);
            world.registry.enter(Subscriber { thread: 1, connection: 9 });
            world.track(0, redirect);
            let news = News::Changed(world.conns[0].to_bits(), Keys::from([Arc::from(*b"k")]));
            let (outputs, _) = world.after(|delivery, around| delivery.tell(news, around));
            assert_eq!(outputs, expected, "{redirect}");
            assert_eq!(world.mailroom.has_sent_to(1), is_sent, "{redirect}");
        };
        check(0, [TOLD, ""], false);
        check(2, ["", TOLD], false);
        check(3, ["", ""], true);
        check(4, [">2\r\n$21\r\ntracking-redir-broken\r\n:4\r\n", ""], false);
    }
}
