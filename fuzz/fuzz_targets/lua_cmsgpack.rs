//! Any bytes for the scripts' `cmsgpack`: nothing panics, and what is decoded is encoded the same way again.
#![no_main]

#[path = "../../crates/lua/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::check_cmsgpack(input));
