//! Runs the commands of `ops/cluster`: gives them the node that this server is.

use config::{CLUSTER_MODE, PORT, TLS_PORT};
use engine::{CommandResult, OwnCall};
use ops::cluster::{ClusterNode, Function};

use crate::thread::ThreadHost;

pub(super) fn run(host: &mut ThreadHost, function: Function, call: OwnCall<'_, '_>) -> CommandResult {
    let shared = host.shared;
    if shared.journal.synced.group.is_on() && &*call.command.full_name == "cluster|failover" {
        return crate::replication::run(host, replication::hand_over_group, call);
    }
    let session = host.current.as_deref().filter(|session| !session.is_unix);
    let mut node = shared.settings.is_on(CLUSTER_MODE).then(|| {
        let ports = [PORT, TLS_PORT].map(|port| shared.settings.number(port) as u32);
        ClusterNode::at(&shared.run_id, session.map(|session| &*session.local), ports)
    });
    function(&mut call.on(&mut node))
}
