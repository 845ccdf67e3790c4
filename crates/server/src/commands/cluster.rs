//! Gives the commands of `ops/cluster` what they need from their thread.

use config::{CLUSTER_MODE, PORT, TLS_PORT};
use ops::cluster::{ClusterNode, Door};

use crate::thread::ThreadHost;

impl Door for ThreadHost {
    fn is_cluster(&self) -> bool {
        self.shared.settings.is_on(CLUSTER_MODE)
    }

    fn node(&mut self) -> ClusterNode {
        let ports = [PORT, TLS_PORT].map(|port| self.shared.settings.number(port) as u32);
        let id = &self.shared.run_id;
        let session = self.current.as_deref().expect("a command runs for a client");
        ClusterNode::at(id, (!session.is_unix).then_some(&*session.local), ports)
    }
}
