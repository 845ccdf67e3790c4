//! This server's part in a group that fails over by itself, as its threads see it. The rules are in `group`.
//!
//! ```text
//!   agent ── learns, asks for changes ──▶ Member ◀── links, acknowledgements, beats ── connections
//!     │                                     │ publishes
//!     │ orders a role                       ▼
//!     └──────────▶ the first thread        gate ──▶ each turn: may replies leave?
//! ```
//!
//! A server without a group has no [`Member`], and its gate is off. One lock guards the rest: it is taken for each
//! acknowledgement of a replica, and by threads that hold output, never for a command.
//!
//! Not here: the agent, which reads and changes the document (`agent`).

#![expect(
    clippy::disallowed_types,
    reason = "a command only looks at the gate; the lock is for acknowledgements, roles and the agent"
)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use effectlog::{AtomicLsn, Lsn, StreamPosition};
use group::{Ack, Beat, Data, LinkId, Member, Role};
use observe::GroupFacts;
use proactor::Clock;
use topology::{Instance, Life, NodeId, Safety, Term};

use crate::address::Address;
use crate::history::ReplicationId;

/// The role that the agent wants this server to take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoleOrder {
    /// Its term.
    pub term: Term,
    /// The primary to follow; `None`: this server leads.
    pub primary: Option<Address>,
}

/// What a replica says of itself when it connects (`REPLCONF group`): `17:b:<its life>:<the primary's life>`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Introduction {
    /// The term in which it follows.
    pub term: Term,
    /// The replica.
    pub from: Instance,
    /// The life of the primary that it means.
    pub to: Life,
}

impl std::fmt::Display for Introduction {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}:{}:{}:{}", self.term, self.from.node, self.from.life, self.to)
    }
}

impl Introduction {
    /// Reads it.
    pub fn parse(text: &[u8]) -> Option<Introduction> {
        let mut words = std::str::from_utf8(text).ok()?.split(':');
        let mut word = || words.next();
        let term = Term(word()?.parse().ok()?);
        let from = Instance { node: word()?.parse().ok()?, life: word()?.parse().ok()? };
        let to = word()?.parse().ok()?;
        words.next().is_none().then_some(Introduction { term, from, to })
    }
}

/// The state that the lock guards.
pub(crate) struct Inner {
    pub(crate) clock: Clock,
    pub(crate) member: Member,
    /// The role that is to be taken.
    pub(crate) order: Option<RoleOrder>,
    /// The order that was carried out last, and the id of the stream then.
    pub(crate) taken: Option<(RoleOrder, ReplicationId)>,
    /// The term in which this server may lead: its role is taken, and its manifest names the term (rule 9).
    pub(crate) leads_in: Option<Term>,
    /// The link over which the primary's stream continues, and the id of that stream, until the agent has noted the term.
    pub(crate) linked: Option<(LinkId, ReplicationId)>,
    pub(crate) terms: NotedTerms,
    /// Whether its data are not those of the folder that was in sync before the start.
    pub(crate) is_foreign: bool,
}

/// The terms of the data, from the state file.
#[derive(Clone, Copy, Debug)]
pub struct NotedTerms {
    /// The newest term in which the node took part.
    pub newest: Term,
    /// The term in which the last of its data was written.
    pub of_data: Term,
}

/// See the head of this file.
#[derive(Default)]
pub struct Membership {
    inner: OnceLock<Mutex<Inner>>,
    /// Wakes the agent.
    bell: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Whether this server is a node of a group.
    is_on: AtomicBool,
    /// Whether it leads, as far as its threads are concerned.
    is_leading: AtomicBool,
    /// Until when replies may leave, on CLOCK_BOOTTIME.
    open_until_ms: AtomicU64,
    /// The slice for which every reply waits that shows data: the last one before this server led.
    pub(crate) inherited: AtomicLsn,
    /// Whether enough members are in sync for writes.
    may_write: AtomicBool,
    /// Whether writes are acknowledged only when this server has them on its disk.
    needs_disk: AtomicBool,
    /// Whether the gate has opened, and the threads have not been told.
    has_opened: AtomicBool,
    /// Whether it hands over: nothing is answered until the outcome is known.
    is_leaving: AtomicBool,
    /// Whether commands that write wait for the end of a handover.
    pub(crate) holds_writes: AtomicBool,
    /// Whether it is alone in sync: no acknowledgement comes.
    is_alone: AtomicBool,
    /// Whether it follows a primary.
    pub(crate) is_replica: AtomicBool,
    /// Whether a replica may acknowledge what it applies.
    may_acknowledge: AtomicBool,
}

impl Membership {
    /// Makes this server the node `me`, which is nothing until it has read the document. `bell` wakes the agent. Called
    /// once, before clients are served.
    pub fn begin(&self, member: Member, terms: NotedTerms, clock: Clock, bell: Box<dyn Fn() + Send + Sync>) {
        let inner = Inner {
            clock,
            member,
            order: None,
            taken: None,
            leads_in: None,
            linked: None,
            terms,
            is_foreign: false,
        };
        assert!(self.inner.set(Mutex::new(inner)).is_ok(), "a server is in one group");
        assert!(self.bell.set(bell).is_ok(), "a server has one agent");
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Whether this server is a node of a group.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Whether it leads: its replies wait for the other members.
    #[inline]
    pub fn is_leading(&self) -> bool {
        self.is_leading.load(Ordering::Relaxed)
    }

    /// Whether replies may leave at `boot_ms` (rule 3).
    #[inline]
    pub fn is_open(&self, boot_ms: u64) -> bool {
        boot_ms < self.open_until_ms.load(Ordering::Acquire)
    }

    /// The slice for which every reply waits that shows data; [`Lsn::NONE`]: they wait for none.
    #[inline]
    pub fn held_from(&self) -> Lsn {
        self.inherited.load(Ordering::Relaxed)
    }

    /// Whether enough members are in sync for writes.
    pub fn may_write(&self) -> bool {
        self.may_write.load(Ordering::Relaxed)
    }

    /// Whether writes are acknowledged only when this server has them on its disk.
    pub fn needs_disk(&self) -> bool {
        self.needs_disk.load(Ordering::Relaxed)
    }

    /// Whether it hands over: commands run, and nothing is answered until the outcome is known (rule 12).
    pub fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// Whether it is alone in sync.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.is_alone.load(Ordering::Relaxed)
    }

    /// Whether a replica may acknowledge what it applies. A server without a group may.
    pub fn may_acknowledge(&self) -> bool {
        !self.is_on() || self.may_acknowledge.load(Ordering::Acquire)
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        let inner = self.inner.get().expect("the server is a node of a group");
        inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the agent, or a command, use the rules, and publishes what follows from that.
    pub fn with<R>(&self, act: impl FnOnce(&mut Member) -> R) -> R {
        let mut inner = self.inner();
        let result = act(&mut inner.member);
        self.publish(&inner);
        result
    }

    /// Publishes what the threads look at.
    pub(crate) fn publish(&self, inner: &Inner) {
        let member = &inner.member;
        let leads = matches!(member.role(), Role::Primary(term) if inner.leads_in == Some(term));
        let until_ms = if leads { member.serves_until_ms() } else { 0 };
        self.needs_disk.store(leads && member.waits_for_own_disk(), Ordering::Release);
        self.may_write.store(leads && member.may_write(), Ordering::Release);
        self.is_alone.store(leads && member.waits_for_no_other(), Ordering::Release);
        self.may_acknowledge.store(member.may_acknowledge(), Ordering::Release);
        self.is_leaving.store(leads && member.is_leaving(), Ordering::Release);
        self.is_leading.store(leads, Ordering::Release);
        let was_open_until_ms = self.open_until_ms.swap(until_ms, Ordering::AcqRel);
        if until_ms > was_open_until_ms && was_open_until_ms <= inner.clock.boot_ms() {
            self.has_opened.store(true, Ordering::Release);
            self.ring();
        }
    }

    pub(crate) fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            bell();
        }
    }

    // ---- Roles

    /// Orders a role, unless it is the one that was ordered last. Returns whether the threads have to be told.
    pub fn order(&self, order: &RoleOrder) -> bool {
        let mut inner = self.inner();
        let is_new = inner.order.as_ref() != Some(order);
        if is_new {
            inner.order = Some(order.clone());
        }
        is_new
    }

    /// The order that is not carried out yet.
    pub fn pending_order(&self) -> Option<RoleOrder> {
        if !self.is_on() {
            return None;
        }
        let inner = self.inner();
        let taken = inner.taken.as_ref().map(|(order, _)| order);
        inner.order.clone().filter(|order| taken != Some(order))
    }

    /// Whether writes wait for a handover that has ended, so that [`end_handover`](Self::end_handover) is due.
    pub fn has_ended_handover(&self) -> bool {
        self.holds_writes.load(Ordering::Relaxed) && !self.is_leaving()
    }

    /// The order that was carried out last, and the id of the stream then.
    pub fn taken(&self) -> Option<(RoleOrder, ReplicationId)> {
        self.inner().taken.clone()
    }

    /// The data here are not those that were in sync before the start.
    pub fn note_foreign(&self) {
        self.inner().is_foreign = true;
    }

    /// Notes what the state file says.
    pub fn note_terms(&self, terms: NotedTerms) {
        self.inner().terms = terms;
    }

    /// Lets this server lead in its term: the role is taken, and the manifest names the term.
    pub fn begin_leading(&self, term: Term) {
        let mut inner = self.inner();
        assert!(
            inner.taken.as_ref().is_some_and(|(order, _)| order.term == term && order.primary.is_none()),
            "the role is taken first"
        );
        inner.leads_in = Some(term);
        self.publish(&inner);
    }

    // ---- As a replica

    /// The words with which this server connects to the primary of its term.
    pub(crate) fn introduction(&self) -> Option<Introduction> {
        if !self.is_on() {
            return None;
        }
        let inner = self.inner();
        let (Role::Replica(term), Some(leader)) = (inner.member.role(), inner.member.leader()) else {
            return None;
        };
        Some(Introduction { term, from: inner.member.me().clone(), to: leader.life })
    }

    /// The stream of the primary continues over this link, under this id.
    pub(crate) fn note_linked(&self, link: Option<u64>, id: ReplicationId) {
        if let Some(link) = link.filter(|_| self.is_on()) {
            self.inner().linked = Some((LinkId(link), id));
            self.ring();
        }
    }

    /// The link is gone.
    pub(crate) fn note_unlinked(&self) {
        if self.is_on() {
            let mut inner = self.inner();
            inner.linked = None;
            inner.member.unfollow();
            self.publish(&inner);
        }
    }

    /// The link that waits for the manifest, and the term and the id of its stream.
    pub fn linked(&self) -> Option<(LinkId, Term, ReplicationId)> {
        let inner = self.inner();
        let Role::Replica(term) = inner.member.role() else { return None };
        inner.linked.filter(|_| !inner.member.follows()).map(|(link, id)| (link, term, id))
    }

    /// The manifest names the term: acknowledgements over the link may begin.
    pub fn follow(&self, link: LinkId, term: Term) {
        let mut inner = self.inner();
        let is_present = inner.linked.is_some_and(|(present, _)| present == link);
        if is_present && inner.member.role() == Role::Replica(term) {
            inner.member.follow(link);
            self.publish(&inner);
        }
    }

    /// The link over which it follows, the term, and the life of the primary.
    pub fn followed(&self) -> Option<(LinkId, Term, Instance)> {
        let inner = self.inner();
        let Role::Replica(term) = inner.member.role() else { return None };
        let (link, _) = inner.linked.filter(|_| inner.member.follows())?;
        Some((link, term, inner.member.leader()?.clone()))
    }

    // ---- As the primary

    /// Whether this server leads in the term in which the replica follows.
    pub(crate) fn receives(&self, introduction: &Introduction) -> bool {
        let inner = self.inner();
        let member = &inner.member;
        member.role() == Role::Primary(introduction.term)
            && inner.leads_in == Some(introduction.term)
            && member.me().life == introduction.to
            && member.has_member(&introduction.from.node)
    }

    /// A replica continues with the stream, or begins a full copy; `None`: it must wait, because the group still counts on
    /// the data that it would drop (rule 8).
    pub(crate) fn link(&self, node: &NodeId, is_copy: bool) -> Option<LinkId> {
        self.with(|member| match is_copy {
            false => Some(member.link(node)),
            true => member.may_copy_to(node).then(|| member.begin_copy(node)),
        })
    }

    /// The stream has been applied up to `applied` by a replica, and is on its disk up to `durable`.
    pub(crate) fn receive(
        &self,
        introduction: &Introduction,
        link: LinkId,
        (applied, durable): (StreamPosition, Option<StreamPosition>),
        now_ms: u64,
    ) {
        self.with(|member| {
            let offset = match member.ack() {
                Safety::Applied => applied,
                Safety::Durable => durable.unwrap_or_default(),
            };
            let Introduction { term, from, to } = introduction.clone();
            member.receive(&Ack { term, from, to, link, offset, beat_ms: 0 }, now_ms);
        });
    }

    /// An answer to a beat has come.
    pub(crate) fn receive_grant(&self, ack: &Ack, now_ms: u64) {
        self.with(|member| member.receive(ack, now_ms));
    }

    /// The beat for this link, if this server leads.
    pub(crate) fn beat(&self, link: LinkId, now_ms: u64) -> Option<Beat> {
        let inner = self.inner();
        inner.member.beat(link, now_ms).filter(|beat| inner.leads_in == Some(beat.term))
    }

    /// The end of what is acknowledged, whatever this server has on its disk.
    pub(crate) fn committed(&self, written: StreamPosition) -> StreamPosition {
        let mut inner = self.inner();
        let NotedTerms { newest: term, of_data: last_term } = inner.terms;
        // Whether it is durable here is asked slice by slice.
        let data = Data { written, durable: written, is_whole: true, term, last_term };
        let leads = matches!(inner.member.role(), Role::Primary(term) if inner.leads_in == Some(term));
        if leads { inner.member.committed(&data) } else { StreamPosition::START }
    }

    /// Calls `cover` if no other member is waited for, and nothing changes that meanwhile.
    pub(crate) fn while_alone(&self, cover: impl FnOnce()) {
        let inner = self.inner();
        if inner.leads_in.is_some() && inner.member.waits_for_no_other() {
            cover();
        }
    }

    // ---- For the agent

    /// Whether the gate has opened since this was asked last.
    pub fn take_opened(&self) -> bool {
        self.has_opened.swap(false, Ordering::AcqRel)
    }
}

impl Membership {
    /// The facts for INFO, if this server is a node of a group.
    pub(crate) fn facts(&self) -> Option<GroupFacts> {
        if !self.is_on() {
            return None;
        }
        let inner = self.inner();
        let (member, now_ms) = (&inner.member, inner.clock.boot_ms());
        let report = member.report(now_ms);
        let names = |nodes: &[NodeId]| nodes.iter().map(NodeId::to_string).collect();
        let grants = report.grants.iter();
        Some(GroupFacts {
            name: member.group().to_string(),
            node: (member.me().node.to_string(), member.me().life.to_string()),
            role: match member.role() {
                Role::Outside => "none",
                Role::Primary(_) => "primary",
                Role::Replica(_) => "replica",
            },
            term: (report.term, report.revision),
            leader: report.leader.map(|leader| leader.to_string()).unwrap_or_default(),
            in_sync: names(&report.in_sync),
            members: names(&report.members),
            serves_for_ms: Some(self.open_until_ms.load(Ordering::Relaxed))
                .filter(|until_ms| self.is_leading() && *until_ms < u64::MAX)
                .map(|until_ms| until_ms.saturating_sub(now_ms)),
            grants: grants
                .map(|(node, left_ms, offset)| (node.to_string(), *left_ms, offset.get()))
                .collect(),
            is_outcome_unknown: report.is_outcome_unknown,
        })
    }
}
