//! Writes messages to the connections of clients that asked for them: messages of channels and patterns, invalidations
//! of tracked keys, and lines of MONITOR. `pubsub` and `observe` decide who gets each message, and in what form. This
//! file has the sessions and outputs.
//!
//! Not here: clients whose output grows too large (`connections/bounds.rs`). After deliveries, the thread asks for the
//! connections that got something.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::{CommandResult, Medium, Needs, OwnCall, Published, Rule};
use observe::Monitors;
use proactor::{ConnId, Driver};
use pubsub::{Broadcasts, Encodings, Function, Keys, Subscribing, Way};
use resp::{Output, Proto, Reply};
use shard::Subscriber;

use crate::connections::Connections;
use crate::mailroom::Mailroom;
use crate::message::{Message, News};
use crate::thread::{Thread, ThreadHost};
use clients::{Invalid, Moves, Registry, Whereabouts};

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

/// The surroundings of a delivery: its thread's state.
pub(crate) struct Network<'h> {
    pub(crate) connections: &'h mut Connections,
    pub(crate) driver: &'h mut Driver,
    pub(crate) mailroom: &'h mut Mailroom,
    pub(crate) registry: &'h Registry,
    pub(crate) moves: &'h Moves,
}

impl Delivery {
    /// Takes a connection that got something, once for each time.
    pub(crate) fn pop_written(&mut self) -> Option<ConnId> {
        self.written.pop_front()
    }

    /// Writes a message to its subscribers on this thread.
    pub(crate) fn deliver(&mut self, published: &Published, around: &mut Network<'_>) {
        let Medium::Channel(scope) = published.medium else {
            let keys = Keys::from([published.message.clone()]);
            for receiver in &published.to {
                let conn = ConnId::from_bits(receiver.subscriber.connection);
                let is_own = published.by == Some(receiver.subscriber);
                self.tell_tracker(conn, Invalid::Read { keys: &keys, is_own }, around);
            }
            return;
        };
        let mut encodings = Encodings::default();
        for receiver in &published.to {
            let conn = ConnId::from_bits(receiver.subscriber.connection);
            let Some(session) = around.connections.session(conn) else { continue };
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
                output.hold_from(mark, published.held_for);
            };
            if is_news {
                self.write_news(conn, around, write);
            } else {
                self.write(conn, around, write);
            }
        }
    }

    /// Writes a line to the monitors of this thread.
    pub(crate) fn show(&mut self, line: &Arc<Vec<u8>>, monitors: &Monitors, around: &mut Network<'_>) {
        for conn in monitors.conns().iter().rev() {
            self.write(*conn, around, |output| output.push_shared(line.clone()));
        }
    }

    /// Tells clients of this thread, or the connections to which they redirect, that keys have changed.
    pub(crate) fn tell(&mut self, news: News, around: &mut Network<'_>) {
        match news {
            News::Flushed(told) => {
                let tracking =
                    around.connections.iter_mut().filter(|(_, session)| session.tracking.is_some());
                let conns: Vec<ConnId> = tracking.map(|(conn, _)| conn).collect();
                for conn in conns.into_iter().filter(|conn| Some(*conn) != told) {
                    self.tell_tracker(conn, Invalid::All, around);
                }
            }
            News::FlushedFor(target) => self.tell_target(target, None, around),
            News::Changed(connection, keys) => {
                self.tell_tracker(ConnId::from_bits(connection), Invalid::Prefixed(&keys), around);
            }
            News::ChangedFor(target, keys) => self.tell_target(target, Some(&keys), around),
        }
    }

    /// Sends this turn's invalidations to clients that track prefixes.
    pub(crate) fn send_broadcasts(&mut self, around: &mut Network<'_>) {
        while let Some((thread, connection, keys)) = self.broadcasts.pop_first() {
            let news = News::Changed(connection, keys);
            if thread == around.mailroom.thread() {
                self.tell(news, around);
            } else {
                around.mailroom.send(thread, Message::news(news));
            }
        }
    }

    /// Tells a client that tracks keys, or the connection to which it redirects, that keys have changed.
    fn tell_tracker(&mut self, conn: ConnId, invalid: Invalid<'_>, around: &mut Network<'_>) {
        let Some(session) = around.connections.session(conn) else { return };
        let Some(way) = invalid.way(session, around.registry) else { return };
        if let Way::To(target) = way {
            return self.tell_target(target, invalid.keys(), around);
        }
        self.push(conn, around, |reply| invalid.write(way, reply));
    }

    /// Tells the connection to which a client redirects, on any thread.
    fn tell_target(&mut self, target: Subscriber, keys: Option<&Keys>, around: &mut Network<'_>) {
        let here = around.mailroom.thread();
        let thread = match around.moves.find(target, here) {
            Whereabouts::Here(conn) => return self.tell_of(conn, keys, around),
            Whereabouts::WentTo(thread) => thread,
            Whereabouts::Nowhere if target.thread == here => return,
            Whereabouts::Nowhere => target.thread,
        };
        let news = keys.map_or(News::FlushedFor(target), |keys| News::ChangedFor(target, keys.clone()));
        around.mailroom.send(thread, Message::news(news));
    }

    /// Tells a client that `keys` have changed. `None`: all keys.
    fn tell_of(&mut self, conn: ConnId, keys: Option<&Keys>, around: &mut Network<'_>) {
        let Some(session) = around.connections.session(conn) else { return };
        if session.client.proto == Proto::Resp3 || session.is_subscriber() {
            self.push(conn, around, |reply| pubsub::write_news(reply, keys));
        }
    }

    fn push(&mut self, conn: ConnId, around: &mut Network<'_>, push: impl FnOnce(&mut Reply)) {
        let Some(session) = around.connections.session(conn) else { return };
        let proto = session.client.proto;
        self.write_news(conn, around, |output| push(&mut Reply::new(output, proto)));
    }

    /// Writes news about a key, whose memory does not count against `maxmemory`.
    fn write_news(&mut self, conn: ConnId, around: &mut Network<'_>, write: impl FnOnce(&mut Output)) {
        let Some(output) = around.driver.output_mut(conn) else { return };
        let before = output.end();
        write(output);
        let added_bytes = (output.end() - before) as usize;
        let Some(sent) = around.driver.check_sent(conn) else { return };
        self.written.push_back(conn);
        let Some(session) = around.connections.session(conn) else { return };
        let news = session.unread_news.get_or_insert_default();
        if news.bytes() == 0 {
            self.behind_news.push(conn);
        }
        news.add(added_bytes);
        news.update(sent.end, sent.pending_bytes, sent.slack_bytes);
    }

    /// Determines, at most once in a millisecond, which clients have read their news.
    pub(crate) fn check_news(&mut self, now_ms: u64, around: &mut Network<'_>) {
        if self.behind_news.is_empty() || self.checked_ms == now_ms {
            return;
        }
        self.checked_ms = now_ms;
        self.behind_news.retain(|conn| {
            let Some(sent) = around.driver.check_sent(*conn) else { return false };
            let news = around.connections.session(*conn).and_then(|session| session.unread_news.as_mut());
            news.is_some_and(|news| {
                news.update(sent.end, sent.pending_bytes, sent.slack_bytes);
                news.bytes() > 0
            })
        });
    }

    fn write(&mut self, conn: ConnId, around: &mut Network<'_>, write: impl FnOnce(&mut Output)) {
        if let Some(output) = around.driver.output_mut(conn) {
            write(output);
            self.written.push_back(conn);
        }
    }
}

/// Writes the messages that have arrived for the current client, and the news that keys which it tracks have changed.
/// As in Redis, a message of a client to itself comes right after the reply to the command that caused it, rather than
/// at the end of the pipeline.
pub(crate) fn deliver_to_current(host: &mut ThreadHost, out: &mut Output) {
    host.mailroom.fetch();
    let client = host.session().client;
    let (own, conn) = (client.subscriber(), ConnId::from_bits(client.connection));
    let tracks = host.session().tracking.is_some();
    let mut arrived = Vec::new();
    for message in host.mailroom.come_mut() {
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
            let (delivery, _, mut around) = host.delivery();
            delivery.tell_target(target, invalid.keys(), &mut around);
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
pub(crate) fn run(function: Function, mut call: OwnCall<'_, '_>, host: &mut ThreadHost) -> CommandResult {
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
        subscriptions: &mut host.session().subscriptions,
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

impl ThreadHost {
    /// The delivery of this thread, with its surroundings.
    pub(crate) fn delivery(&mut self) -> (&mut Delivery, &Monitors, Network<'_>) {
        let ThreadHost { delivery, monitors, connections, driver, mailroom, shared, moves, .. } = self;
        let registry = &shared.registry;
        (delivery, monitors, Network { connections, driver, mailroom, registry, moves })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clients::session::{Parser, Protocol, Session};
    use engine::{Client, Receiver, Table};
    use proactor::{Event, SimConfig, SimNet, Waker};
    use pubsub::ClientTracking;
    use shard::{Scope, Subscriber};

    use super::*;
    use crate::mailroom::Remote;
    use crate::tests::settings;
    use crate::users::default_users;

    /// A thread that has only connections. It is number 0 of two threads.
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

        /// Tracks keys and redirects the news to another client.
        fn track(&mut self, index: usize, redirect: u64) {
            self.session(index).tracking = Some(Box::new(ClientTracking { redirect, ..Default::default() }));
        }

        /// The outputs of all clients after `deliver`, and the connections that must be checked.
        fn after(
            &mut self,
            deliver: impl FnOnce(&mut Delivery, &mut Network<'_>),
        ) -> (Vec<String>, Vec<ConnId>) {
            let World { connections, driver, mailroom, registry, .. } = self;
            let mut delivery = Delivery::default();
            let moves = &Moves::default();
            deliver(&mut delivery, &mut Network { connections, driver, mailroom, registry, moves });
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
        let published =
            Published { to: to.into(), medium, channel, message, held_for: 0, by: None, memory: None };
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
            let (conn, keys) = (world.conns[0], Keys::from([Arc::from(*b"k")]));
            let invalid = Invalid::Read { keys: &keys, is_own: false };
            let (outputs, _) = world.after(|delivery, around| delivery.tell_tracker(conn, invalid, around));
            assert_eq!(outputs, expected, "{redirect}");
            assert_eq!(world.mailroom.has_sent_to(1), is_sent, "{redirect}");
        };
        check(0, [TOLD, ""], false);
        check(2, ["", TOLD], false);
        check(3, ["", ""], true);
        check(4, [">2\r\n$21\r\ntracking-redir-broken\r\n:4\r\n", ""], false);
    }
}
