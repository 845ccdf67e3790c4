//! The changes of the document that a node asks for: who leaves and joins the in-sync set, who takes over, who recovers
//! (rules 6, 7, 10 and 12).
//!
//! One change at a time. Each is a compare-and-swap on the revision that the node knows, so two nodes that decide at the
//! same time cannot both succeed.

use std::collections::BTreeSet;
use std::sync::Arc;

use effectlog::StreamPosition;
use topology::{Document, Instance, NodeId, Reading, ReplicaGroup, Revision, Safety, Term};

use crate::member::{Data, Member, View};
use crate::mutant::{self, BrokenRule};
use crate::primary::{Heard, Joining};

/// A member that says nothing for this part of a grant is left out: long before its own promise ends, so that it does not
/// take over from a primary that lives.
const SILENT_PART: u64 = 3;
/// How many bytes a replica may lack when writes begin to wait for it because it is to become a member.
const JOINING_BYTES_MAX: u64 = 1 << 20;
/// How long writes wait for it.
const JOINING_MS_MAX: u64 = 1_000;
/// The time until the next attempt if it did not catch up.
const JOINING_PAUSE_MS: u64 = 5_000;

/// A kind of change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupChange {
    /// A member is left out: it is dead, or does not answer.
    Shrink(Instance),
    /// A replica that has everything becomes a member.
    Grow(Instance),
    /// This member takes over from a leader that is dead or silent.
    TakeOver(Instance),
    /// This primary hands over to a member.
    HandOver(Instance),
    /// This node leads again after all members have died.
    Recover,
    /// Nothing: it only settles the outcome of another change, which can no longer be made on that revision afterwards.
    Settle,
}

/// A change to be made by compare-and-swap, whose outcome goes to [`Member::settled`].
#[derive(Clone, Debug)]
pub struct Proposal {
    /// Its kind, for the log.
    pub change: GroupChange,
    /// The reading on whose revision it is made.
    pub on: Reading,
    /// The new document.
    pub document: Document,
    /// This must be durable on this node before it is sent, because the node may be alone in sync afterwards (rule 7).
    pub durable_first: Option<StreamPosition>,
}

impl Proposal {
    /// The reading that holds if the change was made and the document has this revision.
    pub fn made(&self, revision: Revision) -> Reading {
        let found = topology::Finding::Document(Arc::new(self.document.clone()));
        Reading { revision, as_of: revision, found, dead: self.on.dead.clone() }
    }
}

/// A change whose outcome is not known.
#[derive(Debug)]
pub(crate) struct PendingChange {
    /// The revision that it replaces.
    pub(crate) on: Revision,
    /// The group if it is made.
    pub(crate) after: ReplicaGroup,
    /// Whether the store did not say what became of it, so that it has to be settled.
    pub(crate) is_unknown: bool,
}

impl PendingChange {
    pub(crate) fn leaves_alone(&self, me: &Instance) -> bool {
        self.after.in_sync.len() == 1 && self.after.has_in_sync(me)
    }
}

/// The data of another node, asked for after all members were known to be dead, because the group is to be recovered.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The node.
    pub node: NodeId,
    /// Whether its folder is complete.
    pub is_whole: bool,
    /// The term in which the last of its data was written.
    pub last_term: Term,
    /// The end of its data.
    pub written: StreamPosition,
}

impl Member {
    /// The change that this node should ask for now, if any. It must then be asked for, once: the node counts on that it
    /// may be made at any time. `standings` is what the others have answered, for a recovery.
    ///
    /// To be called some times a second, and after each change of what the node knows.
    pub fn next_change(&mut self, data: &Data, standings: &[Standing], now_ms: u64) -> Option<Proposal> {
        let view = self.view.as_ref()?;
        if let Some(pending) = &self.pending {
            // Reading the old revision again would tell nothing: the change may be on its way. Any change of that revision
            // makes it impossible (rule 6).
            let document = view
                .reading
                .document()
                .filter(|_| pending.is_unknown && pending.on == view.reading.revision)?;
            let (on, document) = (view.reading.clone(), (**document).clone());
            return Some(Proposal { change: GroupChange::Settle, on, document, durable_first: None });
        }
        let (change, after) = match self.leads() {
            true => self.as_primary(data, now_ms)?,
            false => {
                let takes_over = self.take_over(data, now_ms).filter(|_| now_ms >= self.hesitates_until_ms);
                takes_over.or_else(|| self.recover(data, standings))?
            }
        };
        Some(self.propose(change, after, data))
    }

    fn propose(&mut self, change: GroupChange, after: ReplicaGroup, data: &Data) -> Proposal {
        let view = self.view.as_ref().expect("it has read the document");
        let mut document = (**view.reading.document().expect("it follows this document")).clone();
        document.groups.insert(self.id.clone(), after.clone());
        let pending = PendingChange { on: view.reading.revision, after, is_unknown: false };
        let is_alone_after = pending.leaves_alone(&self.me) && !mutant::is_on(BrokenRule::AloneNoSync);
        let on = view.reading.clone();
        self.pending = Some(pending);
        Proposal { change, on, document, durable_first: is_alone_after.then_some(data.written) }
    }

    fn as_primary(&mut self, data: &Data, now_ms: u64) -> Option<(GroupChange, ReplicaGroup)> {
        if let Some(successor) = self.primary.successor.clone() {
            if now_ms >= successor.until_ms {
                self.primary.successor = None;
                return None;
            }
            return self.hand_over_to(&successor.to, data);
        }
        self.shrink(now_ms).or_else(|| self.grow(data, now_ms))
    }

    /// Rule 12: the successor has everything, and nothing is answered any more.
    fn hand_over_to(&self, to: &NodeId, data: &Data) -> Option<(GroupChange, ReplicaGroup)> {
        let view = self.view.as_ref()?;
        let successor = Instance { node: to.clone(), life: *view.group.in_sync.get(to)? };
        let has_all = self.primary.heard_from(&successor).is_some_and(|heard| heard.offset >= data.written);
        let after =
            ReplicaGroup { term: view.group.term.next(), leader: successor.clone(), ..view.group.clone() };
        has_all.then_some((GroupChange::HandOver(successor), after))
    }

    /// Rule 6: a member that is dead or silent is left out, but not if too few would be left.
    fn shrink(&self, now_ms: u64) -> Option<(GroupChange, ReplicaGroup)> {
        let view = self.view.as_ref()?;
        let silent_ms = u64::from(view.params.grant_ms) / SILENT_PART;
        let is_gone = |member: &Instance| {
            let heard_ms = self.primary.heard_from(member).map_or(0, |heard| heard.at_ms);
            self.dead.contains(&member.life) || now_ms >= heard_ms.max(view.term_since_ms) + silent_ms
        };
        if view.group.in_sync.len() <= view.params.min_in_sync(&view.group) {
            return None;
        }
        let others = self.needed().into_iter().filter(|member| *member != self.me);
        let gone = others.filter(is_gone).min_by_key(|member| !self.dead.contains(&member.life))?;
        let mut after = view.group.clone();
        after.in_sync.remove(&gone.node);
        Some((GroupChange::Shrink(gone), after))
    }

    /// Rule 6: a replica that has granted, and has everything that is acknowledged and everything that the former primaries
    /// left, becomes a member. Writes wait for it a little before, since otherwise it would always be some bytes behind.
    fn grow(&mut self, data: &Data, now_ms: u64) -> Option<(GroupChange, ReplicaGroup)> {
        let committed = self.committed(data);
        let view = self.view.as_ref()?;
        let is_candidate = |(node, heard): &(&NodeId, &Heard)| {
            !view.group.in_sync.contains_key(*node) && now_ms < heard.granted_until_ms
        };
        let has_all = |heard: &Heard, committed: StreamPosition| {
            let has_rest =
                heard.offset >= self.primary.inherited || mutant::is_on(BrokenRule::GrowCommitOnly);
            heard.offset >= committed && has_rest || mutant::is_on(BrokenRule::GrowUncaught)
        };
        let found = self.primary.heard().filter(is_candidate).find(|(_, heard)| has_all(heard, committed));
        if let Some((node, heard)) = found {
            let joined = Instance { node: node.clone(), life: heard.life };
            let mut after = view.group.clone();
            after.in_sync.insert(joined.node.clone(), joined.life);
            return Some((GroupChange::Grow(joined), after));
        }
        let near = self.primary.heard().filter(is_candidate);
        let near = near
            .max_by_key(|(_, heard)| heard.offset)
            .filter(|(_, heard)| heard.offset >= data.written.minus(JOINING_BYTES_MAX));
        let near = near.map(|(node, _)| node.clone());
        self.wait_for(near, now_ms);
        None
    }

    /// Lets writes wait for a replica for a time, and then for a longer time not, if it did not catch up.
    fn wait_for(&mut self, near: Option<NodeId>, now_ms: u64) {
        let joining = &mut self.primary.joining;
        joining.take_if(|joining| now_ms >= joining.since_ms + JOINING_PAUSE_MS);
        if let Some(joining) = joining {
            joining.is_waited_for = now_ms < joining.since_ms + JOINING_MS_MAX;
        } else {
            *joining = near.map(|node| Joining { node, since_ms: now_ms, is_waited_for: true });
        }
    }

    /// Rule 7: a member with all its data takes over when its promise is over or the leader is dead. It waits for a grant
    /// after it has first seen a term, so that two members do not take over from each other in turn.
    fn take_over(&self, data: &Data, now_ms: u64) -> Option<(GroupChange, ReplicaGroup)> {
        let view = self.view.as_ref()?;
        let is_member = view.group.has_in_sync(&self.me) || mutant::is_on(BrokenRule::NonMember);
        let is_whole = data.is_whole || mutant::is_on(BrokenRule::CopyingElected);
        if !is_member || !is_whole || !(self.is_over(view, now_ms) || mutant::is_on(BrokenRule::LeaseOnly)) {
            return None;
        }
        let mut after =
            ReplicaGroup { term: view.group.term.next(), leader: self.me.clone(), ..view.group.clone() };
        after.in_sync.remove(&view.group.leader.node);
        after.in_sync.insert(self.me.node.clone(), self.me.life);
        Some((GroupChange::TakeOver(view.group.leader.clone()), after))
    }

    /// Whether it is about to take over, unless it [hesitates](Self::hesitate): the other members that may do so, too.
    pub fn rivals(&self, data: &Data, now_ms: u64) -> Vec<NodeId> {
        let is_about_to = !self.leads() && self.pending.is_none() && self.take_over(data, now_ms).is_some();
        let Some(view) = self.view.as_ref().filter(|_| is_about_to) else { return Vec::new() };
        let is_rival = |node: &&NodeId| **node != self.me.node && **node != view.group.leader.node;
        view.group.in_sync.keys().filter(is_rival).cloned().collect()
    }

    /// Lets another member take over first, which has more: this one could continue its stream without a full copy.
    pub fn hesitate(&mut self, until_ms: u64) {
        self.hesitates_until_ms = until_ms;
    }

    /// Whether the leader's term is over as far as this member is concerned.
    fn is_over(&self, view: &View, now_ms: u64) -> bool {
        let has_waited = now_ms >= view.term_since_ms + u64::from(view.params.grant_ms);
        self.dead.contains(&view.group.leader.life) || has_waited && !self.replica.has_promised(now_ms)
    }

    /// The nodes whose [standings](Standing) a recovery needs. Empty if none is possible now.
    pub fn recovery_waits_for(&self) -> Vec<NodeId> {
        let Some(view) = self.view.as_ref().filter(|view| self.may_recover(view)) else { return Vec::new() };
        let others = view.group.in_sync.keys().filter(|node| **node != self.me.node);
        if view.params.ack == Safety::Applied { others.cloned().collect() } else { Vec::new() }
    }

    /// Whether all members are dead, and this node was one of them.
    fn may_recover(&self, view: &View) -> bool {
        let was_member = view.group.in_sync.contains_key(&self.me.node) && !view.group.has_in_sync(&self.me);
        was_member
            && self.pending.is_none()
            && view.group.in_sync.values().all(|life| self.dead.contains(life))
    }

    /// Rule 10: all members are dead, and this node was one of them and has its data. If members acknowledge what is not
    /// durable, all nodes must be back, and the one whose data reach furthest leads: the newest term first, since a node may
    /// have more bytes of an older one.
    fn recover(&self, data: &Data, standings: &[Standing]) -> Option<(GroupChange, ReplicaGroup)> {
        let view = self.view.as_ref()?;
        let is_whole = data.is_whole || mutant::is_on(BrokenRule::EmptyLeads);
        if !self.may_recover(view) || !is_whole {
            return None;
        }
        if view.params.ack == Safety::Applied && !mutant::is_on(BrokenRule::RecoverAny) {
            let mine = (data.last_term, data.written, &self.me.node);
            let others: BTreeSet<&NodeId> =
                view.group.in_sync.keys().filter(|node| **node != self.me.node).collect();
            let is_behind_us = |node: &&NodeId| {
                let standing = standings.iter().find(|standing| standing.node == **node);
                standing.is_some_and(|standing| {
                    let is_whole = standing.is_whole || mutant::is_on(BrokenRule::EmptyLeads);
                    is_whole && (standing.last_term, standing.written, &standing.node) <= mine
                })
            };
            if !others.iter().all(is_behind_us) {
                return None;
            }
        }
        let mut after =
            ReplicaGroup { term: view.group.term.next(), leader: self.me.clone(), ..view.group.clone() };
        after.in_sync.clear();
        after.in_sync.insert(self.me.node.clone(), self.me.life);
        Some((GroupChange::Recover, after))
    }
}
