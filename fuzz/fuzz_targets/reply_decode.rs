//! Any bytes as replies: found exactly when whole, and read the same once written again.
#![no_main]
#![allow(dead_code)] // The checks of the other target come along.

#[path = "../../crates/resp/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::check_replies(input));
