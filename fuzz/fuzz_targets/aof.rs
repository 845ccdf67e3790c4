//! Any bytes as an append-only file of Redis and as its manifest: pieces make no difference, and nothing panics.
#![no_main]

#[path = "../../crates/persistence/tests/suite/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    checks::check_commands(input);
    checks::check_manifest(input);
});
