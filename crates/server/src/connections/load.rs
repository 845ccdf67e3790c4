//! Owns what a thread knows about its load, and how it shares work with other threads.

use clients::{Dealer, GivingWay, Workload};
use proactor::Clock;

/// See the head of this file.
pub(crate) struct Balancing {
    /// The load of the thread.
    pub(crate) workload: Workload,
    /// The state of giving way to other clients while a long command runs.
    pub(crate) way: GivingWay,
    /// The time for which commands of one client may run before others get their turn, in ticks of the clock.
    pub(crate) serving_ticks_max: u64,
    /// The dealer of new connections, on the accepting thread.
    pub(crate) dealer: Dealer,
}

impl Balancing {
    /// The commands of one client may run for `serving_ns_max` nanoseconds of `clock` at a time.
    pub(crate) fn new(clock: &Clock, serving_ns_max: u64) -> Balancing {
        Balancing {
            workload: Workload::new(clock),
            way: GivingWay::new(clock),
            serving_ticks_max: clock.ns_to_ticks(serving_ns_max),
            dealer: Dealer::default(),
        }
    }
}
