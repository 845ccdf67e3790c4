//! Strict serializability: several clients run random transactions on several shards, as plain commands, MULTI,
//! scripts with and without declared keys, and under WATCH. Their reads must have a serial order.

use sim::transactions::Load;
use sim::{Setup, World, for_each_seed};

/// Transactions per world.
const TRANSACTIONS: usize = 150;

/// Runs a world and records its history.
fn simulate(mut entropy: proactor::Entropy) -> (World, Setup, Load) {
    let mut setup = Setup::any(&mut entropy);
    // A script that is trusted and roams nevertheless may run in the middle of another one: see `roaming.rs`.
    setup.script_trusted_after = setup.script_trusted_after.max(1_000);
    let mut world = World::new(entropy, &setup);
    let mut load = Load::new(&mut world);
    load.run(&mut world, TRANSACTIONS, |_| false);
    load.finish(&mut world);
    (world, setup, load)
}

#[test]
fn a_seed_always_gives_the_same_run() {
    let run = |seed| {
        let (world, _, load) = simulate(proactor::Entropy::from_seed(seed));
        (world.event, world.now_ns(), format!("{:?}", load.history))
    };
    for seed in 1..10 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}

#[test]
fn histories_have_an_order() {
    let (mut interruptions, mut retries, mut delegated) = (0, 0, 0);
    for_each_seed("serializable", 60, |entropy| {
        let (mut world, setup, load) = simulate(entropy);
        if let Err(problem) = load.history.check() {
            panic!("{setup:?}: {problem}");
        }
        let mut observer = world.connect();
        let info = world.info(&mut observer);
        interruptions += world.interruptions;
        retries += info["tx_retries"];
        delegated += info["tx_delegated"];
    });
    println!("{interruptions} interruptions, {delegated} delegated, {retries} tries again");
    assert!(sim::are_seeds_chosen() || retries * delegated > 0, "batons were contended");
}
