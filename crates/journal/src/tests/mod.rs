//! Tests over all of the crate, on simulated disks that fail.

mod crashes;

mod mutants;
mod world;
