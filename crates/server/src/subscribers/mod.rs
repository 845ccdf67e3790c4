//! Messages to clients that asked for them: of channels and patterns, and of keys that they track.
//!
//! Not here: who has subscribed to what (`shard/subscribers.rs`, `shard/tracking.rs`), and the commands (`commands/pubsub.rs`,
//! `commands/client/tracking.rs`).

pub(crate) mod caching;
pub(crate) mod delivery;
pub(crate) mod invalidation;
pub(crate) mod outbox;
pub(crate) mod patterns;
