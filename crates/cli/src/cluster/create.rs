//! Creates a cluster: its first document, and never a second one.
//!
//! The leader of the first term is a process. If the node runs, it is that process. Otherwise a life is drawn and proven
//! dead at once, so that the node recovers the group when it starts (Group rule 10: a leader that was alone).

use agent::{NodeState, cluster_of, draw_unborn, first_document, group_of, node_id_of, params};
use config::Settings;
use proactor::{Disk, Entropy};
use topology::{Finding, Instance, NodeId, Store};

use crate::cluster::change::{NextDocument, change};
use crate::cluster::error::Error;
use crate::cluster::{because, listed, say};

/// Creates the cluster of the settings with these members. The first one leads; without any it is the node of the settings.
pub(crate) fn create(store: &mut dyn Store, settings: &Settings, nodes: &[NodeId]) -> Result<(), Error> {
    let mut entropy = Entropy::from_os().map_err(no_random_numbers)?;
    let own = if nodes.is_empty() { vec![own_node(settings, &mut entropy)?] } else { Vec::new() };
    let members = [nodes, &own].concat();
    let node = members[0].clone();
    refuse_existing(&store.read()?.found, settings)?;
    let live = store.live_nodes()?.into_iter().find(|announced| announced.instance.node == node);
    let (life, runs) = match &live {
        Some(announced) => (announced.instance.life, true),
        None => (draw_unborn(&mut entropy).map_err(no_random_numbers)?, false),
    };
    if !runs {
        store.prove_dead(life, &because("the node has not started yet"))?;
    }
    let leader = Instance { node: node.clone(), life };
    let group = group_of(settings);
    let set = members.iter().cloned().collect();
    let first = first_document(group.clone(), leader, set, params(settings));
    change(store, &because("create"), |found| match found {
        Finding::Document(document) if **document == first => Ok(NextDocument::IsSo),
        other => refuse_existing(other, settings).map(|()| NextDocument::Write(first.clone())),
    })?;
    let when = if runs { "" } else { " when its server starts" };
    say(&format!(
        "the cluster {} is created: group {group} has the members {}; {node} leads{when}, and its data are those of the group",
        cluster_of(settings),
        listed(&members)
    ))
}

fn refuse_existing(found: &Finding, settings: &Settings) -> Result<(), Error> {
    if matches!(found, Finding::Nothing) {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "the store has a cluster {} already: look at it with 'darter --cluster status', or set another cluster-name",
        cluster_of(settings)
    )))
}

/// The node of this configuration: that of the settings or of the data folder, or a new one.
fn own_node(settings: &Settings, entropy: &mut Entropy) -> Result<NodeId, Error> {
    if let Some(node) = node_id_of(settings) {
        return Ok(node);
    }
    let disk = Disk::real();
    match agent::node_in(&disk, &agent::data_folder(settings)?)? {
        Some(node) => Ok(node),
        None => Ok(NodeState::of(settings, &disk, entropy)?.node().clone()),
    }
}

fn no_random_numbers(source: std::io::Error) -> Error {
    Error::Agent(agent::Error::Io { what: "the system has no random numbers".to_owned(), source })
}
