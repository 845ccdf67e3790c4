//! Checks how much the components ask of the server: methods of traits that only the server implements.
//!
//! A trait with one implementor is often an argument that was not passed. What is known when a command begins is passed
//! to it, and what can wait until it has ended is returned; a trait is left for what has to happen in between.

use std::collections::BTreeMap;

use crate::names::TOOLS;
use crate::sources::{Source, production};
use crate::types::{block, closing};

/// Methods of all these traits together at most.
const METHODS_MAX: usize = 60;
/// The crate that knows all others.
const SERVER: &str = "server";

/// The traits that a file declares, with the number of their methods.
fn traits(source: &Source) -> impl Iterator<Item = (&str, usize)> {
    let at = (0..source.tokens.len().saturating_sub(1)).filter(|at| source.tokens[*at] == "trait");
    at.filter_map(|at| {
        let open = at + source.tokens[at..].iter().position(|token| token == "{")?;
        let body = &source.tokens[open..closing(&source.tokens, open)];
        let count = body.windows(2).filter(|pair| pair[0] == "fn" && pair[1] != "(").count();
        Some((source.tokens[at + 1].as_str(), count))
    })
}

/// The traits that a file implements.
fn implemented(source: &Source) -> impl Iterator<Item = String> {
    let at = (0..source.tokens.len()).filter(|at| source.tokens[*at] == "impl");
    at.filter_map(|at| block(&source.tokens, at)?.implements)
}

#[test]
fn components_ask_little_of_the_server() {
    let sources: Vec<Source> =
        production().into_iter().filter(|source| !TOOLS.contains(&source.krate.as_str())).collect();
    let mut implementors: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for source in &sources {
        for name in implemented(source) {
            implementors.entry(name).or_default().push(&source.krate);
        }
    }
    let only_server =
        |name: &str| implementors.get(name).is_some_and(|crates| crates.iter().all(|krate| *krate == SERVER));
    let components = sources.iter().filter(|source| source.krate != SERVER);
    let asked: Vec<(String, usize)> = components
        .flat_map(|source| traits(source).map(|(name, count)| (format!("{}::{name}", source.krate), count)))
        .filter(|(name, _)| name.split("::").last().is_some_and(only_server))
        .collect();
    let total: usize = asked.iter().map(|(_, count)| count).sum();
    assert!(asked.iter().any(|(name, _)| name == "scripting::ScriptHost"), "they are found: {asked:?}");
    assert!(total <= METHODS_MAX, "components ask {total} methods of the server: {asked:#?}");
}
