//! The journal and the replication stream of a running server: the log of what its threads commit, and its
//! destinations.
//!
//! ```text
//!   threads ── Recorder ──▶ effectlog's Log ──▶ LogThread ──▶ the journal's segments    (is_on)
//!                                                       └───▶ Backlog, for replicas     (is_streaming)
//! ```
//!
//! All threads share [`Journal`]: whether journal and stream are on, how far the committed changes are
//! durable or acknowledged by replicas, and so which replies may be sent (`turn.rs`). [`Keeper`] opens the
//! journal at the start (`opening.rs`), turns it on and off while the server runs (`switch.rs`), and gives it
//! new bases (`checkpoint.rs`).
//!
//! Invariant: turning either of them on or off holds all shards, so it begins and ends between transactions.
//!
//! Not here: the order of what threads commit (`effectlog`), the files (`journal`), snapshots
//! (`persistence`), and what replicas are sent (`feed.rs`).

mod checkpoint;
mod facts;
mod journal;
mod keeper;
mod opening;
mod switch;
mod tuning;
mod turn;

pub use self::journal::{Journal, Opened, policy};
pub use keeper::Keeper;
pub use opening::{Begun, Opening, Slices};
pub use switch::Step;
pub use tuning::Tuning;
