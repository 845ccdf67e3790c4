//! Checks documents, and the step from a document to the next.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Document, DocumentError, GRANT_MS_MAX, GRANT_MS_MIN, GROUPS_MAX, MEMBERS_MAX, MOVES_MAX, Move, MoveState,
    PLACE_BYTES_MAX, PLACES_MAX, ReplicaGroup, SLOTS, SlotRange,
};
use crate::ids::{GroupId, Life, MoveId, NodeId, Term};

type Checked = Result<(), DocumentError>;

/// Checks `holds`; otherwise `why` says what is wrong with the field `place`.
fn must(holds: bool, place: &str, why: impl FnOnce() -> String) -> Checked {
    if holds {
        return Ok(());
    }
    Err(DocumentError::Contradiction { place: place.to_owned(), why: why() })
}

/// Checks a document alone.
pub(super) fn whole(document: &Document) -> Checked {
    params(document)?;
    groups(document)?;
    slots(document)?;
    places(document)?;
    moves(document)
}

fn params(document: &Document) -> Checked {
    let params = &document.params;
    must((GRANT_MS_MIN..=GRANT_MS_MAX).contains(&params.grant_ms), "params.grant_ms", || {
        format!("{} is not between {GRANT_MS_MIN} and {GRANT_MS_MAX}", params.grant_ms)
    })?;
    let min = params.min_in_sync.unwrap_or(1);
    must((1..=MEMBERS_MAX).contains(&usize::from(min)), "params.min_in_sync", || {
        format!("{min} is not between 1 and {MEMBERS_MAX}")
    })
}

fn groups(document: &Document) -> Checked {
    let count = document.groups.len();
    must(count >= 1, "groups", || "there is no group".to_owned())?;
    must(count <= GROUPS_MAX, "groups", || format!("there are {count}, {GROUPS_MAX} at most"))?;
    let (mut nodes, mut lives) = (BTreeMap::new(), BTreeMap::new());
    for (id, group) in &document.groups {
        one_group(id, group, &mut nodes, &mut lives)?;
    }
    Ok(())
}

fn one_group<'d>(
    id: &'d GroupId,
    group: &'d ReplicaGroup,
    nodes: &mut BTreeMap<&'d NodeId, &'d GroupId>,
    lives: &mut BTreeMap<Life, &'d NodeId>,
) -> Checked {
    let place = |field: &str| format!("groups.{id}.{field}");
    must((Term::FIRST..=Term::MAX).contains(&group.term), &place("term"), || {
        format!("{} is not between {} and {}", group.term, Term::FIRST, Term::MAX)
    })?;
    let count = group.members.len();
    must(count >= 1, &place("members"), || "it names nobody".to_owned())?;
    must(count <= MEMBERS_MAX, &place("members"), || format!("there are {count}, {MEMBERS_MAX} at most"))?;
    must(!group.in_sync.is_empty(), &place("in_sync"), || "it names nobody".to_owned())?;
    let has_leader = group.has_in_sync(&group.leader);
    must(has_leader, &place("leader"), || format!("{} is not in in_sync", group.leader))?;
    for (node, life) in &group.in_sync {
        let is_member = group.members.contains(node);
        must(is_member, &place("in_sync"), || format!("{node} is not in members"))?;
        let other = lives.insert(*life, node);
        must(other.is_none(), &place("in_sync"), || {
            format!("life {life} is that of {node} and of {}", other.map_or("", NodeId::as_str))
        })?;
    }
    for node in &group.members {
        let other = nodes.insert(node, id);
        must(other.is_none(), &place("members"), || {
            format!("{node} is also a member of {}", other.map_or("", GroupId::as_str))
        })?;
    }
    Ok(())
}

fn exists(document: &Document, group: &GroupId, place: &str) -> Checked {
    must(document.groups.contains_key(group), place, || format!("there is no group {group}"))
}

fn one_range(range: SlotRange, place: &str) -> Checked {
    let SlotRange { first, last } = range;
    must(first <= last && last < SLOTS, place, || {
        format!("[{first}, {last}] is no range of slots, which are numbered from 0 to {}", SLOTS - 1)
    })
}

/// Checks that each range is one, and that they ascend without overlapping.
fn ascending(ranges: impl Iterator<Item = SlotRange>, place: &str) -> Checked {
    let mut before: Option<SlotRange> = None;
    for range in ranges {
        one_range(range, place)?;
        if let Some(before) = before {
            must(before.first <= range.first, place, || "the ranges are not in ascending order".to_owned())?;
            must(before.last < range.first, place, || {
                format!("[{}, {}] and [{}, {}] overlap", before.first, before.last, range.first, range.last)
            })?;
        }
        before = Some(range);
    }
    Ok(())
}

fn slots(document: &Document) -> Checked {
    ascending(document.slots.iter().map(|owned| owned.slots), "slots")?;
    document.slots.iter().try_for_each(|owned| exists(document, &owned.group, "slots"))
}

fn places(document: &Document) -> Checked {
    let count = document.place.len();
    must(count <= PLACES_MAX, "place", || format!("there are {count}, {PLACES_MAX} at most"))?;
    for (name, group) in &document.place {
        let size_bytes = name.len();
        must((1..=PLACE_BYTES_MAX).contains(&size_bytes), "place", || {
            format!("a name has {size_bytes} bytes, not between 1 and {PLACE_BYTES_MAX}")
        })?;
        exists(document, group, "place")?;
    }
    Ok(())
}

fn moves(document: &Document) -> Checked {
    let count = document.moves.len();
    must(count <= MOVES_MAX, "moves", || format!("there are {count}, {MOVES_MAX} at most"))?;
    let mut copying: Vec<(SlotRange, &MoveId)> = Vec::new();
    for (id, moving) in &document.moves {
        one_move(document, id, moving)?;
        if moving.state == MoveState::Copying {
            copying.extend(moving.ranges.iter().map(|range| (*range, id)));
        }
    }
    copying.sort();
    for pair in copying.windows(2) {
        let [(before, one), (range, other)] = pair else { continue };
        must(before.last < range.first, "moves", || {
            format!("slot {} is in {one} and in {other}, which are both copying", range.first)
        })?;
    }
    Ok(())
}

fn one_move(document: &Document, id: &MoveId, moving: &Move) -> Checked {
    let place = format!("moves.{id}");
    must(!moving.ranges.is_empty(), &place, || "it has no slots".to_owned())?;
    ascending(moving.ranges.iter().copied(), &place)?;
    exists(document, &moving.from, &place)?;
    exists(document, &moving.to, &place)?;
    must(moving.from != moving.to, &place, || "it moves slots to where they are".to_owned())?;
    if moving.state != MoveState::Copying {
        return Ok(());
    }
    for range in &moving.ranges {
        must(owns(document, &moving.from, *range), &place, || {
            format!("{} does not own all of [{}, {}]", moving.from, range.first, range.last)
        })?;
    }
    Ok(())
}

/// Whether `group` owns the whole range. The slots are in ascending order.
fn owns(document: &Document, group: &GroupId, range: SlotRange) -> bool {
    let mut next = range.first;
    for owned in document.slots.iter().filter(|owned| owned.group == *group) {
        if owned.slots.first <= next && next <= owned.slots.last {
            if range.last <= owned.slots.last {
                return true;
            }
            next = owned.slots.last + 1;
        }
    }
    false
}

/// Checks that `after` may replace `before`.
pub(super) fn succession(before: &Document, after: &Document) -> Checked {
    for (id, old) in &before.groups {
        let Some(new) = after.groups.get(id) else { continue };
        let wrong = |field: &str, why: String| {
            Err(DocumentError::NotASuccessor { place: format!("groups.{id}.{field}"), why })
        };
        if new.term < old.term {
            return wrong("term", format!("{} comes after {}", new.term, old.term));
        }
        if new.term == old.term && new.leader != old.leader {
            return wrong(
                "leader",
                format!("in term {} it is {}, and cannot be {} as well", old.term, old.leader, new.leader),
            );
        }
        if new.term > old.term.next() {
            return wrong("term", format!("{} skips those after {}", new.term, old.term));
        }
    }
    let before: BTreeSet<&GroupId> = before.slots.iter().map(|owned| &owned.group).collect();
    let lost = before.into_iter().find(|id| !after.groups.contains_key(*id));
    lost.map_or(Ok(()), |id| {
        let why = "it owned slots, which have to move first".to_owned();
        Err(DocumentError::NotASuccessor { place: format!("groups.{id}"), why })
    })
}
