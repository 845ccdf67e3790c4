//! The life of a command: from the bytes that a client sent to the reply.
//!
//! ```text
//!   pipeline ─▶ admit ─▶ dispatch ─▶ its function ─▶ reply
//!      ▲          │          │            │
//!      │        pause     taken: away,    waits, asks all threads,
//!      │          │       queued          or runs again
//!      └──────────┴── homecoming, gather ◀┘
//! ```
//!
//! Not here: the commands themselves (crate `commands`, `commands/`), the loop that calls all of this (`thread.rs`).

pub(crate) mod admit;
pub(crate) mod busy;
pub(crate) mod dispatch;
pub(crate) mod gather;
pub(crate) mod homecoming;
pub(crate) mod pause;
pub(crate) mod pipeline;
pub(crate) mod state;
