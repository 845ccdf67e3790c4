//! Lines of MONITOR on their way: made for a command of the current client, sent to threads.

use command::Command;
use observe::Source;
use replication::Address;

use crate::message::Message;
use crate::thread::ThreadHost;

impl ThreadHost {
    /// Shows a command of the current client to all monitors, if there are any and it is for their eyes. `now` is false
    /// when its moment has gone, or has not come.
    #[inline]
    pub(crate) fn monitor(&mut self, command: &Command, args: &[&[u8]], now: bool) {
        if now && self.monitors.see(command) {
            self.feed_monitors(command, args);
        }
    }

    /// Shows a command of the primary's stream, which is run on database `db`, in the same way.
    #[inline]
    pub(crate) fn monitor_applied(&mut self, command: &Command, args: &[&[u8]], db: u32) {
        if self.monitors.see(command)
            && let Some(Address { host, port }) = self.shared.following.primary()
        {
            self.show_monitors(db, Source::Peer(&format!("{host}:{port}")), command, args);
        }
    }

    #[cold]
    fn feed_monitors(&mut self, command: &Command, args: &[&[u8]]) {
        let Some(session) = self.current.take() else { return };
        let source = if session.client.in_script {
            Source::Script
        } else if session.is_unix {
            Source::Unix(&session.local)
        } else {
            Source::Peer(&session.peer)
        };
        self.show_monitors(session.client.db, source, command, args);
        self.current = Some(session);
    }

    fn show_monitors(&mut self, db: u32, source: Source<'_>, command: &Command, args: &[&[u8]]) {
        let line = observe::line(self.driver.clock().now_us(), db, source, command, args);
        for thread in self.monitors.threads() {
            self.shared.threads[usize::from(thread)].send(Message::Monitor(line.clone()));
        }
    }
}
