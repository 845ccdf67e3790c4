//! Checks how large types are: the number of their methods, and of the files that contain these.
//!
//! A struct whose methods are spread over thirty files is a global with a name. Functions of `impl Type` blocks in
//! production code count; functions of traits do not, as the trait determines their number.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{Source, production};

/// Methods of a type at most.
const METHODS_MAX: usize = 60;
/// Files with methods of a type at most.
const FILES_MAX: usize = 5;

/// Types that are larger, with their methods and files at most: lower the numbers as these go.
const LARGE: &[(&str, usize, usize)] =
    &[("server/thread.rs::Thread", 93, 15), ("server/thread.rs::ThreadHost", 39, 13)];
/// Methods by which the number in the table may be too high: not every change of a large type has to touch the table.
const SLACK: usize = 5;

/// The token that ends what `tokens[at]`, an opening brace, begins.
fn closing(tokens: &[String], at: usize) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return index;
        }
    }
    tokens.len()
}

/// The type that the `impl` at `at` is for, if it is of no trait, and where its brace opens.
fn subject(tokens: &[String], at: usize) -> Option<(String, usize)> {
    let open = at + tokens[at..].iter().position(|token| token == "{")?;
    let mut depth = 0;
    let mut name = None;
    for token in &tokens[at + 1..open] {
        match token.as_str() {
            "<" => depth += 1,
            ">" => depth -= 1,
            "for" if depth == 0 => return None,
            "where" => break,
            token if depth == 0 && token.starts_with(char::is_uppercase) => name = Some(token.to_owned()),
            _ => {}
        }
    }
    name.map(|name| (name, open))
}

/// The types that a file declares.
fn declared(source: &Source) -> impl Iterator<Item = &str> {
    source
        .tokens
        .windows(2)
        .filter(|pair| ["struct", "enum", "union"].contains(&pair[0].as_str()))
        .map(|pair| pair[1].as_str())
}

#[test]
fn types_stay_small() {
    let mut types: BTreeMap<String, (usize, BTreeSet<String>)> = BTreeMap::new();
    let sources = production();
    for source in &sources {
        let own: BTreeSet<&str> = declared(source).collect();
        for at in 0..source.tokens.len() {
            // An `impl` of an item, not that of a type such as `-> impl Iterator`.
            let is_item = at == 0 || ["}", ";", "]", "unsafe"].contains(&source.tokens[at - 1].as_str());
            if source.tokens[at] != "impl" || !is_item {
                continue;
            }
            let Some((name, open)) = subject(&source.tokens, at) else { continue };
            // Several files of a crate may declare types of one name: each means its own.
            let home = if own.contains(name.as_str()) {
                source
            } else {
                sources
                    .iter()
                    .find(|other| other.krate == source.krate && declared(other).any(|known| known == name))
                    .unwrap_or(source)
            };
            let (methods, files) = types.entry(format!("{}/{}::{name}", home.krate, home.path)).or_default();
            let body = &source.tokens[open..closing(&source.tokens, open)];
            *methods += body.windows(2).filter(|pair| pair[0] == "fn" && pair[1] != "(").count();
            files.insert(source.path.clone());
        }
    }
    let mut offenders = Vec::new();
    for (name, (methods, files)) in &types {
        let (methods_max, files_max) = LARGE
            .iter()
            .find(|(known, ..)| known == name)
            .map_or((METHODS_MAX, FILES_MAX), |(_, methods, files)| (*methods, *files));
        if *methods > methods_max || files.len() > files_max {
            offenders.push(format!(
                "{name}: {methods} methods in {} files, {methods_max} in {files_max} at most",
                files.len()
            ));
        }
    }
    crate::none(
        "types with too many methods: give a part of the state an owner that takes what it needs in its arguments",
        &offenders,
    );
    let slack: Vec<String> = LARGE
        .iter()
        .filter_map(|(known, methods_max, files_max)| {
            let (methods, files) =
                types.get(*known).map_or((0, 0), |(methods, files)| (*methods, files.len()));
            let is_small = methods <= METHODS_MAX && files <= FILES_MAX;
            if is_small {
                Some(format!("{known} is small by now: take it out"))
            } else {
                (methods + SLACK < *methods_max || files < *files_max).then(|| {
                    format!("{known} has {methods} methods in {files} files: lower its numbers to these")
                })
            }
        })
        .collect();
    crate::none("entries of LARGE that allow too much", &slack);
}
