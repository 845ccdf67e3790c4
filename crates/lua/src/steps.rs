//! Counts the work of native functions in steps, so that a long call does not keep its thread from its other
//! work.
//!
//! Lua's hook counts the instructions of scripts, and a call of a native function is one instruction, however
//! long it takes. So functions that may take long count their own work. A step is about one to ten
//! nanoseconds. Every [`STEP_COUNT`] steps the function asks the host the same question as the hook.
//! Remaining steps are carried over to the next call: a thousand short calls count like a long one.

use std::cell::Cell;

/// Steps between two questions whether the script may continue: about ten microseconds.
pub(crate) const STEP_COUNT: i64 = 10_000;
/// Bytes that are copied or compared in one step.
pub(crate) const STEP_BYTES: usize = 64;

/// Steps that traversing a table counts as, because a table that was large and is now empty still has many
/// free slots.
pub(crate) const TABLE_STEP_COUNT: usize = 100;

/// The script must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Over;

/// Counts steps of one call.
#[derive(Clone, Copy)]
pub(crate) struct Steps<'a> {
    left: &'a Cell<i64>,
    may_go_on: &'a dyn Fn() -> bool,
}

impl<'a> Steps<'a> {
    /// Takes steps from `left`. When they run out, asks `may_go_on` and refills them to [`STEP_COUNT`].
    #[inline]
    pub(crate) fn new(left: &'a Cell<i64>, may_go_on: &'a dyn Fn() -> bool) -> Steps<'a> {
        Steps { left, may_go_on }
    }

    /// Counts `count` steps.
    ///
    /// # Errors If the script must end.
    #[inline]
    pub(crate) fn take(&self, count: usize) -> Result<(), Over> {
        let left = self.left.get() - count as i64;
        self.left.set(left);
        if left < 0 { self.ask() } else { Ok(()) }
    }

    /// Counts the steps for copying or comparing `count` bytes.
    #[inline]
    pub(crate) fn take_bytes(&self, count: usize) -> Result<(), Over> {
        self.take(count / STEP_BYTES)
    }

    #[cold]
    fn ask(&self) -> Result<(), Over> {
        self.left.set(STEP_COUNT);
        if (self.may_go_on)() { Ok(()) } else { Err(Over) }
    }
}
