//! Lets the server take the role that the document gives it, notes terms in the state file before anything is promised in
//! them, and opens and closes the gate for commands and replies.

use std::time::Duration;

use group::Role;
use replication::{RoleNews, RoleOrder, announce_order};
use topology::Term;

use super::{Agent, locked};

/// The longest time between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// The last news for the server's threads.
#[derive(Default)]
struct Told {
    serves: bool,
    needs_disk: bool,
    leads_in: Option<Term>,
}

impl Agent {
    /// Runs until the server stops.
    pub(super) fn steer(&self) {
        let mut told = Told::default();
        while !self.is_stopping() {
            self.bell.wait(LOOK);
            self.take_role(&mut told);
            self.move_gate(&mut told);
        }
    }

    fn take_role(&self, told: &mut Told) {
        let group = self.membership();
        group.note_terms(self.terms());
        let (role, leader) = group.with(|member| (member.role(), member.leader().cloned()));
        match (role, leader) {
            (Role::Primary(term), _) => {
                self.order(RoleOrder { term, primary: None });
                let taken = group.taken().filter(|(order, _)| order.term == term && order.primary.is_none());
                if let Some((_, id)) = taken
                    && told.leads_in != Some(term)
                    && self.note_term(term, id)
                {
                    group.begin_leading(term);
                    told.leads_in = Some(term);
                }
            }
            (Role::Replica(term), Some(leader)) => {
                if let Some(primary) = self.address_of(&leader.node) {
                    self.order(RoleOrder { term, primary: Some(primary) });
                }
                if let Some((link, term, id)) = group.linked()
                    && self.note_term(term, id)
                {
                    group.follow(link, term);
                    announce_order(&self.parts);
                    self.grants.ring();
                }
            }
            (Role::Outside | Role::Replica(_), _) => {}
        }
    }

    fn order(&self, order: RoleOrder) {
        if self.membership().order(&order) {
            announce_order(&self.parts);
        }
    }

    /// Writes the term into the state file, durably: nothing is acknowledged in it before (rule 9).
    fn note_term(&self, term: Term, id: replication::ReplicationId) -> bool {
        match locked(&self.state).note_term(term, &id) {
            Ok(()) => {}
            Err(error) => {
                self.complain(&format!(
                    "the term cannot be noted, so this node promises nothing in it: {error}"
                ));
                return false;
            }
        }
        self.membership().note_terms(self.terms());
        true
    }

    fn move_gate(&self, told: &mut Told) {
        let group = self.membership();
        let needs_disk = group.needs_disk();
        if needs_disk != told.needs_disk {
            told.needs_disk = needs_disk;
            self.parts.log.obey_settings(self.settings());
        }
        let is_open = group.is_open(self.parts.clock.boot_ms());
        let serves = (is_open || group.is_leaving()) && group.may_write();
        if serves != told.serves {
            told.serves = serves;
            self.parts.judge_quorum(self.parts.clock.monotonic_ms());
        }
        if group.take_opened() {
            self.parts.threads.announce(RoleNews::Opened);
        }
        if group.has_ended_handover() {
            announce_order(&self.parts);
        }
    }
}
