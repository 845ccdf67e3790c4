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

/// The same in the model: whether there is something is a thing that threads may see in any order, which it is not with the checker's own channels.
#[cfg(loom)]
mod modelled {
    use std::collections::VecDeque;

    use loom::sync::{Arc, Mutex};

    pub(crate) struct Sender<T>(Arc<Mutex<VecDeque<T>>>);
    pub(crate) struct Receiver<T>(Arc<Mutex<VecDeque<T>>>);
    pub(crate) struct SpareSender<T>(Sender<T>);

    pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let queue = Arc::new(Mutex::new(VecDeque::new()));
        (Sender(queue.clone()), Receiver(queue))
    }

    pub(crate) fn spare_channel<T>() -> (SpareSender<T>, Receiver<T>) {
        let (sender, receiver) = channel();
        (SpareSender(sender), receiver)
    }

    impl<T> Sender<T> {
        pub(crate) fn send(&self, value: T) -> Result<(), T> {
            self.0.lock().unwrap().push_back(value);
            Ok(())
        }
    }

    impl<T> Receiver<T> {
        pub(crate) fn try_recv(&self) -> Result<T, ()> {
            self.0.lock().unwrap().pop_front().ok_or(())
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
