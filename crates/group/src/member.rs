//! One node's part in a group: what it knows of the document, and what follows from that. See the head of the crate.
//!
//! A change that this node has asked for and whose outcome it does not know is `pending`. Until then it does what is right
//! in both cases: a primary waits for the members before *and* after it, and a node that takes over neither acknowledges
//! nor grants.

use std::collections::BTreeSet;

use effectlog::StreamPosition;
use topology::{
    Finding, GroupId, Instance, Life, NodeId, Params, Reading, ReplicaGroup, Revision, Safety, Swap, Term,
};

use crate::change::PendingChange;
use crate::messages::{Ack, Beat, LinkId};
use crate::mutant::{self, BrokenRule};
use crate::primary::{Primary, Succession};
use crate::replica::Replica;

/// The data that the node has at the moment of a call.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    /// The end of what it has applied.
    pub written: StreamPosition,
    /// The end of what is durable.
    pub durable: StreamPosition,
    /// Whether its folder is complete: false before and during a full copy.
    pub is_whole: bool,
    /// The newest term in which it led or followed, as its manifest says.
    pub term: Term,
    /// The term in which the last of its data was written.
    pub last_term: Term,
}

/// The part that a node plays in its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It has not read the document, or is not a member.
    Outside,
    /// It leads this term.
    Primary(Term),
    /// Another process leads this term.
    Replica(Term),
}

/// Why a document was not followed. The node keeps its data and its promises.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The store is empty.
    #[error("the store has no document: create the cluster with 'darter --cluster create'")]
    NoDocument,
    /// It cannot be read.
    #[error("the document cannot be used: {0}")]
    Broken(String),
    /// The group is not in it.
    #[error("the document has no group {0}: add it with 'darter --cluster add', or correct cluster-group")]
    NoGroup(GroupId),
    /// It speaks of an older term than this node has seen.
    #[error(
        "the document is in term {found}, but this node has been in term {known}: was the store restored from a backup? \
         See 'darter --cluster repair'"
    )]
    OlderTerm {
        /// The term of the document.
        found: Term,
        /// The term of the node.
        known: Term,
    },
}

/// The document as this node knows it.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) reading: Reading,
    pub(crate) params: Params,
    pub(crate) group: ReplicaGroup,
    /// When this node first saw the term.
    pub(crate) term_since_ms: u64,
}

/// The group as a node sees it, for people.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The term; 0: not known.
    pub term: u64,
    /// The revision of the document.
    pub revision: u64,
    /// The node that leads.
    pub leader: Option<NodeId>,
    /// The nodes in sync.
    pub in_sync: Vec<NodeId>,
    /// The nodes of the group.
    pub members: Vec<NodeId>,
    /// What a primary knows of others: the milliseconds left of the grant, and the offset.
    pub grants: Vec<(NodeId, u64, StreamPosition)>,
    /// Whether it is not known what became of a change.
    pub is_outcome_unknown: bool,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Member {
    pub(crate) me: Instance,
    pub(crate) id: GroupId,
    pub(crate) view: Option<View>,
    pub(crate) pending: Option<PendingChange>,
    pub(crate) primary: Primary,
    pub(crate) replica: Replica,
    /// Lives that are proven to be over.
    pub(crate) dead: BTreeSet<Life>,
    /// Until then it takes over from no one, because another member has more. Only a preference: no promise rests on it.
    pub(crate) hesitates_until_ms: u64,
}

impl Member {
    /// The part of this process, which has just started, in the group `id`. It is nothing until it has read the document
    /// (rule 9).
    pub fn new(me: Instance, id: GroupId) -> Member {
        Member {
            me,
            id,
            view: None,
            pending: None,
            primary: Primary::default(),
            replica: Replica::default(),
            dead: BTreeSet::new(),
            hesitates_until_ms: 0,
        }
    }

    /// This process.
    pub fn me(&self) -> &Instance {
        &self.me
    }

    /// Its role, by the document as it knows it.
    pub fn role(&self) -> Role {
        let Some(view) = &self.view else { return Role::Outside };
        match (self.leads(), view.group.members.contains(&self.me.node)) {
            (true, _) => Role::Primary(view.group.term),
            (false, true) => Role::Replica(view.group.term),
            (false, false) => Role::Outside,
        }
    }

    /// The process that leads its term.
    pub fn leader(&self) -> Option<&Instance> {
        self.view.as_ref().map(|view| &view.group.leader)
    }

    /// Its group.
    pub fn group(&self) -> &GroupId {
        &self.id
    }

    /// Whether this node belongs to the group.
    pub fn has_member(&self, node: &NodeId) -> bool {
        self.view.as_ref().is_some_and(|view| view.group.members.contains(node))
    }

    /// Where a write is when a member acknowledges it.
    pub fn ack(&self) -> Safety {
        self.view.as_ref().map_or(Safety::Durable, |view| view.params.ack)
    }

    /// The revision of the document that it knows.
    pub fn revision(&self) -> Option<Revision> {
        self.view.as_ref().map(|view| view.reading.revision)
    }

    /// Follows a reading of the document: the answer to a change, news from a watch, or what was read. Older readings than
    /// the last one are ignored. The first reading after a start is linearizable (rule 9).
    pub fn learn(&mut self, reading: &Reading, data: &Data, now_ms: u64) -> Result<Role, Trouble> {
        self.dead.extend(&reading.dead);
        if self.view.as_ref().is_some_and(|view| reading.revision <= view.reading.revision) {
            return Ok(self.role());
        }
        let document = match &reading.found {
            Finding::Document(document) => document,
            Finding::Nothing => return Err(Trouble::NoDocument),
            Finding::Broken(error) => return Err(Trouble::Broken(error.to_string())),
        };
        let group = document.groups.get(&self.id).ok_or_else(|| Trouble::NoGroup(self.id.clone()))?;
        let before = self.view.as_ref().map(|view| view.group.term);
        let known = data.term.max(before.unwrap_or(data.term));
        if group.term < known {
            return Err(Trouble::OlderTerm { found: group.term, known });
        }
        let is_new_term = before != Some(group.term);
        let term_since_ms = match &self.view {
            Some(view) if !is_new_term => view.term_since_ms,
            _ => now_ms,
        };
        // Only a revision after the one that was compared tells the outcome of a change (rule 6).
        self.pending.take_if(|pending| pending.on < reading.revision);
        self.view = Some(View {
            reading: reading.clone(),
            params: document.params.clone(),
            group: group.clone(),
            term_since_ms,
        });
        if is_new_term {
            // Links, grants and acknowledgements of another term are void (rule 5).
            self.primary.begin(data.written);
            self.replica = Replica::default();
            self.hesitates_until_ms = 0;
        }
        Ok(self.role())
    }

    /// The outcome of a change that was asked for. `proposed` is the reading that holds if it was made.
    pub fn settled(
        &mut self,
        swap: Swap,
        proposed: impl FnOnce(Revision) -> Reading,
        data: &Data,
        now_ms: u64,
    ) -> Result<Role, Trouble> {
        match swap {
            Swap::Done(revision) => self.learn(&proposed(revision), data, now_ms),
            Swap::Lost(reading) => self.learn(&reading, data, now_ms),
            Swap::NotDone(_) => {
                // What settles a change is another one: that it failed says nothing of the change that is to be settled.
                self.pending.take_if(|pending| !pending.is_unknown);
                Ok(self.role())
            }
            Swap::Unknown(_) if mutant::is_on(BrokenRule::UnknownIsFailed) => {
                self.pending = None;
                Ok(self.role())
            }
            Swap::Unknown(unsettled) => {
                if let Some(pending) = self.pending.as_mut().filter(|pending| pending.on == unsettled.on()) {
                    pending.is_unknown = true;
                }
                Ok(self.role())
            }
        }
    }

    // ---- As a replica

    /// Whether it may continue with the stream of its term's primary, or begin a full copy from it (rule 9).
    pub fn may_follow(&self, data: &Data) -> bool {
        let Some(view) = &self.view else { return false };
        !self.leads() && !self.takes_over() && view.group.term >= data.term
    }

    /// It continues with the stream of its term's primary over this connection, and its data are a beginning of the stream.
    pub fn follow(&mut self, link: LinkId) {
        assert!(!self.leads(), "a primary follows no one");
        self.replica.link(link);
    }

    /// The connection to the primary is gone, or its data are not a beginning of the stream.
    pub fn unfollow(&mut self) {
        self.replica.unlink();
    }

    /// Whether it continues with the stream of its term's primary.
    pub fn follows(&self) -> bool {
        self.replica.is_linked()
    }

    /// A beat of the primary has come.
    pub fn hear(&mut self, beat: &Beat) {
        let Some(view) = &self.view else { return };
        if view.group.term == beat.term && view.group.leader.life == beat.from {
            self.replica.hear(beat);
        }
    }

    /// Whether it may acknowledge what it applies: it follows, and has not decided to take over (rule 7).
    pub fn may_acknowledge(&self) -> bool {
        let is_silent = self.takes_over() && !mutant::is_on(BrokenRule::KeepGranting);
        !self.leads() && !is_silent && self.follows()
    }

    /// The acknowledgement to send now, if there is a primary to tell. [`sent`](Self::sent) must follow: the promise is
    /// counted from there (rule 1).
    pub fn acknowledge(&mut self, data: &Data) -> Option<Ack> {
        let view = self.view.as_ref()?;
        if !self.may_acknowledge() || !data.is_whole {
            return None;
        }
        let offset = match view.params.ack {
            Safety::Applied => data.written,
            Safety::Durable => data.durable,
        };
        self.replica.acknowledge(&self.me, view.group.term, &view.group.leader, offset)
    }

    /// The acknowledgement was given to the network, or never will be.
    pub fn sent(&mut self, now_ms: u64) {
        if let Some(view) = &self.view {
            self.replica.sent(&view.params, now_ms);
        }
    }

    // ---- As the primary

    /// A replica of this primary's term has connected, and continues where its data end.
    pub fn link(&mut self, replica: &NodeId) -> LinkId {
        self.primary.link(replica)
    }

    /// Whether a full copy to this node may begin: it is in sync in no life, and will not be (rule 8). The primary then
    /// calls [`begin_copy`](Self::begin_copy), and only then does the replica drop its data.
    pub fn may_copy_to(&self, replica: &NodeId) -> bool {
        if mutant::is_on(BrokenRule::CopyNoGate) || mutant::is_on(BrokenRule::CopyingElected) {
            return self.leads();
        }
        let Some(view) = &self.view else { return false };
        if mutant::is_on(BrokenRule::CopyGateOwnView) {
            return self.leads() && !view.group.in_sync.contains_key(replica);
        }
        self.leads() && self.needed().iter().all(|needed| needed.node != *replica)
    }

    /// A full copy to this node begins: what it has said says nothing any more (rule 5).
    pub fn begin_copy(&mut self, replica: &NodeId) -> LinkId {
        assert!(self.may_copy_to(replica), "a member keeps its data");
        self.primary.joining.take_if(|joining| joining.node == *replica);
        self.primary.forget(replica);
        self.primary.link(replica)
    }

    /// The beat to send over this connection now.
    pub fn beat(&self, link: LinkId, now_ms: u64) -> Option<Beat> {
        let view = self.view.as_ref().filter(|_| self.leads())?;
        Some(Beat { term: view.group.term, from: self.me.life, link, sent_ms: now_ms })
    }

    /// An acknowledgement has come.
    pub fn receive(&mut self, ack: &Ack, now_ms: u64) {
        let Some(view) = self.view.as_ref().filter(|_| self.leads()) else { return };
        let is_for_us = ack.term == view.group.term && ack.to == self.me.life;
        if !is_for_us || !view.group.members.contains(&ack.from.node) {
            return;
        }
        let params = view.params.clone();
        let needed = self.needed();
        self.primary.receive(ack, &params, &needed, now_ms);
    }

    /// Until when it answers, by its clock: as long as it holds the grant of every other member (rule 2). 0: not at all.
    /// A reply may leave only if this is later than a moment after its command ran (rule 3).
    pub fn serves_until_ms(&self) -> u64 {
        let is_leaving = self.primary.successor.is_some() && !mutant::is_on(BrokenRule::HandoverNoStop);
        if !self.leads() || is_leaving {
            return 0;
        }
        if mutant::is_on(BrokenRule::ServeWithoutGrants) {
            return u64::MAX;
        }
        let until = |peer: &Instance| self.primary.heard_from(peer).map_or(0, |heard| heard.granted_until_ms);
        self.peers().iter().map(until).min().unwrap_or(u64::MAX)
    }

    /// Whether it takes writes: enough members are in sync.
    pub fn may_write(&self) -> bool {
        let Some(view) = self.view.as_ref().filter(|_| self.leads()) else { return false };
        view.group.in_sync.len() >= view.params.min_in_sync(&view.group)
    }

    /// Everything before this is acknowledged: replies to these writes, and to reads that saw nothing later, may leave
    /// (rule 4). It never falls within a term.
    pub fn committed(&mut self, data: &Data) -> StreamPosition {
        let committed = self.held_by_all(data);
        self.primary.committed = self.primary.committed.max(committed);
        self.primary.committed
    }

    /// Whether a write is acknowledged only when it is durable at this primary.
    pub fn waits_for_own_disk(&self) -> bool {
        let Some(view) = self.view.as_ref().filter(|_| self.leads()) else { return false };
        let is_alone = self.peers().is_empty() && view.params.alone == Safety::Durable;
        // While a change that leaves it alone is on its way, another member may believe that it has the rest (rule 7).
        let is_going_alone = self.pending.as_ref().is_some_and(|pending| pending.leaves_alone(&self.me))
            && !mutant::is_on(BrokenRule::AloneNoSync);
        view.params.ack == Safety::Durable || is_alone || is_going_alone
    }

    /// Whether this primary waits for no other member and no replica that is about to become one.
    pub fn waits_for_no_other(&self) -> bool {
        self.leads() && self.waited_for().is_empty()
    }

    /// Whom writes wait for beside this primary: the members, and a replica that is about to become one.
    fn waited_for(&self) -> BTreeSet<Instance> {
        let mut peers = self.peers();
        if let Some(joining) = self.primary.joining.as_ref().filter(|joining| joining.is_waited_for)
            && let Some((node, heard)) = self.primary.heard().find(|(node, _)| **node == joining.node)
        {
            peers.insert(Instance { node: node.clone(), life: heard.life });
        }
        peers
    }

    /// The end of what everyone has that the primary waits for.
    fn held_by_all(&self, data: &Data) -> StreamPosition {
        if !self.leads() {
            return StreamPosition::START;
        }
        let own = match self.waits_for_own_disk() {
            true => data.durable.min(data.written),
            false => data.written,
        };
        let peers = self.waited_for();
        let has = |peer: &Instance| {
            self.primary.heard_from(peer).map_or(StreamPosition::START, |heard| heard.offset)
        };
        let theirs = peers.iter().map(has);
        let theirs = if mutant::is_on(BrokenRule::AckByOne) { theirs.max() } else { theirs.min() };
        theirs.map_or(own, |theirs| theirs.min(own))
    }

    /// The other member in sync that has most.
    pub fn best_successor(&self) -> Option<NodeId> {
        let view = self.view.as_ref()?;
        let others = view.group.in_sync.iter().filter(|(node, _)| **node != self.me.node);
        let has = |(node, life): &(&NodeId, &Life)| {
            let instance = Instance { node: (*node).clone(), life: **life };
            self.primary.heard_from(&instance).map(|heard| heard.offset)
        };
        others.max_by_key(has).map(|(node, _)| node.clone())
    }

    /// Begins a planned handover to a member: nothing is answered from now on (rule 12). It is given up after `limit_ms`.
    /// False: that node is not in sync, or another change is under way.
    pub fn hand_over(&mut self, to: &NodeId, limit_ms: u64, now_ms: u64) -> bool {
        let Some(view) = self.view.as_ref().filter(|_| self.leads()) else { return false };
        let is_possible =
            self.pending.is_none() && *to != self.me.node && view.group.in_sync.contains_key(to);
        if is_possible {
            self.primary.successor = Some(Succession { to: to.clone(), until_ms: now_ms + limit_ms });
        }
        is_possible
    }

    /// Whether it hands over, and so answers nothing.
    pub fn is_leaving(&self) -> bool {
        self.leads() && self.primary.successor.is_some()
    }

    /// What there is to show.
    pub fn report(&self, now_ms: u64) -> Report {
        let Some(view) = &self.view else { return Report::default() };
        let grants =
            self.primary.heard().filter(|_| self.leads()).map(|(node, heard)| {
                (node.clone(), heard.granted_until_ms.saturating_sub(now_ms), heard.offset)
            });
        Report {
            term: view.group.term.0,
            revision: view.reading.revision.0,
            leader: Some(view.group.leader.node.clone()),
            in_sync: view.group.in_sync.keys().cloned().collect(),
            members: view.group.members.iter().cloned().collect(),
            grants: grants.collect(),
            is_outcome_unknown: self.pending.as_ref().is_some_and(|pending| pending.is_unknown),
        }
    }

    // ---- What the rules speak of

    /// Whether this process leads, by the document as it knows it.
    pub(crate) fn leads(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.group.leader == self.me)
    }

    /// Whether it has asked to lead and does not know the outcome.
    pub(crate) fn takes_over(&self) -> bool {
        !self.leads() && self.pending.as_ref().is_some_and(|pending| pending.after.leader == self.me)
    }

    /// Whom the primary waits for, itself included: while the outcome of a change is unknown, the members before and after
    /// it (rule 6).
    pub(crate) fn needed(&self) -> BTreeSet<Instance> {
        let Some(view) = &self.view else { return BTreeSet::new() };
        let members = |group: &ReplicaGroup| -> BTreeSet<Instance> {
            let instance = |(node, life): (&NodeId, &Life)| Instance { node: node.clone(), life: *life };
            group.in_sync.iter().map(instance).collect()
        };
        let before = members(&view.group);
        let Some(pending) = &self.pending else { return before };
        let after = members(&pending.after);
        if mutant::is_on(BrokenRule::ShrinkEarly) && after.is_subset(&before) {
            return after;
        }
        if mutant::is_on(BrokenRule::GrowLate) {
            return before;
        }
        before.union(&after).cloned().collect()
    }

    /// Whom it waits for, without itself.
    fn peers(&self) -> BTreeSet<Instance> {
        let mut peers = self.needed();
        peers.remove(&self.me);
        peers
    }
}
