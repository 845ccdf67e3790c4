//! The parts of a server that its role concerns, and what happens to all of them when the role changes.
//!
//! Not here: when the role changes (`role.rs`, `handover.rs`).

use config::{APPENDONLY, REPL_SYNC_REPLICAS, Settings};
use effectlog::{Lsn, StreamPosition};
use engine::Shards;
use proactor::Clock;

use crate::acks::Acks;
use crate::following::Following;
use crate::history::History;
use crate::log::ServerLog;
use crate::notices::Notice;
use crate::primary::Primary;
use crate::quorum::Quorum;
use crate::waiting::{Awaited, Reached};

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

/// News for the server's threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoleNews {
    /// From now on, all threads make commands that write wait; or they no longer do.
    HoldsWrites(bool),
    /// The role has changed, to one of this version. All shards are held.
    Changed(RoleChange, u64),
    /// A replica has acknowledged something, and a failover waits for that: the thread of the link looks.
    Acknowledged,
    /// The first thread has a role to take, or may acknowledge more.
    Ordered,
    /// The gate has opened: threads that hold output look again.
    Opened,
    /// Clients that asked for notices are told something, or something is done for them.
    Notice(Notice),
}

/// Tells the server's threads what they have to do for their clients.
pub trait Announce: Sync {
    /// Sends this to the threads that it concerns.
    fn announce(&self, news: RoleNews);
}

/// What all threads of a server share that concerns its role.
#[derive(Clone, Copy)]
pub struct Parts {
    /// The current settings.
    pub settings: &'static Settings,
    /// The shards.
    pub shards: &'static Shards,
    /// The log, which feeds the journal and the replicas.
    pub log: &'static ServerLog,
    /// This server as a primary.
    pub primary: &'static Primary,
    /// Acknowledgements of replicas.
    pub acks: &'static Acks,
    /// Whether enough replicas follow for commands that write.
    pub quorum: &'static Quorum,
    /// The primary that this server follows, if it does.
    pub following: &'static Following,
    /// The threads.
    pub threads: &'static dyn Announce,
    /// The clock.
    pub clock: &'static Clock,
}

impl Parts {
    /// Makes commands that write wait on all threads, and stops expiry, from now on; or ends that. All shards are held.
    pub fn hold_writes(&self, holds: bool) {
        self.shards.set_hides_due(holds || self.following.is_replica());
        self.threads.announce(RoleNews::HoldsWrites(holds));
    }

    /// Determines whether enough replicas follow for commands that write, and for how many of them replies wait.
    pub fn judge_quorum(&self, now_ms: u64) {
        let synced = &self.log.synced;
        let wanted = self.settings.number(REPL_SYNC_REPLICAS) as u64;
        self.log.wait_for_replicas(if synced.group.is_on() { 1 } else { wanted });
        synced.update(self.settings, self.primary, &self.log.backlog);
        let now = (now_ms, self.clock.boot_ms());
        self.quorum.judge(self.settings, self.primary, (self.following, synced), now);
    }

    /// Notes that a replica has acknowledged something.
    pub(crate) fn note_ack(&self, now_ms: u64) {
        self.log.synced.update(self.settings, self.primary, &self.log.backlog);
        self.acks.note();
        if self.following.failover.is_waiting() {
            self.threads.announce(RoleNews::Acknowledged);
        }
        if self.quorum.is_lacking() {
            self.judge_quorum(now_ms);
        }
        if self.following.notices.receives(now_ms) && !self.following.is_replica() {
            // Their commands may have waited for enough replicas.
            if !self.quorum.is_lacking() && !self.log.synced.is_in_doubt() {
                self.following.notices.receive(now_ms, 0);
                self.threads.announce(RoleNews::Notice(Notice::Received));
            }
        }
    }

    /// How far the disk, or the replicas, have got with what a client waits for.
    pub fn reached(&self, awaited: &Awaited) -> Reached {
        let end = if awaited.written == Lsn::NONE {
            Some(StreamPosition::START)
        } else {
            self.log.backlog.end_of(awaited.written)
        };
        let has_journal = self.settings.is_on(APPENDONLY) || self.log.is_on();
        let count = |end| self.primary.acknowledged(end, awaited.wish.is_durable) as u64;
        Reached { is_local: has_journal && self.log.kept() >= awaited.kept, replicas: end.map_or(0, count) }
    }

    /// The stream has these ids from now on, in the journal as well. All shards are held.
    pub fn rename_stream(&self, history: History) {
        self.primary.set_history(history);
        self.log.name_stream(history.id);
    }

    /// Tells all threads that the role has changed, and makes replies wait or not wait, as that role requires. All
    /// shards are held.
    pub(crate) fn change_role(&self, change: RoleChange) {
        self.log.note_role(self.following, change, self.settings);
        self.judge_quorum(self.clock.monotonic_ms());
        self.threads.announce(RoleNews::Changed(change, self.following.version()));
    }
}
