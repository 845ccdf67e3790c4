//! Any bytes as rules of a user and as an ACL file: what is accepted is shown in a form that is read again the same.
#![no_main]

#[path = "../../crates/acl/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    checks::check_rules(input);
    checks::check_file(input);
});
