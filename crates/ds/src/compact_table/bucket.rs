//! Eight slots, which are one line of the processor's cache.
//!
//! The marks of the slots together are a number: how many blocks had to go past this bucket to find a free slot. A
//! look-up that comes to a bucket which none went past is at its end. The number is exact (blocks that are taken out
//! count it down again) up to [`PASSED_MAX`]; from there on it stays as it is until the segment is rebuilt.

use std::array;

use super::slot::{Block, Slot, empty, matching_and_marked};

/// Slots of a bucket.
pub(super) const SLOTS: usize = 8;

const PASSED_MAX: u8 = u8::MAX;

/// See the head of this file.
#[repr(align(64))]
pub(super) struct Bucket<B: Block> {
    pub(super) slots: [Slot<B>; SLOTS],
}

impl<B: Block> Bucket<B> {
    pub(super) fn empty() -> Self {
        Bucket { slots: array::from_fn(|_| Slot::empty()) }
    }

    /// The slots with this tag, and perhaps empty ones, each a bit; and how many blocks went past.
    #[inline]
    pub(super) fn look_up(&self, tag: u16) -> (u8, u8) {
        matching_and_marked(&self.slots, tag)
    }

    /// The number of an empty slot.
    #[inline]
    pub(super) fn free_slot(&self) -> Option<usize> {
        let empty = empty(&self.slots);
        (empty != 0).then(|| empty.trailing_zeros() as usize)
    }

    /// How many blocks went past.
    pub(super) fn passed(&self) -> u8 {
        self.look_up(0).1
    }

    /// Counts one block more that went past.
    pub(super) fn count_passing(&mut self) {
        let passed = self.passed();
        self.set_passed(passed, passed.saturating_add(1));
    }

    /// Counts one block less.
    pub(super) fn uncount_passing(&mut self) {
        let passed = self.passed();
        assert!(passed > 0, "whatever lies behind was counted");
        if passed < PASSED_MAX {
            self.set_passed(passed, passed - 1);
        }
    }

    fn set_passed(&mut self, before: u8, passed: u8) {
        let mut different = before ^ passed;
        while different != 0 {
            let number = different.trailing_zeros() as usize;
            self.slots[number].set_marked(passed >> number & 1 != 0);
            different &= different - 1;
        }
    }
}
