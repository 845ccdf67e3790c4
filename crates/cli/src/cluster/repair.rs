//! A group that does not recover by itself: what is wrong, and the decision of a person (Group rule 10).

use std::collections::BTreeSet;

use agent::group_of;
use config::Settings;
use topology::{Announcement, Finding, Instance, Life, NodeId, ReplicaGroup, Safety, Store, Term};

use crate::cluster::change::{NextDocument, change, usable};
use crate::cluster::command_line::LossOrder;
use crate::cluster::error::Error;
use crate::cluster::members::group_in;
use crate::cluster::{because, listed, say};

/// By how much a term is raised at once. More is most likely a slip of the finger.
const TERMS_MAX: u64 = 1_000;

/// Says what is wrong with the group of the settings, and what can be done.
pub(crate) fn diagnose(store: &mut dyn Store, settings: &Settings) -> Result<(), Error> {
    let reading = store.read()?;
    let document = usable(&reading.found)?;
    let id = group_of(settings);
    let group = group_in(document, &id)?;
    let live = store.live_nodes()?;
    say(&diagnosis(&id.to_string(), group, document.params.ack, &live, &reading.dead))
}

/// Whether a process is seen.
fn is_live(live: &[Announcement], instance: &Instance) -> bool {
    live.iter().any(|announced| announced.instance == *instance)
}

fn in_sync(group: &ReplicaGroup) -> impl Iterator<Item = Instance> {
    group.in_sync.iter().map(|(node, life)| Instance { node: node.clone(), life: *life })
}

fn diagnosis(
    id: &str,
    group: &ReplicaGroup,
    ack: Safety,
    live: &[Announcement],
    dead: &BTreeSet<Life>,
) -> String {
    let leader = &group.leader;
    let is_dead = |instance: &Instance| dead.contains(&instance.life);
    if is_live(live, leader) && !is_dead(leader) {
        return format!(
            "{id} is led by {} in term {}, which announces itself: nothing has to be repaired",
            leader.node, group.term
        );
    }
    let successors: Vec<Instance> = in_sync(group)
        .filter(|instance| instance != leader && is_live(live, instance) && !is_dead(instance))
        .collect();
    if !successors.is_empty() {
        return format!(
            "the leader {leader} is gone: {} can take over by itself within two grants; if it does not, its log says why",
            listed(successors.iter().map(|instance| &instance.node))
        );
    }
    let nodes = listed(group.in_sync.keys());
    let open: Vec<Instance> = in_sync(group).filter(|instance| !is_dead(instance)).collect();
    let otherwise =
        "if that is not possible, a person decides who leads: 'darter --cluster repair --accept-loss NODE'";
    if open.is_empty() {
        let how = match ack {
            Safety::Durable if group.in_sync.len() > 1 => format!("when one of {nodes} has started again"),
            Safety::Durable | Safety::Applied if group.in_sync.len() == 1 => {
                format!("when {nodes} has started again")
            }
            Safety::Durable | Safety::Applied => format!("when all of {nodes} have started again"),
        };
        return format!(
            "all that were in sync are dead: {id} recovers by itself {how}, with its data; {otherwise}"
        );
    }
    format!(
        "{} in sync, and neither seen nor proven dead: start it again on the machine where it was, which proves it; {otherwise}",
        were(&open)
    )
}

fn were<T: ToString>(instances: &[T]) -> String {
    format!(
        "{} {}",
        listed(instances.iter().map(ToString::to_string)),
        if instances.len() == 1 { "was" } else { "were" }
    )
}

/// Lets a node lead that may lack acknowledged writes.
pub(crate) fn accept_loss(
    store: &mut dyn Store,
    settings: &Settings,
    order: &LossOrder,
) -> Result<(), Error> {
    let id = group_of(settings);
    let reading = store.read()?;
    let before = group_in(usable(&reading.found)?, &id)?.clone();
    let live = store.live_nodes()?;
    let leader = candidate(&before, &live, &reading.dead, &order.leader)?;
    let open: Vec<Instance> = in_sync(&before)
        .filter(|instance| *instance != leader && !reading.dead.contains(&instance.life))
        .collect();
    check_stopped(&open, &live, order)?;
    if order.above.0.saturating_sub(before.term.0) > TERMS_MAX {
        return Err(Error::Refused(format!(
            "{id} is in term {}, and {} is more than {TERMS_MAX} terms above: is it the right number?",
            before.term, order.above
        )));
    }
    for instance in &open {
        store.prove_dead(
            instance.life,
            &because(&format!("{} is stopped, on a person's word", instance.node)),
        )?;
    }
    let term = lead(store, &before, &leader, order.above, settings)?;
    say(&format!(
        "{} leads {id} in term {term}, alone in sync; others that start get its data",
        leader.node
    ))?;
    let lost: Vec<&NodeId> = before.in_sync.keys().filter(|node| **node != leader.node).collect();
    match lost.is_empty() {
        true => Ok(()),
        false => say(&format!(
            "given up: writes that were acknowledged by {} and have not reached {}",
            listed(lost),
            leader.node
        )),
    }
}

/// The process that is to lead.
fn candidate(
    group: &ReplicaGroup,
    live: &[Announcement],
    dead: &BTreeSet<Life>,
    node: &NodeId,
) -> Result<Instance, Error> {
    let refused = |why: String| Err(Error::Refused(why));
    if !group.members.contains(node) {
        return refused(format!("{node} is not a member: add it first with 'darter --cluster add {node}'"));
    }
    let announced = live.iter().map(|announced| &announced.instance).find(|instance| instance.node == *node);
    let Some(instance) = announced else {
        return refused(format!(
            "{node} does not announce itself: start its server, which then waits for its group"
        ));
    };
    if dead.contains(&instance.life) {
        return refused(format!(
            "what {node} announced is from a process that has ended: wait for ten seconds"
        ));
    }
    if group.leader == *instance && group.in_sync.len() == 1 {
        return refused(format!("{node} leads already, alone in sync: its log says why it does not serve"));
    }
    let leads = is_live(live, &group.leader) && !dead.contains(&group.leader.life);
    if leads && group.leader != *instance {
        return refused(format!(
            "{} leads and announces itself: hand over with 'darter --cluster failover {node}', or stop it",
            group.leader.node
        ));
    }
    Ok(instance.clone())
}

/// Checks that those who were in sync can acknowledge nothing any more.
fn check_stopped(open: &[Instance], live: &[Announcement], order: &LossOrder) -> Result<(), Error> {
    let seen: Vec<&Instance> = open.iter().filter(|instance| is_live(live, instance)).collect();
    if !seen.is_empty() {
        return Err(Error::Refused(format!(
            "{} in sync and still announced, and could go on acknowledging what is given up: stop it, wait for ten seconds, and \
             try again",
            were(&seen)
        )));
    }
    if open.is_empty() || order.are_stopped {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "{} in sync and not proven dead: what it acknowledged and {} lacks would be given up, and if it still runs, it goes on \
         acknowledging; stop its server or its machine for good, then add --stopped",
        were(open),
        order.leader
    )))
}

/// Changes the document until `leader` leads a term above `above`, and returns the term.
fn lead(
    store: &mut dyn Store,
    before: &ReplicaGroup,
    leader: &Instance,
    above: Term,
    settings: &Settings,
) -> Result<Term, Error> {
    let id = group_of(settings);
    let above = above.max(before.term);
    let why = because(&format!("repair: {} leads, losses are accepted", leader.node));
    let mut expected = before.clone();
    loop {
        let (document, _) = change(store, &why, |found: &Finding| {
            let mut document = usable(found)?.clone();
            let group = group_in(&document, &id)?.clone();
            let next = ReplicaGroup {
                term: expected.term.next(),
                leader: leader.clone(),
                in_sync: [(leader.node.clone(), leader.life)].into(),
                members: group.members.clone(),
            };
            if group == next {
                return Ok(NextDocument::IsSo);
            }
            if (group.term, &group.leader, &group.in_sync)
                != (expected.term, &expected.leader, &expected.in_sync)
            {
                return Err(Error::Refused(format!(
                    "{id} has changed meanwhile: look at 'darter --cluster status' before trying again"
                )));
            }
            document.groups.insert(id.clone(), next);
            Ok(NextDocument::Write(document))
        })?;
        expected = document.groups[&id].clone();
        if expected.term > above {
            return Ok(expected.term);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeId {
        name.parse().unwrap()
    }

    fn group() -> ReplicaGroup {
        ReplicaGroup {
            term: Term(3),
            leader: Instance { node: node("a"), life: Life(1) },
            in_sync: [(node("a"), Life(1)), (node("b"), Life(2))].into(),
            members: [node("a"), node("b"), node("c")].into(),
        }
    }

    fn announced(name: &str, life: u64) -> Announcement {
        Announcement {
            instance: Instance { node: node(name), life: Life(life) },
            address: "h".to_owned(),
            port: None,
            tls_port: None,
            cluster_port: None,
            zone: String::new(),
            version: String::new(),
            cores: 1,
            memory_bytes_max: 0,
            started_ms: 0,
        }
    }

    #[test]
    fn a_diagnosis_says_who_can_lead() {
        let text = |ack, live: &[Announcement], dead: &[u64]| {
            diagnosis("g1", &group(), ack, live, &dead.iter().map(|life| Life(*life)).collect())
        };
        let check = |ack, live: &[Announcement], dead: &[u64], expected: &str| {
            let found = text(ack, live, dead);
            assert!(found.contains(expected), "{found}");
        };
        let (a, b) = (announced("a", 1), announced("b", 2));
        check(Safety::Applied, &[a.clone(), b.clone()], &[], "nothing has to be repaired");
        check(Safety::Applied, &[a.clone(), b.clone()], &[1], "b can take over by itself");
        check(Safety::Applied, &[b], &[], "b can take over by itself");
        check(Safety::Applied, &[announced("a", 9)], &[1, 2], "when all of a and b have started again");
        check(Safety::Durable, &[], &[1, 2], "when one of a and b has started again");
        check(
            Safety::Durable,
            &[],
            &[1],
            "b (life 0000000000000002) was in sync, and neither seen nor proven",
        );
    }

    #[test]
    fn a_person_lets_only_a_running_member_lead_and_no_second_one() {
        let check = |live: &[Announcement], dead: &[u64], wanted: &str, expected: Result<u64, &str>| {
            let dead = dead.iter().map(|life| Life(*life)).collect();
            let found = candidate(&group(), live, &dead, &node(wanted));
            match (found, expected) {
                (Ok(instance), Ok(life)) => assert_eq!(instance.life, Life(life)),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, _) => panic!("{found:?}"),
            }
        };
        check(&[announced("d", 4)], &[1, 2], "d", Err("add it first"));
        check(&[], &[1, 2], "c", Err("start its server"));
        check(&[announced("c", 3)], &[1, 2, 3], "c", Err("a process that has ended"));
        check(&[announced("c", 3), announced("a", 1)], &[], "c", Err("'darter --cluster failover c'"));
        check(&[announced("c", 3)], &[1, 2], "c", Ok(3));
        check(&[announced("a", 9), announced("c", 3)], &[1], "c", Ok(3));
    }

    #[test]
    fn who_was_in_sync_is_stopped_first() {
        let order = |are_stopped| LossOrder { leader: node("c"), are_stopped, above: Term(0) };
        let a = Instance { node: node("a"), life: Life(1) };
        let check = |open: &[Instance], live: &[Announcement], are_stopped| {
            check_stopped(open, live, &order(are_stopped)).err().map(|error| error.to_string())
        };
        assert_eq!(check(&[], &[], false), None);
        assert_eq!(check(std::slice::from_ref(&a), &[], true), None);
        assert!(check(std::slice::from_ref(&a), &[], false).unwrap().contains("then add --stopped"));
        let seen = check(&[a], &[announced("a", 1)], true).unwrap();
        assert!(seen.contains("still announced"), "{seen}");
    }
}
