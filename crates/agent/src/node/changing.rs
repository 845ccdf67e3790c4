//! Changes the document: what the rules ask for, one change after the other.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use group::{GroupChange, Proposal, Role, Standing};
use topology::{Finding, Reading, Reason, Revision, Store, Swap};

use super::peer::Peer;
use super::{Agent, locked};
use crate::founding::{first_document, may_create, params};

/// The time between two looks, and while this node hands over.
const LOOK: Duration = Duration::from_millis(20);
const LOOK_HANDING_OVER: Duration = Duration::from_millis(2);
/// The pause after a change that was not made, so that a store that refuses is not asked in a loop.
const PAUSE: Duration = Duration::from_millis(200);
/// The longest wait for another node's answer.
const ASK_MAX: Duration = Duration::from_millis(100);
/// How long a member waits before it takes over if another one has more.
const HESITATION_MS: u64 = 300;
/// The longest wait for the disk before a change is given up.
const DISK_MAX: Duration = Duration::from_secs(10);

impl Agent {
    /// Runs until the server stops. Tells `begun` when the document was read for the first time.
    pub(super) fn change(&self, store: &mut dyn Store, begun: &Sender<()>) {
        if !self.begin_life(store) {
            return;
        }
        let Some(reading) = self.first_reading(store) else { return };
        if self.lacks_former_data(&reading) {
            tracing::warn!(
                "this node was in sync with another data folder: it recovers nothing, and gets a full copy"
            );
            self.membership().note_foreign();
        }
        let reading = self.join(store, reading);
        self.learn(&reading);
        // The watching thread has ended only if the server stops.
        let _ = begun.send(());
        let mut considered = None;
        while !self.is_stopping() {
            let is_leaving = self.membership().with(|member| member.is_leaving());
            self.changes.wait(if is_leaving { LOOK_HANDING_OVER } else { LOOK });
            self.prefer_others(&mut considered);
            let standings = self.standings();
            let now_ms = self.parts.clock.boot_ms();
            if let Some(proposal) = self.membership().next_change(&self.parts, &standings, now_ms) {
                self.make(store, &proposal);
            }
        }
    }

    /// The document as it is now: nothing is done before (rule 9).
    fn first_reading(&self, store: &mut dyn Store) -> Option<Reading> {
        while !self.is_stopping() {
            match store.read() {
                Ok(reading) if reading.found == Finding::Nothing && may_create(self.settings()) => {
                    self.found(store, &reading);
                }
                Ok(reading) => return Some(reading),
                Err(error) => self
                    .complain(&format!("the document cannot be read, so this node has no role yet: {error}")),
            }
            std::thread::sleep(PAUSE);
        }
        None
    }

    /// Creates the cluster, with this node as the primary.
    fn found(&self, store: &mut dyn Store, reading: &Reading) {
        let members = [self.me.node.clone()].into();
        let document = first_document(self.group.clone(), self.me.clone(), members, params(self.settings()));
        let why = self.reason(&format!("{} creates the cluster", self.me.node));
        match store.compare_and_swap(reading, &document, &why) {
            Swap::Done(_) => {
                tracing::info!("the cluster is created, and this node is the primary of group {}", self.group)
            }
            Swap::Lost(_) => {}
            Swap::NotDone(error) => self.complain(&format!("the cluster cannot be created: {error}")),
            Swap::Unknown(unsettled) => drop(store.settle(unsettled, &why)),
        }
    }

    /// Makes this node a member of its group, if the group exists. Only at the start: one that is removed stays out.
    fn join(&self, store: &mut dyn Store, mut reading: Reading) -> Reading {
        let why = self.reason(&format!("{} joins group {}", self.me.node, self.group));
        while !self.is_stopping() {
            let Some(mut document) = reading.document().map(|document| (**document).clone()) else { break };
            let Some(group) = document.groups.get_mut(&self.group) else { break };
            if !group.members.insert(self.me.node.clone()) {
                break;
            }
            if let Err(error) = document.check() {
                self.complain(&format!("this node cannot join: {error}"));
                break;
            }
            match store.compare_and_swap(&reading, &document, &why) {
                Swap::Done(_) => tracing::info!("this node has joined group {}", self.group),
                Swap::Lost(_) => {}
                Swap::NotDone(error) => self.complain(&format!("this node cannot join: {error}")),
                Swap::Unknown(unsettled) => drop(store.settle(unsettled, &why)),
            }
            match store.read() {
                Ok(read) => reading = read,
                Err(error) => self.complain(&format!("the document cannot be read: {error}")),
            }
        }
        reading
    }

    /// Proves that the process of this node before this one is dead, and begins the life of this one (rule 8).
    fn begin_life(&self, store: &mut dyn Store) -> bool {
        let mut state = locked(&self.state);
        while let Err(error) = state.prove_predecessor(store, self.parts.clock.now_ms()) {
            self.complain(&format!("the end of the life before this one cannot be written down: {error}"));
            if self.is_stopping() {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        while let Err(error) = state.begin_life(self.me.life) {
            self.complain(&format!("this node has no role before its state is written down: {error}"));
            if self.is_stopping() {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        true
    }

    /// Whether this folder is not the one that was in sync: perhaps its disk was replaced. Then it recovers nothing (rule 10).
    fn lacks_former_data(&self, reading: &Reading) -> bool {
        let group = reading.document().and_then(|document| document.groups.get(&self.group));
        let former = group.and_then(|group| group.in_sync.get(&self.me.node));
        former.is_some_and(|life| *life != self.me.life && !locked(&self.state).took_part_as(*life))
    }

    fn reason(&self, text: &str) -> Reason {
        Reason::new(&self.me, self.parts.clock.now_ms(), text)
    }

    /// Asks for a change, and follows its outcome.
    fn make(&self, store: &mut dyn Store, proposal: &Proposal) {
        let group = self.membership();
        let text = explain(&proposal.change);
        let is_ready = proposal.durable_first.is_none() || self.become_durable();
        let why = self.reason(&text);
        let swap = match is_ready {
            true => store.compare_and_swap(&proposal.on, &proposal.document, &why),
            false => Swap::NotDone(topology::Error::Failed("the data here are not durable".to_owned())),
        };
        let mut is_made = false;
        match &swap {
            Swap::Done(revision) => {
                is_made = true;
                if proposal.change != GroupChange::Settle {
                    tracing::info!("group {}: {text} (revision {revision})", self.group);
                }
            }
            Swap::Lost(_) => tracing::info!(
                "group {}: not made, because the document has changed meanwhile: {text}",
                self.group
            ),
            Swap::NotDone(error) => {
                self.complain(&format!("group {}: not made: {text}: {error}", self.group))
            }
            Swap::Unknown(unsettled) => {
                self.complain(&format!(
                    "group {}: it is not known whether this was done: {text}: {}",
                    self.group,
                    unsettled.cause()
                ));
            }
        }
        let (data, now_ms) = (group.data(&self.parts), self.parts.clock.boot_ms());
        let before = group.with(|member| member.role());
        let made = |revision: Revision| proposal.made(revision);
        let learned = group.with(|member| member.settled(swap, made, &data, now_ms));
        self.note_learned(before, learned);
        self.bell.ring();
        if !is_made {
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until everything that was acknowledged is on this node's disk: it may be alone in sync from now on (rule 7).
    fn become_durable(&self) -> bool {
        let began = Instant::now();
        self.parts.log.obey_settings(self.settings());
        while self.parts.log.is_on() {
            match self.parts.log.ask_for_all() {
                None => return true,
                Some(_) if began.elapsed() > DISK_MAX => return false,
                Some(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        true
    }

    /// Asks the other members what they have before this node takes over, once in a term: if another one has more, it goes
    /// first. Otherwise that one would need a full copy, because its last data are not in this node's stream.
    fn prefer_others(&self, considered: &mut Option<Role>) {
        let group = self.membership();
        let rivals = group.rivals(&self.parts, self.parts.clock.boot_ms());
        let role = self.role();
        if rivals.is_empty() || considered.replace(role) == Some(role) {
            return;
        }
        let own = group.standing(&self.parts);
        let has_more = rivals.iter().any(|node| {
            let standing = self.address_of(node).and_then(|address| {
                let mut peer = Peer::connect(&address, self.settings(), &self.tls, ASK_MAX).ok()?;
                peer.standing().ok()
            });
            standing.is_some_and(|other| other.is_whole && other.written > own.written)
        });
        if has_more {
            let until_ms = self.parts.clock.boot_ms() + HESITATION_MS;
            group.with(|member| member.hesitate(until_ms));
        }
    }

    /// Asks the other nodes of the in-sync set what they have, if the group has to be recovered (rule 10).
    fn standings(&self) -> Vec<Standing> {
        let awaited = self.membership().with(|member| member.recovery_waits_for());
        let connected = awaited.into_iter().filter_map(|node| {
            let address = self.address_of(&node)?;
            let mut peer = Peer::connect(&address, self.settings(), &self.tls, ASK_MAX).ok()?;
            peer.standing().ok().filter(|standing| standing.node == node)
        });
        connected.collect()
    }

    fn role(&self) -> Role {
        self.membership().with(|member| member.role())
    }
}

/// The change, for the log.
fn explain(change: &GroupChange) -> String {
    match change {
        GroupChange::Shrink(member) => {
            format!("{member} is not in sync any more: it is dead or does not answer")
        }
        GroupChange::Grow(member) => format!("{member} is in sync"),
        GroupChange::TakeOver(from) => format!("this node takes over from {from}, which is dead or silent"),
        GroupChange::HandOver(to) => format!("this node hands over to {to}"),
        GroupChange::Recover => "this node leads again, after all that were in sync have died".to_owned(),
        GroupChange::Settle => {
            "nothing changes, so that the outcome of the change before is known".to_owned()
        }
    }
}
