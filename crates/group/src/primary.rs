//! Acknowledgements and grants that a primary has received in its term (rules 1, 5 and 8).

use std::collections::{BTreeMap, BTreeSet};

use effectlog::StreamPosition;
use topology::{Instance, Life, NodeId, Params};

use crate::messages::{Ack, LinkId};
use crate::mutant::{self, BrokenRule};

/// The least by which the primary's view of a grant is shorter than the grant.
const MARGIN_MS_MIN: u64 = 500;
/// That part of a grant is the margin, if it is longer: clocks may run 20 % apart.
const MARGIN_PART: u64 = 6;

/// For how long after a beat was sent the primary relies on its answer.
fn view_ms(params: &Params) -> u64 {
    let grant_ms = u64::from(params.grant_ms);
    if mutant::is_on(BrokenRule::NoMargin) {
        return grant_ms;
    }
    grant_ms - (grant_ms / MARGIN_PART).max(MARGIN_MS_MIN)
}

/// The last that was heard from a node.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    /// The life that said it.
    pub(crate) life: Life,
    /// It has everything before this.
    pub(crate) offset: StreamPosition,
    /// Until then it takes over from no one, by the primary's clock.
    pub(crate) granted_until_ms: u64,
    /// When it was heard.
    pub(crate) at_ms: u64,
}

/// The knowledge of a primary. Empty in a replica.
#[derive(Default, Debug)]
pub(crate) struct Primary {
    /// The end of the node's data when the term began: some of them may not be acknowledged.
    pub(crate) inherited: StreamPosition,
    /// Everything before this is acknowledged in this term.
    pub(crate) committed: StreamPosition,
    /// The node that is to lead next: nothing is answered any more (rule 12).
    pub(crate) successor: Option<Succession>,
    /// The replica that is about to become a member.
    pub(crate) joining: Option<Joining>,
    heard: BTreeMap<NodeId, Heard>,
    links: BTreeMap<NodeId, LinkId>,
    last_link: u64,
}

/// A replica that is about to become a member.
#[derive(Debug)]
pub(crate) struct Joining {
    pub(crate) node: NodeId,
    pub(crate) since_ms: u64,
    /// Whether writes are acknowledged only when it has them.
    pub(crate) is_waited_for: bool,
}

/// A planned handover.
#[derive(Clone, Debug)]
pub(crate) struct Succession {
    pub(crate) to: NodeId,
    /// When it is given up, unless its change is under way.
    pub(crate) until_ms: u64,
}

impl Primary {
    /// A new term begins for a node that has everything before `inherited`. Numbers of connections go on, so that those of
    /// former terms are not mistaken for new ones.
    pub(crate) fn begin(&mut self, inherited: StreamPosition) {
        *self = Primary { inherited, last_link: self.last_link, ..Primary::default() };
    }

    /// A replica has connected. Its earlier connections say nothing any more.
    pub(crate) fn link(&mut self, node: &NodeId) -> LinkId {
        self.last_link += 1;
        let link = LinkId(self.last_link);
        self.links.insert(node.clone(), link);
        link
    }

    /// Forgets what a node has said: it drops its data (rule 5).
    pub(crate) fn forget(&mut self, node: &NodeId) {
        if !mutant::is_on(BrokenRule::AckOldLink) {
            self.heard.remove(node);
        }
    }

    /// The last message of this very process.
    pub(crate) fn heard_from(&self, instance: &Instance) -> Option<&Heard> {
        self.heard.get(&instance.node).filter(|heard| heard.life == instance.life)
    }

    /// All that was heard.
    pub(crate) fn heard(&self) -> impl Iterator<Item = (&NodeId, &Heard)> {
        self.heard.iter()
    }

    /// Notes an acknowledgement of the present term. The primary waits for the processes that are `needed`.
    pub(crate) fn receive(&mut self, ack: &Ack, params: &Params, needed: &BTreeSet<Instance>, now_ms: u64) {
        let node = &ack.from.node;
        let is_present = self.links.get(node) == Some(&ack.link) || mutant::is_on(BrokenRule::AckOldLink);
        // A beat cannot have been sent later than now: the clock of another machine, or a damaged message.
        if !is_present || ack.beat_ms > now_ms {
            return;
        }
        let granted_until_ms = ack.beat_ms + view_ms(params);
        let before = self.heard.get(node);
        let life = ack.from.life;
        if let Some(before) = before
            && before.life != life
            && needed.contains(&Instance { node: node.clone(), life: before.life })
        {
            // The primary waits for a life: its messages are not forgotten for the sake of another life.
            return;
        }
        let same = before.filter(|before| before.life == life);
        let heard = Heard {
            life,
            offset: same.map_or(ack.offset, |same| same.offset.max(ack.offset)),
            granted_until_ms: same
                .map_or(granted_until_ms, |same| same.granted_until_ms.max(granted_until_ms)),
            at_ms: now_ms,
        };
        self.heard.insert(node.clone(), heard);
    }
}
