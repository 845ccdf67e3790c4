//! Checks that comments are written in plain English: subject, verb, object.
//!
//! Some phrases mark a sentence that hides its subject: a clause in the place of a noun, or a pronoun in the place of the
//! worker, client or thread that acts. One of them does no harm, so the rule is about their density: the marks in 1,000
//! lines of a crate's comments. A mark is a sentence that begins with a word of [`BEGINNINGS`], or a phrase of
//! [`PHRASES`] anywhere. Code between backticks and comments behind code do not count.

use std::collections::BTreeMap;

use crate::none;
use crate::sources::rust_files;

/// A sentence does not begin with these words.
const BEGINNINGS: &[&str] = &["What ", "Who ", "Whoever ", "Whatever ", "The same "];
/// These phrases stand nowhere.
const PHRASES: &[&str] = &["so many", "is none", "are none", "as above", "in vain", "somebody", "nobody"];
/// Marks in 1,000 lines of comments at most.
const PER_1000_LINES_MAX: usize = 15;
/// In a crate with fewer lines of comments, the density says little.
const LINES_MIN: usize = 100;
/// Marks in such a crate at most.
const MARKS_OF_SMALL_MAX: usize = 2;

/// The comments of a file, one paragraph each, without code between backticks; and the number of their lines.
fn paragraphs(text: &str) -> (Vec<String>, usize) {
    let (mut found, mut line_count, mut is_open) = (Vec::<String>::new(), 0, false);
    for line in text.lines() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_open = false;
            continue;
        };
        line_count += 1;
        let comment = comment.trim_start_matches(['/', '!']).trim();
        match found.last_mut().filter(|_| is_open) {
            Some(paragraph) => paragraph.extend([" ", comment]),
            None => found.push(comment.to_owned()),
        }
        is_open = !comment.is_empty();
    }
    let without_code = |paragraph: &String| paragraph.split('`').step_by(2).collect::<Vec<_>>().join("`");
    (found.iter().map(without_code).collect(), line_count)
}

/// The marks in a paragraph.
fn marks(paragraph: &str) -> Vec<&'static str> {
    let mut sentences: Vec<&str> = vec![paragraph];
    for end in [". ", ": "] {
        sentences.extend(paragraph.match_indices(end).map(|(at, end)| &paragraph[at + end.len()..]));
    }
    let begins = sentences
        .into_iter()
        .flat_map(|sentence| BEGINNINGS.iter().filter(move |beginning| sentence.starts_with(**beginning)));
    let lower = paragraph.to_lowercase();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let stands = PHRASES.iter().flat_map(|phrase| {
        let is_whole =
            |at: usize| !lower[..at].ends_with(is_word) && !lower[at + phrase.len()..].starts_with(is_word);
        lower.match_indices(phrase).filter(move |(at, _)| is_whole(*at)).map(move |_| phrase)
    });
    begins.chain(stands).copied().collect()
}

#[test]
fn comments_have_subjects() {
    let mut crates: BTreeMap<String, (Vec<String>, usize)> = BTreeMap::new();
    for (name, text) in rust_files() {
        let Some((krate, path)) = name.strip_prefix("crates/").and_then(|name| name.split_once('/')) else {
            continue;
        };
        let (paragraphs, line_count) = paragraphs(&text);
        let (found, lines) = crates.entry(krate.to_owned()).or_default();
        *lines += line_count;
        for paragraph in &paragraphs {
            found.extend(marks(paragraph).iter().map(|mark| {
                let shown: String = paragraph.chars().take(60).collect();
                format!("{path}: {mark:?} in {shown:?}")
            }));
        }
    }
    let is_above = |marks: usize, lines: usize| {
        if lines < LINES_MIN { marks > MARKS_OF_SMALL_MAX } else { marks * 1000 > PER_1000_LINES_MAX * lines }
    };
    let above = crates.iter().filter(|(_, (found, lines))| is_above(found.len(), *lines));
    let offenders: Vec<String> = above
        .map(|(krate, (found, lines))| {
            format!("{krate}: {} in {lines} lines\n    {}", found.len(), found.join("\n    "))
        })
        .collect();
    none("crates whose comments hide their subjects: say who does what, and why", &offenders);
}

#[test]
fn each_mark_is_found() {
    let found = |text: &str| -> Vec<&str> {
        paragraphs(text).0.iter().flat_map(|paragraph| marks(paragraph)).collect()
    };
    for (text, mark) in [
        ("//! What a file is about.", "What "),
        ("    /// Who writes.", "Who "),
        ("// First. Whoever writes waits.", "Whoever "),
        ("// A sentence ends.\n// Whatever comes next begins a line.", "Whatever "),
        ("// Two parts: The same text.", "The same "),
        ("//! A head.\n//!\n//! What follows is a paragraph.", "What "),
        ("fn f() {}\n// After so many rounds.", "so many"),
        ("/// The key, if there is none.", "is none"),
        ("/// Zeros if there are\n/// none.", "are none"),
        ("// The limit, as above.", "as above"),
        ("// It waits in vain.", "in vain"),
        ("// Somebody's lock.", "somebody"),
        ("// It says (nobody) here.", "nobody"),
    ] {
        assert_eq!(found(text), [mark], "{text}");
    }
    for text in [
        "// Says what it does, and who waits for whatever comes.",
        "// It waits\n// What begins a line here continues a sentence.",
        "// Whatsoever. Whose. Whole. Theirs. The sameness of it.",
        "// Moves the same key to the same place, so manyfold it is.",
        "// The list is nonempty. Those are nonetheless few. This none.",
        "// Acts as `nobody`, like `open_as_nobody`, and as_nobody. `What is code.`",
        "let text = \"What a string says to nobody\";",
        "fn f() {} // What stands behind code is seen by its reader with the code.",
    ] {
        assert_eq!(found(text), [""; 0], "{text}");
    }
}
