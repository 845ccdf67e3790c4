//! TLS files of an operator, good ones that were changed, and lists of versions and suites: taken or refused, and no refusal tells the password.
#![no_main]
#![allow(dead_code)] // The checks of the other target come along.

#[path = "../../crates/tls/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    checks::check_files(input);
    checks::check_words(input);
    checks::check_name(input);
});
