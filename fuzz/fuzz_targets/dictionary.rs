//! Any bytes as samples and values of a dictionary, and as packed ones: nothing panics, and what was packed comes back.
#![no_main]

#[path = "../../crates/ds/tests/checks/dictionary.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::check_dictionary(input));
