//! Jobs that survive their workers. A queue stays the list that it is; a worker that takes a job from it with a *lease* has to say
//! that it is done, or the job comes back.
//!
//! ```text
//!            PUT ──▶ waiting ──TAKE──▶ active ──DONE──▶ gone
//!   PUT … IN │          ▲  ▲             │
//!            ▼          │  └─ RELEASE ───┤
//!         delayed ──────┘ ◀── FAIL … IN ─┤ FAIL, or the lease ends: waiting again, or dead after so many attempts
//!                                        ▼
//!                        RETRY ◀────── dead
//! ```
//!
//! What is known of a job lies in ordinary keys beside the list, on its shard (`names`): so snapshots, the journal and replicas have
//! it. Every step is one transaction, whose effects are commands of Redis.
//!
//! | file | what |
//! |---|---|
//! | `names` | the keys beside a queue |
//! | `record` | what is kept of a job: payload, attempts, options, as text |
//! | `job` | the ways from one state to another |
//! | `clock` | what happens to times when the machine's clock is set |
//! | `cron` | schedules: what they push, and when |
//! | `due` | what happens when its time has come: leases that end, delays that are over |
//! | `groups` | jobs of tenants, of which each gets its turn |
//! | `limit` | how many may be active |
//! | `order` | from which of several queues a job is taken first |
//! | `soon` | what a thread knows to be due soon |
//! | `timers` | which shards a thread has to visit when |
//! | `promote` | jobs of Sidekiq's that join their queues when they are due |
//! | `recovery/` | jobs that Sidekiq's processes had when they died |
//! | `commands/` | the commands |
//!
//! The sets of leases and delays have the time at which each ends as score. They are recognized by name when they are
//! created, like queues, so it does not matter whether a command, a snapshot, the journal or a primary created them. A
//! replica ends no leases; its primary does. The keys beside a queue make it known as one, whatever its name
//! (`Queues::know_jobs`). Each second their lengths are noted in its figures (`queues/jobs.rs`), so `QUEUE LIST`,
//! `/metrics` and the console show them without entering a shard.
//!
//! A queue is limited while the key of its limit exists, which the database notes (`keyspace/queue`). Commands that take
//! from a limited list ask how much room there is and count what they took in the same transaction
//! (`command/store/limits.rs`). When a rate opens, the timers wake the waiters, which look for themselves whether there is
//! something for them (`When::Finds`).
//!
//! The rules of `QUEUE PROMOTE` are a hash of each database. The thread at whose home it lies tells them to all other
//! threads (`keyspace/queue/promotions.rs`).
//!
//! Not here: queues as such, which are lists that have jobs taken from them in whatever way (`queues`).

#![forbid(unsafe_code)]

mod clock;
mod commands;
mod cron;
mod due;
mod groups;
mod job;
mod limit;
mod names;
mod order;
mod promote;
mod record;
pub mod recovery;
mod soon;
#[cfg(test)]
mod tests;
mod timers;

pub use crate::commands::ENTRIES;
pub use crate::timers::{JobTimers, Whose};
