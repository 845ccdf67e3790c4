//! Lines of MONITOR on their way: made for a command of the current client, sent to threads, put into outputs.

use std::sync::Arc;

use command::Command;
use observe::Source;
use proactor::ConnId;
use session::Session;

use crate::message::Message;
use crate::thread::{Thread, ThreadHost};

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

    /// A client of this thread is no monitor any more, if it was one.
    pub(crate) fn stop_monitoring(&mut self, session: &mut Session) {
        if std::mem::take(&mut session.monitor) {
            self.monitors.remove(ConnId::from_bits(session.client.connection));
        }
    }
}

impl Thread {
    /// Writes a line to the monitors of this thread.
    pub(crate) fn show_to_monitors(&mut self, line: &Arc<Vec<u8>>) {
        for index in (0..self.host.monitors.conns().len()).rev() {
            let conn = self.host.monitors.conns()[index];
            if let Some(output) = self.host.driver.output_mut(conn) {
                output.push_shared(line.clone());
            }
            self.check_output(conn);
        }
    }
}
