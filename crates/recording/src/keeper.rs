//! What a server does for its journal outside its threads' turns: opens and closes it, and gives it bases.
//!
//! Not here: the steps (`opening.rs`, `switch.rs`, `checkpoint.rs`).

use persistence::Snapshots;
use proactor::{Clock, Disk};
use settings::Settings;

use crate::journal::Journal;

/// See the head of this file.
#[derive(Clone, Copy)]
pub struct Keeper {
    /// The journal.
    pub journal: &'static Journal,
    /// What is wanted of it.
    pub settings: &'static Settings,
    /// Its bases are snapshots.
    pub snapshots: &'static Snapshots,
    /// Where its files are.
    pub disk: &'static Disk,
    /// The time.
    pub clock: &'static Clock,
    /// How its files are cut.
    pub tuning: journal::Tuning,
    /// Whether the threads are none, but steps of a simulation.
    pub is_simulated: bool,
}
