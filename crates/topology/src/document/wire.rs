//! The document as JSON.
//!
//! Unknown fields are refused. They might be rules that this release would break, or a parameter that a person has
//! misspelt. Nor could they be kept: a release that changes a group without the field that explains it may make the field
//! wrong. So new fields come with a new version, which is written only once all nodes know it.
//!
//! A name that stands twice in an object is refused as well: JSON readers differ in which one counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{DOCUMENT_BYTES_MAX, Document, DocumentError, Move, OwnedSlots, Params, ReplicaGroup, VERSION};
use crate::ids::{GroupId, Instance, MoveId, NodeId, Term};
use crate::shorten;

/// The longest description of an error. JSON's errors quote the text.
const ERROR_BYTES_MAX: usize = 300;

/// The greatest term that is read: half of those that can be written, so that no document of a person makes a takeover
/// impossible.
const TERM_READ_MAX: Term = Term(Term::MAX.0 / 2);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireDocument {
    version: u64,
    params: Params,
    #[serde(deserialize_with = "distinct")]
    groups: BTreeMap<GroupId, WireGroup>,
    slots: Vec<(u16, u16, GroupId)>,
    place: Vec<(String, GroupId)>,
    #[serde(deserialize_with = "distinct")]
    moves: BTreeMap<MoveId, Move>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireGroup {
    term: Term,
    leader: Instance,
    in_sync: Vec<Instance>,
    members: Vec<NodeId>,
}

/// The common part of documents of all versions.
#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

/// Reads a text. The result may contradict itself, but nothing in it stands twice.
pub(super) fn decode(text: &[u8]) -> Result<Document, DocumentError> {
    if text.len() > DOCUMENT_BYTES_MAX {
        return Err(DocumentError::TooLarge { size_bytes: text.len() });
    }
    let Versioned { version } = read(text)?;
    if version != VERSION {
        return Err(DocumentError::OtherVersion { found: version });
    }
    let wire: WireDocument = read(text)?;
    let mut groups = BTreeMap::new();
    for (id, group) in wire.groups {
        let group = group.into_group(&id)?;
        groups.insert(id, group);
    }
    let mut slots: Vec<OwnedSlots> = wire
        .slots
        .into_iter()
        .map(|(first, last, group)| OwnedSlots { slots: (first, last).into(), group })
        .collect();
    slots.sort_by_key(|owned| owned.slots);
    let mut place = BTreeMap::new();
    for (name, group) in wire.place {
        let why = || format!("{:?} stands twice", shorten(&name, ERROR_BYTES_MAX));
        if place.contains_key(&name) {
            return Err(DocumentError::Contradiction { place: "place".to_owned(), why: why() });
        }
        place.insert(name, group);
    }
    let mut moves = wire.moves;
    for moving in moves.values_mut() {
        moving.ranges.sort();
    }
    Ok(Document { params: wire.params, groups, slots, place, moves })
}

/// Writes a text.
pub(super) fn encode(document: &Document) -> String {
    let groups = document.groups.iter().map(|(id, group)| (id.clone(), WireGroup::of(group))).collect();
    let slots = document.slots.iter();
    let wire = WireDocument {
        version: VERSION,
        params: document.params.clone(),
        groups,
        slots: slots.map(|owned| (owned.slots.first, owned.slots.last, owned.group.clone())).collect(),
        place: document.place.iter().map(|(name, group)| (name.clone(), group.clone())).collect(),
        moves: document.moves.clone(),
    };
    serde_json::to_string(&wire).expect("its keys are texts")
}

impl WireGroup {
    fn of(group: &ReplicaGroup) -> WireGroup {
        let in_sync = group.in_sync.iter().map(|(node, life)| (node.clone(), *life).into()).collect();
        WireGroup {
            term: group.term,
            leader: group.leader.clone(),
            in_sync,
            members: group.members.iter().cloned().collect(),
        }
    }

    fn into_group(self, id: &GroupId) -> Result<ReplicaGroup, DocumentError> {
        let twice = |field: &str, node: &NodeId| DocumentError::Contradiction {
            place: format!("groups.{id}.{field}"),
            why: format!("{node} stands twice"),
        };
        if self.term > TERM_READ_MAX {
            let why = format!("{} is not between {} and {TERM_READ_MAX}", self.term, Term::FIRST);
            return Err(DocumentError::Contradiction { place: format!("groups.{id}.term"), why });
        }
        let (mut in_sync, mut members) = (BTreeMap::new(), BTreeSet::new());
        for Instance { node, life } in self.in_sync {
            if in_sync.insert(node.clone(), life).is_some() {
                return Err(twice("in_sync", &node));
            }
        }
        for node in self.members {
            if !members.insert(node.clone()) {
                return Err(twice("members", &node));
            }
        }
        Ok(ReplicaGroup { term: self.term, leader: self.leader, in_sync, members })
    }
}

fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, DocumentError> {
    serde_json::from_slice(text)
        .map_err(|error| DocumentError::Unreadable(shorten(&error.to_string(), ERROR_BYTES_MAX).to_owned()))
}

/// Reads an object whose names differ.
fn distinct<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
where
    K: Deserialize<'de> + Ord + fmt::Display,
    V: Deserialize<'de>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_map(Distinct(PhantomData))
}

struct Distinct<K, V>(PhantomData<(K, V)>);

impl<'de, K, V> Visitor<'de> for Distinct<K, V>
where
    K: Deserialize<'de> + Ord + fmt::Display,
    V: Deserialize<'de>,
{
    type Value = BTreeMap<K, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut map = BTreeMap::new();
        while let Some(name) = access.next_key::<K>()? {
            if map.contains_key(&name) {
                access.next_value::<IgnoredAny>()?;
                return Err(de::Error::custom(format_args!("{name} stands twice")));
            }
            map.insert(name, access.next_value()?);
        }
        Ok(map)
    }
}
