//! Deliberate mistakes, which tests switch on one at a time to verify that they are noticed. They exist only in builds
//! for this crate's tests.

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// A new life goes on as if it were the one before.
    NoTerm,
    /// A block that holds something durable is written again.
    RewritesBlock,
    /// Segments are used again before the manifest that does not need them is durable.
    RecyclesEarly,
    /// The name of a new segment is not made durable.
    UnsyncedNames,
    /// Only the segment that was written last is made durable, and all is reported.
    DurableOutOfOrder,
    /// The manifest claims that something was durable which was only written.
    ListsUnsynced,
    /// The manifest is written where it lies.
    ManifestInPlace,
}

#[cfg(test)]
thread_local! {
    static ON: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Whether a mistake is made.
#[cfg(test)]
pub(crate) fn is_on(mutant: Mutant) -> bool {
    ON.get() == Some(mutant)
}

#[cfg(not(test))]
pub(crate) const fn is_on(_: Mutant) -> bool {
    false
}

/// From now on this thread makes that mistake.
#[cfg(test)]
pub(crate) fn switch(mutant: Option<Mutant>) {
    ON.set(mutant);
}
