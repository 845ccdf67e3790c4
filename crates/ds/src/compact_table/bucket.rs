//! Eight slots, which are one line of the processor's cache.
//!
//! The marks of the slots together are a number: how many blocks had to go past this bucket to find a free slot. A
//! look-up that comes to a bucket which none went past is at its end. The number is exact (blocks that are taken out
//! count it down again) up to [`PASSED_MAX`]; from there on it stays as it is until the segment is rebuilt.

use super::slot::{Block, Glance, Slot};

/// Slots of a bucket.
pub(super) const SLOTS: usize = 8;

const PASSED_MAX: u8 = u8::MAX;

/// See the head of this file.
#[repr(align(64))]
pub(super) struct Bucket<B: Block> {
    pub(super) slots: [Slot<B>; SLOTS],
}

impl<B: Block> Bucket<B> {
    /// So many without blocks.
    pub(super) fn empty_row(count: usize) -> Box<[Self]> {
        let row = Box::new_zeroed_slice(count);
        // SAFETY: a slot without block and mark is a null pointer.
        unsafe { row.assume_init() }
    }

    /// What a look-up of this tag has to know. The marks say how many blocks went past.
    #[inline]
    pub(super) fn look_up(&self, tag: u16) -> Glance {
        Glance::at(&self.slots, tag)
    }

    /// Asks for the blocks.
    pub(super) fn prefetch_blocks(&self) {
        self.slots.iter().for_each(Slot::prefetch);
    }

    /// The number of an empty slot.
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

    /// Counts one block more that went past.
    #[inline]
    pub(super) fn count_passing(&mut self) {
        // The lowest digit of the number first, until there is nothing to carry.
        for slot in &mut self.slots {
            if slot.flip_mark() {
                return;
            }
        }
        // It was the largest already.
        self.slots.iter_mut().for_each(|slot| _ = slot.flip_mark());
    }

    /// How many blocks went past.
    #[inline]
    pub(super) fn passed(&self) -> u8 {
        self.look_up(0).marked
    }

    /// Counts one block less.
    pub(super) fn uncount_passing(&mut self) {
        let passed = self.passed();
        assert!(passed > 0, "whatever lies behind was counted");
        if passed < PASSED_MAX {
            // Borrows from the next digit as long as this one is zero.
            _ = self.slots.iter_mut().find_map(|slot| (!slot.flip_mark()).then_some(()));
        }
    }

    /// Sets the number of those that went past, which was `before`.
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
