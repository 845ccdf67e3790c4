//! Begins and ends a client's session.

use std::fmt::Display;

use acl::Access;
use clients::session::{Parser, Protocol, Session};
use clients::{Admission, Entrance, refusal};
use config::MAXCLIENTS_PER_USER;
use engine::{Client, Forget};
use proactor::{CloseMode, Codec, ConnId, Socket};
use resp::{Proto, Reply};
use shard::Subscriber;

use crate::connections::balancing::threads_in_use;
use crate::connections::moving::forget_names;
use crate::life::giving_way::helper;
use crate::message::Message;
use crate::replication::note_closed;
use crate::thread::{Thread, ThreadHost};

impl ThreadHost {
    /// Gives a new connection to the next thread, or to another one if that thread has a long command.
    pub(crate) fn deal(&mut self, socket: Socket, listener: usize) {
        let (mut thread, entrance) = self.balancing.dealer.deal(listener, threads_in_use(self));
        if self.shared.threads[usize::from(thread)].is_away() {
            thread = helper(self).unwrap_or(thread);
        }
        self.net.mailroom.send(thread, Message::Adopt(socket, entrance));
    }

    /// Accepts a new connection as this thread's, or turns it away.
    pub(crate) fn adopt(
        &mut self,
        socket: Socket,
        Entrance { protocol, is_secured }: Entrance,
    ) -> Option<ConnId> {
        let shared = self.shared;
        let Some(admission) = shared.tls.admit(&shared.settings, is_secured, &socket) else {
            self.reports.accounting.stats().rejected_connections.add(1);
            return None;
        };
        let Admission { codec, handshake } = admission;
        let client_count = shared.registry.knock();
        if let Some(refusal) = refusal(&shared.settings, &shared.users, &socket, client_count) {
            shared.registry.leave(None);
            self.reports.accounting.stats().rejected_connections.add(1);
            send_away(self, socket, protocol, codec, refusal);
            return None;
        }
        let conn = take_in(self, socket, protocol, Parser::new(protocol), codec);
        if let (Some(handshake), Some(session)) = (handshake, self.net.connections.session(conn)) {
            session.handshake = Some(handshake.clone());
            self.outputs.watchlist.add_handshake(conn, self.net.now_ms, handshake);
        }
        Some(conn)
    }

    /// Ends a connection whose client speaks HTTP: nothing more is read, and it is closed at once.
    #[cold]
    pub(crate) fn abort_http(&mut self, mode: CloseMode) {
        let now_s = self.net.driver.clock().now_ms() / 1000;
        let shared = self.shared;
        let session = self.session();
        session.state.close(mode);
        shared.attack_log.note(now_s, &session.peer);
    }
}

/// Tells a client why its connection is refused.
fn send_away(
    host: &mut ThreadHost,
    socket: Socket,
    protocol: Protocol,
    codec: Option<Box<dyn Codec>>,
    why: impl Display + AsRef<[u8]>,
) {
    let conn = host.net.driver.adopt_coded(socket, codec);
    if let Some(output) = host.net.driver.output_mut(conn) {
        match protocol {
            Protocol::Redis => Reply::new(output, Proto::Resp2).error(why),
            Protocol::Memcached => {
                output.extend_from_slice(format!("SERVER_ERROR {why}\r\n").as_bytes());
            }
        }
    }
    host.net.driver.close(conn, CloseMode::AfterFlush);
}

/// Accepts a connection from the HTTP thread, which has authenticated its client, so no command is needed for that.
pub(crate) fn visit(host: &mut ThreadHost, socket: Socket, access: Access) {
    let (mut seat, seats_max) = (None, host.shared.settings.number(MAXCLIENTS_PER_USER) as u64);
    if let Err(error) = access.take_seat(&mut seat, seats_max) {
        host.reports.accounting.stats().rejected_connections.add(1);
        return send_away(host, socket, Protocol::Redis, None, error.to_string());
    }
    let conn = host.adopt(socket, Entrance::default());
    if let Some(session) = conn.and_then(|conn| host.net.connections.session(conn)) {
        (session.access, session.seat) = (access, seat);
        (session.client.proto, session.name) = (Proto::Resp3, b"http".to_vec());
    }
}

/// Turns the socket into a connection of this thread, with a session.
pub(crate) fn take_in(
    host: &mut ThreadHost,
    socket: Socket,
    protocol: Protocol,
    parser: Parser,
    codec: Option<Box<dyn Codec>>,
) -> ConnId {
    let shared = host.shared;
    let (peer, local, is_unix) = (socket.peer().to_owned(), socket.local().to_owned(), socket.is_unix());
    let descriptor = socket.descriptor();
    let keepalive = shared.settings.keepalive();
    if !keepalive.is_zero() {
        // If the socket refuses the option, it works without it.
        let _ = socket.set_keepalive(keepalive);
    }
    let conn = host.net.driver.adopt_coded(socket, codec);
    host.reports.accounting.stats().connections_received.add(1);
    let place = Subscriber { thread: host.net.id, connection: conn.to_bits() };
    let client = Client {
        id: shared.registry.enter(place),
        thread: place.thread,
        connection: place.connection,
        db: 0,
        proto: Proto::Resp2,
        deny_blocking: false,
        in_script: false,
        lacks_room: false,
        no_touch: false,
        tracks: false,
        no_loop: false,
        reads_all_keys: true,
        may_be_gone: false,
    };
    let access = match protocol {
        Protocol::Redis => shared.users.access(),
        Protocol::Memcached => shared.users.access_by_name(),
    };
    let mut session = Session::new(client, access, host.net.now_ms);
    session.peer = peer;
    session.local = local;
    session.is_unix = is_unix;
    session.descriptor = descriptor;
    session.protocol = protocol;
    host.net.connections.add(conn, Box::new(parser), Box::new(session));
    conn
}

impl Thread {
    /// Removes the records of a session from the shards and the server.
    pub(crate) fn end_session(&mut self, session: &mut Session) {
        if self.tx.config.recovers {
            let now_ms = self.host.net.driver.clock().steady_ms();
            self.host.shared.recovery.depart(session.client.id, &session.peer, now_ms);
        }
        self.host.shared.registry.leave(Some(session.client.id));
        session.seat = None;
        forget_names(&mut self.host, &session.former_names);
        if session.replica.is_some() {
            let conn = ConnId::from_bits(session.client.connection);
            self.host.roles.replicas.remove(conn);
            self.host.shared.primary.leave(session.client.id, self.host.net.now_ms);
            self.host.shared.role_parts().judge_quorum(self.host.net.now_ms);
        }
        if session.is_primary {
            note_closed(self, ConnId::from_bits(session.client.connection));
        }
        self.host.reports.monitors.remove(ConnId::from_bits(session.client.connection));
        self.end_tracking(session);
        let watching = std::mem::take(&mut session.watching);
        self.host.background.stale_watches.push(watching);
        self.forget_watches();
        self.end_subscriptions(session);
    }

    fn end_subscriptions(&mut self, session: &mut Session) {
        let subscriptions = std::mem::take(&mut session.subscriptions);
        let subscriber = Subscriber { thread: self.host.net.id, connection: session.client.connection };
        self.host.shared.directory.forget(&subscriptions, subscriber);
        for (scope, channel) in subscriptions.all_channels() {
            self.forget(0, channel, Forget::Subscription(scope, subscriber));
        }
    }

    fn end_tracking(&mut self, session: &mut Session) {
        let Some(tracking) = session.tracking.take() else { return };
        self.host.shared.directory.end_tracking();
        if tracking.broadcasts {
            let subscriber = Subscriber { thread: self.host.net.id, connection: session.client.connection };
            self.host.shared.directory.note_departed(subscriber);
        }
    }

    /// Removes ended watches from the shards.
    pub(crate) fn forget_watches(&mut self) {
        while let Some(watching) = self.host.background.stale_watches.pop() {
            for (db, key) in &watching.keys {
                self.forget(*db, key, Forget::Watch(watching.flag.clone()));
            }
        }
    }
}
