//! Any bytes as a HyperLogLog: nothing panics, and both forms say the same.
#![no_main]

#[path = "../../crates/ds/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::check_hll(input));
