//! Shows the groups of a cluster, its nodes, and what changed and why.
//!
//! ```text
//! cluster darter at http://etcd-1:2379, revision 512
//! grants of 3000 ms, ack applied, alone durable
//!
//! group  term  leader  in sync  members  writes need  slots
//! g1     17    a       a b      a b c    2            0-16383
//!
//! node  group  is              address        zone  version  up
//! a     g1     the leader      10.0.0.1:6379  z1    0.1.0    3 d
//! b     g1     in sync         10.0.0.2:6379  z2    0.1.0    3 d
//! c     g1     not announced
//!
//! 12 s ago  a: takes c out of in_sync, which was silent for 1,012 ms
//! ```
//!
//! All of it is ASCII, because nodes say of themselves what they like.

use std::collections::{BTreeMap, BTreeSet};

use agent::{StoreOptions, cluster_of};
use config::Settings;
use serde_json::{Value, json};
use topology::{
    Announcement, Document, Finding, GroupId, Instance, Life, LogEntry, NodeId, Reading, ReplicaGroup,
    Safety, Store,
};

use crate::cluster::change::usable;
use crate::cluster::error::Error;
use crate::cluster::{now_ms, say};
use crate::remote::figures::{age, shown};

/// The changes that are shown.
const CHANGES_MAX: usize = 10;
/// The changes in JSON.
const CHANGES_JSON_MAX: usize = 100;
/// The most characters of a text from elsewhere.
const LETTERS_MAX: usize = 400;
/// The space between two columns.
const GAP: &str = "  ";

/// Everything that is shown.
struct Picture {
    cluster: String,
    place: String,
    reading: Reading,
    nodes: Vec<Announcement>,
    log: Vec<LogEntry>,
}

/// Shows the cluster of the settings.
pub(crate) fn show(store: &mut dyn Store, settings: &Settings, as_json: bool) -> Result<(), Error> {
    let picture = Picture {
        cluster: cluster_of(settings).to_string(),
        place: StoreOptions::of(settings)?.to_string(),
        reading: store.read()?,
        nodes: store.live_nodes()?,
        log: store.log(if as_json { CHANGES_JSON_MAX } else { CHANGES_MAX })?,
    };
    if as_json {
        return say(&picture.as_json().to_string());
    }
    // The nodes and the changes tell a lot, even if the document cannot be used.
    say(&picture.as_text(now_ms()))?;
    usable(&picture.reading.found).map(|_| ())
}

impl Picture {
    fn as_json(&self) -> Value {
        let (document, problem) = match &self.reading.found {
            Finding::Document(document) => (serde_json::from_str(&document.encode()).ok(), None),
            Finding::Nothing => (None, None),
            Finding::Broken(error) => (None, Some(error.to_string())),
        };
        json!({
            "cluster": self.cluster,
            "revision": self.reading.revision,
            "store_revision": self.reading.as_of,
            "document": document.unwrap_or(Value::Null),
            "problem": problem,
            "dead": self.reading.dead,
            "nodes": self.nodes,
            "changes": self.log,
        })
    }

    fn as_text(&self, now_ms: u64) -> String {
        let mut text = format!("cluster {}, revision {}\n", safe(&self.place), self.reading.revision);
        if let Finding::Document(document) = &self.reading.found {
            text += &parameters(document);
            text += "\n";
            text += &columns(&groups(document));
        }
        let nodes = self.nodes(now_ms);
        if nodes.len() > 1 {
            text += "\n";
            text += &columns(&nodes);
        }
        if !self.log.is_empty() {
            text += "\n";
            let line = |entry: &LogEntry| {
                let ago = format!("{} ago", age(Some(now_ms.saturating_sub(entry.why.at_ms()))));
                vec![ago, format!("{}: {}", safe(entry.why.author()), safe(entry.why.text()))]
            };
            text += &columns(&self.log.iter().map(line).collect::<Vec<_>>());
        }
        text.trim_end().to_owned()
    }

    /// The members of all groups, and the announced nodes that are members of none.
    fn nodes(&self, now_ms: u64) -> Vec<Vec<String>> {
        let titles = ["node", "group", "is", "address", "zone", "version", "up"];
        let mut lines = vec![titles.map(str::to_owned).to_vec()];
        let mut announced: BTreeMap<&NodeId, &Announcement> =
            self.nodes.iter().map(|announced| (&announced.instance.node, announced)).collect();
        let groups = self.reading.document().map(|document| &document.groups);
        for (id, group) in groups.into_iter().flatten() {
            for node in &group.members {
                let found = announced.remove(node);
                let state = state(group, node, found, &self.reading.dead);
                lines.push(line(node, id.as_str(), state, found, now_ms));
            }
        }
        lines.extend(announced.iter().map(|(node, found)| line(node, "-", "no member", Some(found), now_ms)));
        lines
    }
}

/// The state of a member.
fn state(
    group: &ReplicaGroup,
    node: &NodeId,
    announced: Option<&Announcement>,
    dead: &BTreeSet<Life>,
) -> &'static str {
    let in_sync = group.in_sync.get(node).map(|life| Instance { node: node.clone(), life: *life });
    match (in_sync, announced) {
        (Some(instance), _) if dead.contains(&instance.life) => match instance == group.leader {
            true => "the leader, dead",
            false => "in sync, dead",
        },
        (Some(instance), Some(found)) if found.instance != instance => "in sync, restarted",
        (Some(instance), None) if instance == group.leader => "the leader, not announced",
        (Some(_), None) => "in sync, not announced",
        (Some(instance), Some(_)) if instance == group.leader => "the leader",
        (Some(_), Some(_)) => "in sync",
        (None, Some(found)) if dead.contains(&found.instance.life) => "dead",
        (None, Some(_)) => "not in sync",
        (None, None) => "not announced",
    }
}

fn line(node: &NodeId, group: &str, state: &str, found: Option<&Announcement>, now_ms: u64) -> Vec<String> {
    let mut cells = vec![node.to_string(), group.to_owned(), state.to_owned()];
    if let Some(found) = found {
        let port = found.port.or(found.tls_port).map_or("-".to_owned(), |port| port.to_string());
        let tls = if found.port.is_none() && found.tls_port.is_some() { " (TLS)" } else { "" };
        cells.push(format!("{}:{port}{tls}", safe(&found.address)));
        cells.push(if found.zone.is_empty() { "-".to_owned() } else { safe(&found.zone) });
        cells.push(safe(&found.version));
        cells.push(age(Some(now_ms.saturating_sub(found.started_ms))));
    }
    cells
}

fn parameters(document: &Document) -> String {
    let word = |safety| match safety {
        Safety::Applied => "applied",
        Safety::Durable => "durable",
    };
    let params = &document.params;
    format!("grants of {} ms, ack {}, alone {}\n", params.grant_ms, word(params.ack), word(params.alone))
}

fn groups(document: &Document) -> Vec<Vec<String>> {
    let titles = ["group", "term", "leader", "in sync", "members", "writes need", "slots"];
    let mut lines = vec![titles.map(str::to_owned).to_vec()];
    let names = |nodes: &mut dyn Iterator<Item = &NodeId>| -> String {
        nodes.map(NodeId::as_str).collect::<Vec<_>>().join(" ")
    };
    for (id, group) in &document.groups {
        lines.push(vec![
            id.to_string(),
            group.term.to_string(),
            group.leader.node.to_string(),
            names(&mut group.in_sync.keys()),
            names(&mut group.members.iter()),
            document.params.min_in_sync(group).to_string(),
            slots(document, id),
        ]);
    }
    lines
}

fn slots(document: &Document, id: &GroupId) -> String {
    let owned = document.slots.iter().filter(|owned| owned.group == *id);
    let ranges: Vec<String> =
        owned.map(|owned| format!("{}-{}", owned.slots.first, owned.slots.last)).collect();
    if ranges.is_empty() { "-".to_owned() } else { ranges.join(" ") }
}

/// Lines of cells as text, one column below the other.
fn columns(lines: &[Vec<String>]) -> String {
    let count = lines.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(String::len).max();
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or_default()).collect();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text += cells.join(GAP).trim_end();
        text += "\n";
    }
    text
}

fn safe(text: &str) -> String {
    shown(text.as_bytes(), LETTERS_MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agent::first_document;
    use topology::{Params, Reason, Revision};

    use super::*;

    fn node(name: &str) -> NodeId {
        name.parse().unwrap()
    }

    fn announced(name: &str, life: u64) -> Announcement {
        Announcement {
            instance: Instance { node: node(name), life: Life(life) },
            address: "10.0.0.1".to_owned(),
            port: Some(6379),
            tls_port: None,
            cluster_port: None,
            zone: String::new(),
            version: "1.0".to_owned(),
            cores: 2,
            memory_bytes_max: 0,
            started_ms: 0,
        }
    }

    fn picture() -> Picture {
        let leader = Instance { node: node("a"), life: Life(1) };
        let members = ["b", "c", "d"].map(node).into();
        let mut document = first_document("g1".parse().unwrap(), leader, members, Params::default());
        let group = document.groups.values_mut().next().unwrap();
        group.in_sync.insert(node("b"), Life(2));
        let why = Reason::new("a", 8_000, "takes c out\x1b[31m");
        Picture {
            cluster: "shop".to_owned(),
            place: "shop (http://e)".to_owned(),
            reading: Reading {
                revision: Revision(7),
                as_of: Revision(9),
                found: Finding::Document(Arc::new(document)),
                dead: [Life(4)].into(),
            },
            nodes: vec![announced("a", 1), announced("b", 9), announced("d", 4), announced("e", 5)],
            log: vec![LogEntry { on: Revision(6), made: Revision(7), why }],
        }
    }

    #[test]
    fn a_page_shows_who_is_what() {
        let expected = "\
cluster shop (http://e), revision 7
grants of 3000 ms, ack applied, alone durable

group  term  leader  in sync  members  writes need  slots
g1     1     a       a b      a b c d  2            0-16383

node  group  is                  address        zone  version  up
a     g1     the leader          10.0.0.1:6379  -     1.0      20 s
b     g1     in sync, restarted  10.0.0.1:6379  -     1.0      20 s
c     g1     not announced
d     g1     dead                10.0.0.1:6379  -     1.0      20 s
e     -      no member           10.0.0.1:6379  -     1.0      20 s

12 s ago  a: takes c out\\x1b[31m";
        let text = picture().as_text(20_000);
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn without_a_document_the_nodes_are_shown() {
        let mut picture = picture();
        picture.reading.found = Finding::Nothing;
        let text = picture.as_text(20_000);
        assert!(!text.contains("group  term") && text.contains("e     -      no member"), "{text}");
        assert_eq!(picture.as_json()["document"], Value::Null);
    }

    #[test]
    fn the_same_in_json() {
        let json = picture().as_json();
        assert_eq!(json["document"]["groups"]["g1"]["term"], 1);
        assert_eq!(json["nodes"][1]["instance"][1], "0000000000000009");
        assert_eq!((&json["dead"][0], &json["revision"]), (&json!("0000000000000004"), &json!(7)));
        assert_eq!(json["changes"][0]["why"]["author"], "a");
    }
}
