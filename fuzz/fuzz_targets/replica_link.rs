//! Any bytes as a primary's side of the replication link: pieces make no difference, and nothing panics or is made up.
#![no_main]

#[path = "../../crates/replication/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::check_primary(input));
