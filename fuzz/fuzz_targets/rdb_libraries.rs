//! Any bytes as the libraries of a payload: what is read is written and read again, and nothing panics or grows beyond the input.
#![no_main]
#![allow(dead_code)] // The checks of the other targets come along.

#[path = "../../crates/rdb/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    checks::check_libraries(input);
});
