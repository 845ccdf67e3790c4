//! Any words as a command line: what is accepted can be written as a file.
#![no_main]
#![allow(dead_code)] // The checks of the other target come along.

#[path = "../../crates/config/tests/suite/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::check_command_line(input));
