//! Returns memory without blocks to the system, in short slices.
//!
//! A *round* returns what has been free since the round before: pages of large blocks of the own heap and, on one
//! thread, slabs in the pool; then mimalloc checks what it has. That thread also takes over what is in heaps without a
//! thread (`inheriting.rs`). Rounds come every [`ROUND_MS`], so freed memory is kept for once to twice as long.

use crate::inheriting::Inheriting;
use crate::owned::with_local;
use crate::{general, kept, region};

/// From the beginning of one round to that of the next. What is used again within it costs nothing; what is used again later is got back
/// page by page, at some 0.5 us each, which makes a hundredth of what it takes to fill a page with jobs.
pub const ROUND_MS: u64 = general::KEPT_MS;

/// A round of one thread; see the head of this file.
#[derive(Debug, Default)]
pub struct Round {
    stage: Stage,
    with_pool: bool,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Resting,
    Large,
    Inheriting(Inheriting),
    Cooling,
    Aging,
}

impl Round {
    /// Begins one unless one is going on; `with_pool`: in the thread that sees to the pool.
    pub fn begin(&mut self, with_pool: bool) {
        if matches!(self.stage, Stage::Resting) {
            *self = Round { stage: Stage::Large, with_pool };
        }
    }

    /// Whether one is going on.
    pub fn is_on(&self) -> bool {
        !matches!(self.stage, Stage::Resting)
    }

    /// Does a bounded piece of it.
    pub fn advance(&mut self) {
        match &mut self.stage {
            Stage::Resting => {}
            Stage::Large => {
                if with_local(|local| local.cool_large(false)) != Some(true) {
                    general::collect(false);
                    let next = || Stage::Inheriting(Inheriting::begin());
                    self.stage = if self.with_pool { next() } else { Stage::Resting };
                }
            }
            Stage::Inheriting(inheriting) => {
                if !inheriting.advance() {
                    self.stage = Stage::Cooling;
                }
            }
            Stage::Cooling => {
                if !region::get().is_some_and(|region| region.cool_some()) {
                    self.stage = Stage::Aging;
                }
            }
            Stage::Aging => {
                if !region::get().is_some_and(|region| region.age_some()) {
                    self.stage = Stage::Resting;
                }
            }
        }
    }
}

/// Does a whole round, the pool included.
pub fn purge() {
    let mut round = Round::default();
    round.begin(true);
    while round.is_on() {
        round.advance();
    }
}

/// Gives everything back in which no block lies: what this thread's heap has, the pool, and mimalloc's.
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

/// Keeps no more than so many bytes without blocks, and nothing of blocks beyond 512 KiB; none: as many as were freed of late.
pub fn keep_at_most(bytes: Option<u64>) {
    if kept::limit(bytes) {
        general::keep(bytes.is_none());
    }
}
