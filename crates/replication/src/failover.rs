//! The state of a requested failover. `handover.rs` describes its course.

#![expect(clippy::disallowed_types, reason = "nothing of this is on the way of a command")]

use std::sync::atomic::{AtomicU8, Ordering};
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

/// See the head of this file.
#[derive(Default)]
pub struct Failover {
    state: AtomicU8,
    under_way: Mutex<Option<(FailoverPlan, Option<StreamMark>)>>,
}

impl Failover {
    pub(crate) fn under_way(&self) -> MutexGuard<'_, Option<(FailoverPlan, Option<StreamMark>)>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> FailoverState {
        const STATES: [FailoverState; 5] = [
            FailoverState::Nothing,
            FailoverState::Waiting,
            FailoverState::Asking,
            FailoverState::Joining,
            FailoverState::Refused,
        ];
        STATES[usize::from(self.state.load(Ordering::Acquire))]
    }

    pub(crate) fn set_state(&self, state: FailoverState) {
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
        self.state() == FailoverState::Waiting
    }

    /// Its state as INFO shows it.
    pub(crate) fn name(&self) -> &'static str {
        match self.state() {
            FailoverState::Nothing => "no-failover",
            FailoverState::Waiting => "waiting-for-sync",
            FailoverState::Asking | FailoverState::Joining | FailoverState::Refused => "failover-in-progress",
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
