//! `ACL LOG`: what clients tried and were denied, newest first. Similar denials within a minute are one entry.
//!
//! The caller that adds an entry passes in the time and what it knows about the client.

use std::collections::VecDeque;

use crate::check::Reason;
/// Similar denials within this time share one entry.
const ALIKE_MS_MAX: u64 = 60_000;
/// How many of the newest entries are compared with a denial.
const ALIKE_LOOKED_AT_MAX: usize = 10;
/// How many bytes of a key, channel or name are kept.
const OBJECT_BYTES_MAX: usize = 4096;

/// Where a denied command came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Context {
    /// A client.
    TopLevel,
    /// A transaction.
    Multi,
    /// A script.
    Lua,
}

/// A denied command or a failed authentication.
#[derive(Clone, Copy, Debug)]
pub struct Denial<'a> {
    /// The kind of permission that was missing.
    pub reason: Reason,
    /// Where the command came from.
    pub context: Context,
    /// The name of the command, key or channel.
    pub object: &'a [u8],
    /// The name of the user.
    pub user: &'a [u8],
}

/// An entry of the log.
#[derive(Debug)]
pub struct LogEntry {
    /// Entries are numbered from 0 since the server started.
    pub id: u64,
    /// How many denials the entry stands for.
    pub count: u64,
    /// The kind of permission that was missing.
    pub reason: Reason,
    /// Where the command came from.
    pub context: Context,
    /// The name of the command, key or channel, perhaps shortened.
    pub object: Box<[u8]>,
    /// The name of the user, perhaps shortened.
    pub user: Box<[u8]>,
    /// The client of the last denial.
    pub client: String,
    /// The time of the first denial, in milliseconds since 1970.
    pub created_ms: u64,
    /// The time of the last denial, in milliseconds since 1970.
    pub updated_ms: u64,
}

/// The log.
#[derive(Debug, Default)]
pub struct DenialLog {
    entries: VecDeque<LogEntry>,
    next_id: u64,
}

impl Context {
    /// The context's name in the log.
    pub fn name(self) -> &'static str {
        match self {
            Context::TopLevel => "toplevel",
            Context::Multi => "multi",
            Context::Lua => "lua",
        }
    }
}

impl DenialLog {
    /// Adds a denial. `client` describes the client. The log keeps at most `len_max` entries.
    pub fn add(&mut self, denial: &Denial, client: String, now_ms: u64, len_max: usize) {
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

    /// The entries, the newest first.
    pub fn entries(&self) -> &VecDeque<LogEntry> {
        &self.entries
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
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
