//! The clients of a thread: listening, their connections and what is allowed to pile up there, the beginning and the end of
//! a session.
//!
//! Not here: what a session is (crate `session`), users (`users/`), and what becomes of the commands that clients send (`life/`).

pub(crate) mod bounds;
pub(crate) mod connections;
pub(crate) mod cross_protocol;
pub(crate) mod dealing;
pub(crate) mod descriptors;
pub(crate) mod lifecycle;
pub(crate) mod listeners;
pub(crate) mod registry;
pub(crate) mod sizes;
pub(crate) mod watchlist;
