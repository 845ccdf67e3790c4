//! Gives the commands of `observe` what they need from their thread.

use clients::session::Subject;
use observe::{Door, Facts, Observed};
use proactor::ConnId;

use crate::reports::facts::Asked;
use crate::thread::ThreadHost;

impl Door for ThreadHost {
    fn observed(&self) -> &Observed {
        &self.shared.observed
    }

    fn now_us(&mut self) -> u64 {
        self.net.driver.clock().now_us()
    }

    fn start_monitoring(&mut self) -> bool {
        let session = self.session();
        if std::mem::replace(&mut session.monitor, true) {
            return false;
        }
        let conn = ConnId::from_bits(session.client.connection);
        self.reports.monitors.add(conn);
        true
    }

    fn facts(&mut self) -> Box<dyn Facts + '_> {
        let now_us = self.net.driver.clock().now_us();
        Box::new(Asked { shared: self.shared, now_us, monotonic_ms: self.net.now_ms })
    }

    fn purge(&mut self) {
        self.ask(&Subject::Purge, Box::new(|_, reply| reply.ok()));
    }
}
