//! Queues, and jobs that survive their workers. A queue stays an ordinary list; a worker that takes a job with a *lease*
//! has to report it as done, or the job comes back.
//!
//! ```text
//!            PUT ──▶ waiting ──TAKE──▶ active ──DONE──▶ gone
//!   PUT … IN │          ▲  ▲             │
//!            ▼          │  └─ RELEASE ───┤
//!         delayed ──────┘ ◀── FAIL … IN ─┤ FAIL, or the lease ends: waiting, or dead after the last attempt
//!                                        ▼
//!                        RETRY ◀────── dead
//! ```
//!
//! The state of a job is in ordinary keys beside the list, on its shard (`names`), so snapshots, the journal
//! and replicas include it. Every step is one transaction, and its effects are commands of Redis.
//!
//! | file | content |
//! |---|---|
//! | `names` | the keys beside a queue |
//! | `record` | the record of a job as text: payload, attempts, options |
//! | `job` | the transitions from one state to another |
//! | `clock` | moves times when the machine's clock is set |
//! | `cron` | schedules: what they push, and when |
//! | `due` | ends leases and delays when their time has come |
//! | `groups` | jobs of tenants that take turns |
//! | `leasing` | what becomes of an element that is taken |
//! | `limits/` | how many elements are taken within a window, and how many jobs are active |
//! | `order` | the order in which several queues are tried |
//! | `soon` | the times that a thread knows to be due soon |
//! | `timers` | when a thread has to visit which shard |
//! | `upkeep` | what a thread does for its queues and jobs each turn and each second |
//! | `promote` | moves Sidekiq's jobs to their queues when they are due |
//! | `recovery/` | returns the jobs of Sidekiq processes that died |
//! | `queues/` | queues as such, which are lists from which jobs are popped in any way, and QUEUE |
//! | `commands/` | the commands on jobs |
//!
//! The sets of leases and delays have the time at which each ends as score. They are recognized by name when they are
//! created, like queues, so it does not matter whether a command, a snapshot, the journal or a primary created them. A
//! replica ends no leases; its primary does. The keys beside a queue make it known as one, whatever its name
//! (`Queues::know_jobs`). Each second their lengths are noted in its figures (`queues/counts.rs`), so `QUEUE LIST`,
//! `/metrics` and the console show them without entering a shard.
//!
//! A queue is limited while the key of its limit exists, which the database notes (`keyspace/queue`).
//! Commands that take from a limited list learn how much room there is and count what they took in the same
//! transaction (`engine/store/queues/taking.rs`). When a rate opens, the timers wake the waiters, which look
//! for themselves whether there is something for them (`When::Finds`).
//!
//! The rules of `QUEUE PROMOTE` are a hash of each database. The thread at whose home it lies tells them to all other
//! threads (`keyspace/queue/promotions.rs`).
//!
//! Not here: how takes are held back (`engine/store/queues/taking.rs`), and what a list reports while it is a queue (`keyspace/queue`).

#![forbid(unsafe_code)]

mod clock;
mod commands;
mod cron;
mod due;
mod groups;
mod job;
mod leasing;
mod limits;
mod names;
mod order;
mod promote;
pub mod queues;
mod record;
pub mod recovery;
mod soon;
#[cfg(test)]
mod tests;
mod timers;
mod upkeep;

pub use crate::commands::ENTRIES;
pub use crate::limits::RATES;
pub use crate::timers::{JobTimers, Whose};
pub use crate::upkeep::Upkeep;
