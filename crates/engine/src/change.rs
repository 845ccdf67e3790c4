//! A change of a key: the keyspace event that announces it, and the number of changes it counts as.

use keyspace::Class;

/// A change of a key, as it is announced.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub(crate) event: Option<(Class, &'static str)>,
    pub(crate) count: usize,
    pub(crate) is_told: bool,
}

impl Change {
    /// A change that is not announced and does not count.
    pub const NONE: Change = Change { event: None, count: 0, is_told: false };
    /// A change without an event.
    pub const UNNAMED: Change = Change { event: None, count: 1, is_told: true };

    /// A change with this event; it counts as one.
    #[inline]
    pub const fn new(class: Class, event: &'static str) -> Change {
        Change { event: Some((class, event)), count: 1, is_told: true }
    }

    /// The change counted `count` times: once for each element changed, or 0 if the command has counted its
    /// change of another key.
    #[inline]
    #[must_use]
    pub const fn times(self, count: usize) -> Change {
        Change { count, ..self }
    }

    /// The change without telling the clients that watch the key, because Redis does not tell them either: a
    /// change to the groups of a stream, for example.
    #[inline]
    #[must_use]
    pub const fn untold(self) -> Change {
        Change { is_told: false, ..self }
    }
}
