//! What a change of a key is to others: the event that they hear of, and as how many changes it counts.

use keyspace::Class;

/// A change of a key, as others hear of it.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub(crate) event: Option<(Class, &'static str)>,
    pub(crate) count: usize,
    pub(crate) is_told: bool,
}

impl Change {
    /// One that nobody hears of and that counts nothing.
    pub const NONE: Change = Change { event: None, count: 0, is_told: false };
    /// One without an event.
    pub const UNNAMED: Change = Change { event: None, count: 1, is_told: true };

    /// One with this event; it counts as one change.
    #[inline]
    pub const fn new(class: Class, event: &'static str) -> Change {
        Change { event: Some((class, event)), count: 1, is_told: true }
    }

    /// The same for a command that counts as `count` changes: as many as the elements that it changed; 0 if what it did to
    /// another key was counted.
    #[inline]
    #[must_use]
    pub const fn times(self, count: usize) -> Change {
        Change { count, ..self }
    }

    /// The same for one that those who watch the key are not told of, because Redis does not tell them: what happens to the
    /// groups of a stream, say.
    #[inline]
    #[must_use]
    pub const fn untold(self) -> Change {
        Change { is_told: false, ..self }
    }
}
