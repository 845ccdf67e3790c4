//! Any bytes on the wire of TLS, before the handshake and after it, and conversations that are changed on their way: no text comes of them.
#![no_main]
#![allow(dead_code)] // The checks of the other target come along.

#[path = "../../crates/tls/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    checks::check_wire(input);
    checks::check_changed_flight(input);
});
