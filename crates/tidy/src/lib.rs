//! The rules for this code base, as a test over the repository's files: `cargo test -p tidy`.
//!
//! Rules that the compiler and clippy cannot check: module heads, sizes of crates, files and functions (with a ratchet for
//! those that are too large today: the list may only shrink), methods, files and names of types, what components ask of the
//! server, circles of imports, the floors of the crates, assertions in release, transcripts of all commands, where `unsafe` may stand, plain English in comments,
//! words that must not stand.

#![cfg(test)]

mod assertions;
mod circles;
mod names;
mod pages;
mod places;
mod prose;
mod seam;
mod settings;
mod sources;
mod transcripts;
mod types;

use std::collections::BTreeMap;
use std::fs;

use crate::sources::{root, rust_files};

/// Lines of a crate's production code at most, empty ones and comments included. The largest is `commands`, whose folders
/// can each be understood alone.
const CRATE_LINES_MAX: usize = 17_000;
/// A lower limit for a crate that would otherwise attract all new code.
const SMALLER_CRATES: &[(&str, usize)] = &[("server", 10_900)];
/// Lines of a file at most.
const FILE_LINES_MAX: usize = 800;
/// Lines of a function at most.
const FUNCTION_LINES_MAX: usize = 70;

/// Functions that are longer, by file: fix one, take it out.
const LONG_FUNCTIONS: &[&str] = &["crates/resp/src/output.rs::behaves_like_one_vector"];

/// Files in which `unsafe` may stand.
const UNSAFE_PLACES: &[&str] = &[
    "crates/ds/src/blob.rs",
    "crates/ds/src/compact_table/bucket.rs",
    "crates/ds/src/compact_table/segment.rs",
    "crates/ds/src/compact_table/slot.rs",
    "crates/ds/src/list/node.rs",
    "crates/ds/src/mover.rs",
    "crates/ds/src/prefetch.rs",
    "crates/heap/",
    "crates/keyspace/src/record.rs",
    "crates/keyspace/src/record/change.rs",
    "crates/powerlog/src/tracer.rs",
    "crates/proactor/examples/",
    "crates/proactor/src/epoll.rs",
    "crates/proactor/tests/loom_inbox.rs",
    "crates/proactor/src/inbox.rs",
    "crates/proactor/src/sys.rs",
    "crates/proactor/src/uring/",
    "crates/lua/src/raw/",
    "crates/process/src/crash/mod.rs",
    "crates/server/src/shared.rs",
    "crates/process/src/system.rs",
    "crates/shard/src/baton.rs",
    "crates/shard/src/hold.rs",
    "crates/shard/src/shards.rs",
    "crates/shard/tests/loom.rs",
    "crates/journal/tests/not_counted.rs",
    "crates/server/tests/allocations.rs",
    "crates/sim/src/stack.rs",
];

/// The crates from the ground up: each stands one floor above the highest that it depends on.
const FLOORS: &[(&str, u32)] = &[
    ("resp", 1),
    ("ds", 1),
    ("sketches", 1),
    ("heap", 1),
    ("scratch", 1),
    ("tidy", 1),
    ("effectlog", 2),
    ("proactor", 2),
    ("keyspace", 2),
    ("rdb", 2),
    ("transcript", 2),
    ("powerlog", 2),
    ("lua", 2),
    ("config", 3),
    ("tls", 3),
    ("shard", 3),
    ("journal", 3),
    ("process", 4),
    ("topology", 4),
    ("bench", 4),
    ("engine", 4),
    ("group", 5),
    ("acl", 5),
    ("pubsub", 5),
    ("memcached", 5),
    ("observe", 5),
    ("commands", 5),
    ("sketching", 5),
    ("persistence", 5),
    ("replication", 6),
    ("scripting", 6),
    ("background", 6),
    ("ops", 6),
    ("jobs", 7),
    ("agent", 7),
    ("clients", 8),
    ("httpd", 8),
    ("cli", 8),
    ("server", 9),
    ("sim", 10),
    ("blackbox", 10),
];

#[track_caller]
fn none(what: &str, offenders: &[String]) {
    assert!(offenders.is_empty(), "{what}:\n  {}", offenders.join("\n  "));
}

#[test]
fn every_file_says_what_it_is() {
    let offenders: Vec<_> =
        rust_files().into_iter().filter(|(_, text)| !text.starts_with("//!")).map(|(name, _)| name).collect();
    none("files without a head (`//!` in the first line)", &offenders);
}

#[test]
fn files_are_small() {
    let offenders: Vec<_> = rust_files()
        .into_iter()
        .filter(|(_, text)| text.lines().count() > FILE_LINES_MAX)
        .map(|(name, text)| {
            format!("{name}: {} lines, {FILE_LINES_MAX} at most: look for the seam", text.lines().count())
        })
        .collect();
    none("large files", &offenders);
}

#[test]
fn crates_are_small() {
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for source in sources::production() {
        *lines.entry(source.krate).or_default() += source.line_count;
    }
    let max = |krate: &str| {
        SMALLER_CRATES.iter().find(|(known, _)| *known == krate).map_or(CRATE_LINES_MAX, |(_, max)| *max)
    };
    let offenders: Vec<_> = lines
        .into_iter()
        .filter(|(krate, count)| *count > max(krate))
        .map(|(krate, count)| {
            format!("{krate}: {count} lines, {} at most: what of it can be understood alone?", max(&krate))
        })
        .collect();
    none("large crates", &offenders);
}

/// The functions of a file with their lengths: from the line with `fn` to the brace at its indentation.
fn function_lengths(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut lengths = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        let is_function = code.split_once("fn ").is_some_and(|(before, _)| {
            before.split_whitespace().all(|word| {
                word.starts_with("pub")
                    || ["const", "unsafe", "extern", "async", "\"C-unwind\"", "\"C\""].contains(&word)
            })
        });
        if !is_function {
            continue;
        }
        let end = lines[start..].iter().position(|line| *line == format!("{}}}", " ".repeat(indent)));
        if let Some(length) = end {
            let name =
                code.split("fn ").nth(1).unwrap_or_default().split(['(', '<']).next().unwrap_or_default();
            lengths.push((name.to_owned(), length + 1));
        }
    }
    lengths
}

#[test]
fn functions_are_short() {
    let mut offenders = Vec::new();
    let mut long = Vec::new();
    for (file, text) in rust_files() {
        for (name, length) in function_lengths(&text) {
            if length > FUNCTION_LINES_MAX {
                let place = format!("{file}::{name}");
                if !LONG_FUNCTIONS.contains(&place.as_str()) {
                    offenders.push(format!("{place}: {length} lines, {FUNCTION_LINES_MAX} at most"));
                }
                long.push(place);
            }
        }
    }
    none("long functions", &offenders);
    let done: Vec<_> = LONG_FUNCTIONS
        .iter()
        .filter(|known| !long.iter().any(|place| place == *known))
        .map(|known| (*known).to_owned())
        .collect();
    none("functions that are short by now: take them out of LONG_FUNCTIONS", &done);
}

#[test]
fn unsafe_stands_where_it_may() {
    let offenders: Vec<_> = rust_files()
        .into_iter()
        .filter(|(name, _)| {
            !name.starts_with("crates/tidy/") && !UNSAFE_PLACES.iter().any(|place| name.starts_with(place))
        })
        .filter(|(_, text)| {
            text.lines().any(|line| {
                !line.trim_start().starts_with("//")
                    && line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe")
            })
        })
        .map(|(name, _)| name)
        .collect();
    none("files with `unsafe` that are not listed", &offenders);
}

#[test]
fn every_file_is_compiled() {
    let files = rust_files();
    let mut offenders = Vec::new();
    for (name, _) in &files {
        let Some((source, path)) = name.split_once("/src/") else { continue };
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
        let module = match file {
            "lib.rs" | "main.rs" => continue,
            // Programs, which Cargo finds.
            _ if folder == "bin" => continue,
            "mod.rs" => folder.rsplit('/').next().unwrap_or(folder),
            file => file.trim_end_matches(".rs"),
        };
        let declaration = format!("mod {module};");
        let is_declared = |(other, text): &(String, String)| {
            other.starts_with(&format!("{source}/src/"))
                && text.lines().any(|line| line.ends_with(&declaration))
        };
        if !files.iter().any(is_declared) {
            offenders.push(name.clone());
        }
    }
    none("files that no `mod` names", &offenders);
}

#[test]
fn no_word_says_later() {
    let words = ["TODO", "FIXME", "XXX:", "HACK"];
    let mut offenders = Vec::new();
    for (name, text) in rust_files().into_iter().filter(|(name, _)| !name.starts_with("crates/tidy/")) {
        for (number, line) in text.lines().enumerate() {
            if words.iter().any(|word| line.contains(word)) {
                offenders.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    none("things left for later", &offenders);
}

/// Two tests choose the same name sooner or later, and two containers give out the same process id.
#[test]
fn nobody_chooses_a_name_in_the_temporary_folder() {
    let offenders: Vec<_> = rust_files()
        .into_iter()
        .filter(|(name, text)| !name.starts_with("crates/tidy/") && text.contains("temp_dir().join("))
        .map(|(name, _)| name)
        .collect();
    none("names in the temporary folder: take a `scratch::Scratch`", &offenders);
}

#[test]
fn names_say_something() {
    let empty = ["utils", "util", "common", "helpers", "helper", "misc", "manager"];
    let offenders: Vec<_> = rust_files()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| name.trim_end_matches(".rs").split('/').any(|part| empty.contains(&part)))
        .collect();
    none("names that say nothing", &offenders);
}

#[test]
fn crates_depend_downwards() {
    let floor = |name: &str| FLOORS.iter().find(|(known, _)| *known == name).map(|(_, floor)| *floor);
    let mut offenders = Vec::new();
    for entry in fs::read_dir(root().join("crates")).expect("there are crates") {
        let folder = entry.expect("a readable folder").path();
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let Some(own) = floor(&name) else {
            offenders.push(format!("{name} has no floor: add it to FLOORS"));
            continue;
        };
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        let plain = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        let mut real = 1;
        for line in plain.lines() {
            let dependency = line.split(['.', ' ', '=']).next().unwrap_or_default();
            let Some(other) = floor(dependency).filter(|_| dependency != name) else { continue };
            real = real.max(other + 1);
            if other >= own {
                offenders.push(format!("{name} (floor {own}) depends on {dependency} (floor {other})"));
            }
        }
        if real < own {
            offenders.push(format!(
                "{name} stands on floor {real}, not {own}: say so in FLOORS and ARCHITECTURE.md"
            ));
        }
    }
    none("crates that depend upwards or sideways, or stand lower than they say", &offenders);
}

#[test]
fn libraries_without_unsafe_forbid_it() {
    let offenders: Vec<_> = rust_files()
        .into_iter()
        .filter(|(name, _)| name.ends_with("/src/lib.rs") && name != "crates/tidy/src/lib.rs")
        .filter(|(name, text)| {
            let folder = name.trim_end_matches("lib.rs");
            let may_have_some =
                UNSAFE_PLACES.iter().any(|place| place.starts_with(folder) || folder.starts_with(place));
            !may_have_some && !text.contains("\n#![forbid(unsafe_code)]\n")
        })
        .map(|(name, _)| name)
        .collect();
    none("libraries without a place for `unsafe`: say `#![forbid(unsafe_code)]` below the head", &offenders);
}
