//! The fate of each job: two bits per job, set by any thread that learns of it.
//!
//! A job is *pushed* when the server has acknowledged it, and *fetched* when a worker has got it. A job that was pushed
//! but is neither fetched nor still in a queue is lost. One that was fetched twice is a duplicate. A job whose push was
//! never acknowledged may turn up or not.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::report::AccountReport;

/// The account of one run.
#[derive(Debug)]
pub(crate) struct Account {
    pushed: Bits,
    fetched: Bits,
    duplicates: AtomicU64,
    strangers: AtomicU64,
}

impl Account {
    /// An account of jobs numbered below `jobs`.
    pub(crate) fn new(jobs: u64) -> Account {
        Account {
            pushed: Bits::new(jobs),
            fetched: Bits::new(jobs),
            duplicates: AtomicU64::new(0),
            strangers: AtomicU64::new(0),
        }
    }

    /// The server has acknowledged this job.
    pub(crate) fn push(&self, id: u64) {
        self.pushed.set(id);
    }

    /// A worker got this job. `None`: the job has no number of ours.
    pub(crate) fn fetch(&self, id: Option<u64>) {
        match id.and_then(|id| self.fetched.set(id)) {
            Some(true) => {}
            Some(false) => _ = self.duplicates.fetch_add(1, Ordering::Relaxed),
            None => _ = self.strangers.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The totals, when `left` jobs are still in the queues.
    pub(crate) fn close(&self, left: u64) -> AccountReport {
        let words = self.pushed.0.iter().zip(&self.fetched.0);
        let missing: u64 = words
            .map(|(pushed, fetched)| {
                (pushed.load(Ordering::Relaxed) & !fetched.load(Ordering::Relaxed)).count_ones() as u64
            })
            .sum();
        AccountReport {
            pushed: self.pushed.count(),
            fetched: self.fetched.count(),
            left,
            lost: missing.saturating_sub(left),
            duplicates: self.duplicates.load(Ordering::Relaxed),
            strangers: self.strangers.load(Ordering::Relaxed),
        }
    }
}

#[derive(Debug)]
struct Bits(Vec<AtomicU64>);

impl Bits {
    fn new(count: u64) -> Bits {
        Bits((0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Sets a bit. True if it was not set before; `None` if there is no such bit.
    fn set(&self, index: u64) -> Option<bool> {
        let word = self.0.get(usize::try_from(index / 64).ok()?)?;
        let bit = 1 << (index % 64);
        Some(word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pushed: &[u64], fetched: &[Option<u64>], left: u64, lost: u64, duplicates: u64, strangers: u64) {
        let account = Account::new(100);
        pushed.iter().for_each(|&id| account.push(id));
        fetched.iter().for_each(|&id| account.fetch(id));
        let closed = account.close(left);
        assert_eq!(closed.pushed, pushed.len() as u64);
        assert_eq!((closed.lost, closed.duplicates, closed.strangers), (lost, duplicates, strangers));
    }

    #[test]
    fn every_job_is_somewhere() {
        check(&[0, 63, 64, 99], &[Some(0), Some(63), Some(64), Some(99)], 0, 0, 0, 0);
        check(&[1, 2, 3], &[Some(1)], 2, 0, 0, 0);
        check(&[1, 2, 3], &[Some(1)], 1, 1, 0, 0);
        check(&[1, 2, 3], &[Some(1), Some(2), Some(2), Some(3), Some(3), Some(3)], 0, 0, 3, 0);
        // A duplicate does not offset a loss.
        check(&[1, 2], &[Some(1), Some(1)], 0, 1, 1, 0);
        check(&[1], &[Some(1), None, Some(1_000_000)], 0, 0, 0, 2);
        // Fetched, though its push was never acknowledged.
        check(&[], &[Some(5)], 0, 0, 0, 0);
    }
}
