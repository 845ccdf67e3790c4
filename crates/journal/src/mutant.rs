//! Deliberate mistakes. Tests switch them on one at a time to verify that they are detected. They exist only in builds
//! for this crate's tests.

/// A deliberate mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// A new run continues in the incarnation of the one before.
    NoTerm,
    /// A block with durable data is written again.
    RewritesBlock,
    /// Segments are reused before the manifest that does not need them is durable.
    RecyclesEarly,
    /// The name of a new segment is not made durable.
    UnsyncedNames,
    /// Only the segment that was written last is synced, and everything is reported durable.
    DurableOutOfOrder,
    /// The manifest claims that something is durable which was only written.
    ListsUnsynced,
    /// The manifest is overwritten in place.
    ManifestInPlace,
    /// A manifest that was read is taken for durable.
    TrustsManifest,
}

#[cfg(test)]
thread_local! {
    static ON: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Whether this mistake is switched on.
#[cfg(test)]
pub(crate) fn is_on(mutant: Mutant) -> bool {
    ON.get() == Some(mutant)
}

#[cfg(not(test))]
pub(crate) const fn is_on(_: Mutant) -> bool {
    false
}

/// Makes this thread make that mistake, or none.
#[cfg(test)]
pub(crate) fn switch(mutant: Option<Mutant>) {
    ON.set(mutant);
}
