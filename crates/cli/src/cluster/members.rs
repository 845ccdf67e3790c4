//! Adds and removes members of a group. The primary alone changes who is in sync (Group rule 6).

use agent::group_of;
use config::Settings;
use topology::{Document, Finding, GroupId, NodeId, ReplicaGroup, Store};

use crate::cluster::change::{NextDocument, change, usable};
use crate::cluster::error::Error;
use crate::cluster::{because, listed, say};

/// Makes these nodes members.
pub(crate) fn add(store: &mut dyn Store, settings: &Settings, nodes: &[NodeId]) -> Result<(), Error> {
    let id = group_of(settings);
    let mut min_before = 0;
    let why = because(&format!("add {} to {id}", listed(nodes)));
    let (document, was_so) = change(store, &why, |found| {
        let (mut document, mut group) = opened(found, &id)?;
        min_before = document.params.min_in_sync(&group);
        if nodes.iter().all(|node| group.members.contains(node)) {
            return Ok(NextDocument::IsSo);
        }
        group.members.extend(nodes.iter().cloned());
        document.groups.insert(id.clone(), group);
        Ok(NextDocument::Write(document))
    })?;
    if was_so {
        return Err(Error::Refused(format!("{} of {id} already", are_members(nodes))));
    }
    let group = &document.groups[&id];
    say(&format!("the members of {id} are {} now", listed(&group.members)))?;
    let min = document.params.min_in_sync(group);
    if min > min_before {
        let have = group.in_sync.len();
        say(&format!(
            "with {} members writes need {min} nodes in sync (cluster-min-in-sync); there are {have}",
            group.members.len()
        ))?;
    }
    Ok(())
}

fn are_members(nodes: &[NodeId]) -> String {
    let verb = if nodes.len() == 1 { "is a member" } else { "are members" };
    format!("{} {verb}", listed(nodes))
}

/// Takes a node out of the group.
pub(crate) fn remove(store: &mut dyn Store, settings: &Settings, node: &NodeId) -> Result<(), Error> {
    let id = group_of(settings);
    let why = because(&format!("remove {node} from {id}"));
    let (document, was_so) = change(store, &why, |found| {
        let (mut document, mut group) = opened(found, &id)?;
        if !group.members.contains(node) {
            return Ok(NextDocument::IsSo);
        }
        if group.leader.node == *node {
            return Err(Error::Refused(format!(
                "{node} leads {id}: hand over first with 'darter --cluster failover', then stop its server and remove it"
            )));
        }
        if group.in_sync.contains_key(node) {
            return Err(Error::Refused(format!(
                "{node} is in sync, so writes wait for it: stop its server; when 'darter --cluster status' shows it as not in \
                 sync any more, remove it"
            )));
        }
        group.members.remove(node);
        document.groups.insert(id.clone(), group);
        Ok(NextDocument::Write(document))
    })?;
    let members = listed(&document.groups[&id].members);
    if was_so {
        return Err(Error::Refused(format!("{node} is not a member of {id}, which has {members}")));
    }
    say(&format!("the members of {id} are {members} now"))
}

/// The document, and the group of the settings in it.
fn opened(found: &Finding, id: &GroupId) -> Result<(Document, ReplicaGroup), Error> {
    let document = usable(found)?;
    Ok((document.clone(), group_in(document, id)?.clone()))
}

/// The group of the settings.
pub(crate) fn group_in<'d>(document: &'d Document, id: &GroupId) -> Result<&'d ReplicaGroup, Error> {
    document.groups.get(id).ok_or_else(|| {
        let groups = listed(document.groups.keys());
        Error::Refused(format!("the cluster has no group {id}: set cluster-group to one of {groups}"))
    })
}
