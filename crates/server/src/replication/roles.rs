//! Owns what a thread needs for the server's role, as a primary or as a replica.

use replication::{Follower, Replicas};

use crate::snapshot::Loaded;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Roles {
    /// Connections that are replicas.
    pub(crate) replicas: Replicas,
    /// The link to this server's primary; only on the first thread.
    pub(crate) follower: Follower<Loaded>,
}
