//! `MONITOR`: every command that clients call, shown to those who asked for it.
//!
//! The thread of the client makes the line when the command comes and sends it to the threads that have monitors: so
//! the commands of one client are shown in their order, those of several clients by and large. Whether anybody
//! monitors is one number that every command reads.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use command::{ArgSlices, Command, Flag, keyword_is};
use proactor::ConnId;

use crate::message::Message;
use crate::session::Session;
use crate::thread::{Thread, ThreadHost};

const REDACTED: &[u8] = b"(redacted)";

impl ThreadHost {
    /// Whether anybody monitors.
    #[inline]
    pub(crate) fn is_monitored(&self) -> bool {
        self.shared.monitor_count.load(Ordering::Relaxed) > 0
    }

    /// Shows a command of the current client to all monitors, if there are any and it is for their eyes. `now` is false
    /// when its moment has gone, or has not come.
    #[inline]
    pub(crate) fn monitor(&mut self, command: &Command, args: &[&[u8]], now: bool) {
        if now && self.is_monitored() && !command.has(Flag::Admin) {
            self.feed_monitors(command, args);
        }
    }

    #[cold]
    fn feed_monitors(&mut self, command: &Command, args: &[&[u8]]) {
        let now_us = self.driver.clock().now_us();
        let line = Arc::new(line(now_us, self.session(), command.top_name(), args));
        for remote in &self.shared.threads {
            if remote.monitor_count.load(Ordering::Relaxed) > 0 {
                remote.send(Message::Monitor(line.clone()));
            }
        }
    }

    /// The current client becomes a monitor.
    pub(crate) fn start_monitoring(&mut self) {
        let session = self.session();
        session.monitor = true;
        let conn = ConnId::from_bits(session.client.connection);
        self.monitors.push(conn);
        self.shared.threads[usize::from(self.id)].monitor_count.fetch_add(1, Ordering::Relaxed);
        self.shared.monitor_count.fetch_add(1, Ordering::Relaxed);
    }

    /// A client of this thread is no monitor any more, if it was one.
    pub(crate) fn stop_monitoring(&mut self, session: &mut Session) {
        if std::mem::take(&mut session.monitor) {
            let conn = ConnId::from_bits(session.client.connection);
            self.monitors.retain(|known| *known != conn);
            self.shared.threads[usize::from(self.id)].monitor_count.fetch_sub(1, Ordering::Relaxed);
            self.shared.monitor_count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Thread {
    /// Writes a line to the monitors of this thread.
    pub(crate) fn show_to_monitors(&mut self, line: &Arc<Vec<u8>>) {
        for index in (0..self.host.monitors.len()).rev() {
            let conn = self.host.monitors[index];
            if let Some(output) = self.host.driver.output_mut(conn) {
                output.push_shared(line.clone());
            }
            self.check_output(conn);
        }
    }
}

/// `+<seconds>.<microseconds> [<db> <address>] "<argument>" …`
fn line(now_us: u64, session: &Session, name: &str, args: &[&[u8]]) -> Vec<u8> {
    let (seconds, micros) = (now_us / 1_000_000, now_us % 1_000_000);
    let source = match session {
        session if session.client.in_script => "lua".to_owned(),
        session if session.is_unix => format!("unix:{}", session.local),
        session => session.peer.clone(),
    };
    let mut line = format!("+{seconds}.{micros:06} [{} {source}]", session.client.db).into_bytes();
    for arg in without_secrets(name, args) {
        line.extend_from_slice(b" \"");
        escape(arg, &mut line);
        line.push(b'"');
    }
    line.extend_from_slice(b"\r\n");
    line
}

/// The arguments of a command with its user names and passwords replaced: for eyes other than the client's. `name` is what
/// the command is declared as, whatever it is called by.
pub(crate) fn without_secrets<'a>(name: &str, args: &[&'a [u8]]) -> ArgSlices<'a> {
    let is = |index: usize, word: &str| args.get(index).is_some_and(|arg| keyword_is(arg, word));
    let mut shown: ArgSlices<'a> = args.into();
    let mut redact = |range: Range<usize>| {
        shown.iter_mut().take(range.end).skip(range.start).for_each(|arg| *arg = REDACTED)
    };
    if name == "auth" {
        redact(1..args.len());
    } else if name == "hello"
        && let Some(option) = (2..args.len()).find(|&index| is(index, "auth"))
    {
        redact(option + 1..option + 3);
    } else if name == "acl" && ["setuser", "getuser", "deluser"].iter().any(|name| is(1, name)) {
        redact(2..args.len());
    } else if name == "config" && is(1, "set") {
        for name in
            (2..args.len()).step_by(2).filter(|&name| is(name, "requirepass") || is(name, "masterauth"))
        {
            redact(name + 1..name + 2);
        }
    }
    shown
}

fn escape(bytes: &[u8], line: &mut Vec<u8>) {
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => line.extend_from_slice(&[b'\\', byte]),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            b'\x07' => line.extend_from_slice(b"\\a"),
            b'\x08' => line.extend_from_slice(b"\\b"),
            b' '..=b'~' => line.push(byte),
            _ => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use command::{Client, Table};

    use super::*;
    use settings::Settings;

    use crate::users::default_users;

    #[track_caller]
    fn check(name: &str, args: &[&[u8]], expected: &str) {
        let users = default_users(&Settings::default(), &Table::new(&[]));
        let mut session = Session::new(Client::internal(3, resp::Proto::Resp2), users.access(), 0);
        session.peer = "127.0.0.1:60866".to_owned();
        let line = line(1_339_518_083_000_412, &session, name, args);
        let expected = format!("+1339518083.000412 [3 127.0.0.1:60866] {expected}\r\n");
        assert_eq!(String::from_utf8_lossy(&line), expected);
    }

    #[test]
    fn lines_are_escaped_and_keep_secrets() {
        check(
            "set",
            &[b"SET", b"a", b"\x00\"\\\r\n\t\x07\x08~\xff"],
            r#""SET" "a" "\x00\"\\\r\n\t\a\b~\xff""#,
        );
        check("auth", &[b"whoami", b"u", b"p"], r#""whoami" "(redacted)" "(redacted)""#);
        check("auth", &[b"AUTH", b"p"], r#""AUTH" "(redacted)""#);
        check(
            "hello",
            &[b"HELLO", b"3", b"setname", b"x", b"AUTH", b"u", b"p"],
            r#""HELLO" "3" "setname" "x" "AUTH" "(redacted)" "(redacted)""#,
        );
        check("acl", &[b"acl", b"SETUSER", b"u", b">p"], r#""acl" "SETUSER" "(redacted)" "(redacted)""#);
        check("hello", &[b"hello", b"3"], r#""hello" "3""#);
        check(
            "config",
            &[b"config", b"SET", b"port", b"1", b"requirepass", b"p"],
            r#""config" "SET" "port" "1" "requirepass" "(redacted)""#,
        );
    }
}
