//! A block that was freed.

/// In its first bytes stands which one was freed before it.
#[derive(Debug)]
pub(crate) struct Free {
    pub(crate) next: *mut Free,
}
