//! The size classes.
//!
//! Small sizes are so close to each other that a block, unless it is tiny, takes at most a sixteenth more than requested.
//! General allocators have four sizes per doubling and waste a tenth. Every multiple of 64 bytes is a size, for blocks that
//! must be aligned to a cache line. Large blocks have a size for every KiB up to 32 KiB, then eight sizes per doubling.

/// Bytes of the largest small block.
pub(crate) const SMALL_BYTES_MAX: usize = BANDS[2].last;
/// Number of small size classes.
pub(crate) const CLASSES: usize = BANDS[2].classes_before + BANDS[2].count();

/// A range of evenly spaced sizes, from `after + step` to `last`.
struct Band {
    after: usize,
    last: usize,
    step: usize,
    classes_before: usize,
}

impl Band {
    const fn count(&self) -> usize {
        (self.last - self.after) / self.step
    }

    /// Index of the smallest class with at least `bytes`.
    #[inline]
    const fn index(&self, bytes: usize) -> usize {
        self.classes_before + (bytes - self.after - 1) / self.step
    }

    /// Block size of the class.
    #[inline]
    const fn bytes(&self, index: usize) -> usize {
        self.after + (index - self.classes_before + 1) * self.step
    }
}

const BANDS: [Band; 3] = [
    Band { after: 0, last: 1024, step: 8, classes_before: 0 },
    Band { after: 1024, last: 2048, step: 32, classes_before: 128 },
    Band { after: 2048, last: 8192, step: 64, classes_before: 160 },
];

/// Block size of each class.
static BYTES: [u16; CLASSES] = {
    let (mut bytes, mut index) = ([0; CLASSES], 0);
    while index < CLASSES {
        let band = (index >= BANDS[1].classes_before) as usize + (index >= BANDS[2].classes_before) as usize;
        bytes[index] = BANDS[band].bytes(index) as u16;
        index += 1;
    }
    bytes
};

/// A small size class; its number is below [`CLASSES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SizeClass(u8);

impl SizeClass {
    /// Returns the smallest class with room for `bytes`, which must be at most [`SMALL_BYTES_MAX`].
    #[inline]
    pub(crate) fn of(bytes: usize) -> Self {
        debug_assert!(bytes <= SMALL_BYTES_MAX);
        // One branch per band, so that the compiler knows each step and emits no division.
        let index = if bytes <= BANDS[0].last {
            BANDS[0].index(bytes.max(1))
        } else if bytes <= BANDS[1].last {
            BANDS[1].index(bytes)
        } else {
            BANDS[2].index(bytes)
        };
        SizeClass(index as u8)
    }

    /// Returns the class with this number.
    #[inline]
    pub(crate) fn numbered(number: u8) -> Self {
        SizeClass(number)
    }

    /// The number that [`Class::numbered`] takes.
    #[inline]
    pub(crate) fn number(self) -> u8 {
        self.0
    }

    /// Index into a table of all classes.
    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Size of a block in bytes.
    #[inline]
    pub(crate) fn bytes(self) -> usize {
        usize::from(BYTES[self.index()])
    }
}

/// Bytes of the largest large block.
pub(crate) const LARGE_BYTES_MAX: usize = 512 * 1024;
/// Number of large size classes.
pub(crate) const LARGE_CLASSES: usize = EVEN_CLASSES + 4 * STEPS;
/// Up to here, large sizes are multiples of 1 KiB.
const EVEN_BYTES_MAX: usize = 32 * 1024;
const EVEN_STEP: usize = 1024;
const EVEN_CLASSES: usize = (EVEN_BYTES_MAX - SMALL_BYTES_MAX) / EVEN_STEP;
/// Sizes per doubling above that.
const STEPS: usize = 8;

/// A large size class; its index is below [`LARGE_CLASSES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LargeClass(u8);

impl LargeClass {
    /// Returns the smallest class with room for `bytes`; `None` if that is not the size of a large block.
    #[inline]
    pub(crate) fn of(bytes: usize) -> Option<Self> {
        if bytes <= SMALL_BYTES_MAX || bytes > LARGE_BYTES_MAX {
            return None;
        }
        let index = if bytes <= EVEN_BYTES_MAX {
            (bytes - SMALL_BYTES_MAX - 1) / EVEN_STEP
        } else {
            let doublings = (bytes - 1).ilog2() - EVEN_BYTES_MAX.ilog2();
            let step = (EVEN_BYTES_MAX / STEPS) << doublings;
            EVEN_CLASSES + doublings as usize * STEPS + (bytes - 1) / step - STEPS
        };
        Some(LargeClass(index as u8))
    }

    /// Index into a table of all classes.
    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Size of a block in bytes.
    #[inline]
    pub(crate) fn bytes(self) -> usize {
        match self.index().checked_sub(EVEN_CLASSES) {
            None => SMALL_BYTES_MAX + (self.index() + 1) * EVEN_STEP,
            Some(index) => (STEPS + index % STEPS + 1) * ((EVEN_BYTES_MAX / STEPS) << (index / STEPS)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_the_smallest_class_with_room_for_it() {
        let sizes: Vec<usize> =
            (0..CLASSES).map(|number| SizeClass::numbered(number as u8).bytes()).collect();
        assert!(sizes.is_sorted() && CLASSES == 256 && sizes.last() == Some(&SMALL_BYTES_MAX));
        for bytes in 0..=SMALL_BYTES_MAX {
            let expected =
                sizes.iter().position(|size| *size >= bytes).expect("the last one is large enough");
            assert_eq!(SizeClass::of(bytes).index(), expected, "{bytes}");
        }
    }

    #[test]
    fn every_large_size_has_the_smallest_class_with_room_for_it() {
        let sizes: Vec<usize> = (0..LARGE_CLASSES).map(|number| LargeClass(number as u8).bytes()).collect();
        assert!(sizes.is_sorted() && sizes.last() == Some(&LARGE_BYTES_MAX));
        for bytes in (SMALL_BYTES_MAX + 1..=LARGE_BYTES_MAX).filter(|bytes| bytes % 64 < 2) {
            let expected = sizes.iter().position(|size| *size >= bytes);
            assert_eq!(LargeClass::of(bytes).map(LargeClass::index), expected, "{bytes}");
            let block = sizes[expected.expect("the last one is large enough")];
            assert!(block - bytes <= bytes / 8 && block.is_multiple_of(1024), "{bytes} in {block}");
        }
        assert!(LargeClass::of(SMALL_BYTES_MAX).is_none() && LargeClass::of(LARGE_BYTES_MAX + 1).is_none());
    }
}
