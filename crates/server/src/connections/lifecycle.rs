//! Begins and ends a client's session.

use std::fmt::Display;

use acl::Access;
use clients::session::{Parser, Protocol, Session};
use clients::{Entrance, Watchlist, refusal};
use config::{MAXCLIENTS_PER_USER, TLS_HANDSHAKES_MAX, TLS_REPLICATION};
use engine::{Client, Forget};
use proactor::{CloseMode, Codec, ConnId, Socket};
use pubsub::Directory;
use resp::{Proto, Reply};
use shard::Subscriber;
use tls::Admission;

use crate::connections::network::Network;
use crate::life::delegated::forgetting;
use crate::replication::on_link;
use crate::shared::Shared;
use crate::thread::Thread;

impl Network {
    /// Accepts a new connection as this thread's, or turns it away.
    pub(crate) fn adopt(
        &mut self,
        watchlist: &mut Watchlist,
        shared: &'static Shared,
        socket: Socket,
        Entrance { protocol, is_secured }: Entrance,
    ) -> Option<ConnId> {
        let handshakes_max = shared.settings.number(TLS_HANDSHAKES_MAX) as usize;
        let admission = match is_secured {
            true => shared.tls.admit(handshakes_max, &socket),
            false => Some(Admission::default()),
        };
        let Some(admission) = admission else {
            self.stats.rejected_connections.add(1);
            return None;
        };
        let Admission { codec, handshake } = admission;
        let client_count = self.registry.knock();
        if let Some(refusal) = refusal(&shared.settings, &shared.users, &socket, client_count) {
            self.registry.leave(None);
            self.stats.rejected_connections.add(1);
            self.send_away(socket, protocol, codec, refusal);
            return None;
        }
        let conn = self.take_in(shared, socket, protocol, Parser::new(protocol), codec);
        if let (Some(handshake), Some(session)) = (handshake, self.connections.session(conn)) {
            session.handshake = Some(handshake.clone());
            watchlist.add_handshake(conn, self.now_ms, handshake);
        }
        Some(conn)
    }

    /// Tells a client why its connection is refused.
    fn send_away(
        &mut self,
        socket: Socket,
        protocol: Protocol,
        codec: Option<Box<dyn Codec>>,
        why: impl Display + AsRef<[u8]>,
    ) {
        let conn = self.driver.adopt_coded(socket, codec);
        if let Some(output) = self.driver.output_mut(conn) {
            match protocol {
                Protocol::Redis => Reply::new(output, Proto::Resp2).error(why),
                Protocol::Memcached => {
                    output.extend_from_slice(format!("SERVER_ERROR {why}\r\n").as_bytes());
                }
            }
        }
        self.driver.close(conn, CloseMode::AfterFlush);
    }

    /// Accepts a connection from the HTTP thread, which has authenticated its client, so no command is needed for that.
    pub(crate) fn visit(
        &mut self,
        watchlist: &mut Watchlist,
        shared: &'static Shared,
        socket: Socket,
        access: Access,
    ) {
        let (mut seat, seats_max) = (None, shared.settings.number(MAXCLIENTS_PER_USER) as u64);
        if let Err(error) = access.take_seat(&mut seat, seats_max) {
            self.stats.rejected_connections.add(1);
            return self.send_away(socket, Protocol::Redis, None, error.to_string());
        }
        let conn = self.adopt(watchlist, shared, socket, Entrance::default());
        if let Some(session) = conn.and_then(|conn| self.connections.session(conn)) {
            (session.access, session.seat) = (access, seat);
            (session.client.proto, session.name) = (Proto::Resp3, b"http".to_vec());
        }
    }

    /// The connection that this server has made to its primary becomes one of its connections.
    pub(crate) fn adopt_primary(&mut self, shared: &'static Shared, socket: Socket) -> ConnId {
        self.registry.knock();
        let is_secured = shared.settings.is_on(TLS_REPLICATION);
        let codec = if is_secured { shared.tls.dialed() } else { None };
        let conn = self.take_in(shared, socket, Protocol::Redis, Parser::Primary, codec);
        if let Some(session) = self.connections.session(conn) {
            session.is_primary = true;
        }
        conn
    }

    /// Turns the socket into a connection of this thread, with a session.
    fn take_in(
        &mut self,
        shared: &'static Shared,
        socket: Socket,
        protocol: Protocol,
        parser: Parser,
        codec: Option<Box<dyn Codec>>,
    ) -> ConnId {
        let (peer, local, is_unix) = (socket.peer().to_owned(), socket.local().to_owned(), socket.is_unix());
        let descriptor = socket.descriptor();
        let keepalive = shared.settings.keepalive();
        if !keepalive.is_zero() {
            // If the socket refuses the option, it works without it.
            let _ = socket.set_keepalive(keepalive);
        }
        let conn = self.driver.adopt_coded(socket, codec);
        self.stats.connections_received.add(1);
        let place = Subscriber { thread: self.id, connection: conn.to_bits() };
        let client = Client {
            id: self.registry.enter(place),
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
        let mut session = Session::new(client, access, self.now_ms);
        session.peer = peer;
        session.local = local;
        session.is_unix = is_unix;
        session.descriptor = descriptor;
        session.protocol = protocol;
        self.connections.add(conn, Box::new(parser), Box::new(session));
        conn
    }
}

/// Ends the tracking of a client that is gone.
fn end_tracking(session: &mut Session, directory: &Directory, thread: u16) {
    let Some(tracking) = session.tracking.take() else { return };
    directory.end_tracking();
    if tracking.broadcasts {
        directory.note_departed(Subscriber { thread, connection: session.client.connection });
    }
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
        self.host.net.forget_names(&session.former_names);
        if session.replica.is_some() {
            let conn = ConnId::from_bits(session.client.connection);
            self.host.roles.replicas.remove(conn);
            self.host.shared.primary.leave(session.client.id, self.host.net.now_ms);
            self.host.shared.role_parts().judge_quorum(self.host.net.now_ms);
        }
        if session.is_primary {
            let conn = ConnId::from_bits(session.client.connection);
            on_link(self, None, |link, host| link.closed(conn, host));
        }
        self.host.reports.monitors.remove(ConnId::from_bits(session.client.connection));
        end_tracking(session, &self.host.shared.directory, self.host.net.id);
        let watching = std::mem::take(&mut session.watching);
        self.host.background.stale_watches.push(watching);
        self.forget_watches();
        let subscriptions = std::mem::take(&mut session.subscriptions);
        let subscriber = Subscriber { thread: self.host.net.id, connection: session.client.connection };
        self.host.shared.directory.forget(&subscriptions, subscriber);
        for (scope, channel) in subscriptions.all_channels() {
            let what = Forget::Subscription(scope, subscriber);
            self.send_task(forgetting(self.host.shared, self.host.net.id, 0, channel, what));
        }
    }

    /// Removes ended watches from the shards.
    pub(crate) fn forget_watches(&mut self) {
        while let Some(watching) = self.host.background.stale_watches.pop() {
            for (db, key) in &watching.keys {
                let what = Forget::Watch(watching.flag.clone());
                self.send_task(forgetting(self.host.shared, self.host.net.id, *db, key, what));
            }
        }
    }
}
