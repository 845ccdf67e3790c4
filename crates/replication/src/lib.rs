//! Replication: the log of a running server (`log/`), which feeds its journal and its replicas; a server and its
//! replicas; a replica and its primary.
//!
//! ```text
//!   PSYNC ──▶ Waiting ──▶ Sending ──▶ (Confirming) ──▶ Online          PSYNC with a known place ──▶ (CatchingUp) ──▶ Online
//!             for a cut   snapshot    for an ACK       stream                                        from the journal
//! ```
//!
//! All threads share [`Primary`]: the id and the offset of the stream, and the replicas. The connection of a replica
//! has a [`Feed`], which its thread steps: it reads the snapshot (`persistence`'s spool) and the stream (`effectlog`'s
//! backlog) at the replica's pace. Nothing waits for a replica: one that is too far behind is disconnected.
//!
//! If this server follows a primary, all threads share [`Following`]. The thread that has the link steps a
//! [`Follower`]: the dialogue over the link is a state machine that knows no server ([`link`]), and the received stream
//! is applied command by command (`apply.rs`). `role.rs` changes the role.
//!
//! Not here: when a snapshot begins, and the connections (`server/replication/`).

#![forbid(unsafe_code)]

mod acks;
mod address;
mod apply;
mod commands;
mod facts;
mod failover;
mod feed;
mod follower;
mod following;
mod groups;
mod handover;
mod history;
mod incoming;
mod leaving;
mod limits;
pub mod link;
mod link_settings;
pub mod log;
mod membership;
mod notices;
mod parts;
mod peer;
mod primary;
mod quorum;
mod replicas;
mod role;
mod round;
mod stage;
mod standing;
mod synced;
mod tail;
mod taking_part;
mod waiting;
mod wide;

use effectlog::Lsn;
use engine::CommandResult;

pub use acks::Acks;
pub use address::Address;
pub use commands::ENTRIES;
pub use facts::facts;
pub use failover::Failover;
pub use feed::{Around, Feed, FeedStep};
pub use follower::Follower;
pub use following::Following;
pub use groups::hand_over_group;
pub use handover::QUESTION;
pub use history::{History, ReplicationId, random_id};
pub use incoming::{Incoming, Outgoing, Unread, incoming};
pub use leaving::SILENT_MS;
pub use limits::Limits;
pub use link_settings::LinkSettings;
pub use membership::{Introduction, Membership, NotedTerms, RoleOrder};
pub use notices::{EndpointKind, Notice, Notices, Recipient};
pub use parts::{Announce, Parts, RoleChange, RoleNews};
pub use peer::Peer;
pub use primary::{CopyContent, Primary, Replica, ReplicaFacts, Start};
pub use quorum::Quorum;
pub use replicas::Replicas;
pub use stage::{FollowerAround, Ran, Stage, Vocabulary};
pub use standing::Standing;
pub use synced::Synced;
pub use tail::Read;
pub use taking_part::announce_order;
pub use waiting::{Awaited, NO_JOURNAL, Reached, Wish, note_written};
pub use wide::Help;

/// What the commands of this crate work with.
pub struct ReplicationCaller<'h> {
    /// What the threads share.
    pub parts: Parts,
    /// The time on the monotonic clock.
    pub now_ms: u64,
    /// The client as a replica, if it has said that it is one.
    pub peer: &'h mut Option<Box<Peer>>,
    /// The client's address, with the port.
    pub address: &'h str,
    /// The last slice with a write of the client.
    pub written_slice: &'h mut Lsn,
    /// Draws a random id.
    pub draw_id: &'h mut dyn FnMut() -> ReplicationId,
    /// Set by the command: the client now has a [`Feed`], which has to be stepped.
    pub is_fed: bool,
    /// Set by a command that has no reply yet: what the client waits for, and for at most how many milliseconds; 0:
    /// forever.
    pub waits_for: Option<(Awaited, u64)>,
}

impl ReplicationCaller<'_> {
    /// The client as a replica.
    fn peer(&mut self) -> &mut Peer {
        self.peer.get_or_insert_default()
    }
}

type Ctx<'a, 't, 'h> = engine::Ctx<'a, 't, ReplicationCaller<'h>>;
/// The function of a command of this crate.
pub type Function = fn(&mut Ctx<'_, '_, '_>) -> CommandResult;
/// The declaration of a command of this crate.
pub type Entry = engine::Entry<Function>;
type Run = engine::Run<Function>;
