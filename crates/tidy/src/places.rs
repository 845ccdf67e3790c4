//! Checks that positions of the log have types (`effectlog`'s `Lsn`, `StreamPosition` and `Stamp`), and are not bare numbers.
//! A function that gets two of them as bare numbers accepts them in the wrong order.

use crate::sources::production;

/// The crates that handle positions of the log.
const CRATES: [&str; 10] = [
    "clients",
    "cli",
    "effectlog",
    "journal",
    "persistence",
    "pubsub",
    "replication",
    "scripting",
    "server",
    "shard",
];
/// Names of such positions; a word and `_` may come before.
const NAMES: [&str; 4] = ["lsn", "position", "slice", "stamp"];
/// Tokens between the name and the number.
const WRAPPERS: [&str; 9] = ["&", "mut", "Option", "Arc", "Box", "CacheLine", "Range", "<", "["];

/// The names of bare numbers among `tokens`.
fn bare(tokens: &[String]) -> Vec<&str> {
    let is_place = |name: &str| NAMES.contains(&name.rsplit('_').next().unwrap_or(name));
    let is_number = |at: usize| {
        let mut kinds = tokens[at..].iter().map(String::as_str).skip_while(|token| WRAPPERS.contains(token));
        kinds.next().is_some_and(|kind| ["u64", "AtomicU64"].contains(&kind))
    };
    let is_bare = |at: usize| {
        let after = &tokens[at + 1..];
        if at > 0 && tokens[at - 1] == "fn" {
            let arrow = after.iter().position(|token| token == "->");
            let body = after.iter().position(|token| ["{", ";"].contains(&token.as_str()));
            return arrow.is_some_and(|arrow| body > Some(arrow) && is_number(at + 1 + arrow + 1));
        }
        after.first().is_some_and(|token| token == ":") && is_number(at + 2)
    };
    let found = (0..tokens.len()).filter(|at| is_place(&tokens[*at]) && is_bare(*at));
    found.map(|at| tokens[at].as_str()).collect()
}

#[test]
fn positions_of_the_log_are_types() {
    let mut offenders = Vec::new();
    for source in production().iter().filter(|source| CRATES.contains(&source.krate.as_str())) {
        let names = bare(&source.tokens);
        offenders.extend(names.iter().map(|name| format!("{}/{}: {name}", source.krate, source.path)));
    }
    crate::none("bare numbers called like a position of the log: use its type, or another name", &offenders);
}

#[test]
fn bare_numbers_are_found() {
    let bare = |code: &str| bare(&crate::sources::tokens(code)).join(" ");
    let found = "struct A { slice: u64, last_slice: CacheLine<AtomicU64> } fn b(position: Option<u64>, stamp: &mut u64)";
    assert_eq!(bare(found), "slice last_slice position stamp");
    assert_eq!(bare("fn durable_slice(&self) -> Option<u64> { self.slice }"), "durable_slice");
    let others = "struct A { slice: Lsn, slices: u64, position: (u64, u64) } A { slice: number as u64 }; slice::<u64>()";
    assert_eq!(bare(others), "");
    assert_eq!(bare("fn mark_slice(&self) { b } fn bytes() -> u64 { 1 }"), "");
}
