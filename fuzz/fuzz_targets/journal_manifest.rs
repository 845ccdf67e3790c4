//! Any bytes as a journal's manifest, with and without a right checksum: what is one is written as it was read, and makes sense.
#![no_main]
#![allow(dead_code)] // The checks of the other targets come along.

#[path = "../../crates/journal/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::check_manifest(input));
