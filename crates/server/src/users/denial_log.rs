//! `ACL LOG`: what clients tried and were not allowed to do, newest first. What is alike within a minute is one entry.

use std::collections::VecDeque;

use acl::{Denied, Reason};
use command::{Command, CommandError};

use super::access::Context;
use crate::settings::ACLLOG_MAX_LEN;
use crate::thread::ThreadHost;

/// Within which time alike entries are one.
const ALIKE_MS_MAX: u64 = 60_000;
/// How many entries are looked at for one that is alike.
const ALIKE_LOOKED_AT_MAX: usize = 10;
/// Bytes of a key, channel or name that are kept.
const OBJECT_BYTES_MAX: usize = 4096;

/// Something that was not allowed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Denial<'a> {
    pub(super) reason: Reason,
    pub(super) context: Context,
    /// Command, key or channel.
    pub(super) object: &'a [u8],
    pub(super) user: &'a [u8],
}

/// An entry of the log.
#[derive(Debug)]
pub(crate) struct LogEntry {
    pub(crate) id: u64,
    /// How often it happened.
    pub(crate) count: u64,
    pub(crate) reason: Reason,
    pub(crate) context: Context,
    pub(crate) object: Box<[u8]>,
    pub(crate) user: Box<[u8]>,
    /// About the client, when it happened last.
    pub(crate) client: String,
    /// In milliseconds since 1970.
    pub(crate) created_ms: u64,
    pub(crate) updated_ms: u64,
}

/// The log.
#[derive(Debug, Default)]
pub(crate) struct DenialLog {
    pub(crate) entries: VecDeque<LogEntry>,
    next_id: u64,
}

impl Context {
    /// Its name in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Context::TopLevel => "toplevel",
            Context::Multi => "multi",
            Context::Lua => "lua",
        }
    }
}

impl DenialLog {
    fn add(&mut self, denial: &Denial, client: String, now_ms: u64, len_max: usize) {
        let kept = |text: &[u8]| -> Box<[u8]> { text[..text.len().min(OBJECT_BYTES_MAX)].into() };
        let (object, user) = (kept(denial.object), kept(denial.user));
        let is_alike = |entry: &LogEntry| {
            entry.reason == denial.reason
                && entry.context == denial.context
                && now_ms.abs_diff(entry.updated_ms) <= ALIKE_MS_MAX
                && entry.object == object
                && entry.user == user
        };
        let known = self.entries.iter().take(ALIKE_LOOKED_AT_MAX).position(is_alike);
        if let Some(mut entry) = known.and_then(|index| self.entries.remove(index)) {
            entry.count += 1;
            entry.client = client;
            entry.updated_ms = now_ms;
            return self.entries.push_front(entry);
        }
        let id = self.next_id;
        self.next_id += 1;
        self.entries.push_front(LogEntry {
            id,
            count: 1,
            reason: denial.reason,
            context: denial.context,
            object,
            user,
            client,
            created_ms: now_ms,
            updated_ms: now_ms,
        });
        self.entries.truncate(len_max);
    }
}

impl ThreadHost {
    /// Counts and logs something that the current client, whose command is `args`, was not allowed to do.
    pub(super) fn note_denial(&mut self, denial: &Denial, args: &[&[u8]]) {
        self.stats().denied[denial.reason as usize].add(1);
        let client = self.client_info(args);
        let now_ms = self.driver.clock().now_ms();
        let len_max = self.shared.settings.number(ACLLOG_MAX_LEN) as usize;
        self.shared.users.log().add(denial, client, now_ms, len_max);
    }

    /// The error that the current client gets.
    pub(crate) fn denial_error(&mut self, denied: Denied, command: &Command) -> CommandError {
        let text = denied.text(&self.session().access.account.user, command);
        CommandError::quoting("NOPERM ", &text, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(log: &DenialLog) -> Vec<(u64, u64, &[u8])> {
        log.entries.iter().map(|entry| (entry.id, entry.count, &*entry.object)).collect()
    }

    #[test]
    fn alike_entries_are_one_for_a_minute() {
        let mut log = DenialLog::default();
        let mut add = |object: &[u8], user: &[u8], context, now_ms| {
            let denial = Denial { reason: Reason::Key, context, object, user };
            log.add(&denial, format!("client at {now_ms}"), now_ms, 3);
        };
        add(b"a", b"u", Context::TopLevel, 1000);
        add(b"b", b"u", Context::TopLevel, 2000);
        add(b"a", b"u", Context::TopLevel, 61_000);
        add(b"a", b"u", Context::TopLevel, 121_000);
        add(b"a", b"u", Context::Lua, 121_000);
        add(b"b", b"u", Context::TopLevel, 62_001);
        add(b"b", b"v", Context::TopLevel, 62_001);
        assert_eq!(entries(&log), [(4, 1, &b"b"[..]), (3, 1, b"b"), (2, 1, b"a")]);
        log.add(
            &Denial { reason: Reason::Key, context: Context::Lua, object: b"a", user: b"u" },
            "last".to_owned(),
            181_000,
            3,
        );
        assert_eq!(entries(&log), [(2, 2, &b"a"[..]), (4, 1, b"b"), (3, 1, b"b")]);
        let newest = &log.entries[0];
        assert_eq!((newest.created_ms, newest.updated_ms, &*newest.client), (121_000, 181_000, "last"));
    }

    #[test]
    fn only_the_newest_are_looked_at() {
        let mut log = DenialLog::default();
        for number in 0..12_u8 {
            let denial =
                Denial { reason: Reason::Command, context: Context::Multi, object: &[number], user: b"u" };
            log.add(&denial, String::new(), 0, 100);
        }
        for (object, expected) in [(2, 12), (1, 13)] {
            let denial =
                Denial { reason: Reason::Command, context: Context::Multi, object: &[object], user: b"u" };
            log.add(&denial, String::new(), 0, 100);
            assert_eq!(log.entries.len(), expected);
        }
    }
}
