//! Builds lines of MONITOR for commands, and sends them to threads.

use std::sync::Arc;

use clients::session::Session;
use engine::Command;
use observe::CommandSource;
use proactor::Clock;
use replication::Address;

use crate::message::Message;
use crate::reports::Reports;
use crate::shared::Shared;

impl Reports {
    /// Shows a command of the client of `session` to all monitors, if there are any and they may see it.
    #[inline]
    pub(crate) fn monitor(
        &self,
        command: &Command,
        args: &[&[u8]],
        session: &Session,
        shared: &Shared,
        clock: &Clock,
    ) {
        if self.monitors.see(command) {
            self.feed_monitors(command, args, session, shared, clock);
        }
    }

    #[cold]
    fn feed_monitors(
        &self,
        command: &Command,
        args: &[&[u8]],
        session: &Session,
        shared: &Shared,
        clock: &Clock,
    ) {
        let source = if session.client.in_script {
            CommandSource::Script
        } else if session.is_unix {
            CommandSource::Unix(&session.local)
        } else {
            CommandSource::Peer(&session.peer)
        };
        let line = observe::line(clock.now_us(), session.client.db, source, command, args);
        self.show(shared, &line);
    }

    /// Shows a command of the primary's stream, which is run on database `db`, to all monitors.
    #[inline]
    pub(crate) fn monitor_applied(
        &self,
        command: &Command,
        args: &[&[u8]],
        db: u32,
        shared: &Shared,
        clock: &Clock,
    ) {
        if self.monitors.see(command)
            && let Some(Address { host, port }) = shared.following.primary()
        {
            let source = CommandSource::Peer(&format!("{host}:{port}"));
            self.show(shared, &observe::line(clock.now_us(), db, source, command, args));
        }
    }

    fn show(&self, shared: &Shared, line: &Arc<Vec<u8>>) {
        for thread in self.monitors.threads() {
            shared.threads[usize::from(thread)].send(Message::Monitor(line.clone()));
        }
    }
}
