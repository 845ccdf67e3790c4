//! What threads share: the model checker's under `--cfg loom`, the standard ones otherwise.

#[cfg(not(loom))]
pub(crate) use queue::{Receiver, Sender, SpareSender, channel, spare_channel};
pub(crate) use std::sync::Arc;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use modelled::{Receiver, Sender, SpareSender, channel, spare_channel};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// Queues from one thread to another.
#[cfg(not(loom))]
mod queue {
    use std::sync::mpsc::{SyncSender, sync_channel};

    pub(crate) use std::sync::mpsc::{Receiver, Sender, channel};

    /// Spares that are kept for one thread.
    const SPARES_MAX: usize = 1024;

    /// Where what a thread may use again is given; what is too much is dropped.
    pub(crate) struct SpareSender<T>(SyncSender<T>);

    pub(crate) fn spare_channel<T>() -> (SpareSender<T>, Receiver<T>) {
        let (sender, receiver) = sync_channel(SPARES_MAX);
        (SpareSender(sender), receiver)
    }

    impl<T> SpareSender<T> {
        pub(crate) fn give(&self, spare: T) {
            let _ = self.0.try_send(spare);
        }
    }
}

/// The same in the model. What was sent lies where the checker does not look; how much that is, is an atomic number, which a receiver may see
/// late. (With the checker's own channels and locks, an empty queue would be a fact that no order of the threads can change.)
#[cfg(loom)]
mod modelled {
    use std::collections::VecDeque;
    use std::sync::{Mutex, PoisonError};

    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering};

    struct Queue<T> {
        items: Mutex<VecDeque<T>>,
        sent: AtomicU64,
    }

    pub(crate) struct Sender<T>(Arc<Queue<T>>);

    pub(crate) struct Receiver<T> {
        queue: Arc<Queue<T>>,
        received: u64,
    }

    pub(crate) struct SpareSender<T>(Sender<T>);

    pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let queue = Arc::new(Queue { items: Mutex::default(), sent: AtomicU64::new(0) });
        (Sender(queue.clone()), Receiver { queue, received: 0 })
    }

    pub(crate) fn spare_channel<T>() -> (SpareSender<T>, Receiver<T>) {
        let (sender, receiver) = channel();
        (SpareSender(sender), receiver)
    }

    impl<T> Sender<T> {
        pub(crate) fn send(&self, value: T) -> Result<(), T> {
            self.0.items.lock().unwrap_or_else(PoisonError::into_inner).push_back(value);
            self.0.sent.store(self.0.sent.load(Ordering::Relaxed) + 1, Ordering::Release);
            Ok(())
        }
    }

    impl<T> Receiver<T> {
        pub(crate) fn try_recv(&mut self) -> Result<T, ()> {
            if self.queue.sent.load(Ordering::Acquire) == self.received {
                return Err(());
            }
            self.received += 1;
            self.queue.items.lock().unwrap_or_else(PoisonError::into_inner).pop_front().ok_or(())
        }
    }

    impl<T> SpareSender<T> {
        /// Spares are of no interest, and would be more for the checker to try.
        pub(crate) fn give(&self, spare: T) {
            drop(spare);
            let _ = &self.0;
        }
    }
}
