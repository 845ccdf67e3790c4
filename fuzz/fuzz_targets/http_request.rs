//! Any bytes in the places of a request over HTTP that this server reads itself: names, credentials, fields, bodies.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| httpd::hostile::check_request(input));
