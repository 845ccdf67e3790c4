//! Checks how large types are: the number of their methods, and of the files that contain these.
//!
//! A struct whose methods are spread over thirty files is a global with a name. What counts, in production code of the
//! type's crate: functions of `impl Type` blocks, functions of `impl Trait for Type` blocks if the trait is the project's
//! own, and functions whose first parameter is a `&mut Type`, which are methods in all but name.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{Source, production};

/// Methods of a type at most.
const METHODS_MAX: usize = 60;
/// Files with methods of a type at most.
const FILES_MAX: usize = 5;

/// Types that are larger, with their methods and files at most: lower the numbers as these go.
const LARGE: &[(&str, usize, usize)] = &[
    ("engine/store/mod.rs::Store", 84, 8),
    ("lua/raw/stack.rs::Stack", 119, 15),
    ("server/shared.rs::Shared", 30, 6),
    ("server/thread.rs::Thread", 73, 20),
    ("server/thread.rs::ThreadHost", 48, 18),
];
/// Methods by which the number in the table may be too high: not every change of a large type has to touch the table.
const SLACK: usize = 5;

/// The token that ends what `tokens[at]`, an opening brace, begins.
pub(crate) fn closing(tokens: &[String], at: usize) -> usize {
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

/// An `impl` block.
pub(crate) struct Block {
    /// The type that it is for.
    of: String,
    /// The trait.
    pub(crate) implements: Option<String>,
    /// Where its brace opens.
    open: usize,
}

/// The `impl` block at `at`.
pub(crate) fn block(tokens: &[String], at: usize) -> Option<Block> {
    let open = at + tokens[at..].iter().position(|token| token == "{")?;
    let mut depth = 0;
    let (mut name, mut implements) = (None, None);
    for token in &tokens[at + 1..open] {
        match token.as_str() {
            "<" => depth += 1,
            ">" => depth -= 1,
            "for" if depth == 0 => implements = name.take(),
            "where" => break,
            token if depth == 0 && token.starts_with(char::is_uppercase) => name = Some(token.to_owned()),
            _ => {}
        }
    }
    name.map(|of| Block { of, implements, open })
}

/// The type `T` if the function at `at` has a `&mut T` as its first parameter.
fn borrowed(tokens: &[String], at: usize) -> Option<&str> {
    let open = at + tokens[at..].iter().position(|token| token == "(")?;
    let mut words = tokens[open + 1..].iter().map(String::as_str).skip_while(|word| *word == "mut");
    let (_, colon, reference) = (words.next()?, words.next()?, words.next()?);
    let mut rest = words.skip_while(|word| word.starts_with('\''));
    let is_mutable = colon == ":" && reference == "&" && rest.next()? == "mut";
    rest.next().filter(|name| is_mutable && name.starts_with(char::is_uppercase))
}

/// The types, or traits, that a file declares.
fn declared<'s>(source: &'s Source, kinds: &[&'s str]) -> impl Iterator<Item = &'s str> {
    source.tokens.windows(2).filter(|pair| kinds.contains(&pair[0].as_str())).map(|pair| pair[1].as_str())
}

const TYPES: &[&str] = &["struct", "enum", "union"];

/// The methods of each type, and the files with these.
fn methods(sources: &[Source]) -> BTreeMap<String, (usize, BTreeSet<String>)> {
    let mut types: BTreeMap<String, (usize, BTreeSet<String>)> = BTreeMap::new();
    let traits: BTreeSet<&str> = sources.iter().flat_map(|source| declared(source, &["trait"])).collect();
    for source in sources {
        let own: BTreeSet<&str> = declared(source, TYPES).collect();
        // Several files of a crate may declare types of one name: each means its own.
        let home = |name: &str| match own.contains(name) {
            true => Some(source),
            false => sources.iter().find(|other| {
                other.krate == source.krate && declared(other, TYPES).any(|known| known == name)
            }),
        };
        let mut add = |name: &str, home: &Source, count: usize| {
            let (methods, files) = types.entry(format!("{}/{}::{name}", home.krate, home.path)).or_default();
            *methods += count;
            files.insert(source.path.clone());
        };
        for at in 0..source.tokens.len() {
            // An `impl` of an item, not that of a type such as `-> impl Iterator`.
            let is_item = at == 0 || ["}", ";", "]", "unsafe"].contains(&source.tokens[at - 1].as_str());
            if source.tokens[at] == "impl"
                && is_item
                && let Some(Block { of, implements, open }) = block(&source.tokens, at)
                && implements.is_none_or(|name| traits.contains(name.as_str()))
            {
                let body = &source.tokens[open..closing(&source.tokens, open)];
                let count = body.windows(2).filter(|pair| pair[0] == "fn" && pair[1] != "(").count();
                add(&of, home(&of).unwrap_or(source), count);
            }
            if source.tokens[at] == "fn"
                && let Some(name) = borrowed(&source.tokens, at)
                && let Some(home) = home(name)
            {
                add(name, home, 1);
            }
        }
    }
    types
}

#[test]
fn types_stay_small() {
    let types = methods(&production());
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
