//! Any bytes as requests of memcached's protocol: pieces make no difference, and nothing panics.
#![no_main]
#![allow(dead_code)] // The checks of the other targets come along.

#[path = "../../crates/resp/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::check_memcached(input));
