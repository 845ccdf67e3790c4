//! The rules under faults: groups of two and three nodes whose messages, clocks, disks and store do what they like; and
//! deliberate mistakes, each of which must show.

mod habits;
mod rules;
mod world;

use crate::mutant::{BrokenRule, switch};
use habits::Tally;
use world::{Broken, World};

const STEPS: usize = 4_000;

/// Runs one group for some time.
fn run(seed: u64) -> Result<Tally, Broken> {
    let mut world = World::new(seed);
    for step in 0..STEPS {
        if let Err(broken) = world.step() {
            let before = world.trace.split_off(world.trace.len().saturating_sub(25)).join("\n  ");
            return Err(format!("seed {seed}, step {step}: {broken}\n  {before}"));
        }
    }
    Ok(world.tally)
}

#[test]
fn nothing_acknowledged_is_lost_and_no_read_is_stale() {
    let mut total = Tally::default();
    // More with DARTER_SCALE.
    let scale = std::env::var("DARTER_SCALE").map_or(1, |scale| scale.parse().expect("a number"));
    for seed in 1..=700 * scale {
        total.add(&run(seed).unwrap());
    }
    println!("{total:?}");
    total.assert_everything_happened();
}

/// When nothing fails any more, the group goes on by itself, unless a person has to say what may be lost.
#[test]
fn it_goes_on_when_faults_end() {
    let mut lost = 0;
    for seed in 1..=300 {
        let mut world = World::new(seed);
        (0..STEPS / 4).for_each(|_| world.step().unwrap());
        world.heal();
        (0..STEPS).for_each(|_| world.step().unwrap());
        if world.is_lost() {
            lost += 1;
            continue;
        }
        let told = world.told();
        (0..STEPS).for_each(|_| world.step().unwrap());
        let trace = world.trace.split_off(world.trace.len().saturating_sub(25)).join("\n  ");
        assert!(world.told() > told, "seed {seed}: no write is acknowledged any more\n  {trace}");
    }
    println!("{lost} of 300 groups need a person");
    assert!((1..100).contains(&lost));
}

#[test]
fn each_mistake_shows() {
    use BrokenRule::*;
    let all = [
        NoMargin,
        ServeWithoutGrants,
        AckByOne,
        AckOldLink,
        ShrinkEarly,
        GrowLate,
        GrowUncaught,
        GrowCommitOnly,
        UnknownIsFailed,
        LeaseOnly,
        KeepGranting,
        NonMember,
        CopyingElected,
        CopyNoGate,
        CopyGateOwnView,
        AloneNoSync,
        EmptyLeads,
        RecoverAny,
        HandoverNoStop,
        ReadUnacked,
        DeadByNode,
        LifeIgnored,
    ];
    let mut missed = Vec::new();
    for mistake in all {
        switch(Some(mistake));
        let found = (1..=4_000).find_map(|seed| run(seed).err());
        switch(None);
        match found {
            Some(broken) => println!("finds {mistake:?}: {}", broken.lines().next().unwrap_or_default()),
            None => missed.push(mistake),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
