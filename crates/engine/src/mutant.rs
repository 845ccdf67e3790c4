//! Deliberate mistakes about the journal. The simulation switches them on one at a time to verify that its
//! checks notice them. Only builds with the feature `simulation` can switch them on.

/// A deliberate mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// A reply does not wait until the changes it reports are durable.
    ReplyAtOnce,
    /// The reply of a command that another thread ran does not wait.
    DelegatedAtOnce,
    /// Only writes delay a reply, not reads.
    ReadAtOnce,
    /// The reply to a served waiter does not wait.
    ServedAtOnce,
    /// A published message does not wait.
    PublishedAtOnce,
    /// A keyspace event does not wait.
    EventAtOnce,
    /// A record gets its place in the stream only after the shards have been left.
    CommitsLate,
}

#[cfg(feature = "simulation")]
thread_local! {
    static ON: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Whether this mistake is switched on.
#[cfg(feature = "simulation")]
pub fn is_on(mutant: Mutant) -> bool {
    ON.get() == Some(mutant)
}

/// Whether this mistake is switched on: never.
#[cfg(not(feature = "simulation"))]
#[inline(always)]
pub const fn is_on(_: Mutant) -> bool {
    false
}

/// Switches one mistake on for everything that this thread runs afterwards, or all of them off.
#[cfg(feature = "simulation")]
pub fn switch(mutant: Option<Mutant>) {
    ON.set(mutant);
}
