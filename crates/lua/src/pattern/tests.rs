//! Matches, faults, and their cost in steps. `tests/` compares more patterns with Lua's own matcher.

use std::cell::Cell;

use super::*;

/// The result of a search from `from`, as text: where the match is, and its captures.
fn show(subject: &[u8], pattern: &str, from: usize, may_go_on: &dyn Fn() -> bool) -> String {
    let (is_anchored, pattern) = match until_end(pattern.as_bytes()) {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let left = Cell::new(STEP_COUNT);
    let steps = Steps::new(&left, may_go_on);
    let mut matcher = Matcher::default();
    let found = match matcher.find(subject, pattern, from, is_anchored, &steps) {
        Ok(Some(found)) => found,
        Ok(None) => return "nothing".into(),
        Err(fault) => return fault.text().into(),
    };
    let mut shown = format!("{}..{}", found.start, found.end);
    for index in 0..matcher.level() {
        shown += &match matcher.captured(subject, index, &found) {
            Ok(Captured::Text(text)) => format!(" {:?}", String::from_utf8_lossy(text)),
            Ok(Captured::Position(position)) => format!(" @{position}"),
            Err(fault) => format!(" {}", fault.text()),
        };
    }
    shown
}

fn check(subject: &str, pattern: &str, expected: &str) {
    assert_eq!(show(subject.as_bytes(), pattern, 0, &|| true), expected, "{pattern} in {subject}");
}

#[test]
fn items_are_repeated_as_often_as_they_say() {
    check("aaab", "a*", "0..3");
    check("aaab", "a-b", "0..4");
    check("aaab", "a+b", "0..4");
    check("baaa", "a?a?$", "2..4");
    check("bbb", "a+", "nothing");
    check("bbb", "a*", "0..0");
    check("aXb", "%l%u%l", "0..3");
    check("key:12", ":?%d+$", "3..6");
    check("x*", "x%*", "0..2");
    check("+*", "+*", "0..1");
    check("*", "*", "0..1");
}

#[test]
fn what_fails_is_tried_otherwise() {
    check("aXbXc", "(.*)X(.*)", "0..5 \"aXb\" \"c\"");
    check("aXbXc", "(.-)X(.*)", "0..5 \"a\" \"bXc\"");
    check("ab-x", "(%a+)-?x$", "0..4 \"ab\"");
    check("abcabd", "(a)(b)()d", "3..6 \"a\" \"b\" @6");
    check("aab", "^(a-)%1b", "0..3 \"a\"");
}

#[test]
fn sets_and_classes() {
    check("a-b]c", "[]-]+", "1..2");
    check("abc", "[^a-b]", "2..3");
    check("a^b", "[b^]", "1..2");
    check("a%b", "[%%]", "1..2");
    check("-a", "[a-]+", "0..2");
    check("x9_", "[%a_][%w_]*", "0..3");
    check("\u{e9}", "%a", "nothing");
    check("a\0b", "%z", "1..2");
    check("a\0b", "a\0x", "0..1");
}

#[test]
fn frontiers_balance_and_captures_again() {
    check("THE (quick) fox", "%f[%a]%a+", "0..3");
    check("a word", "%f[%a]%a%a+%f[%A]", "2..6");
    check("f(a(b)c)d)", "%b()", "1..8");
    check("f(a", "%b()", "nothing");
    check("say 'x' \"y'", "([\"'])(.-)%1", "4..7 \"'\" \"x\"");
    check("aa", "()%1", "nothing");
}

#[test]
fn faults_are_found_where_they_are_reached() {
    check("a", "%", "malformed pattern (ends with '%')");
    check("a", "b%", "nothing");
    check("a", "[a", "malformed pattern (missing ']')");
    check("a", "[a%]", "malformed pattern (missing ']')");
    check("a", "[]", "malformed pattern (missing ']')");
    check("a", "%f", "missing '[' after '%f' in pattern");
    check("a", "%b(", "unbalanced pattern");
    check("a", "(a", "0..1 unfinished capture");
    check("a", "a)", "invalid pattern capture");
    check("a", "%1", "invalid capture index");
    check("a", "(a%1)", "invalid capture index");
    check("a", "a%0", "invalid capture index");
    check("", &"()".repeat(33), "too many captures");
    check("aa", &"a?".repeat(PENDING_COUNT_MAX), "0..2");
    check(&"a".repeat(PENDING_COUNT_MAX + 1), &"a?".repeat(PENDING_COUNT_MAX + 1), "pattern too complex");
    check("aa", &"a-".repeat(PENDING_COUNT_MAX + 1), "pattern too complex");
}

/// Long work asks whether it may continue, and ends if it may not.
#[test]
fn long_work_is_interrupted() {
    let long = "a".repeat(1_000_000);
    for pattern in [
        &*("a-".repeat(20) + "b"),
        &("a*".repeat(20) + "b"),
        &("a?".repeat(60) + "b"),
        ".-b",
        "x*[^a]+",
        "%l*b",
        "[a-z]*b",
        "a+b",
        "(.-)%1b",
        "()a*()b",
        "^%ba1",
        "^.-[b]",
        &format!("^[{}]*b", "b-".repeat(100) + "a"),
        &format!("^[{}]-c", "b-".repeat(100) + "a"),
    ] {
        let asked_count = Cell::new(0);
        let may_go_on = || {
            asked_count.set(asked_count.get() + 1);
            asked_count.get() < 5
        };
        assert_eq!(show(long.as_bytes(), pattern, 0, &may_go_on), "interrupted", "{pattern:.40}");
        assert_eq!(asked_count.get(), 5);
    }
}
