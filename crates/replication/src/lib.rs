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
mod handover;
mod history;
mod incoming;
mod limits;
pub mod link;
mod link_settings;
pub mod log;
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
mod waiting;
mod wide;

use std::sync::Arc;

use config::Settings;
use effectlog::{Backlog, Cut};
use engine::{HostFn, Tx};

pub use acks::Acks;
pub use address::Address;
pub use commands::ENTRIES;
pub use facts::facts;
pub use failover::Failover;
pub use feed::{Around, Feed, Step};
pub use follower::Follower;
pub use following::Following;
pub use handover::QUESTION;
pub use history::{History, ReplicationId, random_id};
pub use incoming::{Incoming, Outgoing, Unread, incoming};
pub use limits::Limits;
pub use link_settings::LinkSettings;
pub use peer::Peer;
pub use primary::{Content, Primary, Replica, ReplicaFacts, Start};
pub use quorum::Quorum;
pub use replicas::Replicas;
pub use stage::{Around as FollowerAround, Ran, Stage, Vocabulary};
pub use standing::Standing;
pub use synced::Synced;
pub use tail::Read;
pub use waiting::{Awaited, NO_JOURNAL, Reached, Wish};
pub use wide::Help;

/// What the commands of this crate need from the thread that runs them.
pub trait Door {
    /// This server as a primary.
    fn primary(&self) -> &'static Primary;

    /// The stream.
    fn backlog(&self) -> &Arc<Backlog>;

    /// The position at the end of the stream.
    fn position(&self) -> u64;

    /// Whether the journal has everything behind this offset of the stream.
    fn has_in_journal(&self, offset: u64) -> bool;

    /// What the client would have to wait for. If `publishes`, what the running transaction wrote is published and
    /// included; otherwise it is left out.
    fn awaited(&mut self, tx: &mut Tx, wish: Wish, publishes: bool) -> Awaited;

    /// How far that has been reached.
    fn reached(&self, awaited: &Awaited) -> Reached;

    /// Makes the client wait for that, for at most so many milliseconds; 0: forever.
    fn await_copies(&mut self, awaited: Awaited, timeout_ms: u64);

    /// A replica has acknowledged something.
    fn note_ack(&mut self);

    /// Whether the settings ask for a journal (`appendonly`).
    fn wants_journal(&self) -> bool;

    /// Whether there is a journal that has not got the last full copy yet.
    fn lacks_copy(&self) -> bool;

    /// The client as a replica.
    fn peer(&mut self) -> &mut Peer;

    /// The client's id, and its address without the port.
    fn client(&mut self) -> (u64, String);

    /// The client now has a [`Feed`], which has to be stepped.
    fn attach(&mut self);

    /// Whether a snapshot is sent while it is written, to replicas that can read that (`repl-diskless-sync`).
    fn sends_at_once(&self) -> bool;

    /// A random mark that ends such a snapshot.
    fn mark(&mut self) -> ReplicationId;

    /// The time on the monotonic clock.
    fn now_ms(&self) -> u64;

    /// What all threads know about the primary that this server follows.
    fn following(&self) -> &'static Following;

    /// From now on the log is a copy of another stream, or records what threads do. All shards are held. Returns where
    /// the log ended before, if it was on.
    fn set_copying(&mut self, copies: bool) -> Option<Cut>;

    /// The stream has these ids from now on, in the journal as well. All shards are held.
    fn rename_stream(&mut self, history: History);

    /// Cuts the stream; returns the place. All shards are held.
    fn cut(&mut self) -> Cut;

    /// Bytes that all threads have recorded in the log.
    fn sent_bytes(&self) -> u64;

    /// Makes commands that write wait on all threads, and stops expiry, from now on; or ends that. All shards are held.
    fn hold_writes(&mut self, holds: bool);

    /// Tells all threads that the role has changed.
    fn tell_role(&mut self, change: RoleChange);

    /// The settings.
    fn settings(&self) -> &Settings;
}

/// What a change of the role means for clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoleChange {
    /// There is a primary now: clients that wait for other clients wait in vain.
    Demoted,
    /// There is another primary.
    Moved,
    /// There is no primary any more: this server's replicas have to connect again and ask where they are.
    Promoted,
}

type Ctx<'a, 't> = engine::Ctx<'a, 't, dyn Door>;
/// The declaration of a command of this crate.
pub type Entry = engine::Entry<HostFn<dyn Door>>;
type Run = engine::Run<HostFn<dyn Door>>;
