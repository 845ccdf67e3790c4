//! The first document of a cluster, and the names in the settings as types.

use std::collections::BTreeSet;

use config::{
    CLUSTER_ACK, CLUSTER_ALONE, CLUSTER_CREATE, CLUSTER_DURABLE, CLUSTER_GRANT_MS, CLUSTER_GROUP,
    CLUSTER_MIN_IN_SYNC, CLUSTER_NAME, CLUSTER_NODE_ID, Id, Settings,
};
use proactor::Entropy;
use topology::{
    ClusterName, Document, GroupId, Instance, Life, NodeId, OwnedSlots, Params, ReplicaGroup, Safety,
    SlotRange, Term,
};

/// The cluster that the settings name.
pub fn cluster_of(settings: &Settings) -> ClusterName {
    settings.text(CLUSTER_NAME).parse().expect("the setting was checked")
}

/// The group that the settings name.
pub fn group_of(settings: &Settings) -> GroupId {
    settings.text(CLUSTER_GROUP).parse().expect("the setting was checked")
}

/// The node that the settings name; `None`: the data folder says it.
pub fn node_id_of(settings: &Settings) -> Option<NodeId> {
    let node = settings.text(CLUSTER_NODE_ID);
    (!node.is_empty()).then(|| node.parse().expect("the setting was checked"))
}

/// Whether this node creates the cluster if the store has no document.
pub fn may_create(settings: &Settings) -> bool {
    settings.is_on(CLUSTER_CREATE)
}

/// The parameters of a cluster that is created with these settings.
pub fn params(settings: &Settings) -> Params {
    let safety = |id: Id| match settings.number(id) {
        CLUSTER_DURABLE => Safety::Durable,
        _ => Safety::Applied,
    };
    Params {
        grant_ms: settings.number(CLUSTER_GRANT_MS) as u32,
        min_in_sync: Some(settings.number(CLUSTER_MIN_IN_SYNC) as u8).filter(|min| *min > 0),
        ack: safety(CLUSTER_ACK),
        alone: safety(CLUSTER_ALONE),
    }
}

/// The lives below this one are of no process: nodes are named by them that have not started yet. A process draws such a life
/// once in 2^48 times.
const UNBORN_LIVES: u64 = 1 << 16;

/// Draws a life for a node that is to lead and has not started yet. It is proven dead at once, so that the node recovers the
/// group when it starts (Group rule 10).
pub fn draw_unborn(entropy: &mut Entropy) -> std::io::Result<Life> {
    Ok(Life(Life::draw(entropy)?.0 % UNBORN_LIVES))
}

/// Whether this life is of no process. So nothing was acknowledged in it.
pub(crate) fn is_unborn(life: Life) -> bool {
    life.0 < UNBORN_LIVES
}

/// A document with one group, which owns all slots and whose leader is alone in sync. `members` need not name the leader.
pub fn first_document(
    group: GroupId,
    leader: Instance,
    mut members: BTreeSet<NodeId>,
    params: Params,
) -> Document {
    members.insert(leader.node.clone());
    let in_sync = [(leader.node.clone(), leader.life)].into();
    let first = ReplicaGroup { term: Term::FIRST, leader, in_sync, members };
    Document {
        params,
        groups: [(group.clone(), first)].into(),
        slots: vec![OwnedSlots { slots: SlotRange::ALL, group }],
        place: Default::default(),
        moves: Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use config::{SettingKind, TABLE};
    use topology::{GRANT_MS, GRANT_MS_MAX, GRANT_MS_MIN, MEMBERS_MAX, NAME_BYTES_MAX};

    use super::*;

    /// `config` does not know `topology`.
    #[test]
    fn the_settings_accept_what_a_document_may_contain() {
        let kind = |id| TABLE.setting(id).kind;
        let SettingKind::Integer { min, max } = kind(CLUSTER_GRANT_MS) else { panic!("it is a number") };
        assert_eq!((min, max), (i64::from(GRANT_MS_MIN), i64::from(GRANT_MS_MAX)));
        let SettingKind::Integer { min: 0, max } = kind(CLUSTER_MIN_IN_SYNC) else {
            panic!("it is a number")
        };
        assert_eq!(max, MEMBERS_MAX as i64);
        let names = ["a", "g-1_x.y", "Z9", "", ".", "-a", "a/b", "a b", "\u{e4}", "a\0"].map(str::to_owned);
        let lengths = [NAME_BYTES_MAX, NAME_BYTES_MAX + 1].map(|length| "a".repeat(length));
        for name in names.into_iter().chain(lengths) {
            for id in [CLUSTER_NAME, CLUSTER_GROUP, CLUSTER_NODE_ID] {
                let is_accepted = kind(id).parse(&[&name], "").is_ok_and(|value| !value.text.is_empty());
                assert_eq!(is_accepted, name.parse::<GroupId>().is_ok(), "{name:?}");
            }
        }
    }

    #[test]
    fn a_first_document_has_the_defaults_and_can_be_written() {
        let settings = Settings::default();
        let params = params(&settings);
        assert_eq!(params, Params { grant_ms: GRANT_MS, ..Params::default() });
        let leader = Instance { node: "a".parse().unwrap(), life: Life(7) };
        let members = ["b".parse().unwrap()].into();
        let document = first_document(group_of(&settings), leader.clone(), members, params);
        document.check().unwrap();
        let group = &document.groups[&group_of(&settings)];
        assert_eq!((group.members.len(), group.has_in_sync(&leader)), (2, true));
        assert_eq!(cluster_of(&settings).as_str(), "darter");
    }
}
