//! Deliberate mistakes: tests verify that the model checker notices them (`tests/loom.rs`). Other builds make none.

/// A deliberate mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(loom), expect(unreachable_pub, reason = "only tests under the model checker name it"))]
pub enum Mutant {
    /// A commit has no fence.
    NoFenceAtCommit,
    /// The collector has no fence.
    NoFenceAtClose,
    /// The collector has no fence if a cut has ended the slice.
    NoFenceAfterCut,
    /// A commit does not set `busy`.
    NotBusy,
    /// A stamp may be lower than those of the shards.
    StampOfItsOwn,
    /// The record is sent after `busy` is cleared.
    SentTooLate,
}

/// The mistake that a log makes, if any.
#[derive(Default, Debug)]
pub(crate) struct Mistake(#[cfg(loom)] pub(crate) Option<Mutant>);

impl Mistake {
    /// Whether it is this one.
    #[cfg(loom)]
    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.0 == Some(mutant)
    }

    #[cfg(not(loom))]
    pub(crate) const fn is(&self, _: Mutant) -> bool {
        false
    }
}
