//! A group of some nodes whose messages, clocks, disks and store do what they like, and a judge who knows all that clients
//! were told.
//!
//! Each step is one small act of one node, chosen at random, and time passes between steps. Messages are lost, late and in
//! any order. A change of the document is made at some time, or never, and its author is told or not. Clocks run at rates of
//! their own. Nodes stand still for any time and then go on as if nothing had happened. They die, with a part of what was not
//! durable, or with the whole folder.
//!
//! The judge is that of `Group.tla`: replies tell of one history, no read misses what was acknowledged or shown before it
//! began, and the primary of the present term has everything that was acknowledged or shown, except what crashes took from
//! *every* member.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use effectlog::StreamPosition;
use proactor::Entropy;
use topology::{
    Document, Error, Finding, GroupId, Instance, Life, NodeId, Params, Reading, ReplicaGroup, Revision,
    Safety, Swap, Term, Unsettled,
};

use super::habits::{Act, Fault, Habits, Tally};
use crate::mutant::{self, BrokenRule};
use crate::{Ack, Beat, Data, GroupChange, LinkId, Member, Proposal, Role, Standing};

/// A write: the term in which it was made, and its number.
type Write = (Term, u64);

pub(super) const GRANT_MS: u64 = 3_000;

/// A broken promise.
pub(super) type Broken = String;

struct Read {
    /// The writes that it saw.
    seen: usize,
    /// The writes that had been acknowledged or shown when it began.
    must: usize,
}

struct Node {
    id: NodeId,
    member: Member,
    log: Vec<Write>,
    durable: usize,
    is_whole: bool,
    term: Term,
    /// Its clock, in thousandths of the true rate.
    rate: u64,
    /// It does nothing until then.
    paused_until_ms: u64,
    /// It cannot reach the store until then.
    deaf_until_ms: u64,
    /// Nor another node.
    cut_until_ms: u64,
    /// The node whose stream it continues, and over which connection.
    source: Option<(usize, LinkId)>,
    read: Option<Read>,
}

impl Node {
    /// A node at the beginning: the members have one write, and the others nothing.
    fn new(me: Instance, is_in_sync: bool, ack: Safety, rate: u64) -> Node {
        Node {
            id: me.node.clone(),
            member: Member::new(me, group_id()),
            log: if is_in_sync { vec![(Term(0), 0)] } else { Vec::new() },
            durable: usize::from(is_in_sync && ack == Safety::Durable),
            is_whole: true,
            term: Term(1),
            rate,
            paused_until_ms: 0,
            deaf_until_ms: 0,
            cut_until_ms: 0,
            source: None,
            read: None,
        }
    }

    fn data(&self) -> Data {
        Data {
            written: StreamPosition::new(self.log.len() as u64),
            durable: StreamPosition::new(self.durable as u64),
            is_whole: self.is_whole,
            term: self.term,
            last_term: self.log.last().map_or(Term(0), |(term, _)| *term),
        }
    }
}

/// A compare-and-swap on its way to the store.
#[derive(Clone)]
struct Flight {
    proposal: Proposal,
    author: usize,
    life: Life,
}

impl Flight {
    fn on(&self) -> Revision {
        self.proposal.on.revision
    }

    fn group(&self) -> &ReplicaGroup {
        &self.proposal.document.groups[&group_id()]
    }
}

enum Message {
    Beat(usize, Beat),
    Ack(usize, Ack),
}

pub(super) struct World {
    entropy: Entropy,
    now_ms: u64,
    nodes: Vec<Node>,
    /// All versions of the document; the last one is the present one.
    documents: Vec<Arc<Document>>,
    flights: Vec<Flight>,
    dead: BTreeSet<Life>,
    /// Deaths that are not proven yet.
    dying: Vec<Life>,
    messages: Vec<Message>,
    habits: Habits,
    /// The knowledge of clients: the longest history that a reply acknowledged or showed.
    truth: Vec<Write>,
    writes: u64,
    lives: u64,
    pub(super) tally: Tally,
    pub(super) trace: Vec<String>,
}

fn group_id() -> GroupId {
    "g".parse().expect("it is a name")
}

fn common(one: &[Write], other: &[Write]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let mut entropy = Entropy::from_seed(seed);
        let count = match mutant::on() {
            Some(BrokenRule::NoMargin | BrokenRule::AloneNoSync) => 2,
            _ => 2 + usize::from(!entropy.one_in(3)),
        };
        let ids: Vec<NodeId> =
            ["a", "b", "c"][..count].iter().map(|id| id.parse().expect("a name")).collect();
        let ack = if entropy.one_in(2) { Safety::Applied } else { Safety::Durable };
        let alone = if entropy.one_in(4) { Safety::Applied } else { Safety::Durable };
        let min_in_sync = if entropy.one_in(2) { Some(1) } else { None };
        let in_sync_count = 1 + entropy.below(count as u64) as usize;
        let instance = |index: usize| (ids[index].clone(), Life(index as u64 + 1));
        let (leader, life) = instance(0);
        let group = ReplicaGroup {
            term: Term(1),
            leader: Instance { node: leader, life },
            in_sync: (0..in_sync_count).map(instance).collect(),
            members: ids.iter().cloned().collect(),
        };
        let document = Document {
            params: Params { grant_ms: GRANT_MS as u32, min_in_sync, ack, alone },
            groups: BTreeMap::from([(group_id(), group)]),
            slots: Vec::new(),
            place: BTreeMap::new(),
            moves: BTreeMap::new(),
        };
        let nodes = (0..count).map(|index| {
            let me = Instance { node: ids[index].clone(), life: Life(index as u64 + 1) };
            let rate = match mutant::on() {
                Some(BrokenRule::NoMargin) => [920, 1_080][index.min(1)],
                _ => 920 + entropy.below(160),
            };
            Node::new(me, index < in_sync_count, ack, rate)
        });
        let nodes: Vec<Node> = nodes.collect();
        let habits = Habits::any(&mut entropy);
        let mut world = World {
            habits,
            entropy,
            now_ms: 1_000_000,
            nodes,
            documents: vec![Arc::new(document)],
            flights: Vec::new(),
            dead: BTreeSet::new(),
            dying: Vec::new(),
            messages: Vec::new(),
            truth: vec![(Term(0), 0)],
            writes: 0,
            lives: count as u64,
            tally: Tally::default(),
            trace: Vec::new(),
        };
        for index in 0..count {
            let reading = world.reading(1);
            world.learn(index, &reading);
        }
        world
    }

    /// The document at a revision, which counts from 1.
    fn reading(&self, revision: usize) -> Reading {
        Reading {
            revision: Revision(revision as u64),
            as_of: Revision(self.documents.len() as u64),
            found: Finding::Document(Arc::clone(&self.documents[revision - 1])),
            dead: self.dead.clone(),
        }
    }

    fn group(&self) -> &ReplicaGroup {
        &self.documents.last().expect("there is one").groups[&group_id()]
    }

    /// The time by the clock of a node.
    fn clock(&self, index: usize) -> u64 {
        self.now_ms * self.nodes[index].rate / 1_000
    }

    fn below(&mut self, bound: usize) -> usize {
        self.entropy.below(bound as u64) as usize
    }

    fn is_paused(&self, index: usize) -> bool {
        self.now_ms < self.nodes[index].paused_until_ms
    }

    /// Whether no message reaches it or leaves it.
    fn is_cut(&self, index: usize) -> bool {
        self.now_ms < self.nodes[index].cut_until_ms
    }

    /// One act of a node, the network or the store.
    pub(super) fn step(&mut self) -> Result<(), Broken> {
        self.now_ms += match self.entropy.below(400) {
            0 => self.entropy.below(2 * GRANT_MS),
            _ => self.entropy.below(20),
        };
        match self.entropy.below(40) {
            0..8 => self.store_acts(),
            8..18 => self.deliver(),
            18 if self.entropy.one_in(self.habits.one_fault_in) => self.fault(),
            _ => {
                let index = self.below(self.nodes.len());
                if !self.is_paused(index) {
                    self.act(index)?;
                }
            }
        }
        self.check()
    }

    /// From now on nothing fails, and everything happens as often as usual.
    pub(super) fn heal(&mut self) {
        self.habits = Habits::healthy();
        for node in &mut self.nodes {
            (node.paused_until_ms, node.deaf_until_ms, node.cut_until_ms) = (0, 0, 0);
        }
        self.dead.extend(self.dying.drain(..));
    }

    /// Whether all members have died, and too few of their folders are left to go on without a person.
    pub(super) fn is_lost(&self) -> bool {
        let group = self.group();
        let mut members = self.nodes.iter().filter(|node| group.in_sync.contains_key(&node.id));
        let are_dead = members.clone().all(|node| !group.has_in_sync(&node.member.me));
        let is_applied = self.documents[0].params.ack == Safety::Applied;
        are_dead
            && if is_applied {
                members.any(|node| !node.is_whole)
            } else {
                members.all(|node| !node.is_whole)
            }
    }

    /// The number of writes that clients know of.
    pub(super) fn told(&self) -> usize {
        self.truth.len()
    }

    // ---- The store

    fn store_acts(&mut self) {
        if self.entropy.one_in(6) && !self.dying.is_empty() {
            let life = self.dying.remove(0);
            self.dead.insert(life);
        }
        if self.flights.is_empty() || !self.entropy.one_in(3) {
            return;
        }
        let flight = self.below(self.flights.len());
        let is_told = !self.entropy.one_in(3);
        // Its author gives up, and it stays on its way.
        if !is_told && self.entropy.one_in(2) {
            let flight = self.flights[flight].clone();
            let swap = Swap::Unknown(Unsettled::new(flight.on(), no_answer()));
            return self.tell(&flight, swap);
        }
        let flight = self.flights.remove(flight);
        let present = Revision(self.documents.len() as u64);
        let swap = if flight.on() == present {
            self.documents.push(Arc::new(flight.proposal.document.clone()));
            self.note(format!(
                "revision {}: {:?} by {}",
                present.0 + 1,
                flight.proposal.change,
                flight.author
            ));
            Swap::Done(Revision(present.0 + 1))
        } else {
            Swap::Lost(self.reading(self.documents.len()))
        };
        let swap = if is_told { swap } else { Swap::Unknown(Unsettled::new(flight.on(), no_answer())) };
        self.tell(&flight, swap);
    }

    /// Tells the author, if it still lives, what became of its change.
    fn tell(&mut self, flight: &Flight, swap: Swap) {
        let now_ms = self.clock(flight.author);
        let node = &mut self.nodes[flight.author];
        let is_away = self.now_ms < node.paused_until_ms.max(node.deaf_until_ms);
        if node.member.me.life != flight.life || is_away {
            return;
        }
        let data = node.data();
        let before = node.member.view.as_ref().map(|view| view.group.term);
        let _ = node.member.settled(swap, |revision| flight.proposal.made(revision), &data, now_ms);
        self.follow_up(flight.author, before);
    }

    /// Notes what happened, for the report of a fault.
    fn note(&mut self, what: String) {
        self.trace.push(format!("{} {what}", self.now_ms));
    }

    fn learn(&mut self, index: usize, reading: &Reading) {
        let (data, now_ms) = (self.nodes[index].data(), self.clock(index));
        let before = self.nodes[index].member.view.as_ref().map(|view| view.group.term);
        let _ = self.nodes[index].member.learn(reading, &data, now_ms);
        self.follow_up(index, before);
    }

    /// Follows a change of a node's role, if it was one.
    fn follow_up(&mut self, index: usize, before: Option<Term>) {
        let node = &mut self.nodes[index];
        let term = node.member.view.as_ref().map(|view| view.group.term);
        if term != before {
            node.source = None;
            node.read = None;
        }
        if let Role::Primary(term) = node.member.role() {
            node.term = term;
        }
    }

    // ---- The network

    fn deliver(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let index = self.below(self.messages.len());
        let is_lost = self.entropy.one_in(8);
        let message = self.messages.swap_remove(index);
        let (Message::Beat(to, _) | Message::Ack(to, _)) = message;
        if self.messages.len() > 30 || is_lost || self.is_cut(to) {
            return;
        }
        match message {
            Message::Beat(to, beat) if !self.is_paused(to) => self.nodes[to].member.hear(&beat),
            Message::Ack(to, ack) if !self.is_paused(to) => {
                let now_ms = self.clock(to);
                self.nodes[to].member.receive(&ack, now_ms);
            }
            late => self.messages.push(late),
        }
    }

    // ---- The nodes

    fn act(&mut self, index: usize) -> Result<(), Broken> {
        let leads = self.nodes[index].member.leads();
        let is_deaf = self.now_ms < self.nodes[index].deaf_until_ms;
        match self.habits.acts.choose(&mut self.entropy) {
            Act::Learn | Act::Propose if is_deaf => {}
            Act::Learn => {
                let seen = self.nodes[index].member.revision().map_or(0, |revision| revision.0 as usize);
                let ahead = self.documents.len() - seen;
                let next = if ahead > 0 { seen + 1 + self.below(ahead) } else { seen };
                let reading = self.reading(next);
                self.learn(index, &reading);
            }
            Act::Propose => self.propose(index),
            Act::Sync => self.nodes[index].durable = self.nodes[index].log.len(),
            Act::HandOver if leads => self.hand_over(index),
            Act::Beat | Act::Connect | Act::Fetch | Act::Acknowledge if self.is_cut(index) => {}
            Act::Beat if leads => self.beat(index),
            Act::Write if leads => self.write(index),
            Act::RunRead if leads => self.run_read(index),
            Act::AnswerWrites if leads => return self.answer_writes(index),
            Act::AnswerRead if leads => return self.answer_read(index),
            Act::Connect if !leads => self.connect(index),
            Act::Disconnect if !leads => self.disconnect(index),
            Act::Fetch if !leads => self.fetch(index),
            Act::Acknowledge if !leads => self.acknowledge(index),
            _ => {}
        }
        Ok(())
    }

    fn propose(&mut self, index: usize) {
        let standings: Vec<Standing> = self.nodes.iter().map(standing).collect();
        let now_ms = self.clock(index);
        let node = &mut self.nodes[index];
        let data = node.data();
        let Some(proposal) = node.member.next_change(&data, &standings, now_ms) else { return };
        if let Some(offset) = proposal.durable_first {
            node.durable = node.durable.max(offset.get() as usize);
        }
        match proposal.change {
            GroupChange::Shrink(_) => self.tally.shrinks += 1,
            GroupChange::Grow(_) => self.tally.growths += 1,
            GroupChange::TakeOver(_) => self.tally.takeovers += 1,
            GroupChange::HandOver(_) => self.tally.handovers += 1,
            GroupChange::Recover => self.tally.recoveries += 1,
            GroupChange::Settle => self.tally.settled += 1,
        }
        let life = node.member.me.life;
        self.note(format!("{index} asks for {:?} on {}", proposal.change, proposal.on.revision));
        self.flights.push(Flight { proposal, author: index, life });
    }

    fn hand_over(&mut self, index: usize) {
        let (to, now_ms) = (self.below(self.nodes.len()), self.clock(index));
        let to = self.nodes[to].id.clone();
        self.nodes[index].member.hand_over(&to, GRANT_MS, now_ms);
    }

    fn beat(&mut self, index: usize) {
        let now_ms = self.clock(index);
        for to in 0..self.nodes.len() {
            if let Some((source, link)) = self.nodes[to].source
                && source == index
                && let Some(beat) = self.nodes[index].member.beat(link, now_ms)
            {
                self.messages.push(Message::Beat(to, beat));
            }
        }
    }

    fn write(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let is_leaving =
            node.member.primary.successor.is_some() && !mutant::is_on(BrokenRule::HandoverNoStop);
        let Role::Primary(term) = node.member.role() else { return };
        if node.is_whole && node.member.may_write() && !is_leaving {
            self.writes += 1;
            node.log.push((term, self.writes));
        }
    }

    /// Whether a reply may leave now.
    fn serves(&self, index: usize) -> bool {
        self.nodes[index].member.serves_until_ms() > self.clock(index)
    }

    fn run_read(&mut self, index: usize) {
        let must = self.truth.len();
        let node = &mut self.nodes[index];
        if node.is_whole {
            node.read = Some(Read { seen: node.log.len(), must });
        }
    }

    fn answer_read(&mut self, index: usize) -> Result<(), Broken> {
        let serves = self.serves(index);
        let node = &mut self.nodes[index];
        let data = node.data();
        let committed = node.member.committed(&data).get() as usize;
        let Some(read) = node.read.as_ref().filter(|read| read.seen <= node.log.len()) else { return Ok(()) };
        let is_acknowledged = read.seen <= committed || mutant::is_on(BrokenRule::ReadUnacked);
        if !serves || !is_acknowledged {
            return Ok(());
        }
        let (told, must) = (node.log[..read.seen].to_vec(), read.must.min(self.truth.len()));
        node.read = None;
        self.tally.reads_answered += 1;
        if common(&self.truth[..must], &told) < must {
            return Err(format!(
                "stale read at {}: {} lacks some of {}",
                self.nodes[index].id,
                brief(&told),
                brief(&self.truth[..must])
            ));
        }
        self.release(index, told)
    }

    fn answer_writes(&mut self, index: usize) -> Result<(), Broken> {
        let node = &mut self.nodes[index];
        let data = node.data();
        let committed = node.member.committed(&data).get() as usize;
        if !self.serves(index) || committed == 0 {
            return Ok(());
        }
        let told = self.nodes[index].log[..committed].to_vec();
        self.tally.writes_answered += u64::from(told.len() > self.truth.len());
        self.release(index, told)
    }

    /// A reply that tells of this history leaves.
    fn release(&mut self, index: usize, told: Vec<Write>) -> Result<(), Broken> {
        let same = common(&self.truth, &told);
        if same < self.truth.len().min(told.len()) {
            let (node, told, truth) = (&self.nodes[index].id, brief(&told), brief(&self.truth));
            return Err(format!("two histories: {node} tells {told}, and {truth} was told"));
        }
        if told.len() > self.truth.len() {
            self.note(format!("{index} has told of {} writes", told.len()));
            self.truth = told;
        }
        Ok(())
    }

    // ---- Replication

    /// The primary of the term that a node knows, if it knows so itself.
    fn primary_of(&self, index: usize) -> Option<usize> {
        let leader = self.nodes[index].member.leader()?;
        let at = self.nodes.iter().position(|node| node.member.me == *leader)?;
        let primary = &self.nodes[at].member;
        let terms = |member: &Member| member.view.as_ref().map(|view| view.group.term);
        (at != index && primary.leads() && terms(primary) == terms(&self.nodes[index].member)).then_some(at)
    }

    fn connect(&mut self, index: usize) {
        let Some(primary) = self.primary_of(index) else { return };
        let id = self.nodes[index].id.clone();
        let data = self.nodes[index].data();
        if self.is_paused(primary) || self.is_cut(primary) || !self.nodes[index].member.may_follow(&data) {
            return;
        }
        let is_prefix = self.nodes[primary].log.starts_with(&self.nodes[index].log);
        let node = &self.nodes[index];
        if node.is_whole && is_prefix && node.source.is_none() {
            let link = self.nodes[primary].member.link(&id);
            self.continue_with(index, primary, link);
        } else if !node.is_whole && node.source.is_some() {
            // The copy is complete.
            let (_, link) = node.source.expect("it is being copied");
            let log = self.nodes[primary].log.clone();
            let node = &mut self.nodes[index];
            (node.durable, node.is_whole) = (log.len(), true);
            node.log = log;
            self.tally.copies += 1;
            self.continue_with(index, primary, link);
        } else if (!node.is_whole || !is_prefix || self.entropy.one_in(30))
            && self.nodes[primary].member.may_copy_to(&id)
        {
            let link = self.nodes[primary].member.begin_copy(&id);
            self.note(format!("{index} begins a full copy from {primary}"));
            let node = &mut self.nodes[index];
            node.member.unfollow();
            (node.log, node.durable, node.is_whole) = (Vec::new(), 0, false);
            node.source = Some((primary, link));
        }
    }

    fn continue_with(&mut self, index: usize, primary: usize, link: LinkId) {
        let node = &mut self.nodes[index];
        node.term = node.member.view.as_ref().expect("it follows somebody").group.term;
        node.source = Some((primary, link));
        node.member.follow(link);
    }

    fn disconnect(&mut self, index: usize) {
        self.nodes[index].source = None;
        self.nodes[index].member.unfollow();
    }

    fn fetch(&mut self, index: usize) {
        let Some((source, _)) = self.nodes[index].source else { return };
        let has = self.nodes[index].log.len();
        let node = &self.nodes[index];
        if self.primary_of(index) == Some(source)
            && !self.is_cut(source)
            && node.member.follows()
            && !node.member.takes_over()
        {
            let next = self.nodes[source].log.get(has..).unwrap_or_default();
            let next = next[..next.len().min(2)].to_vec();
            self.nodes[index].log.extend(next);
        }
    }

    fn acknowledge(&mut self, index: usize) {
        let Some((source, _)) = self.nodes[index].source else { return };
        let data = self.nodes[index].data();
        let Some(ack) = self.nodes[index].member.acknowledge(&data) else { return };
        let now_ms = self.clock(index);
        self.nodes[index].member.sent(now_ms);
        self.messages.push(Message::Ack(source, ack));
    }

    // ---- Faults

    fn fault(&mut self) {
        self.tally.faults += 1;
        let index = self.below(self.nodes.len());
        let until_ms = self.now_ms + self.entropy.below(4 * GRANT_MS);
        match self.habits.faults.choose(&mut self.entropy) {
            Fault::Pause => self.nodes[index].paused_until_ms = until_ms,
            Fault::Deaf => self.nodes[index].deaf_until_ms = until_ms,
            Fault::Cut => {
                let node = &mut self.nodes[index];
                (node.deaf_until_ms, node.cut_until_ms) = (until_ms, until_ms);
            }
            Fault::Crash => self.crash(index, false),
            Fault::Wipe => self.crash(index, true),
        }
    }

    /// A process ends and starts again, with its folder or an empty one.
    fn crash(&mut self, index: usize, is_wiped: bool) {
        let (durable, written) = (self.nodes[index].durable, self.nodes[index].log.len());
        let kept = if is_wiped { 0 } else { durable + self.below(written - durable + 1) };
        let old = self.nodes[index].member.me.clone();
        self.lives += 1;
        let life = if mutant::is_on(BrokenRule::LifeIgnored) { old.life } else { Life(self.lives + 100) };
        if life != old.life {
            self.dying.push(old.life);
        }
        self.note(format!("{index} dies with {kept} of {written} left, wiped: {is_wiped}"));
        let node = &mut self.nodes[index];
        node.log.truncate(kept);
        node.durable = kept;
        if is_wiped {
            (node.is_whole, node.term) = (false, Term(0));
        }
        (node.source, node.read) = (None, None);
        node.member = Member::new(Instance { node: old.node, life }, group_id());
        node.paused_until_ms = 0;
        self.messages
            .retain(|message| !matches!(message, Message::Beat(to, _) | Message::Ack(to, _) if *to == index));
        let kept = self.still_held();
        self.tally.lost_by_crashes += (self.truth.len() - kept) as u64;
        self.truth.truncate(kept);
        if mutant::is_on(BrokenRule::DeadByNode) {
            self.dead.insert(life);
        }
        let reading = self.reading(self.documents.len());
        self.learn(index, &reading);
    }

    /// How much of what clients know no crash has taken from every member, as the store has it or may soon have it. A change
    /// that leaves its author alone is no excuse.
    fn still_held(&self) -> usize {
        let on_way = self.flights.iter().filter(|flight| flight.on().0 == self.documents.len() as u64);
        let groups = on_way.map(Flight::group);
        let outcomes = groups.filter(|group| group.in_sync.len() > 1).chain([self.group()]);
        let held = |group: &ReplicaGroup| {
            let members = self.nodes.iter().filter(|node| group.in_sync.contains_key(&node.id));
            members.map(|node| common(&self.truth, &node.log)).max().unwrap_or(0)
        };
        outcomes.map(held).min().unwrap_or(0)
    }

    // ---- The judge

    fn check(&self) -> Result<(), Broken> {
        let present = self.group().term;
        let mut serving = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let Role::Primary(term) = node.member.role() else { continue };
            if !node.is_whole {
                return Err(format!("{} leads without its data", node.id));
            }
            if term == present && common(&self.truth, &node.log) < self.truth.len() {
                return Err(format!(
                    "{} leads term {term} and lacks some of {}: {}",
                    node.id,
                    brief(&self.truth),
                    brief(&node.log)
                ));
            }
            if self.serves(index) && !self.is_paused(index) {
                serving.push(&node.id);
            }
        }
        if serving.len() > 1 {
            return Err(format!("{serving:?} serve at the same time"));
        }
        let is_durable = self.documents[0].params.ack == Safety::Durable;
        for (id, life) in &self.group().in_sync {
            let node = self.nodes.iter().find(|node| node.id == *id).expect("it is a member");
            let is_alive = node.member.me.life == *life;
            // With ack = durable, a dead member's folder has everything, too: any of them may recover the group.
            if is_durable && node.is_whole && common(&self.truth, &node.log) < self.truth.len() {
                return Err(format!(
                    "{id} could recover the group and lacks some of {}: {}",
                    brief(&self.truth),
                    brief(&node.log)
                ));
            }
            if is_alive && (!node.is_whole || common(&self.truth, &node.log) < self.truth.len()) {
                return Err(format!(
                    "{id} is in sync and lacks some of {}: {}",
                    brief(&self.truth),
                    brief(&node.log)
                ));
            }
        }
        Ok(())
    }
}

fn no_answer() -> Error {
    Error::Failed("no answer".to_owned())
}

fn standing(node: &Node) -> Standing {
    let Data { is_whole, last_term, written, .. } = node.data();
    Standing { node: node.id.clone(), is_whole, last_term, written }
}

/// The end of a history.
fn brief(log: &[Write]) -> String {
    let end: Vec<String> =
        log.iter().rev().take(4).rev().map(|(term, number)| format!("{term}:{number}")).collect();
    format!("{} writes, last {}", log.len(), end.join(" "))
}
