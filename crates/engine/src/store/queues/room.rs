//! How much may be taken from a queue.

/// The number of elements that may be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room(u64);

impl Room {
    /// No limit, so takes are not counted.
    pub const ANY: Room = Room(u64::MAX);
    /// No element may be taken.
    pub(crate) const NONE: Room = Room(0);

    /// Room for this many elements.
    pub fn of(count: u64) -> Room {
        Room(count.min(u64::MAX - 1))
    }

    /// Whether no element may be taken.
    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// `count`, or less if there is less room.
    #[inline]
    pub fn fit(self, count: usize) -> usize {
        self.0.min(count as u64) as usize
    }
}
