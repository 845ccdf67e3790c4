//! Runs the commands of `observe`: gives them the server's figures, and starts what they leave to the thread.

use clients::session::Subject;
use engine::{CommandResult, OwnCall};
use observe::{Function, Observing};
use proactor::ConnId;

use crate::life::gather::ask;
use crate::reports::facts::Asked;
use crate::thread::{ThreadHost, running};

pub(crate) fn run(host: &mut ThreadHost, function: Function, call: OwnCall<'_, '_>) -> CommandResult {
    let now_us = host.net.driver.clock().now_us();
    let was_monitor = host.current.as_deref().is_some_and(|session| session.monitor);
    let facts = Asked { shared: host.shared, now_us, monotonic_ms: host.net.now_ms };
    let mut observing = Observing { facts: &facts, now_us, is_monitor: was_monitor, purges: false };
    let result = function(&mut call.on(&mut observing));
    let Observing { is_monitor, purges, .. } = observing;
    if is_monitor && !was_monitor {
        let session = host.session();
        session.monitor = true;
        let conn = ConnId::from_bits(session.client.connection);
        host.reports.monitors.add(conn);
    }
    if purges {
        let session = running(&mut host.current);
        ask(session, &mut host.net, &Subject::Purge, Box::new(|_, reply| reply.ok()));
    }
    result
}
