//! Any bytes as a file: pieces make no difference, and nothing panics or grows beyond the input.
#![no_main]
#![allow(dead_code)] // The checks of the other target come along.

#[path = "../../crates/rdb/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    checks::check_file(input);
});
