//! Deliberate mistakes, each of which the crashes of a few hundred seeds must reveal.

use super::crashes::{lives, lives_with_faults};
use super::world::World;
use crate::Policy;
use crate::mutant::{Mutant, switch};

/// The error by which the first crash that reveals a mistake reveals it.
fn caught(mutant: Mutant, policy: Policy) -> Option<String> {
    switch(Some(mutant));
    let lives = if mutant == Mutant::TrustsManifest { lives_with_faults } else { lives };
    let broken = (1..=1_000).find_map(|seed| lives(seed, policy).err());
    switch(None);
    broken
}

#[track_caller]
fn check(mutant: Mutant, policy: Policy, expected: &[&str]) {
    let broken = caught(mutant, policy).expect("a crash shows it");
    println!("{mutant:?}: {broken}");
    assert!(expected.iter().any(|text| broken.contains(text)), "{mutant:?} for another reason: {broken}");
}

#[test]
fn a_life_without_a_term_of_its_own_is_caught() {
    check(Mutant::NoTerm, Policy::Everysec, &["damaged", "reported durable", "goes on", "before a kill"]);
}

#[test]
fn rewriting_a_block_is_caught() {
    let broken = |mutant| {
        switch(mutant);
        let confirm = |seed| World::new(seed).lose_power_while_confirming().err();
        let broken = (1..=1_000).find_map(confirm);
        switch(None);
        broken
    };
    assert_eq!(broken(None), None);
    let broken = broken(Some(Mutant::RewritesBlock)).expect("a crash shows it");
    assert!(broken.contains("slice 1 was reported durable"), "{broken}");
}

#[test]
fn recycling_before_the_manifest_is_caught() {
    check(Mutant::RecyclesEarly, Policy::Always, &["missing"]);
}

#[test]
fn an_unsynced_name_is_caught() {
    check(Mutant::UnsyncedNames, Policy::Always, &["missing"]);
}

#[test]
fn durable_out_of_order_is_caught() {
    check(Mutant::DurableOutOfOrder, Policy::Everysec, &["reported durable", "damaged"]);
}

#[test]
fn claims_of_the_manifest_that_are_not_true_are_caught() {
    check(Mutant::ListsUnsynced, Policy::Everysec, &["damaged"]);
}

#[test]
fn a_manifest_that_is_written_in_place_is_caught() {
    check(Mutant::ManifestInPlace, Policy::Always, &["manifest"]);
}

#[test]
fn trust_in_a_manifest_that_was_read_is_caught() {
    check(Mutant::TrustsManifest, Policy::Always, &["NotFound", "entity not found", "missing"]);
}
