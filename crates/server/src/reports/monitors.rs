//! Builds lines of MONITOR for commands of the current client, and sends them to threads.

use engine::Command;
use observe::CommandSource;
use replication::Address;

use crate::message::Message;
use crate::thread::ThreadHost;

impl ThreadHost {
    /// Shows a command of the current client to all monitors, if there are any and they may see it. `now` is false
    /// before or after the moment at which it should be shown.
    #[inline]
    pub(crate) fn monitor(&mut self, command: &Command, args: &[&[u8]], now: bool) {
        if now && self.reports.monitors.see(command) {
            self.feed_monitors(command, args);
        }
    }

    #[cold]
    fn feed_monitors(&mut self, command: &Command, args: &[&[u8]]) {
        let Some(session) = self.current.take() else { return };
        let source = if session.client.in_script {
            CommandSource::Script
        } else if session.is_unix {
            CommandSource::Unix(&session.local)
        } else {
            CommandSource::Peer(&session.peer)
        };
        show(self, session.client.db, source, command, args);
        self.current = Some(session);
    }
}

/// Shows a command of the primary's stream, which is run on database `db`, to all monitors.
#[inline]
pub(crate) fn monitor_applied(host: &mut ThreadHost, command: &Command, args: &[&[u8]], db: u32) {
    if host.reports.monitors.see(command)
        && let Some(Address { host: name, port }) = host.shared.following.primary()
    {
        show(host, db, CommandSource::Peer(&format!("{name}:{port}")), command, args);
    }
}

fn show(host: &mut ThreadHost, db: u32, source: CommandSource<'_>, command: &Command, args: &[&[u8]]) {
    let line = observe::line(host.net.driver.clock().now_us(), db, source, command, args);
    for thread in host.reports.monitors.threads() {
        host.shared.threads[usize::from(thread)].send(Message::Monitor(line.clone()));
    }
}
