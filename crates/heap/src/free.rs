//! A freed block.

/// Its first bytes link to the block that was freed before it.
#[derive(Debug)]
pub(crate) struct Free {
    pub(crate) next: *mut Free,
}
