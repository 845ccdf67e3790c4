//! The messages between the primary and the other members.

use effectlog::StreamPosition;
use topology::{Instance, Life, Term};

/// A connection of a replica to its primary. The primary counts them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LinkId(pub u64);

/// From the primary, several times within a grant: answer, and promise.
#[derive(Clone, Debug)]
pub struct Beat {
    /// The primary's term.
    pub term: Term,
    /// The primary's life.
    pub from: Life,
    /// The connection.
    pub link: LinkId,
    /// When it was sent, by the primary's clock. The answer repeats it.
    pub sent_ms: u64,
}

/// From a member: it has this, and promises the primary of its term to take over from no one for the length of a grant
/// (rule 1).
#[derive(Clone, Debug)]
pub struct Ack {
    /// The member's term.
    pub term: Term,
    /// The member.
    pub from: Instance,
    /// The life of the primary that it is for.
    pub to: Life,
    /// The connection.
    pub link: LinkId,
    /// Everything before this is applied or durable, as the document asks.
    pub offset: StreamPosition,
    /// When the last beat was sent that the member has received, by the primary's clock.
    pub beat_ms: u64,
}
