//! Asks the primary to hand over, and waits until the document says that it has.

use std::thread;
use std::time::{Duration, Instant};

use agent::group_of;
use config::{MASTERAUTH, MASTERUSER, REQUIREPASS, Settings};
use topology::{Announcement, Document, GroupId, NodeId, Reading, ReplicaGroup, Sight, Store, Watch};

use crate::cluster::change::usable;
use crate::cluster::command_line::HandoverOrder;
use crate::cluster::error::Error;
use crate::cluster::members::group_in;
use crate::cluster::{listed, say};
use crate::remote::connection::{Connection, ReplyLimits};

/// How much longer than the primary this waits for news of the document.
const NEWS: Duration = Duration::from_secs(3);
/// The pause after an error of the store.
const PAUSE: Duration = Duration::from_millis(100);

/// See the head of this file.
pub(crate) fn hand_over(
    store: &mut dyn Store,
    settings: &Settings,
    order: &HandoverOrder,
) -> Result<(), Error> {
    let id = group_of(settings);
    let reading = store.read()?;
    let group = group_in(usable(&reading.found)?, &id)?.clone();
    check(&group, &id, order.to.as_ref())?;
    let leader = group.leader.clone();
    let live = store.live_nodes()?;
    let announced = live.iter().find(|announced| announced.instance == leader).ok_or_else(|| {
        Error::Refused(format!(
            "the primary {leader} does not announce itself, so it cannot be asked: is it running? See 'darter --cluster repair'"
        ))
    })?;
    let mut watch = store.watch()?;
    let begin = Instant::now();
    ask(announced, settings, order)?;
    let until = begin + order.timeout + NEWS;
    let reading = wait_for_news(&mut *watch, &reading, &id, &group, until)?;
    let group = &usable(&reading.found)?.groups[&id];
    say(&format!(
        "{} leads {id} in term {}, {} ms after the request (before: {})",
        group.leader.node,
        group.term,
        begin.elapsed().as_millis(),
        leader.node
    ))
}

/// Refuses what the primary would refuse.
fn check(group: &ReplicaGroup, id: &GroupId, to: Option<&NodeId>) -> Result<(), Error> {
    let others = || group.in_sync.keys().filter(|node| **node != group.leader.node);
    let refused = |why: String| Err(Error::Refused(why));
    match to {
        Some(node) if *node == group.leader.node => refused(format!("{node} leads {id} already")),
        Some(node) if !group.members.contains(node) => {
            refused(format!("{node} is not a member of {id}, which has {}", listed(&group.members)))
        }
        Some(node) if !group.in_sync.contains_key(node) => refused(format!(
            "{node} is not in sync, so it may lack data: wait until 'darter --cluster status' shows it in sync; {} could lead",
            listed(others())
        )),
        None if others().next().is_none() => refused(format!(
            "no other node of {id} is in sync: start one, and wait until 'darter --cluster status' shows it in sync"
        )),
        _ => Ok(()),
    }
}

/// Sends the command to the primary.
fn ask(leader: &Announcement, settings: &Settings, order: &HandoverOrder) -> Result<(), Error> {
    let Some(port) = leader.port else {
        return Err(Error::Refused(format!(
            "the primary {} listens for TLS only: send it 'CLUSTER FAILOVER' with redis-cli --tls",
            leader.instance.node
        )));
    };
    let limits =
        ReplyLimits { reply: order.timeout + NEWS, silence: order.timeout + NEWS, ..ReplyLimits::default() };
    let mut connection = Connection::open(&leader.address, port, &limits)?;
    if let Some((user, password)) = credentials(settings, order) {
        let user = user.as_deref().map(str::as_bytes);
        let words: Vec<&[u8]> = [&b"AUTH"[..]].into_iter().chain(user).chain([password.as_bytes()]).collect();
        connection.command(&words)?;
    }
    let timeout_ms = order.timeout.as_millis().to_string();
    let to = order.to.as_ref().map_or(Vec::new(), |node| vec![&b"TO"[..], node.as_str().as_bytes()]);
    let words: Vec<&[u8]> = [&b"CLUSTER"[..], b"FAILOVER"]
        .into_iter()
        .chain(to)
        .chain([&b"TIMEOUT"[..], timeout_ms.as_bytes()])
        .collect();
    Ok(connection.command(&words)?)
}

/// The user and the password: those of the command line, or those by which the node of this configuration follows a primary, or
/// its own password.
fn credentials(settings: &Settings, order: &HandoverOrder) -> Option<(Option<String>, String)> {
    let set = |id| Some(settings.text(id).as_ref().to_owned()).filter(|text| !text.is_empty());
    match &order.password {
        Some(password) => Some((order.user.clone(), password.clone())),
        None => match set(MASTERAUTH) {
            Some(password) => Some((order.user.clone().or_else(|| set(MASTERUSER)), password)),
            None => set(REQUIREPASS).map(|password| (order.user.clone(), password)),
        },
    }
}

/// Waits for a later term.
fn wait_for_news(
    watch: &mut dyn Watch,
    before: &Reading,
    id: &GroupId,
    group: &ReplicaGroup,
    until: Instant,
) -> Result<Reading, Error> {
    let is_later = |document: &Document| document.groups.get(id).is_some_and(|found| found.term > group.term);
    let mut last = before.clone();
    loop {
        if last.document().is_some_and(|document| is_later(document)) {
            return Ok(last);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::NotHandedOver(format!(
                "{} still leads {id} in term {}: its log says why; look at 'darter --cluster status' before trying again",
                group.leader.node, group.term
            )));
        }
        match watch.next(left) {
            Ok(Sight::Changed(reading)) => last = reading,
            Ok(Sight::Silent) => {}
            // Nothing is known at the moment.
            Err(_) => thread::sleep(PAUSE.min(left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use topology::{Instance, Life, Term};

    use super::*;

    #[test]
    fn a_handover_goes_to_a_node_in_sync() {
        let node = |name: &str| -> NodeId { name.parse().unwrap() };
        let mut group = ReplicaGroup {
            term: Term(3),
            leader: Instance { node: node("a"), life: Life(1) },
            in_sync: [(node("a"), Life(1)), (node("b"), Life(2))].into(),
            members: [node("a"), node("b"), node("c")].into(),
        };
        let id = "g1".parse().unwrap();
        let refusal = |group: &ReplicaGroup, to: Option<&str>| {
            let to = to.map(node);
            check(group, &id, to.as_ref()).err().map(|error| error.to_string())
        };
        assert_eq!((refusal(&group, None), refusal(&group, Some("b"))), (None, None));
        assert_eq!(refusal(&group, Some("a")).unwrap(), "a leads g1 already");
        assert_eq!(refusal(&group, Some("d")).unwrap(), "d is not a member of g1, which has a, b and c");
        assert!(refusal(&group, Some("c")).unwrap().ends_with("b could lead"));
        group.in_sync.remove(&node("b"));
        assert!(refusal(&group, None).unwrap().contains("no other node of g1 is in sync"));
    }
}
