//! Crashes at any operation of the disk, in any run, and disks that fail.

use proactor::DiskFaults;

use super::world::{Broken, World};
use crate::Policy;

/// Some lives of one journal.
pub(super) fn lives(seed: u64, policy: Policy) -> Result<(), Broken> {
    let mut world = World::new(seed);
    for life in 0..6 {
        world.live(policy).map_err(|broken| format!("seed {seed}, {policy:?}, life {life}: {broken}"))?;
    }
    Ok(())
}

#[test]
fn what_was_reported_durable_is_there_after_every_crash() {
    for seed in 1..=150 {
        for policy in [Policy::Always, Policy::Everysec, Policy::No] {
            lives(seed, policy).unwrap();
        }
    }
}

/// Some lives of one journal on a disk that fails at times.
pub(super) fn lives_with_faults(seed: u64, policy: Policy) -> Result<(), Broken> {
    let mut world = World::new(seed);
    for life in 0..8 {
        world.begin_to_fail(DiskFaults {
            write_error_one_in: 60,
            sync_error_one_in: 60,
            short_write_one_in: 5,
            room_bytes: if seed.is_multiple_of(3) { 250_000 } else { u64::MAX },
            ..DiskFaults::default()
        });
        world.live(policy).map_err(|broken| format!("seed {seed}, {policy:?}, life {life}: {broken}"))?;
    }
    Ok(())
}

#[test]
fn a_disk_that_fails_loses_nothing_that_was_reported_durable() {
    for seed in 1..=150 {
        lives_with_faults(seed, [Policy::Always, Policy::Everysec][seed as usize % 2]).unwrap();
    }
}
