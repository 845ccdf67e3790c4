//! Eight slots, which fill a cache line.
//!
//! The marks of the slots form a number: how many blocks had to go past this bucket to find a free slot. A look-up ends
//! at a bucket that none went past. The number is exact (removing such a block decrements it) up to [`PASSED_MAX`];
//! from there on it stays as it is until the segment is rebuilt.

use super::slot::{Block, Glance, Slot};

/// Slots of a bucket.
pub(super) const SLOTS: usize = 8;

const PASSED_MAX: u8 = u8::MAX;

/// Eight slots with a counter in their marks.
#[repr(align(64))]
pub(super) struct Bucket<B: Block> {
    pub(super) slots: [Slot<B>; SLOTS],
}

impl<B: Block> Bucket<B> {
    /// Allocates `count` buckets without blocks.
    pub(super) fn empty_row(count: usize) -> Box<[Self]> {
        let row = Box::new_zeroed_slice(count);
        // SAFETY: all zeros is a valid bucket: a null pointer is a slot without block and mark.
        unsafe { row.assume_init() }
    }

    /// Compares the slots with this tag. The `marked` bits are the number of blocks that went past.
    #[inline]
    pub(super) fn look_up(&self, tag: u16) -> Glance {
        Glance::at(&self.slots, tag)
    }

    /// Prefetches the blocks.
    pub(super) fn prefetch_blocks(&self) {
        self.slots.iter().for_each(Slot::prefetch);
    }

    /// Index of an empty slot.
    #[inline]
    pub(super) fn free_slot(&self) -> Option<usize> {
        let mut candidates = self.look_up(0).untagged;
        while candidates != 0 {
            let number = candidates.trailing_zeros() as usize % SLOTS;
            if self.slots[number].is_empty() {
                return Some(number);
            }
            candidates &= candidates - 1;
        }
        None
    }

    /// Increments the number of blocks that went past, unless it is at its maximum.
    #[inline]
    pub(super) fn count_passing(&mut self) {
        // From the lowest digit on, until there is no carry.
        for slot in &mut self.slots {
            if slot.flip_mark() {
                return;
            }
        }
        // It was at its maximum: undo the overflow.
        self.slots.iter_mut().for_each(|slot| _ = slot.flip_mark());
    }

    /// The number of blocks that went past.
    #[inline]
    pub(super) fn passed(&self) -> u8 {
        self.look_up(0).marked
    }

    /// Decrements the number of blocks that went past, unless it is at its maximum.
    pub(super) fn uncount_passing(&mut self) {
        let passed = self.passed();
        assert!(passed > 0, "whatever lies behind was counted");
        if passed < PASSED_MAX {
            // Borrows from the next digit as long as this one is zero.
            _ = self.slots.iter_mut().find_map(|slot| (!slot.flip_mark()).then_some(()));
        }
    }

    /// Sets the number of blocks that went past, which was `before`.
    #[inline]
    pub(super) fn set_passed(&mut self, before: u8, passed: u8) {
        let mut different = before ^ passed;
        while different != 0 {
            let number = different.trailing_zeros() as usize;
            self.slots[number].set_marked(passed >> number & 1 != 0);
            different &= different - 1;
        }
    }
}
