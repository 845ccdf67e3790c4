//! How often what happens in a simulated world, and how often it did.

use proactor::Entropy;

use crate::mutant::{self, BrokenRule};

/// An act of a node.
#[derive(Clone, Copy)]
pub(super) enum Act {
    Learn,
    Propose,
    Sync,
    HandOver,
    Beat,
    Write,
    RunRead,
    AnswerWrites,
    AnswerRead,
    Connect,
    Disconnect,
    Fetch,
    Acknowledge,
}

#[derive(Clone, Copy)]
pub(super) enum Fault {
    /// It stands still.
    Pause,
    /// It cannot reach the store.
    Deaf,
    /// It cannot reach anyone.
    Cut,
    /// The process ends and starts again; the machine may have lost power.
    Crash,
    /// As before, with an empty folder.
    Wipe,
}

/// Kinds of events, each with its weight.
pub(super) struct Mix<T>(Vec<(T, u64)>);

impl<T: Copy> Mix<T> {
    /// Weights that differ from world to world around these: some things hardly ever happen, others most of the time.
    /// (Swarm testing: Groce and others, 2012.)
    pub(super) fn any(usual: &[(T, u64)], entropy: &mut Entropy) -> Mix<T> {
        Mix(usual
            .iter()
            .map(|(kind, weight)| (*kind, weight * [1, 2, 2, 2, 6][entropy.below(5) as usize]))
            .collect())
    }

    pub(super) fn choose(&self, entropy: &mut Entropy) -> T {
        let mut left = entropy.below(self.0.iter().map(|(_, weight)| weight).sum());
        for (kind, weight) in &self.0 {
            if left < *weight {
                return *kind;
            }
            left -= weight;
        }
        unreachable!("the weights have this sum")
    }
}

/// How often nodes usually do what.
const ACTS: [(Act, u64); 13] = [
    (Act::Learn, 20),
    (Act::Propose, 20),
    (Act::Sync, 10),
    (Act::HandOver, 2),
    (Act::Beat, 30),
    (Act::Write, 15),
    (Act::RunRead, 10),
    (Act::AnswerWrites, 20),
    (Act::AnswerRead, 20),
    (Act::Connect, 20),
    (Act::Disconnect, 2),
    (Act::Fetch, 30),
    (Act::Acknowledge, 30),
];
const FAULTS: [(Fault, u64); 5] =
    [(Fault::Pause, 2), (Fault::Deaf, 2), (Fault::Cut, 3), (Fault::Crash, 3), (Fault::Wipe, 1)];

/// The frequencies of acts and faults in a world.
pub(super) struct Habits {
    pub(super) acts: Mix<Act>,
    pub(super) faults: Mix<Fault>,
    pub(super) one_fault_in: u64,
}

impl Habits {
    pub(super) fn any(entropy: &mut Entropy) -> Habits {
        // Each needs a rare coincidence, which is looked for.
        let (hand_over, sync) = match mutant::on() {
            Some(BrokenRule::HandoverNoStop) => (40, 10),
            Some(BrokenRule::AloneNoSync) => (2, 0),
            _ => (2, 10),
        };
        let tilted = |(act, weight): &(Act, u64)| match act {
            Act::HandOver => (*act, hand_over),
            Act::Sync => (*act, sync),
            _ => (*act, *weight),
        };
        let acts: Vec<(Act, u64)> = ACTS.iter().map(tilted).collect();
        Habits {
            acts: Mix::any(&acts, entropy),
            faults: Mix::any(&FAULTS, entropy),
            one_fault_in: [4, 12, 12, 30][entropy.below(4) as usize],
        }
    }

    /// Everything happens as often as usual, and nothing fails.
    pub(super) fn healthy() -> Habits {
        Habits { acts: Mix(ACTS.to_vec()), faults: Mix(FAULTS.to_vec()), one_fault_in: u64::MAX }
    }
}

/// Counts of events, to see that a run is not empty.
#[derive(Clone, Default, Debug)]
pub(super) struct Tally {
    pub(super) faults: u64,
    pub(super) writes_answered: u64,
    pub(super) reads_answered: u64,
    pub(super) takeovers: u64,
    pub(super) handovers: u64,
    pub(super) shrinks: u64,
    pub(super) growths: u64,
    pub(super) recoveries: u64,
    pub(super) copies: u64,
    pub(super) settled: u64,
    pub(super) lost_by_crashes: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        for (total, more) in self.counts().into_iter().zip(other.clone().counts()) {
            *total += *more;
        }
    }

    pub(super) fn assert_everything_happened(self) {
        assert!(
            self.clone().counts().into_iter().all(|count| *count > 0),
            "something never happened: {self:?}"
        );
        assert!(self.faults >= 5_000, "{}", self.faults);
    }

    fn counts(&mut self) -> [&mut u64; 11] {
        let Tally {
            faults,
            writes_answered,
            reads_answered,
            takeovers,
            handovers,
            shrinks,
            growths,
            recoveries,
            copies,
            settled,
            lost_by_crashes,
        } = self;
        [
            faults,
            writes_answered,
            reads_answered,
            takeovers,
            handovers,
            shrinks,
            growths,
            recoveries,
            copies,
            settled,
            lost_by_crashes,
        ]
    }
}
