//! A wide round: several threads of a replica that is behind run its commands.
//!
//! ```text
//!   thread of the link   enters all shards ─ lends parts 1, 2, … ─ runs part 0 ─ runs what is not yet taken ─ waits ─ into the log ─ leaves all
//!   another thread                                └─▶ takes part 1, runs it, gives it back ──────────────────────┘
//! ```
//!
//! A part contains the commands for one thread's home shards, so each command of such a round has just one shard. No
//! other thread can enter a shard while it is lent, and all shards are left at one moment. So the holder of a shard
//! sees all of the round or nothing of it, as with any other round. Messages of a part return with its shards, and are
//! sent when the shards are left. The round does not wait for a thread that sleeps or is busy.

#![expect(clippy::disallowed_types, reason = "it is locked twice by each thread for hundreds of commands")]

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use engine::{Client, TxMessage};
use shard::{Lent, ShardId};

use crate::apply::run_steps;
use crate::following::Following;
use crate::round::Round;
use crate::stage::Stage;

/// The number of checks of a part that another thread runs before this thread sleeps.
const SPINS_MAX: u32 = 1000;

/// The state of a part.
enum PartState {
    /// Any thread may run it.
    Lent(Lent),
    /// A thread runs it, or it is complete.
    Taken,
    Back(PartOutcome),
}

/// The result of a part.
struct PartOutcome {
    shards: Lent,
    outbox: Vec<TxMessage>,
    failed: Vec<Range<usize>>,
}

/// See the head of this file.
pub(crate) struct Wide {
    round: Round,
    bytes: Vec<u8>,
    /// The client for whom the commands run.
    client: Client,
    /// The parts, one for each thread.
    parts: Box<[Mutex<PartState>]>,
    came_back: Condvar,
}

/// A part that another thread may run.
pub struct Help {
    wide: Arc<Wide>,
    part: usize,
}

impl Help {
    /// The client for whom the commands run.
    pub fn client(&self) -> Client {
        self.wide.client
    }

    /// Runs the part, if no other thread has; no shard is entered.
    pub fn run(&self, following: &Following, stage: &mut dyn Stage) {
        assert!(stage.tx().hold.entered().is_empty(), "what is entered is given back with the part");
        let Wide { parts, came_back, .. } = &*self.wide;
        let Some(lent) = take(&parts[self.part]) else { return };
        let failed = self.wide.run_part(self.part, lent, following, stage);
        let tx = stage.tx();
        let (outbox, shards) = (std::mem::take(&mut tx.outbox), tx.hold.lend(|_| true));
        let mut part = lock(&parts[self.part]);
        assert!(matches!(*part, PartState::Taken), "a part is run once");
        *part = PartState::Back(PartOutcome { shards, outbox, failed });
        drop(part);
        came_back.notify_one();
    }
}

impl Wide {
    /// Runs a round with these bytes, whose shards are entered. Turns the bytes into those for this server's log.
    pub(crate) fn run(
        round: &mut Round,
        bytes: &mut [u8],
        thread_count: usize,
        following: &Following,
        stage: &mut dyn Stage,
    ) {
        let client = stage.client();
        let hold = &mut stage.tx().hold;
        let parts = (0..thread_count).map(|part| match part {
            0 => Mutex::new(PartState::Taken),
            part => Mutex::new(PartState::Lent(hold.lend(|id| part_of(id, thread_count) == part))),
        });
        let (parts, came_back) = (parts.collect(), Condvar::new());
        let wide = Wide { round: std::mem::take(round), bytes: bytes.to_vec(), client, parts, came_back };
        assert!(
            stage.tx().hold.entered().iter().all(|id| part_of(*id, thread_count) == 0),
            "the rest is lent"
        );
        let wide = Arc::new(wide);
        for part in 1..thread_count {
            stage.ask(part, Help { wide: Arc::clone(&wide), part });
        }
        let mut failed =
            run_steps(&wide.round, &wide.bytes, |id| part_of(id, thread_count) == 0, following, stage);
        for (part, state) in wide.parts.iter().enumerate().skip(1) {
            if let Some(lent) = take(state) {
                failed.extend(wide.run_part(part, lent, following, stage));
                continue;
            }
            let outcome = wide.await_part(state);
            let is_of_part = |id: &ShardId| part_of(*id, thread_count) == part;
            assert!(outcome.shards.ids().iter().all(is_of_part), "what was lent comes back");
            stage.tx().hold.take(outcome.shards);
            stage.tx().outbox.extend(outcome.outbox);
            failed.extend(outcome.failed);
        }
        wide.round.write_blanks(bytes, &failed);
        // A thread that was asked and has not come yet still shares the memory, which is then not reused.
        if let Ok(wide) = Arc::try_unwrap(wide) {
            *round = wide.round;
        }
    }

    fn run_part(
        &self,
        part: usize,
        lent: Lent,
        following: &Following,
        stage: &mut dyn Stage,
    ) -> Vec<Range<usize>> {
        stage.tx().hold.take(lent);
        let is_own = |id| part_of(id, self.parts.len()) == part;
        run_steps(&self.round, &self.bytes, is_own, following, stage)
    }

    fn await_part(&self, state: &Mutex<PartState>) -> PartOutcome {
        for _ in 0..SPINS_MAX {
            if let Ok(mut part) = state.try_lock()
                && let Some(outcome) = part.outcome()
            {
                return outcome;
            }
            std::hint::spin_loop();
        }
        let mut part = lock(state);
        loop {
            match part.outcome() {
                Some(outcome) => return outcome,
                None => part = self.came_back.wait(part).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl PartState {
    fn outcome(&mut self) -> Option<PartOutcome> {
        match std::mem::replace(self, PartState::Taken) {
            PartState::Back(outcome) => Some(outcome),
            PartState::Lent(_) | PartState::Taken => None,
        }
    }
}

/// The part that contains a shard.
fn part_of(id: ShardId, thread_count: usize) -> usize {
    id.index() % thread_count
}

/// The shards of a part, if it is still lent.
fn take(state: &Mutex<PartState>) -> Option<Lent> {
    let mut part = lock(state);
    match std::mem::replace(&mut *part, PartState::Taken) {
        PartState::Lent(lent) => Some(lent),
        other => {
            *part = other;
            None
        }
    }
}

fn lock(state: &Mutex<PartState>) -> MutexGuard<'_, PartState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
