//! Any bytes as the value of a key: what is read is written, and read again the same.
#![no_main]
#![allow(dead_code)] // The checks of the other target come along.

#[path = "../../crates/rdb/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    checks::check_value(input);
});
