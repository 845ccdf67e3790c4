//! The state of a requested failover. `handover.rs` describes its course, and `leaving.rs` its first part.

#![expect(clippy::disallowed_types, reason = "nothing of this is on the way of a command")]

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use effectlog::Cut;

use crate::address::Address;

/// Part of the error by which a target reports that it is a primary already.
const IS_PRIMARY: &str = "be sent to a master";

/// The state of a failover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum FailoverState {
    Nothing,
    /// Clients are told to go to the replica, and nothing is held yet.
    Announcing,
    /// Waits for a replica that has everything.
    Waiting,
    /// The replica has been asked to take over.
    Asking,
    /// The replica was a primary already, and is asked only for the stream.
    Joining,
    /// The replica refuses, so this server must lead again.
    Refused,
}

/// The request.
#[derive(Debug)]
pub(crate) struct FailoverPlan {
    /// The replica to hand over to. `None`: the first one that has everything.
    pub(crate) target: Option<Address>,
    /// Whether the request named no target, and this one was chosen because clients had to be told one.
    pub(crate) is_chosen: bool,
    /// Whether the replica takes over at the timeout even if it lacks data.
    pub(crate) forces: bool,
    /// The time of the timeout, on the monotonic clock.
    pub(crate) end_ms: Option<u64>,
}

/// A place in the stream after which nothing may be sent.
pub(crate) struct StreamMark {
    pub(crate) cut: Cut,
    /// The bytes that all threads had sent up to this place.
    pub(crate) sent_bytes: u64,
}

/// The progress of the first part.
#[derive(Default)]
pub(crate) struct Leaving {
    /// The question in the stream, and when it was asked.
    pub(crate) question: Option<(StreamMark, u64)>,
    /// When clients were told, and when the last round began.
    pub(crate) told_ms: Option<(u64, u64)>,
}

/// See the head of this file.
#[derive(Default)]
pub struct Failover {
    state: AtomicU8,
    under_way: Mutex<Option<(FailoverPlan, Option<StreamMark>)>>,
    leaving: Mutex<Leaving>,
    /// When the thread of the link must look again, on the monotonic clock. 0: when something happens.
    wakes_ms: AtomicU64,
}

impl Failover {
    pub(crate) fn under_way(&self) -> MutexGuard<'_, Option<(FailoverPlan, Option<StreamMark>)>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn leaving(&self) -> MutexGuard<'_, Leaving> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> FailoverState {
        const STATES: [FailoverState; 6] = [
            FailoverState::Nothing,
            FailoverState::Announcing,
            FailoverState::Waiting,
            FailoverState::Asking,
            FailoverState::Joining,
            FailoverState::Refused,
        ];
        STATES[usize::from(self.state.load(Ordering::Acquire))]
    }

    pub(crate) fn set_state(&self, state: FailoverState) {
        if state != FailoverState::Announcing {
            self.wake_at(0);
        }
        self.state.store(state as u8, Ordering::Release);
    }

    /// Whether a failover is in progress.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.state() != FailoverState::Nothing
    }

    /// Whether it waits for acknowledgements.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        matches!(self.state(), FailoverState::Announcing | FailoverState::Waiting)
    }

    /// Whether the role has changed and the target does not lead yet, as far as this server knows.
    pub fn is_between(&self) -> bool {
        matches!(self.state(), FailoverState::Asking | FailoverState::Joining)
    }

    /// When the thread of the link must look again, on the monotonic clock.
    pub fn wakes_ms(&self) -> Option<u64> {
        Some(self.wakes_ms.load(Ordering::Relaxed)).filter(|wakes_ms| *wakes_ms > 0)
    }

    pub(crate) fn wake_at(&self, now_ms: u64) {
        self.wakes_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Its state as INFO shows it.
    pub(crate) fn name(&self) -> &'static str {
        match self.state() {
            FailoverState::Nothing => "no-failover",
            FailoverState::Announcing | FailoverState::Waiting => "waiting-for-sync",
            FailoverState::Asking | FailoverState::Joining | FailoverState::Refused => "failover-in-progress",
        }
    }

    /// Forgets a chosen target that is no replica any more, so that another one may take over.
    pub(crate) fn forget_lost_target(&self, is_replica: impl FnOnce(&Address) -> bool) {
        if let Some((plan, _)) = &mut *self.under_way()
            && plan.is_chosen
            && !plan.target.as_ref().is_some_and(is_replica)
        {
            (plan.target, plan.is_chosen) = (None, false);
        }
    }

    /// Whether this server accepts a snapshot from its primary. It does not while it asks that primary to take over.
    pub(crate) fn takes_snapshots(&self) -> bool {
        !self.is_on() || self.under_way().as_ref().is_none_or(|(plan, _)| plan.forces)
    }

    /// Whether the target takes over even if it lacks data.
    pub(crate) fn forces(&self) -> bool {
        self.under_way().as_ref().is_some_and(|(plan, _)| plan.forces)
    }

    /// The target answered with this error.
    pub(crate) fn note_refused(&self, why: &str) {
        let is_primary = self.state() == FailoverState::Asking && why.contains(IS_PRIMARY);
        self.set_state(if is_primary { FailoverState::Joining } else { FailoverState::Refused });
    }

    /// The failover is over.
    pub(crate) fn end(&self) {
        *self.under_way() = None;
        *self.leaving() = Leaving::default();
        self.wake_at(0);
        self.set_state(FailoverState::Nothing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_leads_already_is_joined_once() {
        let failover = Failover::default();
        failover.set_state(FailoverState::Asking);
        failover.note_refused("-ERR PSYNC FAILOVER can't be sent to a master.");
        assert_eq!((failover.state(), failover.name()), (FailoverState::Joining, "failover-in-progress"));
        failover.note_refused("+FULLRESYNC");
        assert_eq!(failover.state(), FailoverState::Refused);
        failover.set_state(FailoverState::Asking);
        failover.note_refused("-ERR PSYNC FAILOVER replid must match my replid.");
        assert_eq!(failover.state(), FailoverState::Refused);
    }
}
