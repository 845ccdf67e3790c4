//! Compares our pattern functions with those of Lua 5.1.5. The fuzz target `lua_patterns` covers more.

mod checks;

use checks::patterns::check_pattern;
use proptest::prelude::*;

/// Text of few distinct letters, so that patterns match something.
const SUBJECTS: &str = "[ab1 .%(){}\\x00-]{0,20}";
/// Parts of patterns, valid and invalid.
const ITEM: &str = "[ab.]|%[abdwszAW%.1-]|\\[[\\^]?[\\]a1%-]{1,3}\\]|%b\\(\\)|%f\\[[a%1\\^]{1,2}\\]|[()]|\\(\\)|[$\\^]|[%\\[\\]]|\\x00";
const REPEAT: &str = "[*+?-]?";

fn pattern() -> impl Strategy<Value = String> {
    prop::collection::vec((ITEM, REPEAT), 0..7)
        .prop_map(|parts| parts.into_iter().map(|(item, repeat)| item + &repeat).collect())
}

proptest! {
    #[test]
    fn patterns_that_mean_something(subject in SUBJECTS, pattern in pattern(), replacement in "[ab%012]{0,6}", place: i8) {
        check_pattern(subject.as_bytes(), pattern.as_bytes(), replacement.as_bytes(), place);
    }

    #[test]
    fn any_bytes(
        subject in prop::collection::vec(any::<u8>(), 0..24),
        pattern in prop::collection::vec(any::<u8>(), 0..8),
        replacement in prop::collection::vec(any::<u8>(), 0..6),
        place: i8,
    ) {
        check_pattern(&subject, &pattern, &replacement, place);
    }
}

#[test]
fn each_byte_in_each_class() {
    for class in "acdlpsuwxzACDLPSUWXZ.%1q".bytes() {
        for bytes in (0..=u8::MAX).collect::<Vec<u8>>().chunks(20) {
            check_pattern(bytes, &[b'%', class, b'+'], b"<%0>", 2);
            check_pattern(bytes, &[b'[', b'%', class, b']'], b"%%", 1);
            check_pattern(bytes, &[b'(', b'[', b'^', b'%', class, b']', b'-', b')', b'%', class], b"%", 1);
            check_pattern(b"x%", &[bytes[0], class], b"%0", 1);
        }
    }
}
