//! Counts how many unread bytes of a client are news of changed keys: invalidations, and keyspace events.
//!
//! Evicting a key sends such news, so they do not count against `maxmemory`. `client-output-buffer-limit` for `pubsub`
//! limits them for each client, subscriber or not: clients that get replies have no limit by default.
//!
//! News and replies leave in the order in which they came. Two sums suffice to know how many bytes of news are left:
//!
//! ```text
//!    sent │ … older … │ mark │ … newer … │ end       once the mark is sent, newer becomes older, and the end the mark
//! ```
//!
//! So the sum is exact for a client that is sent nothing but news, and may otherwise include some that were just sent.

use heap::{Exempt, Exemption};

/// See the head of this file. Positions count the bytes that were ever appended to the client's output.
#[derive(Debug)]
pub struct UnreadNews {
    older_bytes: usize,
    newer_bytes: usize,
    mark: u64,
    memory: Exemption,
}

impl Default for UnreadNews {
    fn default() -> UnreadNews {
        UnreadNews { older_bytes: 0, newer_bytes: 0, mark: 0, memory: Exemption::none(Exempt::News) }
    }
}

impl UnreadNews {
    /// Counts `bytes` of news that were appended.
    pub fn add(&mut self, bytes: usize) {
        self.newer_bytes += bytes;
    }

    /// The output ends at `end`, `pending_bytes` of it have not been sent, and it has `slack_bytes` of memory for more.
    pub fn update(&mut self, end: u64, pending_bytes: usize, slack_bytes: usize) {
        let sent = end.saturating_sub(pending_bytes as u64);
        if sent >= self.mark || end < self.mark {
            self.older_bytes = std::mem::take(&mut self.newer_bytes);
            self.mark = end;
        }
        if pending_bytes == 0 {
            (self.older_bytes, self.newer_bytes) = (0, 0);
        }
        let bytes = self.bytes().min(pending_bytes);
        self.memory.resize(if bytes > 0 { bytes + slack_bytes } else { 0 });
    }

    /// How many bytes may be left.
    pub fn bytes(&self) -> usize {
        self.older_bytes + self.newer_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_not_left() {
        let mut news = UnreadNews::default();
        let mut step = |added: usize, pending_bytes, end| {
            news.add(added);
            news.update(end, pending_bytes, 7);
            news.memory.bytes().saturating_sub(7)
        };
        assert_eq!(step(100, 100, 100), 100);
        assert_eq!(step(50, 150, 150), 150);
        assert_eq!(step(0, 50, 150), 50);
        assert_eq!(step(0, 0, 150), 0);
        // Behind a large reply.
        assert_eq!(step(10, 10_010, 10_160), 10);
        assert_eq!(step(10, 20_000, 20_170), 20);
        assert_eq!(step(0, 9_000, 20_170), 10, "the first of them was sent");
        assert_eq!(step(0, 9_000, 29_160), 10);
        assert_eq!(step(0, 9_000, 29_170), 0, "and the second one");
        assert_eq!(step(10, 100, 38_270), 10);
        assert_eq!(step(0, 5, 5), 0, "the output was replaced, which had none of it");
        assert_eq!(step(0, 0, 5), 0);
    }
}
