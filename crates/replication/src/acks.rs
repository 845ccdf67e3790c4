//! Wakes threads whose clients wait for replicas when a replica acknowledges something.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// See the head of this file.
pub struct Acks {
    count: AtomicU64,
    /// For each thread, whether the next acknowledgement has to wake it.
    sleepers: Box<[AtomicBool]>,
    wake: Box<dyn Fn(usize) + Send + Sync>,
}

impl Acks {
    /// Creates the counter for this many threads. `wake` wakes one of them.
    pub fn new(threads: usize, wake: Box<dyn Fn(usize) + Send + Sync>) -> Acks {
        Acks {
            count: AtomicU64::new(0),
            sleepers: (0..threads).map(|_| AtomicBool::default()).collect(),
            wake,
        }
    }

    /// The number of acknowledgements.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Notes an acknowledgement by any replica.
    pub fn note(&self) {
        self.count.fetch_add(1, Ordering::Release);
        fence(Ordering::SeqCst);
        for (thread, is_asleep) in self.sleepers.iter().enumerate() {
            if is_asleep.load(Ordering::Relaxed) && is_asleep.swap(false, Ordering::Relaxed) {
                (self.wake)(thread);
            }
        }
    }

    /// Notes that thread number `thread` knows the first `count` acknowledgements and must be woken by the next one.
    /// Returns false if the next one has already come.
    pub fn awaits(&self, thread: usize, count: u64) -> bool {
        self.sleepers[thread].store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let now = self.count();
        assert!(count <= now, "an acknowledgement is counted before it is known");
        now == count
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_thread_that_waits_is_woken_once() {
        let woken: Arc<[AtomicU64; 3]> = Arc::default();
        let bells = Arc::clone(&woken);
        let wake = move |thread: usize| {
            bells[thread].fetch_add(1, Ordering::Relaxed);
        };
        let acks = Acks::new(3, Box::new(wake));
        acks.note();
        assert!(!acks.awaits(1, 0) && acks.awaits(2, 1));
        acks.note();
        acks.note();
        assert_eq!(acks.count(), 3);
        assert_eq!(woken.each_ref().map(|count| count.load(Ordering::Relaxed)), [0, 1, 1]);
    }
}
