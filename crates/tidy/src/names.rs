//! Checks that the name of a type says which it is: few types have the same one.
//!
//! A search for `Place` that leads to fifteen types leads to none. Traits count as well, `type` aliases do not.

use std::collections::BTreeMap;

use crate::sources::{Source, production};

/// Types of one name at most.
const SAME_MAX: usize = 3;
/// The name that every crate may have once more: that of its error.
const OF_EACH_CRATE: &str = "Error";
/// Crates that are no part of the server.
pub(crate) const TOOLS: &[&str] = &["bench", "blackbox", "powerlog", "scratch", "sim", "transcript"];

/// The names of the types and traits that a file declares.
fn declared(source: &Source) -> impl Iterator<Item = &str> {
    let is_kind = |token: &str| ["struct", "enum", "union", "trait"].contains(&token);
    let pairs = source.tokens.windows(2).filter(move |pair| is_kind(&pair[0]));
    pairs.map(|pair| pair[1].as_str()).filter(|name| name.starts_with(char::is_uppercase))
}

#[test]
fn a_name_says_which_type_it_is() {
    let sources = production();
    let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !TOOLS.contains(&source.krate.as_str())) {
        for name in declared(source).filter(|name| *name != OF_EACH_CRATE) {
            files.entry(name).or_default().push(format!("{}/{}", source.krate, source.path));
        }
    }
    assert!(files.len() > 1000, "they are found: {}", files.len());
    let offenders: Vec<String> = files
        .into_iter()
        .filter(|(_, files)| files.len() > SAME_MAX)
        .map(|(name, files)| format!("{name}: {}", files.join(", ")))
        .collect();
    crate::none(&format!("names of more than {SAME_MAX} types: say what each is"), &offenders);
}
