//! The document: the groups of a cluster, who leads them, which slots they own, and which slots move.
//!
//! ```text
//! {"version": 1,
//!  "params": {"grant_ms": 3000, "min_in_sync": 2, "ack": "applied", "alone": "durable"},
//!  "groups": {"g1": {"term": 17, "leader": ["a", "00c0ffee00c0ffee"],
//!                    "in_sync": [["a", "00c0ffee00c0ffee"], ["b", "0123456789abcdef"]], "members": ["a", "b", "c"]}},
//!  "slots": [[0, 5460, "g1"], [5461, 10922, "g2"]],
//!  "place": [["queue:mail", "g2"]],
//!  "moves": {"m9": {"ranges": [[100, 199]], "from": "g1", "to": "g2", "state": "copying"}}}
//! ```
//!
//! Equal documents have equal texts: fields have a fixed order, and everything else is sorted.
//!
//! Invariants: [`Document::decode`] returns only documents that pass [`Document::check`], and a store writes no other.
//!
//! Not here: the rules by which a group changes (they are the caller's), except those that no change may break
//! ([`Document::check_succession`]).

mod check;
#[cfg(test)]
pub(crate) mod tests;
mod wire;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::ids::{GroupId, Instance, Life, MoveId, NodeId, Term};

/// The version of the format. A store may contain another one, which [`Document::decode`] refuses.
pub const VERSION: u64 = 1;
/// The largest text of a document. etcd allows 1.5 MB for a request, and every change writes the whole document.
pub const DOCUMENT_BYTES_MAX: usize = 100 * 1024;
/// The slots of a cluster, as in Redis Cluster.
pub const SLOTS: u16 = 16_384;
/// The most groups.
pub const GROUPS_MAX: usize = 128;
/// The most members of a group. Each acknowledges every write.
pub const MEMBERS_MAX: usize = 16;
/// The shortest grant: two beats of 200 ms may be lost, and the primary stops 500 ms before its end.
pub const GRANT_MS_MIN: u32 = 1_000;
/// The longest grant. Nothing takes over from a lost primary before it is over.
pub const GRANT_MS_MAX: u32 = 60_000;
/// The grant if nothing else is chosen.
pub const GRANT_MS: u32 = 3_000;
/// The most exceptions to the hash of names.
pub const PLACES_MAX: usize = 1_000;
/// The longest name in such an exception.
pub const PLACE_BYTES_MAX: usize = 512;
/// The most moves, ended ones included.
pub const MOVES_MAX: usize = 256;

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The parameters of all groups.
    pub params: Params,
    /// The groups.
    pub groups: BTreeMap<GroupId, ReplicaGroup>,
    /// Who owns which slots, in ascending order. Slots may have no owner.
    pub slots: Vec<OwnedSlots>,
    /// Names whose slot is not that of their hash, and their groups.
    pub place: BTreeMap<String, GroupId>,
    /// Moves of slots.
    pub moves: BTreeMap<MoveId, Move>,
}

/// The parameters of all groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// For how long a member promises to take over from no one.
    pub grant_ms: u32,
    /// How many members have to be in sync for a group to accept writes; `None`: 1 with two members, else 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_in_sync: Option<u8>,
    /// Where a write is when a member acknowledges it.
    pub ack: Safety,
    /// Where a write is when a primary that is alone in sync acknowledges it.
    pub alone: Safety,
}

impl Default for Params {
    fn default() -> Params {
        Params { grant_ms: GRANT_MS, min_in_sync: None, ack: Safety::Applied, alone: Safety::Durable }
    }
}

impl Params {
    /// How many members of `group` have to be in sync for it to accept writes.
    pub fn min_in_sync(&self, group: &ReplicaGroup) -> usize {
        let by_size = if group.members.len() <= 2 { 1 } else { 2 };
        self.min_in_sync.map_or(by_size, usize::from)
    }
}

/// Where a write is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Safety {
    /// In memory.
    Applied,
    /// On the disk.
    Durable,
}

/// A primary and its replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaGroup {
    /// Counts the leaders.
    pub term: Term,
    /// The primary of this term.
    pub leader: Instance,
    /// Whose acknowledgement a write needs: nodes and their lives. The leader is one of them.
    pub in_sync: BTreeMap<NodeId, Life>,
    /// The nodes that belong to the group.
    pub members: BTreeSet<NodeId>,
}

impl ReplicaGroup {
    /// Whether this process is in sync.
    pub fn has_in_sync(&self, instance: &Instance) -> bool {
        self.in_sync.get(&instance.node) == Some(&instance.life)
    }
}

/// Slots and their owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedSlots {
    /// The slots.
    pub slots: SlotRange,
    /// The group that owns them.
    pub group: GroupId,
}

/// Consecutive slots, at least one. In JSON: `[100, 199]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(u16, u16)", into = "(u16, u16)")]
pub struct SlotRange {
    /// The first.
    pub first: u16,
    /// The last, which belongs to the range.
    pub last: u16,
}

impl SlotRange {
    /// All slots.
    pub const ALL: SlotRange = SlotRange { first: 0, last: SLOTS - 1 };
}

impl From<(u16, u16)> for SlotRange {
    fn from((first, last): (u16, u16)) -> SlotRange {
        SlotRange { first, last }
    }
}

impl From<SlotRange> for (u16, u16) {
    fn from(range: SlotRange) -> (u16, u16) {
        (range.first, range.last)
    }
}

/// Slots that move from one group to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// The slots, in ascending order.
    pub ranges: Vec<SlotRange>,
    /// The group that owned them when the move began.
    pub from: GroupId,
    /// The group that is to own them.
    pub to: GroupId,
    /// How far it is.
    pub state: MoveState,
}

/// How far a move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MoveState {
    /// The source owns the slots.
    Copying,
    /// The target owns them. The source deletes them.
    Committed,
    /// The source owns them. The target deletes them.
    Cancelled,
}

/// Why a document cannot be used, as a sentence for the person who has to repair it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// It is too large.
    #[error("the document has {size_bytes} bytes, {DOCUMENT_BYTES_MAX} at most")]
    TooLarge {
        /// Its size.
        size_bytes: usize,
    },
    /// It is of another version.
    #[error("the document is of version {found}; this release knows version {VERSION} only")]
    OtherVersion {
        /// Its version.
        found: u64,
    },
    /// It is no JSON, or fields are missing, unknown or of another type.
    #[error("the document cannot be read: {0}")]
    Unreadable(String),
    /// It contradicts itself.
    #[error("{place}: {why}")]
    Contradiction {
        /// The field, such as `groups.g1.in_sync`.
        place: String,
        /// The fault.
        why: String,
    },
    /// It must not follow the document before it.
    #[error("{place} must not change like this: {why}")]
    NotASuccessor {
        /// The field.
        place: String,
        /// The fault.
        why: String,
    },
}

impl Document {
    /// Reads a document that anybody may have written.
    pub fn decode(text: &[u8]) -> Result<Document, DocumentError> {
        let document = wire::decode(text)?;
        document.check()?;
        Ok(document)
    }

    /// The document as text. Only a document that passes [`Document::check`] may be written.
    pub fn encode(&self) -> String {
        wire::encode(self)
    }

    /// Checks that the document does not contradict itself and is not too large. Code that builds one from a person's words
    /// calls this first: a store crashes rather than write a document that fails here.
    pub fn check(&self) -> Result<(), DocumentError> {
        check::whole(self)?;
        let size_bytes = self.encode().len();
        if size_bytes > DOCUMENT_BYTES_MAX {
            return Err(DocumentError::TooLarge { size_bytes });
        }
        Ok(())
    }

    /// Checks that this document may replace `before`: no term falls, and each term has one leader.
    pub fn check_succession(&self, before: &Document) -> Result<(), DocumentError> {
        check::succession(before, self)
    }
}
