//! The state of a shutdown: whether the process has to end, who asked for that, and how.
//!
//! ```text
//!   begin ─▶ under way ─▶ end: nothing can abort it any more
//!               │ abort, or the save fails
//!               └─▶ cancel: the server goes on as before, and tells the client that asked
//! ```
//!
//! Not here: what is saved, and what a shutdown waits for (`server`, `shutdown.rs`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use config::{
    SHUTDOWN_FAILOVER, SHUTDOWN_FORCE, SHUTDOWN_NOSAVE, SHUTDOWN_NOW, SHUTDOWN_SAFE, SHUTDOWN_SAVE,
};

/// How the process is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct How {
    /// Whether to save; `None`: only if there are save points.
    pub saves: Option<bool>,
    /// Does not wait for clients and replicas.
    pub is_now: bool,
    /// Ends the process even if saving fails.
    pub is_forced: bool,
    /// Ends the process only if its data are somewhere else, unless it is forced.
    pub is_safe: bool,
    /// Hands over to a replica first, and ends the process only if that succeeds, unless it is forced.
    pub fails_over: bool,
}

impl How {
    /// From the bits of `shutdown-on-sigterm`.
    pub fn of(bits: i64) -> How {
        let saves = match bits {
            bits if bits & SHUTDOWN_SAVE != 0 => Some(true),
            bits if bits & SHUTDOWN_NOSAVE != 0 => Some(false),
            _ => None,
        };
        How {
            saves,
            is_now: bits & SHUTDOWN_NOW != 0,
            is_forced: bits & SHUTDOWN_FORCE != 0,
            is_safe: bits & SHUTDOWN_SAFE != 0,
            fails_over: bits & SHUTDOWN_FAILOVER != 0,
        }
    }
}

/// A shutdown that is under way.
#[derive(Debug)]
struct UnderWay<A> {
    how: How,
    /// Whether a signal asked for it.
    is_signal: bool,
    /// The clients that asked, and wait for their connections to end.
    askers: Vec<A>,
    is_aborted: bool,
    /// A signal came after the shutdown was aborted. This shutdown begins when the aborted one is over.
    next: Option<How>,
    /// It is too late to abort.
    is_final: bool,
}

/// The result of a shutdown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShutdownOutcome {
    /// The process ends. Everything is saved that was to be saved.
    Ends,
    /// The process ends. Saving failed, but the shutdown was forced.
    EndsUnsaved,
    /// The process goes on, because saving failed.
    Failed,
    /// The process goes on, because the shutdown was aborted.
    Aborted,
}

/// The state of a shutdown. `A`: a client that asks for it.
#[derive(Debug)]
pub struct Shutdown<A> {
    request: Mutex<Option<UnderWay<A>>>,
    is_under_way: AtomicBool,
    /// Scripts that have written nothing have to end.
    ends_scripts: AtomicBool,
    /// Until when it waits for replicas, on a clock that does not jump, in milliseconds; 0: it does not.
    waits_until_ms: AtomicU64,
    /// Threads that have called [`Shutdown::hear`] since [`Shutdown::has_heard`] was called for them.
    heard: Box<[AtomicBool]>,
}

impl<A> Shutdown<A> {
    /// The state while no shutdown is requested.
    pub fn new(thread_count: usize) -> Self {
        Shutdown {
            request: Mutex::new(None),
            is_under_way: AtomicBool::new(false),
            ends_scripts: AtomicBool::new(false),
            waits_until_ms: AtomicU64::new(0),
            heard: (0..thread_count).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    fn request(&self) -> MutexGuard<'_, Option<UnderWay<A>>> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a shutdown for a client, or (`None`) for a signal. If one is under way, returns false and adds to it what
    /// this request asks for: not to save, not to wait, or to end in any case, safe or not.
    pub fn begin(&self, how: How, asker: Option<A>) -> bool {
        let is_signal = asker.is_none();
        let mut request = self.request();
        if let Some(request) = &mut *request {
            if request.is_aborted && is_signal {
                request.next = Some(how);
                return false;
            }
            request.askers.extend(asker);
            if how.saves == Some(false) {
                request.how.saves = how.saves;
            }
            request.how.is_now |= how.is_now;
            request.how.is_forced |= how.is_forced;
            request.how.is_safe &= how.is_safe;
            request.is_signal |= is_signal;
            return false;
        }
        let askers = asker.into_iter().collect();
        *request = Some(UnderWay { how, is_signal, askers, is_aborted: false, next: None, is_final: false });
        drop(request);
        self.is_under_way.store(true, Ordering::Relaxed);
        true
    }

    /// Ends the shutdown; the process goes on. Returns the clients that have to be told, and how to end the process if
    /// a signal came after an abort.
    pub fn cancel(&self) -> (Vec<A>, Option<How>) {
        self.ends_scripts.store(false, Ordering::Relaxed);
        self.await_until(None);
        self.is_under_way.store(false, Ordering::Relaxed);
        let request = self.request().take();
        assert!(
            request.as_ref().is_none_or(|request| !request.is_final),
            "the process has said that it ends"
        );
        request.map_or_else(Default::default, |request| (request.askers, request.next))
    }

    /// Notes until when it waits for replicas, or that it no longer does.
    pub fn await_until(&self, until_ms: Option<u64>) {
        self.waits_until_ms.store(until_ms.unwrap_or(0), Ordering::Relaxed);
    }

    /// Until when it waits for replicas, if it does.
    pub fn awaits_until(&self) -> Option<u64> {
        Some(self.waits_until_ms.load(Ordering::Relaxed)).filter(|until_ms| *until_ms > 0)
    }

    /// Aborts the shutdown. False if no shutdown was requested, or it is too late.
    pub fn abort(&self) -> bool {
        match &mut *self.request() {
            Some(request) if !request.is_final && !request.is_aborted => {
                request.is_aborted = true;
                true
            }
            _ => false,
        }
    }

    /// How the process is to end, unless the shutdown was aborted.
    pub fn how(&self) -> Option<How> {
        self.request().as_ref().filter(|request| !request.is_aborted).map(|request| request.how)
    }

    /// Call this after saving. `saved`: saving succeeded, or nothing had to be saved. If the process ends, the
    /// shutdown cannot be aborted any more.
    pub fn end(&self, saved: bool) -> ShutdownOutcome {
        let mut request = self.request();
        let Some(request) = request.as_mut().filter(|request| !request.is_aborted) else {
            return ShutdownOutcome::Aborted;
        };
        if !saved && !request.how.is_forced {
            return ShutdownOutcome::Failed;
        }
        request.is_final = true;
        if saved { ShutdownOutcome::Ends } else { ShutdownOutcome::EndsUnsaved }
    }

    /// Whether the process ends even if nothing consistent can be saved.
    pub fn insists(&self) -> bool {
        self.request().as_ref().is_some_and(|request| request.is_signal || request.how.is_forced)
    }

    /// Whether a shutdown is under way.
    #[inline]
    pub fn is_under_way(&self) -> bool {
        self.is_under_way.load(Ordering::Relaxed)
    }

    /// Whether the shutdown was aborted.
    pub fn is_aborted(&self) -> bool {
        self.is_under_way() && self.request().as_ref().is_some_and(|request| request.is_aborted)
    }

    // ---- threads and scripts --------------------------------------------------------------------------------

    /// Thread number `thread` reports that it is still running.
    pub fn hear(&self, thread: u16) {
        self.heard[usize::from(thread)].store(true, Ordering::Relaxed);
    }

    /// Whether a thread has reported since this was called last.
    pub fn has_heard(&self, thread: usize) -> bool {
        self.heard[thread].swap(false, Ordering::Relaxed)
    }

    /// Called by a running script on thread number `thread`: whether it has to end.
    pub fn ends_script(&self, thread: u16, has_written: bool) -> bool {
        if !self.is_under_way() {
            return false;
        }
        self.hear(thread);
        !has_written && self.ends_scripts.load(Ordering::Relaxed)
    }

    /// Ends scripts that have written nothing. False if this was called before.
    pub fn end_scripts(&self) -> bool {
        !self.ends_scripts.swap(true, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAVING: How =
        How { saves: Some(true), is_now: false, is_forced: false, is_safe: false, fails_over: false };

    #[test]
    fn the_bits_of_the_setting_say_how() {
        assert_eq!(How::of(0), How::default());
        assert_eq!(How::of(SHUTDOWN_SAVE | SHUTDOWN_NOW), How { is_now: true, ..SAVING });
        assert_eq!(How::of(SHUTDOWN_NOSAVE | SHUTDOWN_FORCE).saves, Some(false));
    }

    #[test]
    fn who_comes_later_can_only_be_less_patient() {
        let shutdown = Shutdown::new(1);
        assert!(shutdown.begin(SAVING, Some("first")));
        assert!(!shutdown.insists());
        assert!(!shutdown.begin(How { is_now: true, ..How::default() }, Some("second")));
        assert_eq!(shutdown.how(), Some(How { is_now: true, ..SAVING }));
        assert!(!shutdown.begin(How { saves: Some(false), ..How::default() }, None));
        assert_eq!(shutdown.how().unwrap().saves, Some(false));
        assert!(shutdown.insists(), "a signal does");
        assert_eq!(shutdown.cancel(), (vec!["first", "second"], None));
        assert!(!shutdown.is_under_way() && shutdown.how().is_none());
    }

    #[test]
    fn a_save_that_failed_ends_nothing_unless_forced() {
        for (is_forced, saved, outcome) in [
            (false, true, ShutdownOutcome::Ends),
            (false, false, ShutdownOutcome::Failed),
            (true, false, ShutdownOutcome::EndsUnsaved),
            (true, true, ShutdownOutcome::Ends),
        ] {
            let shutdown = Shutdown::new(1);
            shutdown.begin(How { is_forced, ..SAVING }, Some(()));
            assert_eq!(shutdown.end(saved), outcome);
            assert_eq!(shutdown.abort(), outcome == ShutdownOutcome::Failed, "what ends cannot be aborted");
        }
    }

    #[test]
    fn an_aborted_shutdown_does_not_end() {
        let shutdown = Shutdown::new(1);
        assert!(!shutdown.abort());
        shutdown.begin(SAVING, Some(()));
        assert!(shutdown.abort() && !shutdown.abort() && shutdown.is_aborted());
        assert_eq!((shutdown.how(), shutdown.end(true)), (None, ShutdownOutcome::Aborted));
        assert_eq!(shutdown.cancel(), (vec![()], None));
        assert!(!shutdown.is_aborted());
    }

    #[test]
    fn a_signal_after_an_abort_is_not_lost() {
        let shutdown = Shutdown::new(1);
        shutdown.begin(SAVING, Some(()));
        shutdown.abort();
        assert!(!shutdown.begin(SAVING, None), "the first one is not over");
        assert!(shutdown.is_aborted());
        let (_, next) = shutdown.cancel();
        assert!(next.is_some_and(|how| shutdown.begin(how, None)));
        assert_eq!(shutdown.end(true), ShutdownOutcome::Ends);
    }

    #[test]
    fn only_scripts_that_wrote_nothing_end() {
        let shutdown = Shutdown::<()>::new(2);
        shutdown.begin(SAVING, None);
        assert!(!shutdown.ends_script(1, false));
        assert!(shutdown.has_heard(1) && !shutdown.has_heard(1) && !shutdown.has_heard(0));
        assert!(shutdown.end_scripts() && !shutdown.end_scripts());
        assert!(shutdown.ends_script(0, false) && !shutdown.ends_script(0, true));
    }
}
