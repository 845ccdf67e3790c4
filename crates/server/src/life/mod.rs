//! Takes a command through its life: from the bytes that a client sent to the reply.
//!
//! ```text
//!   pipeline ──▶ dispatch ──▶ its function ──▶ reply
//!      ▲         │      │               │
//!      │    special:    its shards      it waits (wait), or asks other
//!      │    admit,      are taken       threads (gather)
//!      │    pause       (delegated)     │
//!      └─────────┴────── homecoming ◀───┘
//! ```
//!
//! Every state of a command, and every transition with its cause, is in `clients/session/state.rs`.
//!
//! Not here: the commands themselves (crate `commands`, `commands/`), and the loop that calls all this (`thread.rs`).

pub(crate) mod admit;
mod answers;
pub(crate) mod busy;
pub(crate) mod delegated;
pub(crate) mod dispatch;
pub(crate) mod executing;
pub(crate) mod gather;
pub(crate) mod giving_way;
pub(crate) mod homecoming;
mod host;
pub(crate) mod pipeline;
pub(crate) mod syncing;
pub(crate) mod wait;
pub(crate) mod waits;
