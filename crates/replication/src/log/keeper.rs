//! Opens, closes and rebases a server's journal, outside the turns of its threads.
//!
//! Not here: the steps (`opening.rs`, `switch.rs`, `checkpoint.rs`).

use config::Settings;
use persistence::Snapshots;
use proactor::{Clock, Disk};

use crate::log::journal::Journal;

/// The parts of the server that this needs; see the head of this file.
#[derive(Clone, Copy)]
pub struct Keeper {
    /// The journal.
    pub journal: &'static Journal,
    /// The current settings.
    pub settings: &'static Settings,
    /// The state of snapshots. Bases of the journal are snapshots.
    pub snapshots: &'static Snapshots,
    /// The disk with the journal's files.
    pub disk: &'static Disk,
    /// The clock.
    pub clock: &'static Clock,
    /// The sizes of the journal's files.
    pub tuning: journal::Tuning,
    /// Whether a simulation runs the threads step by step.
    pub is_simulated: bool,
}
