//! Returns memory without blocks to the system, in short slices.
//!
//! A *round* returns memory that has been free since the round before: pages of large blocks of the thread's
//! own heap and, on one thread, slabs in the pool; then mimalloc returns memory that it has kept for long
//! enough. That thread also takes over heaps without a thread (`inheriting.rs`). Rounds start every
//! [`ROUND_MS`], so freed memory is kept for one to two such periods.

use crate::inheriting::Inheriting;
use crate::local::Local;
use crate::owned::with_local;
use crate::{general, kept, region};

/// Interval between the starts of two rounds. Memory reused within it costs nothing; memory reused later is faulted in
/// page by page at about 0.5 us each, which is 1% of the time it takes to fill a page with jobs.
pub const ROUND_MS: u64 = general::KEPT_MS;

/// A round of one thread, done in bounded steps.
#[derive(Debug, Default)]
pub struct Round {
    stage: PurgeStage,
    with_pool: bool,
}

#[derive(Debug, Default)]
enum PurgeStage {
    #[default]
    Resting,
    Large,
    Inheriting(Inheriting),
    Cooling,
    Aging,
}

impl Round {
    /// Starts a round unless one is running. `with_pool`: this thread also maintains the pool.
    pub fn begin(&mut self, with_pool: bool) {
        if matches!(self.stage, PurgeStage::Resting) {
            *self = Round { stage: PurgeStage::Large, with_pool };
        }
    }

    /// Whether a round is running.
    pub fn is_on(&self) -> bool {
        !matches!(self.stage, PurgeStage::Resting)
    }

    /// Does a bounded step of the round.
    pub fn advance(&mut self) {
        match &mut self.stage {
            PurgeStage::Resting => {}
            PurgeStage::Large => {
                with_local(Local::let_go_unneeded);
                if with_local(|local| local.cool_large(false)) != Some(true) {
                    general::collect(false);
                    let next = || PurgeStage::Inheriting(Inheriting::begin());
                    self.stage = if self.with_pool { next() } else { PurgeStage::Resting };
                }
            }
            PurgeStage::Inheriting(inheriting) => {
                if !inheriting.advance() {
                    self.stage = PurgeStage::Cooling;
                }
            }
            PurgeStage::Cooling => {
                if !region::get().is_some_and(|region| region.cool_some()) {
                    self.stage = PurgeStage::Aging;
                }
            }
            PurgeStage::Aging => {
                if !region::get().is_some_and(|region| region.age_some()) {
                    self.stage = PurgeStage::Resting;
                }
            }
        }
    }
}

/// Runs a whole round, including the pool.
pub fn purge() {
    let mut round = Round::default();
    round.begin(true);
    while round.is_on() {
        round.advance();
    }
}

/// Returns all memory without blocks: that of this thread's heap, of the pool, and of mimalloc.
pub fn purge_at_once() {
    with_local(|local| {
        while local.settle() {}
        local.let_go();
        while local.cool_large(true) {}
    });
    general::collect(true);
    if let Some(region) = region::get() {
        while region.cool_some() {}
        while region.age_some() {}
        while region.cool_some() {}
    }
}

/// Keeps at most `bytes` of memory without blocks, and nothing of freed blocks above 512 KiB. `None` removes the limit:
/// then all recently freed memory is kept.
pub fn keep_at_most(bytes: Option<u64>) {
    if kept::limit(bytes) {
        general::keep(bytes.is_none());
    }
}
