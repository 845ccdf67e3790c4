//! Any subject, pattern and replacement for the scripts' `string.find`, `match`, `gmatch` and `gsub`: they say what Lua's own say.
#![no_main]

#[path = "../../crates/lua/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::patterns::check_pattern_input(input));
