//! The journal of a server: `effectlog` orders what threads commit, `journal` writes it. Here both are wired to the server.

mod turn;

use std::sync::{Arc, Mutex, PoisonError};

use effectlog::{Log, Recorder};
use journal::{Policy, Progress};
use proactor::{Clock, Waker};

/// What all threads know of the journal.
pub(crate) struct Journal {
    pub(crate) progress: Progress,
    /// What threads commit while it is on.
    log: Arc<Log>,
    /// What records for each thread, until that thread takes it.
    recorders: Mutex<Vec<Recorder>>,
}

impl Journal {
    /// That of threads that these wake; it is off.
    pub(crate) fn new(wakers: Vec<Arc<Waker>>, clock: Clock) -> Journal {
        let threads = wakers.len();
        let (log, recorders, _ends) = Log::new(threads, Box::new(move || clock.ticks()));
        let wake = Box::new(move |thread: usize| wakers[thread].wake());
        let progress = Progress::new(threads, 0, Policy::Everysec, wake);
        Journal { progress, log, recorders: Mutex::new(recorders) }
    }

    /// What records for thread number `thread`, which asks once.
    pub(crate) fn take_recorder(&self, thread: u16) -> Recorder {
        let mut recorders = self.recorders.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut recorders[usize::from(thread)])
    }

    /// Whether replies wait until what they tell of is durable.
    #[inline]
    pub(crate) fn holds_replies(&self) -> bool {
        self.log.is_on() && self.progress.policy() == Policy::Always
    }
}
