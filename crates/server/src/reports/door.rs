//! What the commands of `observe` get of the thread that runs them.

use observe::{Door, Observed};
use proactor::ConnId;

use crate::thread::ThreadHost;

impl Door for ThreadHost {
    fn observed(&self) -> &Observed {
        &self.shared.observed
    }

    fn now_us(&mut self) -> u64 {
        self.driver.clock().now_us()
    }

    fn start_monitoring(&mut self) -> bool {
        let session = self.session();
        if std::mem::replace(&mut session.monitor, true) {
            return false;
        }
        let conn = ConnId::from_bits(session.client.connection);
        self.monitors.add(conn);
        true
    }
}
