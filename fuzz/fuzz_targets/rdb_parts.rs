//! Any bytes as a part and as a manifest of Darter's own format: nothing panics or grows beyond the input.
#![no_main]
#![allow(dead_code)] // The checks of the other targets come along.

#[path = "../../crates/rdb/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    checks::check_part(input);
    checks::check_manifest(input);
});
