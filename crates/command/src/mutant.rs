//! Mistakes about the journal that the simulation switches on, each for itself, to see that its checks notice them. Without the feature
//! `simulation` none of them can be.

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// A reply does not wait for what it tells of.
    ReplyAtOnce,
    /// The reply of a command that another thread ran does not.
    DelegatedAtOnce,
    /// What was read does not count as seen, only what was written.
    ReadAtOnce,
    /// What a waiter is served with does not wait.
    ServedAtOnce,
    /// A message does not.
    PublishedAtOnce,
    /// The message that tells of a changed key does not.
    EventAtOnce,
    /// A record gets its place when the shards have been left.
    CommitsLate,
}

#[cfg(feature = "simulation")]
thread_local! {
    static ON: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Whether a mistake is made.
#[cfg(feature = "simulation")]
pub fn is_on(mutant: Mutant) -> bool {
    ON.get() == Some(mutant)
}

/// Whether a mistake is made: never.
#[cfg(not(feature = "simulation"))]
#[inline(always)]
pub const fn is_on(_: Mutant) -> bool {
    false
}

/// From now on everything that this thread runs makes that mistake, or none.
#[cfg(feature = "simulation")]
pub fn switch(mutant: Option<Mutant>) {
    ON.set(mutant);
}
