//! Any bytes as a configuration file: what is accepted is rewritten to a text that says the same.
#![no_main]
#![allow(dead_code)] // The checks of the other target come along.

#[path = "../../crates/config/tests/suite/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::check_configuration(input));
