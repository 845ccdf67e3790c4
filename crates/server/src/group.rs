//! Lets this server take part in a group that fails over by itself (`agent`), if its settings say so.

use agent::{Agent, NodeState, ProcessFacts};
use config::{APPENDONLY, CLUSTER_ETCD, CLUSTER_MODE, REPL_SYNC_REPLICAS, REPLICAOF, Settings};
use proactor::Entropy;
use topology::{Instance, Life};

use crate::error::Error;
use crate::shared::Shared;
use crate::version::DARTER_VERSION;

/// Checks that the other settings suit a node of a group.
pub(crate) fn check(settings: &Settings) -> Result<(), Error> {
    if settings.text(CLUSTER_ETCD).is_empty() {
        return Ok(());
    }
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

/// Begins to take part. The data are loaded, and their folder is locked.
pub(crate) fn begin(shared: &'static Shared) -> Result<Option<&'static Agent>, Error> {
    let settings = &shared.settings;
    if settings.text(CLUSTER_ETCD).is_empty() {
        return Ok(None);
    }
    let why = |error: agent::Error| Error::Group(error.to_string());
    let mut entropy = Entropy::from_os()
        .map_err(|source| Error::Io { what: "the system has no random numbers".to_owned(), source })?;
    let life = Life::draw(&mut entropy)
        .map_err(|source| Error::Io { what: "the system has no random numbers".to_owned(), source })?;
    // The working directory is the data folder.
    let state = NodeState::open(std::path::Path::new("."), agent::node_id_of(settings), life).map_err(why)?;
    let me = Instance { node: state.node().clone(), life };
    let facts = ProcessFacts {
        version: DARTER_VERSION.to_owned(),
        cores: shared.threads.len() as u32,
        started_ms: shared.started_ms,
    };
    let tls = Box::new(|| shared.tls.dialing());
    Agent::start(shared.role_parts(), state, me, facts, tls).map(Some).map_err(why)
}
