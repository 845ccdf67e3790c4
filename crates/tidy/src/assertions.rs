//! Checks how many assertions of the store stay on in release.
//!
//! It counts `assert!`, `assert_eq!`, `assert_ne!` and `unreachable!` in production code. It does not count
//! `debug_assert!`, which release omits; assertions of constants, which the compiler has checked; and `expect`, which
//! says why a value exists and is part of unwrapping it.

use std::collections::BTreeMap;

use crate::sources::production;

/// The crates in which a wrong state would lose, reorder or corrupt data, and how many assertions they have in 1,000 lines of
/// production code at least, comments included.
const PER_1000_LINES_MIN: &[(&str, usize)] = &[
    ("effectlog", 5),
    ("engine", 3),
    ("heap", 5),
    ("jobs", 5),
    ("journal", 5),
    ("keyspace", 3),
    ("persistence", 3),
    ("replication", 5),
    ("shard", 3),
];

/// The assertions among `tokens` that are on in release.
fn count(tokens: &[String]) -> usize {
    let is_one = |token: &str| ["assert", "assert_eq", "assert_ne", "unreachable"].contains(&token);
    let pairs = tokens.windows(2).enumerate();
    pairs
        .filter(|(at, pair)| {
            let is_constant = *at > 0 && tokens[at - 1] == "=";
            is_one(&pair[0]) && pair[1] == "!" && !is_constant
        })
        .count()
}

#[test]
fn the_store_asserts_in_release() {
    let mut found: BTreeMap<&str, (usize, usize)> =
        PER_1000_LINES_MIN.iter().map(|(krate, _)| (*krate, (0, 0))).collect();
    for source in production() {
        if let Some((assertions, lines)) = found.get_mut(source.krate.as_str()) {
            *assertions += count(&source.tokens);
            *lines += source.line_count;
        }
    }
    let offenders: Vec<String> = PER_1000_LINES_MIN
        .iter()
        .filter_map(|(krate, min)| {
            let (assertions, lines) = found[krate];
            let wanted = (min * lines).div_ceil(1000);
            (assertions < wanted)
                .then(|| format!("{krate}: {assertions} in {lines} lines, {wanted} at least"))
        })
        .collect();
    crate::none(
        "crates with too few assertions in release: assert what would corrupt data if it did not hold",
        &offenders,
    );
}

#[test]
fn only_assertions_that_release_runs_are_counted() {
    let count = |code: &str| count(&crate::sources::tokens(code));
    let counted =
        "assert!(a); if b { assert_eq!(c, d) } else { assert_ne!(e, f) } match g { _ => unreachable!() }";
    assert_eq!(count(counted), 4);
    let others = "debug_assert!(a); const _: () = assert!(b); c.expect(); fn assert(d: bool) {} #[expect(unreachable)]";
    assert_eq!(count(others), 0);
}
