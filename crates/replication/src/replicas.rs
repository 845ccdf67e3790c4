//! The replicas that one thread serves, and how long it may sleep because of them.

use std::borrow::Cow;
use std::time::Duration;

use effectlog::{Backlog, StreamPosition};
use proactor::ConnId;
use resp::Output;

use crate::feed::{Around, Feed, FeedStep};

/// The delay before a read is retried for which the disk was asked.
const SOON: Duration = Duration::from_millis(1);

/// See the head of this file.
#[derive(Default)]
pub struct Replicas {
    conns: Vec<ConnId>,
    /// How long the thread may sleep. `None`: until the stream goes beyond `caught_up`.
    wait: Option<Duration>,
    caught_up: Option<StreamPosition>,
    /// The time at which all of them had the stream up to `caught_up`. After that, only time or more of the stream
    /// gives them work.
    rests_ms: Option<u64>,
}

impl Replicas {
    /// This connection has a feed.
    pub fn add(&mut self, conn: ConnId) {
        self.conns.push(conn);
        self.rests_ms = None;
    }

    /// Removes this connection, if it has a feed.
    pub fn remove(&mut self, conn: ConnId) {
        self.conns.retain(|known| *known != conn);
        if self.is_empty() {
            // A removed feed is not stepped any more.
            (self.wait, self.caught_up) = (None, None);
        }
    }

    /// All connections with a feed.
    pub fn conns(&self) -> Vec<ConnId> {
        self.conns.clone()
    }

    /// Whether there are no replicas, and so no work.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.conns.is_empty()
    }

    /// Whether the feeds must be stepped. Feeds that have everything are stepped once in a millisecond, not in each
    /// turn.
    #[inline]
    pub fn has_work(&self, backlog: &Backlog, now_ms: u64) -> bool {
        !self.is_empty() && (self.rests_ms != Some(now_ms) || self.caught_up != Some(backlog.end()))
    }

    /// How long the next turn may sleep. `awaits` asks to be woken when the stream goes beyond a position. `None`:
    /// without limit.
    pub fn wait(&self, awaits: impl FnOnce(StreamPosition) -> bool) -> Option<Duration> {
        let has_more = || self.caught_up.is_some_and(|place| !awaits(place));
        self.wait.or_else(|| has_more().then_some(Duration::ZERO))
    }

    /// Steps every feed. `with` calls its argument with a connection's feed, its output, and the number of bytes of
    /// that output that have not been sent. If the argument returns true, the feed must be stepped again when some of
    /// these have been sent. Returns the connections to close, with the reasons.
    pub fn step(
        &mut self,
        around: &Around<'_>,
        mut with: impl FnMut(ConnId, &mut dyn FnMut(&mut Feed, &mut Output, usize) -> bool),
    ) -> Vec<(ConnId, Cow<'static, str>)> {
        (self.wait, self.caught_up, self.rests_ms) = (None, None, Some(around.now_ms));
        let mut ended = Vec::new();
        for conn in &self.conns {
            with(*conn, &mut |feed, output, pending_bytes| {
                let step = feed.step(output, pending_bytes, around);
                let is_full = step == FeedStep::Full;
                if !matches!(step, FeedStep::CaughtUp(_)) {
                    self.rests_ms = None;
                }
                match step {
                    FeedStep::Wrote => self.wait = Some(Duration::ZERO),
                    FeedStep::Waits | FeedStep::Full => {}
                    FeedStep::Soon => self.wait = self.wait.or(Some(SOON)),
                    FeedStep::CaughtUp(place) => {
                        self.caught_up = Some(self.caught_up.map_or(place, |other| other.min(place)));
                    }
                    FeedStep::Ends(why) => ended.push((*conn, why)),
                }
                is_full
            });
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use effectlog::Lsn;

    use super::*;

    #[test]
    fn a_thread_whose_last_replica_has_gone_may_sleep() {
        let conns = [1, 2].map(ConnId::from_bits);
        for (wait, caught_up) in [(Some(Duration::ZERO), None), (None, Some(StreamPosition::new(7)))] {
            let mut replicas = Replicas { conns: conns.to_vec(), wait, caught_up, rests_ms: None };
            replicas.remove(conns[0]);
            assert_eq!(replicas.wait(|_| false), Some(Duration::ZERO));
            replicas.remove(conns[1]);
            assert_eq!(replicas.wait(|_| false), None);
        }
    }

    #[test]
    fn replicas_that_have_everything_are_stepped_once_in_a_millisecond() {
        let backlog = Backlog::new(1, Box::new(|_| {}));
        backlog.begin(StreamPosition::new(7), Lsn::NONE);
        let mut replicas = Replicas::default();
        assert!(!replicas.has_work(&backlog, 3));
        replicas.add(ConnId::from_bits(1));
        assert!(replicas.has_work(&backlog, 3));
        (replicas.caught_up, replicas.rests_ms) = (Some(StreamPosition::new(7)), Some(3));
        assert!(!replicas.has_work(&backlog, 3) && replicas.has_work(&backlog, 4));
        backlog.begin(StreamPosition::new(8), Lsn::NONE);
        assert!(replicas.has_work(&backlog, 3), "there is more");
        replicas.caught_up = Some(StreamPosition::new(8));
        assert!(!replicas.has_work(&backlog, 3));
        replicas.add(ConnId::from_bits(2));
        assert!(replicas.has_work(&backlog, 3), "another one has come");
    }
}
