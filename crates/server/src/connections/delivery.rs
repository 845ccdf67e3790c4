//! Writes messages to the connections of clients that asked for them: messages of channels and patterns, invalidations
//! of tracked keys, and lines of MONITOR. `pubsub` and `observe` decide who gets each message, and in what form. This
//! file has the sessions and outputs.
//!
//! Not here: clients whose output grows too large (`bounds.rs`). After deliveries, the thread asks for the connections
//! that got something. What a client tells itself is in `subscribers.rs`.

use std::collections::VecDeque;
use std::sync::Arc;

use clients::{Invalid, Whereabouts};
use engine::{Medium, Published};
use observe::Monitors;
use proactor::ConnId;
use pubsub::{Broadcasts, Encodings, Keys, Way};
use resp::{Output, Proto, Reply};
use shard::Subscriber;

use crate::connections::network::Network;
use crate::message::{Message, News};

/// Messages to clients without a request, and the outputs that grew because of them.
#[derive(Default)]
pub(crate) struct Delivery {
    /// This turn's invalidations for clients that track prefixes.
    pub(crate) broadcasts: Broadcasts,
    /// Connections that got something. The size of their outputs has yet to be checked.
    written: VecDeque<ConnId>,
    /// Connections that have not read all news about keys, and the time of the last check, on the monotonic clock.
    behind_news: Vec<ConnId>,
    checked_ms: u64,
}

impl Delivery {
    /// Takes a connection that got something, once for each time.
    pub(crate) fn pop_written(&mut self) -> Option<ConnId> {
        self.written.pop_front()
    }

    /// Notes that something was written to a connection without a request.
    pub(crate) fn note_written(&mut self, conn: ConnId) {
        self.written.push_back(conn);
    }

    /// Writes a message to its subscribers on this thread.
    pub(crate) fn deliver(&mut self, published: &Published, net: &mut Network) {
        let Medium::Channel(scope) = published.medium else {
            let keys = Keys::from([published.message.clone()]);
            for receiver in &published.to {
                let conn = ConnId::from_bits(receiver.subscriber.connection);
                let is_own = published.by == Some(receiver.subscriber);
                self.tell_tracker(conn, Invalid::Read { keys: &keys, is_own }, net);
            }
            return;
        };
        let mut encodings = Encodings::default();
        for receiver in &published.to {
            let conn = ConnId::from_bits(receiver.subscriber.connection);
            let Some(session) = net.connections.session(conn) else { continue };
            if !pubsub::is_for(published, receiver, scope, &session.subscriptions) {
                continue;
            }
            let bytes = encodings.get(published, scope, receiver.pattern.as_deref(), session.client.proto);
            let is_news = published.memory.is_some();
            let write = |output: &mut Output| {
                let mark = output.mark();
                if is_news {
                    // The bytes are not shared, so that the memory of each client's news is known.
                    output.extend_from_slice(&bytes);
                } else {
                    output.push_shared(bytes);
                }
                output.hold_from(mark, published.held_for.get());
            };
            if is_news {
                self.write_news(conn, net, write);
            } else {
                self.write(conn, net, write);
            }
        }
    }

    /// Writes a line to the monitors of this thread.
    pub(crate) fn show(&mut self, line: &Arc<Vec<u8>>, monitors: &Monitors, net: &mut Network) {
        for conn in monitors.conns().iter().rev() {
            self.write(*conn, net, |output| output.push_shared(line.clone()));
        }
    }

    /// Tells clients of this thread, or the connections to which they redirect, that keys have changed.
    pub(crate) fn tell(&mut self, news: News, net: &mut Network) {
        match news {
            News::Flushed(told) => {
                let tracking = net.connections.iter_mut().filter(|(_, session)| session.tracking.is_some());
                let conns: Vec<ConnId> = tracking.map(|(conn, _)| conn).collect();
                for conn in conns.into_iter().filter(|conn| Some(*conn) != told) {
                    self.tell_tracker(conn, Invalid::All, net);
                }
            }
            News::FlushedFor(target) => self.tell_target(target, None, net),
            News::Changed(connection, keys) => {
                self.tell_tracker(ConnId::from_bits(connection), Invalid::Prefixed(&keys), net);
            }
            News::ChangedFor(target, keys) => self.tell_target(target, Some(&keys), net),
        }
    }

    /// Sends this turn's invalidations to clients that track prefixes.
    pub(crate) fn send_broadcasts(&mut self, net: &mut Network) {
        while let Some((thread, connection, keys)) = self.broadcasts.pop_first() {
            net.messages.send_behind(thread, Message::news(News::Changed(connection, keys)));
        }
    }

    /// Tells a client that tracks keys, or the connection to which it redirects, that keys have changed.
    fn tell_tracker(&mut self, conn: ConnId, invalid: Invalid<'_>, net: &mut Network) {
        let Some(session) = net.connections.session(conn) else { return };
        let Some(way) = invalid.way(session, net.registry) else { return };
        if let Way::To(target) = way {
            return self.tell_target(target, invalid.keys(), net);
        }
        self.push(conn, net, |reply| invalid.write(way, reply));
    }

    /// Tells the connection to which a client redirects, on any thread.
    pub(crate) fn tell_target(&mut self, target: Subscriber, keys: Option<&Keys>, net: &mut Network) {
        let here = net.messages.thread();
        let thread = match net.moves.find(target, here) {
            Whereabouts::Here(conn) => return self.tell_of(conn, keys, net),
            Whereabouts::WentTo(thread) => thread,
            Whereabouts::Nowhere if target.thread == here => return,
            Whereabouts::Nowhere => target.thread,
        };
        let news = keys.map_or(News::FlushedFor(target), |keys| News::ChangedFor(target, keys.clone()));
        net.messages.send(thread, Message::news(news));
    }

    /// Tells a client that `keys` have changed. `None`: all keys.
    fn tell_of(&mut self, conn: ConnId, keys: Option<&Keys>, net: &mut Network) {
        let Some(session) = net.connections.session(conn) else { return };
        if session.client.proto == Proto::Resp3 || session.is_subscriber() {
            self.push(conn, net, |reply| pubsub::write_news(reply, keys));
        }
    }

    fn push(&mut self, conn: ConnId, net: &mut Network, push: impl FnOnce(&mut Reply)) {
        let Some(session) = net.connections.session(conn) else { return };
        let proto = session.client.proto;
        self.write_news(conn, net, |output| push(&mut Reply::new(output, proto)));
    }

    /// Writes news about a key, whose memory does not count against `maxmemory`.
    fn write_news(&mut self, conn: ConnId, net: &mut Network, write: impl FnOnce(&mut Output)) {
        let Some(output) = net.driver.output_mut(conn) else { return };
        let before = output.end();
        write(output);
        let added_bytes = (output.end() - before) as usize;
        let Some(sent) = net.driver.check_sent(conn) else { return };
        self.written.push_back(conn);
        let Some(session) = net.connections.session(conn) else { return };
        let news = session.unread_news.get_or_insert_default();
        if news.bytes() == 0 {
            self.behind_news.push(conn);
        }
        news.add(added_bytes);
        news.update(sent.end, sent.pending_bytes, sent.slack_bytes);
    }

    /// Determines, at most once in a millisecond, which clients have read their news.
    pub(crate) fn check_news(&mut self, now_ms: u64, net: &mut Network) {
        if self.behind_news.is_empty() || self.checked_ms == now_ms {
            return;
        }
        self.checked_ms = now_ms;
        self.behind_news.retain(|conn| {
            let Some(sent) = net.driver.check_sent(*conn) else { return false };
            let news = net.connections.session(*conn).and_then(|session| session.unread_news.as_mut());
            news.is_some_and(|news| {
                news.update(sent.end, sent.pending_bytes, sent.slack_bytes);
                news.bytes() > 0
            })
        });
    }

    fn write(&mut self, conn: ConnId, net: &mut Network, write: impl FnOnce(&mut Output)) {
        if let Some(output) = net.driver.output_mut(conn) {
            write(output);
            self.written.push_back(conn);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clients::Registry;
    use clients::session::{Parser, Protocol, Session};
    use effectlog::Lsn;
    use engine::{Client, Receiver, Table};
    use observe::Observed;
    use proactor::{Event, SimConfig, SimNet, Waker};
    use pubsub::ClientTracking;
    use shard::{Scope, Subscriber};

    use super::*;
    use crate::messages::Remote;
    use crate::reports::observe_settings;
    use crate::tests::settings;
    use crate::users::default_users;

    /// A thread that has only connections. It is number 0 of two threads.
    struct World {
        net: Network,
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
            let registry = Box::leak(Box::new(Registry::default()));
            let observed = Box::leak(Box::new(Observed::new(1, 0, observe_settings(&settings))));
            let mut net = Network::new(0, driver, Vec::leak(remotes.into()), registry, observed);
            let users = default_users(&settings, &Table::new(&[]));
            let mut conns = Vec::new();
            for event in accepted {
                let Event::Accepted { socket, .. } = event else { panic!("nobody sends anything") };
                let conn = net.driver.adopt(socket);
                let place = Subscriber { thread: 0, connection: conn.to_bits() };
                let id = registry.enter(place);
                let client = Client { id, connection: place.connection, ..Client::internal(0, Proto::Resp3) };
                let session = Session::new(client, users.access(), 0);
                net.connections.add(conn, Box::new(Parser::new(Protocol::Redis)), Box::new(session));
                conns.push(conn);
            }
            World { net, conns }
        }

        fn session(&mut self, index: usize) -> &mut Session {
            self.net.connections.session(self.conns[index]).expect("it is connected")
        }

        /// Tracks keys and redirects the news to another client.
        fn track(&mut self, index: usize, redirect: u64) {
            self.session(index).tracking = Some(Box::new(ClientTracking { redirect, ..Default::default() }));
        }

        /// The outputs of all clients after `deliver`, and the connections that must be checked.
        fn after(&mut self, deliver: impl FnOnce(&mut Delivery, &mut Network)) -> (Vec<String>, Vec<ConnId>) {
            let mut delivery = Delivery::default();
            deliver(&mut delivery, &mut self.net);
            let written = std::iter::from_fn(|| delivery.pop_written()).collect();
            let output = |conn: &ConnId| self.net.driver.output_mut(*conn).expect("it is open").to_vec();
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
        let (to, held_for) = (to.into(), Lsn::NONE);
        let published = Published { to, medium, channel, message, held_for, by: None, memory: None };
        let (outputs, written) = world.after(|delivery, net| delivery.deliver(&published, net));
        assert_eq!(outputs, [">4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$2\r\nhi\r\n", ""]);
        assert_eq!(written, [world.conns[0]]);
    }

    #[test]
    fn news_of_keys_go_where_they_are_redirected() {
        const TOLD: &str = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
        let check = |redirect: u64, expected: [&str; 2], is_sent: bool| {
            let mut world = World::new(2);
            world.net.registry.enter(Subscriber { thread: 1, connection: 9 });
            world.track(0, redirect);
            let (conn, keys) = (world.conns[0], Keys::from([Arc::from(*b"k")]));
            let invalid = Invalid::Read { keys: &keys, is_own: false };
            let (outputs, _) = world.after(|delivery, net| delivery.tell_tracker(conn, invalid, net));
            assert_eq!(outputs, expected, "{redirect}");
            assert_eq!(world.net.messages.has_sent_to(1), is_sent, "{redirect}");
        };
        check(0, [TOLD, ""], false);
        check(2, ["", TOLD], false);
        check(3, ["", ""], true);
        check(4, [">2\r\n$21\r\ntracking-redir-broken\r\n:4\r\n", ""], false);
    }
}
