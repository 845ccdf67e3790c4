//! Random configuration files and command lines. The fuzz target looks further.

use proptest::prelude::*;

/// Lines that may mean something.
fn lines() -> impl Strategy<Value = String> {
    let name = "number|memory|switch|words|text|another-text|numbers|mode|promise|foreign|foreign-promise|user|#|[a-z]{0,3}";
    let word = "[0-9]{1,6}|yes|no|[0-9]{1,3}(kb|gb|k)|\"[ -~]{0,8}\"|'[ -~]{0,8}'|[!-~]{0,8}|[^\n\\\\]{0,4}";
    let line = (name, prop::collection::vec(word, 0..4), "[ \t\r]{0,2}");
    let line = line.prop_map(|(name, words, end)| format!("{name} {}{end}", words.join(" ")));
    prop::collection::vec(line, 0..8).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn any_bytes(text in prop::collection::vec(any::<u8>(), 0..100)) {
        crate::checks::check_configuration(&text);
    }

    #[test]
    fn lines_that_mean_something(text in lines()) {
        crate::checks::check_configuration(text.as_bytes());
    }

    #[test]
    fn command_lines(line in "(--(number|mode|words|text|numbers|switch|test-config|check-journal|to|[a-z]{0,3})?(=|\n)?[ -~]{0,6}\n?){0,5}") {
        crate::checks::check_command_line(line.as_bytes());
    }
}
