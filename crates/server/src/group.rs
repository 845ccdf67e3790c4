//! Lets this server take part in a group that fails over by itself (`agent`), if its settings say so.

use agent::{Agent, NodeState, ProcessFacts, StoreOptions, Watcher};
use config::{APPENDONLY, CLUSTER_ETCD, CLUSTER_MODE, REPL_SYNC_REPLICAS, REPLICAOF, Settings};
use proactor::{Disk, Entropy};
use topology::{Instance, Life};

use crate::error::Error;
use crate::shared::Shared;
use crate::version::DARTER_VERSION;

/// A process that is about to take part.
pub(crate) struct Joining {
    state: NodeState,
    me: Instance,
    /// Proves the death of this process. It ends by itself.
    _watcher: Watcher,
}

impl Joining {
    /// Prepares to take part, if the settings ask for it. The process has no other thread yet: the watcher must see its very
    /// end.
    pub(crate) fn prepare(settings: &Settings, disk: &Disk) -> Result<Option<Joining>, Error> {
        if settings.text(CLUSTER_ETCD).is_empty() {
            return Ok(None);
        }
        check(settings)?;
        let no_randomness =
            |source| Error::Io { what: "the system has no random numbers".to_owned(), source };
        let mut entropy = Entropy::from_os().map_err(no_randomness)?;
        let state = NodeState::of(settings, disk, &mut entropy).map_err(refused)?;
        let me =
            Instance { node: state.node().clone(), life: Life::draw(&mut entropy).map_err(no_randomness)? };
        let store = StoreOptions::of(settings).map_err(refused)?;
        let watcher = Watcher::start(&store, &me.node, me.life).map_err(refused)?;
        Ok(Some(Joining { state, me, _watcher: watcher }))
    }

    /// Begins to take part. The data are loaded.
    pub(crate) fn begin(self, shared: &'static Shared) -> Result<&'static Agent, Error> {
        let facts = ProcessFacts {
            version: DARTER_VERSION.to_owned(),
            cores: shared.threads.len() as u32,
            started_ms: shared.started_ms,
        };
        let tls = Box::new(|| shared.tls.dialing());
        Agent::start(shared.role_parts(), self.state, self.me, facts, tls).map_err(refused)
    }
}

fn refused(error: agent::Error) -> Error {
    Error::Group(error.to_string())
}

/// Checks that the other settings suit a node of a group.
fn check(settings: &Settings) -> Result<(), Error> {
    let refused = |why: &str| Err(Error::Group(why.to_owned()));
    if !settings.is_on(APPENDONLY) {
        return refused(
            "cluster-etcd needs appendonly yes: a node that forgets its data at a restart would lose acknowledged writes",
        );
    }
    if !settings.text(REPLICAOF).is_empty() {
        return refused("replicaof and cluster-etcd exclude each other: the group decides who follows whom");
    }
    if settings.number(REPL_SYNC_REPLICAS) > 0 {
        return refused("repl-sync-replicas and cluster-etcd exclude each other: replies wait for all nodes in sync");
    }
    if settings.is_on(CLUSTER_MODE) {
        return refused("cluster-mode and cluster-etcd exclude each other");
    }
    Ok(())
}
