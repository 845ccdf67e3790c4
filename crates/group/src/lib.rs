//! The rules by which a group fails over by itself: who leads, who is in sync, and what may be answered.
//!
//! ```text
//!   the document ──learn──▶ ┌────────┐ ──next_change──▶ compare-and-swap ──settled──┐
//!                           │ Member │ ◀──────────────────────────────────────────────┘
//!   beats, acknowledgements │        │ ──beat, acknowledge──▶ the other members
//!                    ──────▶└────────┘ ──serves_until_ms, committed──▶ replies that may leave
//! ```
//!
//! The rules are those of `docs/specs/groups.md`, model-checked in `docs/specs/Group.tla`; comments name them ("rule 6").
//! A [`Member`] is one node's part: a state machine that does no I/O and has no clock. Its driver reads and changes the
//! document, carries the messages, and tells the time. So a simulation can drive it, too.
//!
//! Times are milliseconds of a clock that also runs while the machine is suspended (CLOCK_BOOTTIME).
//!
//! Not here: the store of the document (`topology`), and replication itself.

#![forbid(unsafe_code)]

mod change;
mod member;
mod messages;
mod mutant;
mod primary;
mod replica;
#[cfg(test)]
mod tests;

pub use change::{GroupChange, Proposal, Standing};
pub use member::{Data, Member, Report, Role, Trouble};
pub use messages::{Ack, Beat, LinkId};
