//! Owns what a thread needs for the server's role, as a primary or as a replica.

use clients::Connections;
use proactor::ConnId;
use replication::{Around, Follower, Limits, Read, Replicas};

use crate::connections::network::Network;
use crate::shared::Shared;
use crate::snapshot::Loaded;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Roles {
    /// Connections that are replicas.
    pub(crate) replicas: Replicas,
    /// The link to this server's primary; only on the first thread.
    pub(crate) follower: Follower<Loaded>,
}

impl Roles {
    /// Sends replicas as much of the stream as they can take. Returns connections that must be closed.
    #[cold]
    pub(crate) fn feed_replicas(&mut self, net: &mut Network, shared: &'static Shared) -> Vec<ConnId> {
        let Network { connections, driver, now_ms, .. } = net;
        let around = Around {
            now_ms: *now_ms,
            backlog: &shared.journal.backlog,
            id: shared.primary.history().id,
            unsupported_count: &shared.primary.unsupported_count,
            limits: Limits::of(&shared.settings),
            waker: driver.waker(),
            blocking_tasks: &shared.machine.blocking_tasks,
            read_back: &|part, version| -> Option<Read> {
                let mut stream = shared.journal.open()?.read_back(part.start, part.end);
                Some(Box::new(move || stream.next(version).map_err(|error| error.to_string())))
            },
        };
        let ended = self.replicas.step(&around, |conn, step| {
            let pending_bytes = driver.output_pending_bytes(conn);
            let feed = connections.session(conn).and_then(|session| session.replica.as_mut()?.feed.as_mut());
            if let (Some(feed), Some(output)) = (feed, driver.output_mut(conn))
                && step(feed, output, pending_bytes)
            {
                driver.await_sending(conn);
            }
        });
        let log = |(conn, why): (ConnId, _)| {
            let session = connections.session(conn);
            let feed = session.and_then(|session| session.replica.as_ref()?.feed.as_ref());
            let name = feed.map(|feed| feed.replica().to_string()).unwrap_or_default();
            tracing::warn!("replica {name} is disconnected: {why}");
            conn
        };
        ended.into_iter().map(log).collect()
    }

    /// Whether the link has work: in each turn, whether the role has changed; in each round (`is_round`), what is due.
    pub(crate) fn is_link_due(&self, shared: &Shared, now_ms: u64, is_round: bool) -> bool {
        let durable = shared.journal.progress.durable();
        let is_due = is_round || self.follower.is_due(&shared.following, durable, now_ms);
        // The offset at which the stream continues is known once the own data has been loaded.
        is_due && (!shared.snapshots.progress.is_loading() || shared.journal.awaits_first_base())
    }

    /// The replicas that connected before version `role` of the server's role.
    pub(crate) fn outdated(&self, connections: &mut Connections, role: u64) -> Vec<ConnId> {
        let mut conns: Vec<ConnId> = self.replicas.conns().into_iter().collect();
        conns.retain(|conn| {
            let peer = connections.session(*conn).and_then(|session| session.replica.as_deref());
            peer.is_none_or(|peer| peer.role < role)
        });
        conns
    }
}
