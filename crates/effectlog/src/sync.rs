//! Atomics and cells shared by threads: the model checker's under `--cfg loom`, the standard ones otherwise.

pub(crate) use std::sync::{Arc, PoisonError};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(loom)]
pub(crate) use modelled::{Receiver, Sender, channel};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::mpsc::{Receiver, Sender, channel};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Queues for the model checker. The records are stored where it does not look; their number is atomic, and a receiver
/// may see it late. (With the checker's own channels and locks, no order of threads could change whether a queue is
/// empty.)
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

    pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let queue = Arc::new(Queue { items: Mutex::default(), sent: AtomicU64::new(0) });
        (Sender(queue.clone()), Receiver { queue, received: 0 })
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
}
