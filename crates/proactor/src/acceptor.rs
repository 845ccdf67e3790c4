//! Decides when a driver may accept connections, and copes with a process that has no descriptors left.
//!
//! Running out of descriptors is logged once per episode, and accepting pauses for a tenth of a second,
//! because a listener with a waiting connection would otherwise report itself forever. The waiting
//! connections stay in the kernel's backlog.
//!
//! A listener that was stopped from another thread ([`Stop`](crate::Stop)) reports that at the next accept:
//! then it is dropped, and its number may be reused.

use std::io;

use crate::Listener;

/// How long accepting pauses.
const BACK_OFF_NS: u64 = 100_000_000;

/// The listeners of one driver.
#[derive(Debug, Default)]
pub(crate) struct Acceptor {
    listeners: Vec<Option<Listener>>,
    paused_until_ns: Option<u64>,
    is_reported: bool,
    /// Listeners whose multishot accept has ended.
    stopped: Vec<usize>,
}

impl Acceptor {
    /// Adds a listener. Returns its number.
    pub(crate) fn add(&mut self, listener: Listener) -> usize {
        match self.listeners.iter().position(Option::is_none) {
            Some(free) => {
                self.listeners[free] = Some(listener);
                free
            }
            None => {
                self.listeners.push(Some(listener));
                self.listeners.len() - 1
            }
        }
    }

    /// A listener by number.
    pub(crate) fn listener(&self, number: usize) -> Option<&Listener> {
        self.listeners.get(number)?.as_ref()
    }

    /// The numbers of all listeners.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = usize> {
        (0..self.listeners.len()).filter(|number| self.listeners[*number].is_some())
    }

    /// Drops a listener if this error means that it was stopped.
    pub(crate) fn has_ended(&mut self, number: usize, error: &io::Error) -> bool {
        let has_ended = error.raw_os_error() == Some(libc::EINVAL);
        if has_ended && let Some(place) = self.listeners.get_mut(number) {
            *place = None;
        }
        has_ended
    }

    /// When accepting may resume, if it is paused.
    pub(crate) fn paused_until_ns(&self) -> Option<u64> {
        self.paused_until_ns
    }

    /// Accepting worked.
    pub(crate) fn succeeded(&mut self) {
        self.is_reported = false;
    }

    /// Accepting failed: true if accepting has to pause, false if only that one connection is lost.
    pub(crate) fn failed(&mut self, error: &io::Error, now_ns: u64) -> bool {
        let is_exhausted =
            matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM));
        if !is_exhausted {
            return false;
        }
        if !self.is_reported {
            self.is_reported = true;
            tracing::warn!(%error, "cannot accept connections; they stay queued (raise the limit with `ulimit -n`)");
        }
        self.paused_until_ns = Some(now_ns.saturating_add(BACK_OFF_NS));
        true
    }

    /// Accepting has to be started again at this listener after the pause.
    pub(crate) fn stopped(&mut self, number: usize) {
        self.stopped.push(number);
    }

    /// Takes a listener at which accepting has to be started again.
    pub(crate) fn take_stopped(&mut self) -> Option<usize> {
        self.stopped.pop()
    }

    /// True once when a pause is over.
    pub(crate) fn may_go_on(&mut self, now_ns: u64) -> bool {
        let is_over = self.paused_until_ns.is_some_and(|until_ns| until_ns <= now_ns);
        if is_over {
            self.paused_until_ns = None;
        }
        is_over
    }
}
