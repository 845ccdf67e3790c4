//! Waiters: clients of blocking commands that found nothing.
//!
//! A waiter is a record in the FIFO of each key that it waits for, on the shard of that key. It holds no baton and no
//! lock. The thread that makes the key ready serves the first waiter at once. A waiter with several keys has a record
//! at each. One claim word decides who serves it. The other records are dropped when they are met, or when the waiter's
//! thread removes them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use foldhash::fast::FixedState;
use keyspace::Record;

use crate::db_key::{DbKey, DbKeyMap, DbKeyRef};
use crate::figures::Figures;
use crate::interrupt::interrupt;

/// Empty queues that may be kept, however few others there are.
const IDLE_QUEUES_MIN: usize = 16;
/// An empty queue is dropped if its key is longer, or if it has room for more records.
const IDLE_KEY_BYTES_MAX: usize = 64;
const IDLE_RECORDS_MAX: usize = 64;

const WAITING: u8 = 0;
const SERVED: u8 = 1;
const GONE: u8 = 2;

/// Decides who ends a wait: exactly one of the serving thread and the waiter's own (timeout, unblock, hang-up).
#[derive(Debug, Default)]
pub struct Claim(AtomicU8);

impl Claim {
    /// Claims the right to serve it. The claimant owes the waiter a reply, so check first that there is one.
    pub fn serve(&self) -> bool {
        interrupt();
        self.0.compare_exchange(WAITING, SERVED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Ends the wait from the waiter's side. False if it is being served: then its reply is on the way.
    pub fn end(&self) -> bool {
        interrupt();
        self.0.compare_exchange(WAITING, GONE, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Whether it still waits.
    pub fn is_waiting(&self) -> bool {
        self.0.load(Ordering::Acquire) == WAITING
    }
}

/// A waiting client, as the shard sees it; `W` is what the server needs to serve it.
#[derive(Debug)]
pub struct Waiter<W> {
    /// Decides who ends the wait.
    pub claim: Claim,
    /// The data needed to serve it.
    pub wait: W,
    /// Whether it is also told when a key is deleted.
    pub heeds_loss: bool,
    /// Whether it waits until something is due. At a key, this is the same time for all such waiters.
    pub awaits_due: bool,
}

/// The waiters of a key.
#[derive(Debug)]
struct Queue<W> {
    /// The waiters with their tickets, which ascend.
    records: VecDeque<(u64, Arc<Waiter<W>>)>,
    heeding_loss: usize,
    awaiting_due: usize,
    /// The public figures of the queue that the key is, if it is one.
    awaited: Option<Arc<keyspace::queue::Figures>>,
    /// The key's record when it was last emptied: a job that comes while a client waits creates the key and empties it
    /// again.
    emptied: Option<Record>,
}

impl<W> Default for Queue<W> {
    fn default() -> Self {
        Queue { records: VecDeque::new(), heeding_loss: 0, awaiting_due: 0, awaited: None, emptied: None }
    }
}

impl<W> Queue<W> {
    #[inline]
    fn tell(&self) {
        if let Some(figures) = &self.awaited {
            figures.waiters.store(self.records.len() as u32, Ordering::Relaxed);
        }
    }
}

/// The waiters of one shard: by database and key, first come, first served.
#[derive(Debug)]
pub struct Waiters<W> {
    /// Queues of keys with waiters, and some that are empty.
    by_key: DbKeyMap<Queue<W>>,
    /// Number of queues that are not empty.
    awaited: usize,
    next_ticket: u64,
    /// Whether a client that waits here may be served when a key that exists grows.
    heeds_growth: bool,
    /// Keys with waiters that may be served when a time comes.
    timed: DbKeyMap<()>,
    figures: Arc<Figures>,
}

impl<W> Waiters<W> {
    /// No waiters. `seed` keeps clients from making keys collide; `figures` shows how many wait.
    pub fn new(seed: u64, figures: &Arc<Figures>) -> Self {
        let hasher = FixedState::with_seed(seed);
        let (by_key, timed) = (DbKeyMap::with_hasher(hasher.clone()), DbKeyMap::with_hasher(hasher));
        let figures = figures.clone();
        Waiters { by_key, awaited: 0, next_ticket: 0, heeds_growth: false, timed, figures }
    }

    /// Whether no client waits here: the common case, checked when a key is created.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.awaited == 0
    }

    /// Appends a waiter to the FIFO of `key`. The ticket that is returned removes it again. `figures` finds the figures
    /// of the key's queue, if the key is one.
    pub fn add(
        &mut self,
        db: u32,
        key: &[u8],
        waiter: Arc<Waiter<W>>,
        figures: impl FnOnce() -> Option<Arc<keyspace::queue::Figures>>,
    ) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let queue = match self.by_key.get_mut(&DbKeyRef { db, key }) {
            Some(queue) => {
                if queue.awaited.as_ref().is_none_or(|figures| figures.is_gone()) {
                    queue.awaited = figures();
                }
                queue
            }
            None => {
                let queue = self.by_key.entry(DbKey { db, key: key.into() }).or_default();
                queue.awaited = figures();
                queue
            }
        };
        if waiter.heeds_loss {
            queue.heeding_loss += 1;
            self.figures.awaited_keys_for_loss.add(u64::from(queue.heeding_loss == 1));
        }
        queue.awaiting_due += usize::from(waiter.awaits_due);
        self.awaited += usize::from(queue.records.is_empty());
        queue.records.push_back((ticket, waiter));
        queue.tell();
        self.figures.waiters.add(1);
        self.figures.awaited_keys.set(self.awaited as u64);
        ticket
    }

    /// Notes that a client waits for more than a key that exists may have: whoever adds to it has to look whether that
    /// is enough, until no client waits in this shard any more.
    pub fn heed_growth(&mut self) {
        self.heeds_growth = true;
    }

    /// Whether a client waits for `key`, which has grown. Quick if no client waits for that.
    #[inline]
    pub fn any_for_growth(&self, db: u32, key: &[u8]) -> bool {
        self.heeds_growth && self.any(db, key)
    }

    /// Notes that a client that waits for `key` may be served when a time comes: whoever changes such times has to tell,
    /// until no client waits for the key any more.
    pub fn heed_time(&mut self, db: u32, key: &[u8]) {
        self.timed.entry(DbKey { db, key: key.into() }).or_default();
    }

    /// Whether a client waits for `key` that may be served when a time comes. Quick if there is no such client.
    #[inline]
    pub fn any_for_time(&self, db: u32, key: &[u8]) -> bool {
        !self.timed.is_empty() && self.timed.contains_key(&DbKeyRef { db, key })
    }

    /// Whether all who wait for `key` wait until something is due: if nothing is due for one, there is nothing for the
    /// others.
    pub fn all_await_due(&self, db: u32, key: &[u8]) -> bool {
        let queue = self.by_key.get(&DbKeyRef { db, key });
        queue.is_none_or(|queue| queue.awaiting_due == queue.records.len())
    }

    /// The keys, with their databases, that clients wait for who may be served when a time comes.
    pub fn timed_keys(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.timed.keys().map(|place| (place.db, &*place.key))
    }

    /// Updates the number of waiting clients of each queue. Call this when databases were emptied, swapped or
    /// loaded, or when patterns have changed, so that keys may be other queues than before. `figures` finds
    /// the figures of a key's queue.
    pub fn find_queues(
        &mut self,
        mut figures: impl FnMut(u32, &[u8]) -> Option<Arc<keyspace::queue::Figures>>,
    ) {
        if self.awaited == 0 {
            return;
        }
        for (place, queue) in &mut self.by_key {
            if let Some(old) = queue.awaited.take_if(|figures| figures.is_gone() || figures.db() != place.db)
            {
                old.waiters.store(0, Ordering::Relaxed);
            }
        }
        // In a second pass, because a queue may now be under a key that another queue had.
        for (place, queue) in self.by_key.iter_mut().filter(|(_, queue)| !queue.records.is_empty()) {
            if queue.awaited.is_none() {
                queue.awaited = figures(place.db, &place.key);
            }
            queue.tell();
        }
    }

    /// Removes the record `ticket` from the FIFO of `key`. False if it was gone.
    pub fn remove(&mut self, db: u32, key: &[u8], ticket: u64) -> bool {
        let place = DbKeyRef { db, key };
        let Some(queue) = self.by_key.get_mut(&place) else { return false };
        let Ok(index) = queue.records.binary_search_by_key(&ticket, |(ticket, _)| *ticket) else {
            return false;
        };
        let (_, waiter) = queue.records.remove(index).expect("it was found there");
        queue.tell();
        queue.awaiting_due -= usize::from(waiter.awaits_due);
        if waiter.heeds_loss {
            queue.heeding_loss -= 1;
            self.figures.awaited_keys_for_loss.sub(u64::from(queue.heeding_loss == 0));
        }
        if queue.records.is_empty() {
            self.awaited -= 1;
            self.heeds_growth &= self.awaited > 0;
            if !self.timed.is_empty() {
                self.timed.remove(&place);
            }
            let is_small = key.len() <= IDLE_KEY_BYTES_MAX && queue.records.capacity() <= IDLE_RECORDS_MAX;
            self.end_queue(&place, is_small);
        }
        self.figures.waiters.sub(1);
        self.figures.awaited_keys.set(self.awaited as u64);
        true
    }

    /// The queue of `place` has become empty. A small one is kept, because clients often wait there again. There are
    /// never many more empty queues than others, and dropping them takes no longer than it took to fill as many.
    fn end_queue(&mut self, place: &DbKeyRef, is_small: bool) {
        if !is_small {
            self.by_key.remove(place);
        } else if self.by_key.len() - self.awaited > self.awaited.max(IDLE_QUEUES_MIN) {
            self.by_key.retain(|_, queue| !queue.records.is_empty());
        }
    }

    /// Whether any client waits for `key`.
    #[inline]
    pub fn any(&self, db: u32, key: &[u8]) -> bool {
        let queue = if self.awaited == 0 { None } else { self.by_key.get(&DbKeyRef { db, key }) };
        queue.is_some_and(|queue| !queue.records.is_empty())
    }

    /// The first waiter of `key` at or after `from`, with its ticket. Records of waits that have ended are dropped.
    pub fn next(&mut self, db: u32, key: &[u8], from: u64) -> Option<(u64, Arc<Waiter<W>>)> {
        loop {
            let records = &self.by_key.get(&DbKeyRef { db, key })?.records;
            let index = records.partition_point(|(ticket, _)| *ticket < from);
            let (ticket, waiter) = records.get(index)?;
            let ticket = *ticket;
            if waiter.claim.is_waiting() {
                return Some((ticket, waiter.clone()));
            }
            self.remove(db, key, ticket);
        }
    }

    /// Keeps the record of `key`, which was removed because it was emptied, if clients wait or have waited for the key:
    /// the next job would create the same record again.
    #[inline]
    pub fn keep_emptied(&mut self, db: u32, key: &[u8], record: Record) {
        if !self.by_key.is_empty()
            && let Some(queue) = self.by_key.get_mut(&DbKeyRef { db, key })
        {
            queue.emptied = record.emptied().ok();
        }
    }

    /// Takes the record of `key` that was kept.
    #[inline]
    pub fn take_emptied(&mut self, db: u32, key: &[u8]) -> Option<Record> {
        if self.by_key.is_empty() {
            return None;
        }
        self.by_key.get_mut(&DbKeyRef { db, key })?.emptied.take()
    }

    /// The clients that wait for `key`.
    pub fn of(&self, db: u32, key: &[u8]) -> impl Iterator<Item = &Waiter<W>> {
        let queue = self.by_key.get(&DbKeyRef { db, key });
        let records = queue.into_iter().flat_map(|queue| &queue.records);
        records.map(|(_, waiter)| &**waiter).filter(|waiter| waiter.claim.is_waiting())
    }

    /// Every key of `db` that a client waits for.
    pub fn keys(&self, db: u32) -> impl Iterator<Item = &[u8]> {
        let awaited = self.by_key.iter().filter(|(_, queue)| !queue.records.is_empty());
        awaited.filter(move |(place, _)| place.db == db).map(|(place, _)| &*place.key)
    }
}

#[cfg(test)]
mod tests {
    use keyspace::Value;

    use super::*;

    fn waiter(number: u32) -> Arc<Waiter<u32>> {
        Arc::new(Waiter {
            claim: Claim::default(),
            wait: number,
            heeds_loss: number == 2,
            awaits_due: number >= 7,
        })
    }

    #[test]
    fn first_come_first_served_and_ended_waits_are_dropped() {
        let figures = Arc::default();
        let mut waiters = Waiters::new(1, &figures);
        let (first, second) = (waiter(1), waiter(2));
        waiters.add(0, b"q", first.clone(), || None);
        let ticket = waiters.add(0, b"q", second, || None);
        assert!(waiters.any(0, b"q") && !waiters.any(1, b"q"));
        assert!(first.claim.end() && !first.claim.serve());
        assert_eq!(waiters.next(0, b"q", 0).map(|(ticket, waiter)| (ticket, waiter.wait)), Some((ticket, 2)));
        assert_eq!((figures.waiters.get(), figures.awaited_keys_for_loss.get()), (1, 1));
        assert!(waiters.remove(0, b"q", ticket) && waiters.is_empty());
        assert!(!waiters.remove(0, b"q", ticket));
        assert_eq!((figures.waiters.get(), figures.awaited_keys.get()), (0, 0));
        assert_eq!(figures.awaited_keys_for_loss.get(), 0);
    }

    #[test]
    fn growth_matters_until_nobody_waits() {
        let mut waiters = Waiters::new(1, &Arc::default());
        let one = waiters.add(0, b"one", waiter(1), || None);
        assert!(!waiters.any_for_growth(0, b"one"));
        let several = waiters.add(0, b"several", waiter(3), || None);
        waiters.heed_growth();
        assert!(waiters.any_for_growth(0, b"several") && !waiters.any_for_growth(1, b"several"));
        assert!(waiters.remove(0, b"several", several));
        assert!(!waiters.any_for_growth(0, b"several"));
        assert!(waiters.remove(0, b"one", one));
        waiters.add(0, b"one", waiter(1), || None);
        assert!(!waiters.any_for_growth(0, b"one"));
    }

    #[test]
    fn times_matter_until_nobody_waits_for_the_key() {
        let mut waiters = Waiters::new(1, &Arc::default());
        let tickets = [1, 3].map(|number| waiters.add(0, b"timed", waiter(number), || None));
        let other = waiters.add(0, b"other", waiter(1), || None);
        assert!(!waiters.any_for_time(0, b"timed"));
        waiters.heed_time(0, b"timed");
        waiters.heed_time(0, b"timed");
        assert!(waiters.any_for_time(0, b"timed") && !waiters.any_for_time(1, b"timed"));
        assert_eq!(waiters.timed_keys().collect::<Vec<_>>(), [(0, &b"timed"[..])]);
        assert!(waiters.remove(0, b"timed", tickets[0]) && waiters.remove(0, b"other", other));
        assert!(waiters.any_for_time(0, b"timed"));
        assert!(waiters.remove(0, b"timed", tickets[1]) && !waiters.any_for_time(0, b"timed"));
    }

    #[test]
    fn all_await_what_is_due_or_some_do_not() {
        let mut waiters = Waiters::new(1, &Arc::default());
        let [one, other, due] = [7, 1, 8].map(|number| waiters.add(0, b"z", waiter(number), || None));
        assert!(!waiters.all_await_due(0, b"z") && waiters.all_await_due(1, b"z"));
        assert!(waiters.remove(0, b"z", other) && waiters.all_await_due(0, b"z"));
        assert!(waiters.remove(0, b"z", one) && waiters.all_await_due(0, b"z"));
        waiters.add(0, b"z", waiter(2), || None);
        assert!(!waiters.all_await_due(0, b"z"));
        assert!(waiters.remove(0, b"z", due) && !waiters.all_await_due(0, b"z"));
    }

    #[test]
    fn queues_are_told_of_their_waiters_wherever_they_have_gone() {
        let queue = |db| Arc::new(keyspace::queue::Figures::new(b"q", 0, db, 0));
        let count = |queue: &Arc<keyspace::queue::Figures>| queue.waiters.load(Ordering::Relaxed);
        let mut waiters = Waiters::new(1, &Arc::default());
        let (one, other, later) = (queue(0), queue(1), queue(0));
        waiters.add(0, b"q", waiter(1), || Some(one.clone()));
        waiters.add(0, b"q", waiter(2), || unreachable!("it is known"));
        waiters.add(1, b"q", waiter(3), || Some(other.clone()));
        waiters.add(0, b"later", waiter(4), || None);
        assert_eq!((count(&one), count(&other)), (2, 1));
        one.set_db(1);
        other.set_db(0);
        let mut find = |db: u32, key: &[u8]| {
            let found = if key == b"q" { [&other, &one][db as usize] } else { &later };
            Some(found.clone())
        };
        waiters.find_queues(&mut find);
        assert_eq!((count(&one), count(&other), count(&later)), (1, 2, 1));
        waiters.add(0, b"later", waiter(5), || unreachable!("it is known"));
        assert_eq!(count(&later), 2);
        let again = queue(0);
        later.set_gone();
        waiters.find_queues(|_, _| Some(again.clone()));
        assert_eq!((count(&later), count(&again)), (0, 2));
    }

    #[test]
    fn a_waiter_in_the_middle_goes_and_the_order_stays() {
        let mut waiters = Waiters::new(1, &Arc::default());
        let tickets = [1, 2, 3, 4].map(|number| waiters.add(0, b"q", waiter(number), || None));
        assert!(waiters.remove(0, b"q", tickets[1]) && !waiters.remove(0, b"q", tickets[1]));
        let mut order = Vec::new();
        let mut from = 0;
        while let Some((ticket, waiter)) = waiters.next(0, b"q", from) {
            order.push(waiter.wait);
            from = ticket + 1;
        }
        assert_eq!(order, [1, 3, 4]);
    }

    #[test]
    fn the_record_of_a_key_is_kept_while_its_queue_stays() {
        let mut waiters = Waiters::new(1, &Arc::default());
        let record = || Record::new(b"q", Value::List(Box::default()));
        waiters.keep_emptied(0, b"q", record());
        assert!(waiters.take_emptied(0, b"q").is_none(), "nobody ever waited");
        let ticket = waiters.add(0, b"q", waiter(1), || None);
        waiters.keep_emptied(0, b"q", record());
        assert!(waiters.take_emptied(1, b"q").is_none() && waiters.take_emptied(0, b"q").is_some());
        assert!(waiters.remove(0, b"q", ticket));
        waiters.keep_emptied(0, b"q", record());
        assert!(waiters.take_emptied(0, b"q").is_some() && waiters.take_emptied(0, b"q").is_none());
    }

    #[test]
    fn empty_queues_stay_but_are_few_and_nobody_sees_them() {
        let mut waiters = Waiters::new(1, &Arc::default());
        let kept = waiters.add(0, b"kept", waiter(1), || None);
        for round in 0..100 * IDLE_QUEUES_MIN {
            let key = format!("reply:{round}");
            let ticket = waiters.add(0, key.as_bytes(), waiter(3), || None);
            assert!(waiters.remove(0, key.as_bytes(), ticket));
            assert!(!waiters.any(0, key.as_bytes()) && waiters.next(0, key.as_bytes(), 0).is_none());
            assert!(waiters.by_key.len() <= IDLE_QUEUES_MIN + 1);
        }
        assert_eq!(waiters.keys(0).collect::<Vec<_>>(), [b"kept"]);
        assert!(waiters.remove(0, b"kept", kept) && waiters.is_empty());
        let long = [b'k'; IDLE_KEY_BYTES_MAX + 1];
        let ticket = waiters.add(0, &long, waiter(1), || None);
        assert!(
            waiters.remove(0, &long, ticket) && !waiters.by_key.contains_key(&DbKeyRef { db: 0, key: &long })
        );
    }
}
