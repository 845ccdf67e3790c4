//! Any bytes for the scripts' `struct`: nothing panics, whatever the format and the bytes.
#![no_main]

#[path = "../../crates/lua/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::check_struct(input));
