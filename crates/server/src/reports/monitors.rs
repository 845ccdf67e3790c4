//! Lines of MONITOR on their way: made for a command of the current client, sent to threads.

use command::Command;
use observe::Source;

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

    #[cold]
    fn feed_monitors(&mut self, command: &Command, args: &[&[u8]]) {
        let now_us = self.driver.clock().now_us();
        let session = self.session();
        let source = if session.client.in_script {
            Source::Script
        } else if session.is_unix {
            Source::Unix(&session.local)
        } else {
            Source::Peer(&session.peer)
        };
        let line = observe::line(now_us, session.client.db, source, command, args);
        for thread in self.monitors.threads() {
            self.shared.threads[usize::from(thread)].send(Message::Monitor(line.clone()));
        }
    }
}
