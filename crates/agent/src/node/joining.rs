//! Prepares a process to take part in a group, if its settings say so.

use config::{APPENDONLY, CLUSTER_ETCD, CLUSTER_MODE, REPL_SYNC_REPLICAS, REPLICAOF, Settings};
use proactor::{Disk, Entropy};
use replication::Parts;
use topology::{Instance, Life};

use super::{Agent, DialTls};
use crate::announcing::ProcessFacts;
use crate::error::Error;
use crate::node_state::NodeState;
use crate::store_options::StoreOptions;
use crate::watcher::Watcher;

/// A process that is about to take part.
pub struct Joining {
    state: NodeState,
    me: Instance,
    /// Proves the death of this process. It ends by itself.
    _watcher: Watcher,
}

impl Joining {
    /// Prepares to take part, if the settings ask for it. The process has no other thread yet: the watcher must see its very
    /// end.
    pub fn prepare(settings: &Settings, disk: &Disk) -> Result<Option<Joining>, Error> {
        if settings.text(CLUSTER_ETCD).is_empty() {
            return Ok(None);
        }
        check(settings)?;
        let no_randomness =
            |source| Error::Io { what: "the system has no random numbers".to_owned(), source };
        let mut entropy = Entropy::from_os().map_err(no_randomness)?;
        let state = NodeState::of(settings, disk, &mut entropy)?;
        let me =
            Instance { node: state.node().clone(), life: Life::draw(&mut entropy).map_err(no_randomness)? };
        let store = StoreOptions::of(settings)?;
        let watcher = Watcher::start(&store, &me.node, me.life)?;
        Ok(Some(Joining { state, me, _watcher: watcher }))
    }

    /// Begins to take part. The server has loaded its data, and serves no role yet.
    pub fn begin(self, parts: Parts, facts: ProcessFacts, tls: DialTls) -> Result<&'static Agent, Error> {
        Agent::start(parts, self.state, self.me, facts, tls)
    }
}

/// Checks that the other settings suit a node of a group.
fn check(settings: &Settings) -> Result<(), Error> {
    let refused = |why: &str| Err(Error::Settings(why.to_owned()));
    if !settings.is_on(APPENDONLY) {
        return refused(
            "cluster-etcd needs appendonly yes: a node that forgets its data at a restart would lose acknowledged writes",
        );
    }
    if !settings.text(REPLICAOF).is_empty() {
        return refused("replicaof and cluster-etcd exclude each other: the group decides who follows whom");
    }
    if settings.number(REPL_SYNC_REPLICAS) > 0 {
        return refused(
            "repl-sync-replicas and cluster-etcd exclude each other: replies wait for all nodes in sync",
        );
    }
    if settings.is_on(CLUSTER_MODE) {
        return refused("cluster-mode and cluster-etcd exclude each other");
    }
    Ok(())
}
