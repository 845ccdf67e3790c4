//! `repl-sync-replicas`: tracks the slice up to which enough replicas have the stream, or have it on their disks
//! (`repl-sync-ack`). Replies wait for that as they wait for this server's disk.
//!
//! An acknowledged offset covers all slices that end at it or before. A covered slice stays covered, because a reply
//! that was sent cannot be taken back.
//!
//! Data that were never acknowledged must not be read either: a failover may undo them after they were seen. While a
//! primary runs, its replies wait. That ends with its process or its role, but the data stay. So a server is *in doubt*
//! if it starts with data, or becomes a replica while replicas lack some of its data. It refuses reads and writes (see
//! [`Standing`](crate::Standing)) until enough replicas have its data, or it has its primary's.
//!
//! A replica does not wait for replicas of its own. But that must not release replies that it held as a primary, nor
//! later answers of other threads. So each thread continues to wait until it knows which slices are lost.
//!
//! Not here: what is held, and how it is released (`log/turn.rs`).

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use config::{REPL_SYNC_ACK, SYNC_ACK_DURABLE, Settings};
use effectlog::{AtomicLsn, Backlog, Lsn, StreamPosition};

use crate::membership::Membership;
use crate::primary::Primary;

/// See the head of this file.
#[derive(Default)]
pub struct Synced {
    /// The number of replicas that must have the data in a reply. 0: replies do not wait for replicas.
    wanted: AtomicU64,
    /// The last slice that enough replicas have, with all slices before it.
    slice: AtomicLsn,
    /// The last slice after which replicas were asked.
    asked: AtomicLsn,
    /// The version of the role, if this server is a replica and its replies are in no stream of its own. 0: it is a
    /// primary.
    role: AtomicU64,
    /// The last slice of its own stream, from before that role.
    former_end: AtomicLsn,
    /// Whether this server's data may be missing on replicas, and may be undone.
    is_in_doubt: AtomicBool,
    /// On a primary, the slice up to which replicas must have everything before the doubt ends.
    doubtful: AtomicLsn,
    /// The version of the last role for which dropping replies has ended.
    ended_loss: AtomicU64,
    /// For each thread, the version of the role for which it drops replies that it held before.
    settled: Box<[AtomicU64]>,
    /// This server's part in a group, which decides instead of the settings for whom replies wait.
    pub group: Membership,
}

impl Synced {
    /// Creates the state for this many threads, with replies that wait for this many replicas.
    pub fn new(wanted: u64, threads: usize) -> Synced {
        let settled = (0..threads).map(|_| AtomicU64::new(0)).collect();
        Synced { wanted: AtomicU64::new(wanted), settled, ..Synced::default() }
    }

    /// The number of replicas for which replies wait.
    #[inline]
    pub fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Relaxed)
    }

    /// The number of replicas for which output held by thread number `thread` waits.
    #[inline]
    pub fn wanted_by(&self, thread: usize) -> u64 {
        let role = self.role.load(Ordering::Relaxed);
        let waits = role == 0 || self.settled[thread].load(Ordering::Relaxed) != role;
        if waits { self.wanted() } else { 0 }
    }

    /// Whether replies must wait for replicas.
    #[inline]
    pub fn holds_replies(&self) -> bool {
        self.wanted() > 0 && self.role.load(Ordering::Relaxed) == 0
    }

    /// Makes replies wait for this many replicas. With 0, nothing up to slice `open` waits any longer.
    pub fn set_wanted(&self, wanted: u64, open: Lsn) {
        self.wanted.store(wanted, Ordering::Relaxed);
        if wanted == 0 {
            self.slice.fetch_max(open, Ordering::AcqRel);
            self.end_doubt("repl-sync-replicas is 0");
        }
    }

    /// Whether reads are refused because the data may be undone.
    #[inline]
    pub fn is_in_doubt(&self) -> bool {
        self.is_in_doubt.load(Ordering::Relaxed)
    }

    /// Refuses reads, unless replies wait for no replicas, because replicas may lack some of the data. On a primary,
    /// those are the data up to `slice`.
    pub fn begin_doubt(&self, slice: Lsn) {
        self.doubtful.store(slice, Ordering::Relaxed);
        if self.wanted() > 0 && !self.is_in_doubt.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "repl-sync-replicas is set, and replicas may lack some of the data here: nothing is read until that is settled"
            );
        }
    }

    /// Allows reads again.
    pub fn end_doubt(&self, why: &str) {
        if self.is_in_doubt.swap(false, Ordering::Relaxed) {
            tracing::info!("the data here can be read: {why}");
        }
    }

    /// Starts the server in this role, without held replies.
    pub fn begin_role(&self, role: u64) {
        self.set_role(role, None);
        self.settled.iter().for_each(|settled| settled.store(role, Ordering::Relaxed));
    }

    /// Makes this server a replica, in the role of this version, or a primary (0). The caller holds all shards.
    /// `former_end` is the last slice of its own stream, if it was a primary before.
    pub fn set_role(&self, role: u64, former_end: Option<Lsn>) {
        if let Some(slice) = former_end {
            assert!(role != 0, "a stream of its own ends when a server becomes a replica");
            self.former_end.store(slice, Ordering::Relaxed);
        }
        self.role.store(role, Ordering::Relaxed);
    }

    /// Makes a thread drop replies that depend on these slices, which may be lost, in the role of this version. It does
    /// so until all threads do and no earlier answer is in progress ([`ends_loss`](Self::ends_loss)), because later
    /// reads depend on these slices, too.
    pub fn settle(&self, thread: usize, role: u64) -> RangeInclusive<Lsn> {
        assert!(role != 0, "a primary drops no replies");
        // Release: earlier answers of this thread are on their way.
        self.settled[thread].store(role, Ordering::Release);
        let end = if self.wanted() > 0 { self.former_end.load(Ordering::Relaxed) } else { Lsn::NONE };
        // What all members have may still be held for their grants, and another primary may have changed it since.
        let begin = if self.group.is_on() { Lsn::NONE } else { self.slice() };
        begin.next()..=end
    }

    /// Whether all threads have settled, so that no more answers can depend on lost slices once this thread tells the
    /// others. True once for each role.
    pub fn ends_loss(&self) -> bool {
        let role = self.role.load(Ordering::Relaxed);
        let is_over = role != 0
            && self.ended_loss.load(Ordering::Relaxed) != role
            && self.settled.iter().all(|settled| settled.load(Ordering::Acquire) == role);
        if is_over {
            self.ended_loss.store(role, Ordering::Relaxed);
        }
        is_over
    }

    /// The last slice that enough replicas have.
    pub fn slice(&self) -> Lsn {
        self.slice.load(Ordering::Acquire)
    }

    /// Updates the slice. Must be called when a replica has acknowledged something or the requirements have changed.
    pub fn update(&self, settings: &Settings, primary: &Primary, backlog: &Backlog) {
        if self.group.is_on() {
            let committed = self.group.committed(backlog.end());
            self.slice.fetch_max(backlog.last_before(committed), Ordering::AcqRel);
            return;
        }
        let wanted = self.wanted();
        let is_durable = settings.number(REPL_SYNC_ACK) == SYNC_ACK_DURABLE;
        if wanted > 0
            && let Some(offset) = primary.offset_of(wanted as usize, is_durable)
        {
            self.slice.fetch_max(backlog.last_before(offset), Ordering::AcqRel);
            // A replica that has loaded nothing yet also reports the offset 0.
            let has_all =
                offset > StreamPosition::START && self.slice() >= self.doubtful.load(Ordering::Relaxed);
            if has_all && self.role.load(Ordering::Relaxed) == 0 {
                self.end_doubt("enough replicas have them");
            }
        }
    }

    /// Lets replies leave that wait for slices up to `open`, if this server is alone in its group.
    #[cold]
    pub(crate) fn cover_alone(&self, open: impl FnOnce() -> Lsn) {
        self.group.while_alone(|| _ = self.slice.fetch_max(open(), Ordering::AcqRel));
    }

    /// Whether replicas must be asked for their offsets because a client waits for `slice`, which is closed. They are
    /// asked after slice `last`.
    pub fn asks(&self, slice: Lsn, last: Lsn) -> bool {
        let asks = slice <= last && !self.has_asked(slice);
        if asks {
            self.asked.fetch_max(last, Ordering::Relaxed);
        }
        asks
    }

    /// Whether they were asked after `slice`.
    pub fn has_asked(&self, slice: Lsn) -> bool {
        slice <= self.asked.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {

    use effectlog::{Dialect, SharedSlice, Slice};
    use heap::Exempt;

    use super::*;
    use crate::following::Following;
    use crate::peer::Capabilities;
    use crate::primary::{CopyContent, Replica, ReplicaStage};
    use crate::quorum::Quorum;

    #[test]
    fn what_replicas_have_on_their_disks_counts_if_that_is_wanted() {
        let backlog = Backlog::new(1, Box::new(|_| ()));
        backlog.set_limits(1000, 1000);
        backlog.begin(StreamPosition::START, Lsn::NONE);
        for number in 1..=4 {
            let slice = Slice {
                number: Lsn::new(number),
                position: backlog.end(),
                payload: vec![b'\n'; 10],
                db: None,
            };
            backlog.push(SharedSlice::new(slice, Exempt::Stream), Dialect::default());
        }
        let primary = Primary::new([b'a'; 40]);
        let replicas = [1, 2, 3].map(|client| {
            let (address, capabilities) = ((String::new(), 0), Capabilities::default());
            primary.enter(Replica::new(client, address, CopyContent::Redis, capabilities, 0))
        });
        let ack = |index: usize, offset, durable: Option<u64>| {
            replicas[index].acknowledge(StreamPosition::new(offset), durable.map(StreamPosition::new), 0);
        };
        ack(0, 40, None);
        ack(1, 30, Some(20));
        ack(2, 40, Some(10));
        let slice = |wanted, how| {
            let settings = Settings::default();
            settings.change(&[("repl-sync-ack", how)], false).expect("it can be set");
            let synced = Synced::new(wanted, 1);
            synced.update(&settings, &primary, &backlog);
            let lacks = |wanted: &str| {
                let pairs = [("repl-sync-replicas", wanted), ("repl-sync-ack", how)];
                settings.change(&pairs, false).expect("it can be set");
                let quorum = Quorum::new(&settings);
                quorum.judge(&settings, &primary, (&Following::default(), &synced), (0, 0));
                quorum.error().map(|error| String::from_utf8_lossy(error.text()).into_owned())
            };
            (synced.slice().get(), lacks(&wanted.to_string()))
        };
        let lacking = Some("NOREPLICAS Not enough good replicas to write.".to_owned());
        assert_eq!(slice(1, "applied"), (0, lacking.clone()), "none of them gets the stream yet");
        replicas.iter().for_each(|replica| replica.set_stage(ReplicaStage::Online));
        let applied = [1, 2, 3, 4].map(|wanted| slice(wanted, "applied"));
        assert_eq!(applied, [(4, None), (4, None), (3, None), (0, lacking)]);
        let durable = [1, 2, 3].map(|wanted| slice(wanted, "durable"));
        assert_eq!([&durable[0], &durable[1]], [&(2, None), &(1, None)]);
        let (none, error) = &durable[2];
        assert_eq!(*none, 0, "one of them has no disk");
        assert!(error.as_ref().is_some_and(|error| error.contains("repl-sync-ack is durable")), "{error:?}");
        // A replica whose disk fails keeps what it has, and does not count for later slices.
        ack(1, 40, None);
        let (kept, error) = slice(2, "durable");
        assert_eq!((kept, error.is_some(), slice(1, "durable")), (1, true, (2, None)));
    }

    #[test]
    fn what_was_recovered_is_in_doubt_until_enough_replicas_have_it() {
        let (settings, backlog) = (Settings::default(), Backlog::new(1, Box::new(|_| ())));
        backlog.set_limits(1000, 1000);
        backlog.begin(StreamPosition::new(70), Lsn::new(6));
        let primary = Primary::new([b'a'; 40]);
        let replicas = [1, 2].map(|client| {
            let (address, capabilities) = ((String::new(), 0), Capabilities::default());
            primary.enter(Replica::new(client, address, CopyContent::Redis, capabilities, 0))
        });
        replicas.iter().for_each(|replica| replica.set_stage(ReplicaStage::Online));
        let synced = Synced::new(2, 1);
        synced.begin_doubt(Lsn::new(6));
        let mut is_in_doubt = |acks: [u64; 2]| {
            replicas
                .iter()
                .zip(acks)
                .for_each(|(replica, offset)| replica.acknowledge(StreamPosition::new(offset), None, 0));
            synced.update(&settings, &primary, &backlog);
            synced.is_in_doubt()
        };
        let doubts = [[0, 0], [70, 0], [70, 69], [70, 70]].map(&mut is_in_doubt);
        assert_eq!(doubts, [true, true, true, false]);
        synced.begin_doubt(Lsn::new(6));
        synced.set_role(3, Some(Lsn::new(9)));
        assert!(is_in_doubt([70, 70]), "its own replicas do not settle what its primary has");
        synced.set_wanted(0, Lsn::new(9));
        assert!(!synced.is_in_doubt());
        synced.begin_doubt(Lsn::new(9));
        assert!(!synced.is_in_doubt(), "replies wait for nobody");
    }

    #[test]
    fn replicas_are_asked_once_for_each_slice() {
        let synced = Synced::new(1, 1);
        let asks = |slice, last| synced.asks(Lsn::new(slice), Lsn::new(last));
        assert!(!asks(5, 4), "it is not closed");
        assert!(asks(5, 7) && !asks(5, 9) && !asks(7, 9));
        assert!(synced.has_asked(Lsn::new(7)) && !synced.has_asked(Lsn::new(8)));
        assert!(asks(8, 9));
    }

    #[test]
    fn what_was_covered_stays_so() {
        let synced = Synced::new(2, 2);
        assert!(synced.holds_replies());
        synced.set_wanted(0, Lsn::new(12));
        synced.set_wanted(1, Lsn::new(3));
        assert_eq!((synced.slice().get(), synced.wanted()), (12, 1));
    }

    #[test]
    fn a_replica_waits_for_none_once_it_has_dropped_what_waited() {
        let synced = Synced::new(2, 2);
        assert_eq!((synced.holds_replies(), synced.wanted_by(0)), (true, 2));
        synced.set_role(7, Some(Lsn::new(30)));
        assert_eq!((synced.holds_replies(), synced.wanted_by(0)), (false, 2));
        let lost = Lsn::new(1)..=Lsn::new(30);
        assert_eq!(synced.settle(0, 7), lost);
        assert_eq!([0, 1].map(|thread| synced.wanted_by(thread)), [0, 2]);
        // The thread learns later of what came later.
        synced.set_role(9, None);
        assert!(!synced.ends_loss());
        assert_eq!(synced.settle(1, 7), lost);
        assert_eq!([0, 1].map(|thread| synced.wanted_by(thread)), [2, 2]);
        assert!(!synced.ends_loss());
        assert_eq!([0, 1].map(|thread| synced.settle(thread, 9)), [lost.clone(), lost]);
        assert!(synced.ends_loss() && !synced.ends_loss());
        synced.set_role(0, None);
        assert_eq!((synced.holds_replies(), synced.wanted_by(0)), (true, 2));
    }
}
