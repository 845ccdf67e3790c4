//! Waiters: clients of blocking commands that found nothing.
//!
//! A waiter is a record in the FIFO of each key that it waits for, on the shard of that key. It holds no baton
//! and no lock. Whoever makes the key ready serves the first waiter there and then. A waiter with several keys
//! has a record at each; one claim word decides who serves it, and the records left over are dropped when met
//! or when the waiter's thread takes them out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use foldhash::fast::FixedState;

use crate::figures::Figures;
use crate::interrupt::interrupt;
use crate::place::{Place, PlaceMap, PlaceRef};

const WAITING: u8 = 0;
const SERVED: u8 = 1;
const GONE: u8 = 2;

/// Decides who ends a wait: exactly one of the serving thread and the waiter's own (timeout, unblock, hang-up).
#[derive(Debug, Default)]
pub struct Claim(AtomicU8);

impl Claim {
    /// Claims the right to serve it. Whoever gets it owes the waiter a reply, so look first that there is one.
    pub fn serve(&self) -> bool {
        interrupt();
        self.0.compare_exchange(WAITING, SERVED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Ends the wait from the waiter's side; false if somebody serves it just now: its reply is on the way.
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
    /// What is to be done for it.
    pub wait: W,
    /// It is to hear also that a key is gone.
    pub heeds_loss: bool,
}

/// The waiters of a key.
#[derive(Debug)]
struct Queue<W> {
    by_ticket: BTreeMap<u64, Arc<Waiter<W>>>,
    heeding_loss: usize,
}

impl<W> Default for Queue<W> {
    fn default() -> Self {
        Queue { by_ticket: BTreeMap::new(), heeding_loss: 0 }
    }
}

/// The waiters of one shard: by database and key, first come, first served.
#[derive(Debug)]
pub struct Waiters<W> {
    by_key: PlaceMap<Queue<W>>,
    next_ticket: u64,
    figures: Arc<Figures>,
}

impl<W> Waiters<W> {
    /// Nobody waits; `seed` keeps clients from making keys collide. How many wait is said in `figures`.
    pub fn new(seed: u64, figures: &Arc<Figures>) -> Self {
        let by_key = PlaceMap::with_hasher(FixedState::with_seed(seed));
        Waiters { by_key, next_ticket: 0, figures: figures.clone() }
    }

    /// Whether nobody waits here: the common case, checked when a key is created.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Appends a waiter to the FIFO of `key`; the ticket takes it out again.
    pub fn add(&mut self, db: u32, key: &[u8], waiter: Arc<Waiter<W>>) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let queue = self.by_key.entry(Place { db, key: key.into() }).or_default();
        if waiter.heeds_loss {
            queue.heeding_loss += 1;
            self.figures.awaited_keys_for_loss.add(u64::from(queue.heeding_loss == 1));
        }
        queue.by_ticket.insert(ticket, waiter);
        self.figures.waiters.add(1);
        self.figures.awaited_keys.set(self.by_key.len() as u64);
        ticket
    }

    /// Takes the record `ticket` out of the FIFO of `key`; false if it was gone.
    pub fn remove(&mut self, db: u32, key: &[u8], ticket: u64) -> bool {
        let place = PlaceRef { db, key };
        let Some(queue) = self.by_key.get_mut(&place) else { return false };
        let Some(waiter) = queue.by_ticket.remove(&ticket) else { return false };
        if waiter.heeds_loss {
            queue.heeding_loss -= 1;
            self.figures.awaited_keys_for_loss.sub(u64::from(queue.heeding_loss == 0));
        }
        if queue.by_ticket.is_empty() {
            self.by_key.remove(&place);
        }
        self.figures.waiters.sub(1);
        self.figures.awaited_keys.set(self.by_key.len() as u64);
        true
    }

    /// Whether anybody waits for `key`.
    #[inline]
    pub fn any(&self, db: u32, key: &[u8]) -> bool {
        !self.by_key.is_empty() && self.by_key.contains_key(&PlaceRef { db, key })
    }

    /// The first waiter of `key` at or after `from` with its ticket; records of waits that ended are dropped.
    pub fn next(&mut self, db: u32, key: &[u8], from: u64) -> Option<(u64, Arc<Waiter<W>>)> {
        loop {
            let queue = self.by_key.get(&PlaceRef { db, key })?;
            let (&ticket, waiter) = queue.by_ticket.range(from..).next()?;
            if waiter.claim.is_waiting() {
                return Some((ticket, waiter.clone()));
            }
            self.remove(db, key, ticket);
        }
    }

    /// Every key of `db` that somebody waits for.
    pub fn keys(&self, db: u32) -> impl Iterator<Item = &[u8]> {
        self.by_key.keys().filter(move |place| place.db == db).map(|place| &*place.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(number: u32) -> Arc<Waiter<u32>> {
        Arc::new(Waiter { claim: Claim::default(), wait: number, heeds_loss: number == 2 })
    }

    #[test]
    fn first_come_first_served_and_ended_waits_are_dropped() {
        let figures = Arc::default();
        let mut waiters = Waiters::new(1, &figures);
        let (first, second) = (waiter(1), waiter(2));
        waiters.add(0, b"q", first.clone());
        let ticket = waiters.add(0, b"q", second);
        assert!(waiters.any(0, b"q") && !waiters.any(1, b"q"));
        assert!(first.claim.end() && !first.claim.serve());
        assert_eq!(waiters.next(0, b"q", 0).map(|(ticket, waiter)| (ticket, waiter.wait)), Some((ticket, 2)));
        assert_eq!((figures.waiters.get(), figures.awaited_keys_for_loss.get()), (1, 1));
        assert!(waiters.remove(0, b"q", ticket) && waiters.is_empty());
        assert!(!waiters.remove(0, b"q", ticket));
        assert_eq!((figures.waiters.get(), figures.awaited_keys.get()), (0, 0));
        assert_eq!(figures.awaited_keys_for_loss.get(), 0);
    }
}
