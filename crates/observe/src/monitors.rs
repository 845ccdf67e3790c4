//! `MONITOR`: shows every command that clients call to the clients that asked for it.
//!
//! The client's thread makes the line when the command arrives and sends it to the threads that have monitors. So the
//! commands of one client are shown in order, and those of several clients approximately so. Whether there are any
//! monitors is one number, which every command reads.
//!
//! Not here: how a line gets to another thread, and into the output of a connection.

use std::sync::Arc;

use engine::{Command, Flag};
use proactor::ConnId;

use crate::observed::Observed;
use crate::stats::ThreadStats;

/// The monitors of one thread: connections that are shown every command.
#[derive(Debug)]
pub struct Monitors {
    stats: &'static ThreadStats,
    observed: &'static Observed,
    conns: Vec<ConnId>,
}

impl Monitors {
    /// For the thread with these counters.
    pub fn new(stats: &'static ThreadStats, observed: &'static Observed) -> Monitors {
        Monitors { stats, observed, conns: Vec::new() }
    }

    /// Whether any thread has monitors.
    #[inline]
    pub fn are_there(&self) -> bool {
        self.observed.monitor_count() > 0
    }

    /// Whether monitors are shown this command.
    #[inline]
    pub fn see(&self, command: &Command) -> bool {
        self.are_there() && !command.has(Flag::Admin)
    }

    /// The threads that have monitors.
    pub fn threads(&self) -> impl Iterator<Item = u16> {
        (0..).zip(self.observed.threads()).filter(|(_, stats)| stats.monitors.get() > 0).map(|(id, _)| id)
    }

    /// Adds a monitor.
    pub fn add(&mut self, conn: ConnId) {
        self.conns.push(conn);
        self.stats.monitors.add(1);
        self.observed.add_monitor();
    }

    /// Removes a connection if it is a monitor.
    pub fn remove(&mut self, conn: ConnId) {
        if let Some(index) = self.conns.iter().position(|known| *known == conn) {
            self.conns.remove(index);
            self.stats.monitors.sub(1);
            self.observed.remove_monitor();
        }
    }

    /// The monitors of this thread.
    pub fn conns(&self) -> &[ConnId] {
        &self.conns
    }
}

/// The source of a command.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A script.
    Script,
    /// A client of this Unix socket.
    Unix(&'a str),
    /// A client at this address.
    Peer(&'a str),
}

/// `+<seconds>.<microseconds> [<db> <address>] "<argument>" …`
pub fn line(now_us: u64, db: u32, source: Source<'_>, command: &Command, args: &[&[u8]]) -> Arc<Vec<u8>> {
    let (seconds, micros) = (now_us / 1_000_000, now_us % 1_000_000);
    let source = match source {
        Source::Script => "lua".to_owned(),
        Source::Unix(path) => format!("unix:{path}"),
        Source::Peer(address) => address.to_owned(),
    };
    let mut line = format!("+{seconds}.{micros:06} [{db} {source}]").into_bytes();
    for arg in command.without_secrets(args) {
        line.extend_from_slice(b" \"");
        escape(arg, &mut line);
        line.push(b'"');
    }
    line.extend_from_slice(b"\r\n");
    Arc::new(line)
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
    use engine::{Entry, Secrets, Table};

    use super::*;

    #[test]
    fn lines_are_escaped_and_keep_secrets() {
        let entry = |name| Entry { name, ..Entry::DEFAULT };
        let entries: &'static [Entry] =
            Vec::leak(vec![entry("set"), Entry { secrets: Secrets::From(1), ..entry("auth") }]);
        let table = Table::new(&[entries]);
        let check = |name: &[u8], args: &[&[u8]], source, expected: &str| {
            let command = table.declared(name).unwrap();
            let line = line(1_339_518_083_000_412, 3, source, command, args);
            assert_eq!(String::from_utf8_lossy(&line), format!("+1339518083.000412 [3 {expected}\r\n"));
        };
        check(
            b"set",
            &[b"SET", b"a", b"\x00\"\\\r\n\t\x07\x08~\xff"],
            Source::Peer("127.0.0.1:60866"),
            r#"127.0.0.1:60866] "SET" "a" "\x00\"\\\r\n\t\a\b~\xff""#,
        );
        check(b"auth", &[b"whoami", b"p"], Source::Unix("/s"), r#"unix:/s] "whoami" "(redacted)""#);
        check(b"set", &[b"set", b"a", b"b"], Source::Script, r#"lua] "set" "a" "b""#);
    }
}
