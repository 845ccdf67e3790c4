//! What of a node's part in a group concerns the server's other parts: roles, data, commands of clients.
//!
//! Not here: the state that the threads look at (`membership.rs`), and the rules (`group`).

use std::sync::atomic::Ordering;

use effectlog::{Lsn, StreamPosition};
use engine::CommandError;
use group::{Ack, Data, Proposal, Role};
use topology::NodeId;

use crate::following::Resume;
use crate::history::ReplicationId;
use crate::link::LinkState;
use crate::membership::{Inner, Membership, RoleOrder};
use crate::parts::{Parts, RoleNews};
use crate::role;
use crate::standing::Standing;

/// The error of a primary that has not the grants of all members.
const NO_GRANTS: CommandError = CommandError::fixed(
    "CLUSTERDOWN This primary waits for the grants of its in-sync replicas, or for the group to go on without them",
);
/// The error of a primary with too few members in sync.
const TOO_FEW: CommandError =
    CommandError::fixed("NOREPLICAS Too few nodes of the group are in sync to write (cluster-min-in-sync)");
/// The error of a node that has no role.
const NO_ROLE: CommandError = CommandError::fixed(
    "CLUSTERDOWN This node has no role in its group yet: see 'darter --cluster status' and its log",
);
/// The error for those who read from a replica and have not said that they accept old data.
const READS_ELSEWHERE: CommandError = CommandError::fixed(
    "READONLY This node is a replica, and its data may be old: read from the primary, or send READONLY first",
);

impl Membership {
    /// The error for a command of a client, if this node must not run it now (rule 2).
    pub fn refusal(
        &self,
        writes: bool,
        shows_data: bool,
        reads_here: bool,
        boot_ms: u64,
    ) -> Option<CommandError> {
        if !self.is_on() || !(writes || shows_data) {
            return None;
        }
        if self.is_leading() {
            return match self.is_open(boot_ms) || self.is_leaving() {
                false => Some(NO_GRANTS),
                true if writes && !self.may_write() => Some(TOO_FEW),
                true => None,
            };
        }
        match self.is_replica.load(Ordering::Relaxed) {
            false => Some(NO_ROLE),
            true if writes => Some(Standing::READ_ONLY),
            true if reads_here => None,
            true => Some(READS_ELSEWHERE),
        }
    }

    /// Carries out an order. The caller holds all shards.
    pub fn obey(
        &self,
        parts: &Parts,
        order: RoleOrder,
        draw_id: impl FnOnce() -> ReplicationId,
        now_ms: u64,
    ) {
        {
            let mut inner = self.inner();
            (inner.leads_in, inner.linked) = (None, None);
            self.publish(&inner);
        }
        self.is_replica.store(order.primary.is_some(), Ordering::Relaxed);
        self.end_handover(parts);
        match &order.primary {
            Some(primary) => role::follow(parts, primary.clone(), now_ms),
            None => {
                role::lead(parts, draw_id);
                // Acknowledgements are of a stream, even if nothing is recorded yet.
                parts.log.cut_for_replicas();
                let inherited = parts.log.log.slice().before().max(Lsn::new(1));
                self.inherited.store(inherited, Ordering::Relaxed);
                parts.log.wait_for_replicas(1);
            }
        }
        self.inner().taken = Some((order, parts.primary.history().id));
        self.ring();
    }

    /// Begins to hand over to `node`, or to any member. The caller holds all shards.
    pub(crate) fn hand_over(&self, parts: &Parts, node: Option<&NodeId>, limit_ms: u64) -> bool {
        let now_ms = parts.clock.boot_ms();
        let begins = self.with(|member| {
            let to = node.cloned().or_else(|| member.best_successor());
            to.is_some_and(|to| member.hand_over(&to, limit_ms, now_ms))
        });
        if begins {
            self.holds_writes.store(true, Ordering::Relaxed);
            parts.hold_writes(true);
            self.ring();
        }
        begins
    }

    /// Lets writes go on after a handover that came to nothing. The caller holds all shards.
    pub fn end_handover(&self, parts: &Parts) {
        if self.holds_writes.swap(false, Ordering::Relaxed) {
            parts.hold_writes(false);
        }
    }

    /// Whether it may connect to its primary: the rules allow it, and it knows an address.
    pub(crate) fn may_follow(&self, parts: &Parts) -> bool {
        let inner = self.inner();
        let is_of_term = |(order, _): &(RoleOrder, _)| matches!(inner.member.role(), Role::Replica(term) if term == order.term);
        inner.taken.as_ref().is_some_and(is_of_term) && inner.member.may_follow(&data(parts, &inner))
    }

    /// The acknowledgement to send to the primary now, outside of the stream's connection.
    pub fn acknowledge(&self, parts: &Parts) -> Option<Ack> {
        let mut inner = self.inner();
        let data = data(parts, &inner);
        let ack = inner.member.acknowledge(&data);
        self.publish(&inner);
        ack
    }

    /// The change that this node asks for now, if any.
    pub fn next_change(&self, parts: &Parts, standings: &[group::Standing], now_ms: u64) -> Option<Proposal> {
        let mut inner = self.inner();
        // Under the lock: nothing is acknowledged meanwhile that the data do not contain.
        let data = data(parts, &inner);
        let proposal = inner.member.next_change(&data, standings, now_ms);
        self.publish(&inner);
        proposal
    }

    /// The members that may take over as well, if this node is about to.
    pub fn rivals(&self, parts: &Parts, now_ms: u64) -> Vec<NodeId> {
        let inner = self.inner();
        inner.member.rivals(&data(parts, &inner), now_ms)
    }

    /// The data that this server has.
    pub fn data(&self, parts: &Parts) -> Data {
        data(parts, &self.inner())
    }

    /// What this server tells others that want to recover the group (rule 10).
    pub fn standing(&self, parts: &Parts) -> group::Standing {
        let inner = self.inner();
        let Data { written, is_whole, last_term, .. } = data(parts, &inner);
        group::Standing { node: inner.member.me().node.clone(), is_whole, last_term, written }
    }
}

/// The data that the server has.
fn data(parts: &Parts, inner: &Inner) -> Data {
    let following = parts.following;
    let written = match following.is_replica() {
        false => parts.log.position(),
        true => match following.resume() {
            Resume::At(offset) => offset,
            Resume::Later | Resume::Nowhere => StreamPosition::START,
        },
    };
    let durable = parts.log.durable_end().map_or(StreamPosition::START, |(_, end)| end).min(written);
    // Until a copy has arrived completely, the data are those from before it: whole, but not the primary's.
    let is_copying = following.state() == LinkState::Sync;
    let is_whole = !is_copying && (!inner.is_foreign || following.is_synced() && following.is_link_up());
    Data { written, durable, is_whole, term: inner.terms.newest, last_term: inner.terms.of_data }
}

/// Asks the first thread to look at its orders.
pub fn announce_order(parts: &Parts) {
    parts.threads.announce(RoleNews::Ordered);
}
