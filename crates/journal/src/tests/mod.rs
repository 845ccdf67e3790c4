//! Tests of the whole crate, on simulated disks that fail.

mod copies;
mod crashes;
mod damage;
mod folders;
mod live;
mod lost;
mod mutants;
mod threads;
mod world;
mod writing;
