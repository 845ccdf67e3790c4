//! Any bytes as segments of a journal, and as a description of frames: what is told has no gap, and nothing panics or grows beyond the input.
#![no_main]
#![allow(dead_code)] // The checks of the other targets come along.

#[path = "../../crates/journal/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::check_frames(input));
