//! Wakes a thread of the agent before its time.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// See the head of this file.
#[derive(Default)]
pub(super) struct Bell {
    has_rung: Mutex<bool>,
    condition: Condvar,
}

impl Bell {
    /// Wakes the thread, or keeps its next wait short.
    pub(super) fn ring(&self) {
        *self.has_rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.condition.notify_all();
    }

    /// Waits for the bell, but no longer than this.
    pub(super) fn wait(&self, at_most: Duration) {
        let has_rung = self.has_rung.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut has_rung, _) = self
            .condition
            .wait_timeout_while(has_rung, at_most, |has_rung| !*has_rung)
            .unwrap_or_else(PoisonError::into_inner);
        *has_rung = false;
    }
}
