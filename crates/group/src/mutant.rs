//! Deliberate mistakes, each of which leaves a rule out. Tests switch them on one at a time to verify that the simulation
//! finds them. They exist only in builds for this crate's tests, and have the names of those in `docs/specs/Group.tla`.
//!
//! Not here: `AckAnyLife` and `AckAnyTerm`, since no connection outlives a life or a term, so its number tells them apart as
//! well; `SelfRemoval` and `ShrinkWithoutEtcd`, for which there is no code that could be wrong; `CheckBeforeRun` and
//! `StaleStart`, which are mistakes of whoever drives a member.

/// A deliberate mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "some are mistakes of the simulation's driver"))]
pub(crate) enum BrokenRule {
    /// The primary counts a grant as long as the member does.
    NoMargin,
    /// The primary answers without grants.
    ServeWithoutGrants,
    /// One acknowledgement is enough.
    AckByOne,
    /// Messages of a replica from before a full copy still count.
    AckOldLink,
    /// The primary does not wait for a member while its removal is under way.
    ShrinkEarly,
    /// The primary waits for a member only once its addition is known.
    GrowLate,
    /// A replica that lacks something becomes a member.
    GrowUncaught,
    /// A replica becomes a member without what the former primary left.
    GrowCommitOnly,
    /// A change whose outcome is unknown is taken for failed.
    UnknownIsFailed,
    /// A member takes over although its promise holds.
    LeaseOnly,
    /// A member that takes over goes on granting.
    KeepGranting,
    /// Any replica takes over.
    NonMember,
    /// A node in the middle of a full copy takes over.
    CopyingElected,
    /// A full copy to a member begins.
    CopyNoGate,
    /// A full copy begins to a node whose addition is under way.
    CopyGateOwnView,
    /// A primary that will be alone acknowledges what is not durable.
    AloneNoSync,
    /// A node without its data recovers the group.
    EmptyLeads,
    /// Any node recovers the group.
    RecoverAny,
    /// The primary answers while it hands over.
    HandoverNoStop,
    /// (In the simulation's driver.) A read is answered before what it saw is acknowledged.
    ReadUnacked,
    /// (In the simulation's driver.) A proof of death counts for every life of the node.
    DeadByNode,
    /// (In the simulation's driver.) A restarted process goes on with the life that it had.
    LifeIgnored,
}

#[cfg(test)]
thread_local! {
    static ON: std::cell::Cell<Option<BrokenRule>> = const { std::cell::Cell::new(None) };
}

/// Whether this mistake is switched on.
#[cfg(test)]
pub(crate) fn is_on(mutant: BrokenRule) -> bool {
    ON.get() == Some(mutant)
}

#[cfg(not(test))]
pub(crate) const fn is_on(_: BrokenRule) -> bool {
    false
}

/// The mistake that this thread makes.
#[cfg(test)]
pub(crate) fn on() -> Option<BrokenRule> {
    ON.get()
}

/// Makes this thread make that mistake, or none.
#[cfg(test)]
pub(crate) fn switch(mutant: Option<BrokenRule>) {
    ON.set(mutant);
}
