//! The work of native functions, counted in steps, so that a long call does not keep its thread from what else it has to do.
//!
//! Lua's hook counts instructions of scripts, and a call of a native function is one instruction however long it takes. So functions
//! whose work can be long count it themselves, one step being about a nanosecond's to ten nanoseconds' worth, and after so many of
//! them the host is asked what the hook asks it. What is left is kept from call to call: a thousand short calls count as a long one.

use std::cell::Cell;

/// So many steps are made between two questions whether the script may go on: some ten microseconds' worth.
pub(crate) const STEP_COUNT: i64 = 10_000;
/// So many bytes are copied or compared in one step.
pub(crate) const STEP_BYTES: usize = 64;

/// So many steps a look through a table counts for: one that was large and is empty now has many places that hold nothing.
pub(crate) const TABLE_STEP_COUNT: usize = 100;

/// The script must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Over;

/// Counts steps.
#[derive(Clone, Copy)]
pub(crate) struct Steps<'a> {
    left: &'a Cell<i64>,
    may_go_on: &'a dyn Fn() -> bool,
}

impl<'a> Steps<'a> {
    /// Steps that are taken from `left`. Once there are none, `may_go_on` is asked and there are [`STEP_COUNT`] again.
    #[inline]
    pub(crate) fn new(left: &'a Cell<i64>, may_go_on: &'a dyn Fn() -> bool) -> Steps<'a> {
        Steps { left, may_go_on }
    }

    /// Counts so many steps.
    ///
    /// # Errors
    /// When the script must end.
    #[inline]
    pub(crate) fn take(&self, count: usize) -> Result<(), Over> {
        let left = self.left.get() - count as i64;
        self.left.set(left);
        if left < 0 { self.ask() } else { Ok(()) }
    }

    /// The same for so many bytes that are copied or compared.
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
