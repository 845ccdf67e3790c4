//! Checks circles of files that import each other, crate by crate.
//!
//! A file imports another if it names an item of it by a path that begins with `crate` or `super`, in a `use` or
//! elsewhere. An item that a file only re-exports (`use` or `pub use`) counts for the file that defines it, so a
//! `mod.rs` or `lib.rs` that re-exports is not part of a circle because of that. Files of one circle can only be read
//! together, hence the limit.
//!
//! Not here: what a file names of modules that it declares itself (a module's parent always knows it), what macros
//! write, paths in modules written inside a file, and methods called without an import.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{Source, production};

/// Files of a circle at most.
const FILES_MAX: usize = 5;

/// Files in circles that are larger: no file may join them. Break a file out, then take it from here.
const IN_LARGE_CIRCLES: &[&str] = &[];

/// One `use` or path: the parts as written, and whether it is a `pub use`.
struct Path {
    parts: Vec<String>,
    /// The name that a `use` gives it here.
    name: Option<String>,
    passes_on: bool,
}

/// The paths of a `use` from `tokens[at]` on, each behind `before`; returns where it ends.
fn read_use(tokens: &[String], mut at: usize, before: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut path = before.to_vec();
    while at < tokens.len() {
        match tokens[at].as_str() {
            "{" => {
                at += 1;
                while tokens[at] != "}" {
                    at = read_use(tokens, at, &path, found);
                    at += usize::from(tokens[at] == ",");
                }
                return at + 1;
            }
            "}" | "," | ";" => break,
            "::" => at += 1,
            "as" => {
                path.push("as".to_owned());
                at += 1;
            }
            part => {
                path.push(part.to_owned());
                at += 1;
            }
        }
    }
    found.push(path);
    at
}

/// Every `use` and every path that begins with `crate`, `self` or `super`.
fn paths(tokens: &[String]) -> Vec<Path> {
    let mut paths = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_public = at > 0 && (tokens[at - 1] == "pub" || tokens[at - 1] == ")");
        match tokens[at].as_str() {
            // Not the `use<'a>` of a type.
            "use" if tokens.get(at + 1).is_some_and(|next| next != "<") => {
                let mut found = Vec::new();
                at = read_use(tokens, at + 1, &[], &mut found);
                for mut parts in found {
                    let renamed = parts.iter().position(|part| part == "as");
                    let mut name = parts.last().cloned();
                    parts.truncate(renamed.unwrap_or(parts.len()));
                    if parts.last().is_some_and(|part| part == "self") {
                        parts.pop();
                        name = if renamed.is_some() { name } else { parts.last().cloned() };
                    }
                    paths.push(Path { parts, name, passes_on: is_public });
                }
            }
            "crate" | "self" | "super" if tokens.get(at + 1).is_some_and(|next| next == "::") => {
                let mut parts = vec![tokens[at].clone()];
                while tokens[at + 1] == "::"
                    && tokens[at + 2].starts_with(|c: char| c.is_alphabetic() || c == '_')
                {
                    at += 2;
                    parts.push(tokens[at].clone());
                }
                at += 1;
                paths.push(Path { parts, name: None, passes_on: false });
            }
            _ => at += 1,
        }
    }
    paths
}

/// The module that a file is, as a path from the crate's root.
fn module(path: &str) -> Vec<String> {
    let stem = path.trim_end_matches(".rs");
    let stem = match stem {
        "lib" | "main" => "",
        stem => stem.trim_end_matches("/mod"),
    };
    stem.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The modules of one crate.
struct Modules {
    /// By module: the file, and what its `use`s name.
    files: BTreeMap<Vec<String>, (String, Vec<Path>)>,
}

impl Modules {
    /// `path`, as written in `module`, from the root of the crate; `None` if it leads to another crate.
    fn absolute(&self, module: &[String], path: &Path) -> Option<Vec<String>> {
        let first = path.parts.first()?;
        let mut from = match first.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => module.to_vec(),
            child => {
                let mut at = module.to_vec();
                at.push(child.to_owned());
                return self.files.contains_key(&at).then(|| {
                    at.extend_from_slice(&path.parts[1..]);
                    at
                });
            }
        };
        let mut parts = path.parts.as_slice();
        while let Some((part @ ("super" | "self" | "crate"), rest)) =
            parts.split_first().map(|(part, rest)| (part.as_str(), rest))
        {
            if part == "super" {
                from.pop();
            }
            parts = rest;
        }
        from.extend_from_slice(parts);
        Some(from)
    }

    /// The file that has what `path` names, after `doors` files that passed it on.
    fn file_of(&self, path: &[String], doors: usize) -> Option<&str> {
        let length = (0..=path.len()).rev().find(|length| self.files.contains_key(&path[..*length]))?;
        let (file, uses) = self.files.get(&path[..length])?;
        let Some(name) = path.get(length) else { return Some(file) };
        let named = uses.iter().find(|used| used.name.as_ref() == Some(name));
        match named.and_then(|used| self.absolute(&path[..length], used)) {
            Some(mut there) if doors < 8 => {
                there.extend_from_slice(&path[length + 1..]);
                self.file_of(&there, doors + 1)
            }
            // The file re-exports an item of another crate.
            None if named.is_some() => None,
            _ => Some(file),
        }
    }

    /// The files that each file imports.
    fn imports(&self) -> BTreeMap<String, BTreeSet<String>> {
        let imports_of = |module: &Vec<String>, paths: &[Path]| {
            paths
                .iter()
                .filter(|path| !path.passes_on && ["crate", "super"].contains(&path.parts[0].as_str()))
                .filter_map(|path| self.absolute(module, path))
                .filter_map(|path| self.file_of(&path, 0).map(str::to_owned))
                .collect()
        };
        self.files.iter().map(|(module, (file, paths))| (file.clone(), imports_of(module, paths))).collect()
    }
}

/// Everything that can be reached from `from`, itself only if there is a way back.
fn reach<'a>(imports: &'a BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&str> = imports.get(from).into_iter().flatten().map(String::as_str).collect();
    while let Some(file) = left.pop() {
        if reached.insert(file) {
            left.extend(imports.get(file).into_iter().flatten().map(String::as_str));
        }
    }
    reached
}

/// The circles of a crate: files that reach each other, two at least.
fn circles(sources: &[&Source]) -> Vec<Vec<String>> {
    let has_library = sources.iter().any(|source| source.path == "lib.rs");
    let files = sources.iter().filter(|source| !has_library || source.path != "main.rs");
    let modules = Modules {
        files: files
            .map(|source| (module(&source.path), (source.path.clone(), paths(&source.tokens))))
            .collect(),
    };
    let imports = modules.imports();
    let reached: BTreeMap<&str, _> =
        imports.keys().map(|file| (file.as_str(), reach(&imports, file))).collect();
    let mut circles = BTreeSet::new();
    for (file, there) in &reached {
        let circle: Vec<String> = there
            .iter()
            .filter(|other| reached[*other].contains(file))
            .map(|other| (*other).to_owned())
            .collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

#[test]
fn no_large_circle_grows() {
    let sources = production();
    let crates: BTreeSet<&str> = sources.iter().map(|source| source.krate.as_str()).collect();
    let mut in_large = BTreeSet::new();
    let mut newcomers = Vec::new();
    for krate in crates {
        let files: Vec<&Source> = sources.iter().filter(|source| source.krate == krate).collect();
        for circle in circles(&files).into_iter().filter(|circle| circle.len() > FILES_MAX) {
            let names: Vec<String> = circle.iter().map(|file| format!("{krate}/{file}")).collect();
            let new: Vec<&str> =
                names.iter().map(String::as_str).filter(|name| !IN_LARGE_CIRCLES.contains(name)).collect();
            if !new.is_empty() {
                newcomers.push(format!("{}\n    in the circle of {}", new.join(", "), names.join(", ")));
            }
            in_large.extend(names);
        }
    }
    crate::none(
        "files that import each other in a circle of more than five: pass in what is needed from above, or move what both \
         need below both",
        &newcomers,
    );
    let done: Vec<String> = IN_LARGE_CIRCLES
        .iter()
        .filter(|known| !in_large.contains(**known))
        .map(|known| (*known).to_owned())
        .collect();
    crate::none("files that are in no large circle by now: take them out of IN_LARGE_CIRCLES", &done);
}

#[test]
fn a_circle_is_found_through_doors_and_no_further() {
    let source = |path: &str, code: &str| Source {
        krate: String::new(),
        path: path.to_owned(),
        tokens: crate::sources::tokens(code),
        line_count: code.lines().count(),
    };
    let sources = [
        source("lib.rs", "mod a; mod b; mod c; pub use a::One; pub use self::c::{Two as Three, self as d};"),
        source("a.rs", "use crate::{b::{self, Other}, c};"),
        source("b.rs", "fn f() -> crate::One {}"),
        source("c.rs", "use std::fs; fn f(there: super::Three) {}"),
    ];
    assert_eq!(circles(&sources.iter().collect::<Vec<_>>()), [["a.rs", "b.rs"]]);
}
