//! Tracks clients of one thread that must be checked repeatedly, because they read their output too slowly or have not
//! completed their handshake.
//!
//! Not here: the limits, and the handling of clients that exceed them (`connections/bounds.rs` of the server).

use std::sync::Arc;

use config::OutputLimit;
use proactor::ConnId;
use tls::Handshake;

/// How long a client may leave more than `client-unread-bytes-max` of replies unread, in milliseconds.
const UNREAD_MS_MAX: u64 = 60_000;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Watchlist {
    /// Clients above the soft limit of output.
    over_soft_limit: Vec<ConnId>,
    /// Clients that are not served because they do not read their replies, and the time since when.
    unread: Vec<(ConnId, u64)>,
    /// Clients in their handshake, and the time since when.
    handshakes: Vec<(ConnId, u64, Arc<Handshake>)>,
}

/// The decision about a client that did not read its replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It has read them: serve it again.
    Serve,
    /// It has left them unread for too long: disconnect it.
    GiveUp,
}

impl Watchlist {
    /// Adds a client that does not read its replies. Returns true if it is new.
    pub fn add_unread(&mut self, conn: ConnId, now_ms: u64) -> bool {
        let is_new = !self.unread.iter().any(|(known, _)| *known == conn);
        if is_new {
            self.unread.push((conn, now_ms));
        }
        is_new
    }

    /// Takes out clients that are served again, because at most `enough_bytes` are unread, and clients that must be
    /// disconnected.
    pub fn judge_unread(
        &mut self,
        enough_bytes: usize,
        now_ms: u64,
        mut pending_bytes: impl FnMut(ConnId) -> usize,
    ) -> Vec<(ConnId, Verdict)> {
        let mut judged = Vec::new();
        self.unread.retain(|&(conn, since_ms)| {
            let verdict = if pending_bytes(conn) <= enough_bytes {
                Verdict::Serve
            } else if now_ms.saturating_sub(since_ms) > UNREAD_MS_MAX {
                Verdict::GiveUp
            } else {
                return true;
            };
            judged.push((conn, verdict));
            false
        });
        judged
    }

    /// Whether a client with this much output must be disconnected at `now_ms`: it is above the hard limit, or has been
    /// above the soft limit since `since_ms` for too long.
    pub fn judge_output(
        &mut self,
        conn: ConnId,
        bytes: u64,
        since_ms: &mut Option<u64>,
        limit: &OutputLimit,
        now_ms: u64,
    ) -> bool {
        let is_above = |limit_bytes: u64| limit_bytes > 0 && bytes > limit_bytes;
        if !is_above(limit.soft_bytes) {
            *since_ms = None;
            return is_above(limit.hard_bytes);
        }
        let over_ms = match *since_ms {
            None => {
                *since_ms = Some(now_ms);
                self.add_over_soft_limit(conn);
                0
            }
            Some(since_ms) => now_ms.saturating_sub(since_ms),
        };
        is_above(limit.hard_bytes) || over_ms > limit.soft_seconds * 1000
    }

    /// Adds a client that begins its handshake.
    pub fn add_handshake(&mut self, conn: ConnId, now_ms: u64, handshake: Arc<Handshake>) {
        self.handshakes.push((conn, now_ms, handshake));
    }

    /// Takes out clients that have finished their handshake, and those whose handshake takes longer than `ms_max` (0:
    /// no limit). Returns the latter.
    pub fn take_slow_handshakes(&mut self, now_ms: u64, ms_max: u64) -> Vec<ConnId> {
        self.handshakes.retain(|(_, _, handshake)| !handshake.is_over());
        let is_slow = |since_ms: u64| ms_max > 0 && now_ms.saturating_sub(since_ms) > ms_max;
        self.handshakes.extract_if(.., |(_, since_ms, _)| is_slow(*since_ms)).map(|(conn, ..)| conn).collect()
    }

    /// Adds a client above the soft limit of output.
    pub fn add_over_soft_limit(&mut self, conn: ConnId) {
        if !self.over_soft_limit.contains(&conn) {
            self.over_soft_limit.push(conn);
        }
    }

    /// Takes out all clients above the soft limit of output.
    pub fn take_over_soft_limit(&mut self) -> Vec<ConnId> {
        std::mem::take(&mut self.over_soft_limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_may_be_above_the_soft_limit_for_a_time_and_never_above_the_hard_one() {
        let (mut list, conn) = (Watchlist::default(), ConnId::from_bits(1));
        let limit = OutputLimit { hard_bytes: 1000, soft_bytes: 100, soft_seconds: 2 };
        let mut since_ms = None;
        let mut judge = |bytes, now_ms| {
            let is_over = list.judge_output(conn, bytes, &mut since_ms, &limit, now_ms);
            (is_over, since_ms, list.take_over_soft_limit().len())
        };
        assert_eq!(judge(100, 10), (false, None, 0));
        assert_eq!(judge(101, 20), (false, Some(20), 1));
        assert_eq!(judge(500, 2020), (false, Some(20), 0));
        assert_eq!(judge(101, 2021), (true, Some(20), 0));
        assert_eq!(judge(50, 2022), (false, None, 0));
        assert_eq!(judge(1001, 2023), (true, Some(2023), 1));
    }

    #[test]
    fn a_handshake_is_given_up_when_it_takes_too_long() {
        let (mut list, all) = (Watchlist::default(), Arc::new(tls::Handshakes::default()));
        let [first, second] = [1, 2].map(ConnId::from_bits);
        for (conn, since_ms) in [(first, 1000), (second, 2000)] {
            list.add_handshake(conn, since_ms, all.begin(0).unwrap());
        }
        assert_eq!(list.take_slow_handshakes(1_000_000, 0), []);
        assert_eq!(list.take_slow_handshakes(11_000, 10_000), []);
        assert_eq!(list.take_slow_handshakes(11_001, 10_000), [first]);
        assert_eq!(list.take_slow_handshakes(12_001, 10_000), [second]);
        assert_eq!(list.take_slow_handshakes(13_000, 10_000), []);
    }

    #[test]
    fn who_reads_is_served_again_and_who_does_not_is_given_up_in_the_end() {
        let [quick, slow, dead] = [1, 2, 3].map(ConnId::from_bits);
        let mut list = Watchlist::default();
        assert!([quick, slow, dead].into_iter().all(|conn| list.add_unread(conn, 1000)));
        assert!(!list.add_unread(slow, 9000));
        let mut judge = |now_ms, bytes: [usize; 3]| {
            list.judge_unread(100, now_ms, |conn| bytes[conn.to_bits() as usize - 1])
        };
        assert_eq!(judge(1100, [101, 500, 900]), []);
        assert_eq!(judge(2000, [100, 400, 900]), [(quick, Verdict::Serve)]);
        let end_ms = 1000 + UNREAD_MS_MAX;
        assert_eq!(judge(end_ms, [0, 400, 900]), []);
        assert_eq!(judge(end_ms + 1, [0, 90, 900]), [(slow, Verdict::Serve), (dead, Verdict::GiveUp)]);
        assert_eq!(judge(end_ms + 2, [0, 0, 0]), []);
    }
}
