//! Holds a thread's share of the snapshot that is being saved: the shards that it visits in slices of [`SLICE_NS`], and
//! the clients that wait for it.
//!
//! Not here: how a snapshot is saved, and which commands wait (`server`'s `snapshot/background.rs`).

use std::collections::VecDeque;
use std::sync::Arc;

use engine::{Command, Tx};
use journal::Progress;
use keyspace::Dbs;
use observe::ThreadStats;
use persistence::Saving;
use proactor::{Clock, ConnId};
use shard::ShardId;

/// The time for which a slice of work holds a shard.
const SLICE_NS: u64 = 50_000;
/// A thread's share of the snapshot that is being saved.
pub struct Share {
    clock: Clock,
    /// Records in a slice of work.
    records_max: usize,
    saving: Option<Arc<Saving>>,
    /// Shards that may have records to be captured.
    shards: VecDeque<ShardId>,
    /// Clients whose commands are held back.
    held_back: VecDeque<ConnId>,
    /// The progress of the journal, which also holds commands back.
    journal: Arc<Progress>,
}

impl Share {
    /// Creates an empty share. Slices are timed by this clock, and contain at most this many records.
    pub fn new(clock: Clock, records_max: usize, journal: Arc<Progress>) -> Share {
        let (shards, held_back) = (VecDeque::new(), VecDeque::new());
        Share { clock, records_max, saving: None, shards, held_back, journal }
    }

    /// Whether too much waits for the writer or the journal.
    pub fn is_full(&self) -> bool {
        self.journal.is_full() || self.saving.as_ref().is_some_and(|saving| saving.is_full())
    }

    /// Whether there is work that can be done now.
    pub fn is_busy(&self) -> bool {
        let waits = !self.shards.is_empty() || !self.held_back.is_empty();
        waits && !self.is_full()
    }

    /// Whether no work is left, now or later.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.saving.is_none() && self.held_back.is_empty()
    }

    /// Whether a snapshot is being saved.
    pub fn is_saving(&self) -> bool {
        self.saving.is_some()
    }

    /// The number of shards that may have records to be captured.
    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Takes the next of these shards.
    pub fn pop_shard(&mut self) -> Option<ShardId> {
        self.shards.pop_front()
    }

    /// Comes back to a shard later.
    pub fn push_shard(&mut self, id: ShardId) {
        self.shards.push_back(id);
    }

    /// Whether flushed databases can be captured now.
    pub fn has_room(&self) -> bool {
        !self.is_full()
    }

    /// Notes that a snapshot has begun, with the shards that this thread `visits` for it, or has ended.
    pub fn look<I: Iterator<Item = ShardId>>(
        &mut self,
        current: Option<Arc<Saving>>,
        visits: impl FnOnce(Arc<Saving>) -> I,
    ) {
        let is_known = match (&self.saving, &current) {
            (Some(known), Some(current)) => Arc::ptr_eq(known, current),
            (known, current) => known.is_none() && current.is_none(),
        };
        if !is_known {
            self.shards = current.clone().map_or_else(VecDeque::new, |saving| visits(saving).collect());
            self.saving = current;
        }
    }

    /// A function that says whether a slice that begins now may continue.
    pub fn slice(&self) -> impl FnMut() -> bool + use<> {
        let (clock, saving) = (self.clock.clone(), self.saving.clone());
        let end_ns = clock.monotonic_ns() + SLICE_NS;
        let mut left = self.records_max;
        move || {
            left = left.saturating_sub(1);
            let is_full = saving.as_ref().is_some_and(|saving| saving.is_full());
            left > 0 && !is_full && clock.monotonic_ns() < end_ns
        }
    }

    /// Notes that the command of this client waits until the snapshot has come further.
    pub fn hold_back(&mut self, conn: ConnId, stats: &ThreadStats) {
        stats.held_back.add(1);
        self.held_back.push_back(conn);
    }

    /// Takes the clients whose commands are held back, to try them again.
    pub fn take_held_back(&mut self) -> VecDeque<ConnId> {
        std::mem::take(&mut self.held_back)
    }

    /// Whether a command, which `writes` or not, must not run yet, because it would change a key that the snapshot
    /// cannot capture at once, or because too much waits for the journal. If so, this helps with the snapshot.
    pub fn stops(&self, tx: &mut Tx<'_>, command: &Command, args: &[&[u8]], db: u32, writes: bool) -> bool {
        if writes && self.journal.is_full() {
            return true;
        }
        let (placement, now) = (tx.hold.shards().placement(), tx.now);
        let mut must_wait = false;
        for key in command.keys(args).unwrap_or_default() {
            let key = args[key.index];
            let (id, hash) = placement.locate(key);
            if !tx.hold.has(id) {
                continue;
            }
            let Some(db) = tx.hold.shard_mut(id).dbs.used_mut(db as usize).filter(|db| db.is_cut()) else {
                continue;
            };
            // Reading an expired record deletes it.
            let is_due = |record: keyspace::RecordRef<'_>| {
                record.expired(now) || record.value().first_element_expiry().is_some_and(|first| first < now)
            };
            if !writes && !db.find(hash, key).is_some_and(is_due) {
                continue;
            }
            if db.holds_back(hash, key) {
                let mut has_time = self.slice();
                while has_time() && !db.continue_cut(&mut has_time) {}
                must_wait |= db.holds_back(hash, key);
            }
        }
        must_wait
    }
}

/// Continues the cuts of a shard's databases. Returns true if all of them are done.
pub fn continue_cuts(dbs: &mut Dbs, has_time: &mut dyn FnMut() -> bool) -> bool {
    dbs.iter_mut().all(|(_, db)| {
        while !db.continue_cut(has_time) {
            if !has_time() {
                return false;
            }
        }
        true
    })
}

#[cfg(test)]
mod tests {
    use engine::{Client, Local};
    use keyspace::{RecordRef, Taken, Witness};
    use resp::Proto;

    use super::*;

    /// A snapshot without room for more.
    struct Full;

    impl Witness for Full {
        fn take(&mut self, _: RecordRef<'_>, at_once: bool) -> Taken {
            if at_once { Taken::All } else { Taken::Nothing }
        }

        fn is_full(&self) -> bool {
            true
        }

        fn is_large(&self, _: RecordRef<'_>) -> bool {
            false
        }

        fn end(self: Box<Self>) {}
    }

    #[test]
    fn what_would_change_a_key_waits_while_there_is_no_room_for_it() {
        let mut local = Local::new(commands::FAMILIES);
        local.line("SET a 1");
        let journal = Progress::new(1, Default::default(), journal::Policy::No, Box::new(|_| {}));
        let share = Share::new(Clock::real(), 10, Arc::new(journal));
        local.with_store(Client::internal(0, Proto::Resp2), |store| {
            let tx = &mut *store.tx;
            let ids: Vec<ShardId> = tx.hold.shards().ids().collect();
            let check = |tx: &mut Tx<'_>, line: &str, expected: bool| {
                let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
                let command = tx.table.resolve(&args).expect("there is such a command");
                let writes = command.is_write();
                assert_eq!(share.stops(tx, command, &args, 0, writes), expected, "{line}");
            };
            check(tx, "SET a 2", false);
            for id in ids {
                tx.hold.shard_mut(id).dbs[0].begin_cut(Box::new(Full));
            }
            check(tx, "SET a 2", true);
            check(tx, "GET a", false);
            check(tx, "MSET b 1 a 2", true);
            // The snapshot has nothing to capture for this key.
            check(tx, "SET b 2", false);
        });
    }
}
