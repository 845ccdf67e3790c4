//! The store of a cluster's topology: one small document that is changed by compare-and-swap only, and beside it proofs of
//! death, announcements, and a log of the changes.
//!
//! ```text
//!                         ┌─ etcd::EtcdStore      three or more members, over the HTTP/JSON gateway
//!   a group's agent ── Store ─ folder::FolderStore  one machine: tests, demonstrations
//!                         └─ model::ModelStore    the simulation: everything that etcd was seen to do
//! ```
//!
//! A caller may believe this:
//!
//! - A [`Reading`] is linearizable: it shows every change whose success was known when it began.
//! - A [`Swap`] is `Done`, `Lost` or `NotDone` only if that is certain. Everything else is `Unknown`, and may be carried out
//!   at any time until a later revision is read ([`Unsettled`]).
//! - A [`Watch`] tells that something changed. Its silence says nothing, so it also reads now and then. It returns
//!   readings like any other.
//! - An [`Announcement`] is a hint: it may be missing although its node lives, and stay although it is dead.
//! - A proof of death is never withdrawn. (It is forgotten once the document does not name its life.)
//! - A store whose revision falls, or which turns out to be another cluster, is refused until a person accepts it
//!   ([`History`]).
//!
//! All calls block for at most a few seconds, so they belong on a thread of their own.
//!
//! Not here: when a group changes and how (the agent of a group), and anything about data.

#![forbid(unsafe_code)]

pub mod etcd;
pub mod folder;
pub mod model;

mod contents;
mod document;
mod error;
mod history;
mod ids;
mod outcome;
mod records;
mod store;

pub use document::{
    DOCUMENT_BYTES_MAX, Document, DocumentError, GRANT_MS, GRANT_MS_MAX, GRANT_MS_MIN, GROUPS_MAX,
    MEMBERS_MAX, MOVES_MAX, Move, MoveState, OwnedSlots, PLACE_BYTES_MAX, PLACES_MAX, Params, ReplicaGroup,
    SLOTS, Safety, SlotRange, VERSION,
};
pub use error::Error;
pub use history::History;
pub use ids::{
    ClusterName, GroupId, Instance, Life, MoveId, NAME_BYTES_MAX, NodeId, NotALife, NotAName, Revision, Term,
};
pub use outcome::{Finding, Reading, Sight, Swap, Unsettled};
pub use records::{Announcement, LogEntry, Reason};
pub use store::{DEAD_MAX, LOG_MAX, NODES_MAX, Store, Watch};

/// The beginning of `text`, with at most `bytes_max` bytes.
pub(crate) fn shorten(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}
