//! Every command has a transcript: a request with its name below `tests/transcripts/`.
//!
//! The commands are those of `docs/commands.md`, which a test of the `server` crate makes from their entries. A second word
//! is a subcommand's name if the first has `HELP` among its subcommands.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::sources::root;

/// Commands without a transcript. It has only shrunk: of a command that does not answer the same twice, at least the errors are shown.
const WITHOUT: &[&str] = &[];

/// The names of all commands and subcommands.
fn commands() -> Vec<String> {
    let page = fs::read_to_string(root().join("docs/commands.md")).expect("there is a page of commands");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .map(|synopsis| synopsis.split(' ').collect())
        .collect();
    let containers: BTreeSet<&str> =
        rows.iter().filter(|row| row.get(1) == Some(&"HELP")).map(|row| row[0]).collect();
    rows.iter()
        .map(|row| row[..if containers.contains(row[0]) { row.len().min(2) } else { 1 }].join(" "))
        .collect()
}

/// The first words of every request of every transcript, one and two of each.
fn requested() -> BTreeSet<String> {
    let mut requested = BTreeSet::new();
    let mut paths: Vec<PathBuf> = vec![root().join("tests/transcripts")];
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a readable folder");
            paths.extend(entries.map(|entry| entry.expect("a readable folder").path()));
            continue;
        }
        let text = fs::read_to_string(&path).expect("a readable transcript");
        for request in text.lines().filter_map(|line| line.strip_prefix("> ")) {
            let words: Vec<String> =
                request.split(' ').take(2).map(|word| word.trim_matches('"').to_uppercase()).collect();
            requested.insert(words[0].clone());
            requested.insert(words.join(" "));
        }
    }
    requested
}

#[test]
fn every_command_has_a_transcript() {
    let requested = requested();
    let commands = commands();
    assert!(commands.len() > 300, "docs/commands.md has another form");
    let (with, without): (Vec<String>, Vec<String>) =
        commands.into_iter().partition(|command| requested.contains(command));
    let offenders: Vec<String> =
        without.into_iter().filter(|command| !WITHOUT.contains(&command.as_str())).collect();
    crate::none("commands without a transcript: write one below tests/transcripts/", &offenders);
    let done: Vec<String> = with.into_iter().filter(|command| WITHOUT.contains(&command.as_str())).collect();
    crate::none("commands that have a transcript by now: take them out of WITHOUT", &done);
}
