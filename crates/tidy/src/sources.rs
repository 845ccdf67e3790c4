//! The Rust files of the repository, and which part of each is production code.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

/// Every Rust file of the repository: its path from the root and its text.
pub(crate) fn rust_files() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("crates"), root().join("fuzz")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.expect("a readable folder").path()) {
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).expect("below the root").display().to_string();
                found.push((name, fs::read_to_string(&path).expect("a readable file")));
            }
        }
    }
    found.sort();
    found
}

/// A file of production code, in tokens: names, `::`, and every other character that is no space by itself.
pub(crate) struct Source {
    /// The crate's name, as that of its folder.
    pub(crate) krate: String,
    /// The path below the crate's `src/`.
    pub(crate) path: String,
    pub(crate) tokens: Vec<String>,
    /// Lines, empty ones and comments included.
    pub(crate) line_count: usize,
}

/// The files below `src/` of all crates except for tests, which are left out of the files too.
pub(crate) fn production() -> Vec<Source> {
    let mut sources = Vec::new();
    for (name, text) in rust_files() {
        let Some((krate, path)) = name.strip_prefix("crates/").and_then(|name| name.split_once("/src/"))
        else {
            continue;
        };
        let stem = path.trim_end_matches(".rs").trim_end_matches("/mod");
        if krate != "tidy" && !stem.ends_with("tests") && !path.contains("tests/") {
            let code = without_tests(&code(&text));
            let (tokens, line_count) = (tokens(&code), code.lines().count());
            sources.push(Source { krate: krate.to_owned(), path: path.to_owned(), tokens, line_count });
        }
    }
    sources
}

/// `text` without comments and without what strings and characters contain; lines stay lines.
fn code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = literal_or_comment(rest, out.chars().last());
        if length == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            out.extend(rest[..length].chars().filter(|c| *c == '\n'));
            rest = &rest[length..];
        }
    }
    out
}

/// Bytes of the comment, string or character that `rest` begins with, 0 if it begins with none of them.
fn literal_or_comment(rest: &str, before: Option<char>) -> usize {
    let up_to =
        |end: &str, from: usize| rest[from..].find(end).map_or(rest.len(), |at| from + at + end.len());
    let in_name = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return up_to("*/", 2);
    }
    let hashes = rest.strip_prefix('r').map_or(0, |raw| raw.len() - raw.trim_start_matches('#').len());
    if !in_name && rest.starts_with('r') && rest[1 + hashes..].starts_with('"') {
        return up_to(&format!("\"{}", "#".repeat(hashes)), 2 + hashes);
    }
    let quote = match rest.as_bytes()[0] {
        b'"' => '"',
        // A lifetime has no quote behind its first character.
        b'\'' if rest[1..].starts_with('\\') || rest[1..].chars().nth(1) == Some('\'') => '\'',
        _ => return 0,
    };
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    rest.len()
}

/// `code` without the items marked `#[cfg(test)]`, under further conditions or none.
fn without_tests(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" && !line.trim().starts_with("#[cfg(all(test,") {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        let indent = " ".repeat(line.len() - line.trim_start().len());
        let closes = format!("{indent}}}");
        for line in lines.by_ref() {
            let is_own = line.strip_prefix(&indent).is_some_and(|item| !item.starts_with(' '));
            if line == closes || is_own && (line.ends_with(';') || line.ends_with('}') || line.ends_with(','))
            {
                break;
            }
        }
    }
    out
}

/// `code` in tokens, as [`Source`] has them.
pub(crate) fn tokens(code: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let name = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let length = match name {
            0 if rest.starts_with("::") || rest.starts_with("->") || rest.starts_with("=>") => 2,
            0 => first.len_utf8(),
            name => name,
        };
        tokens.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    tokens
}

#[test]
fn only_production_code_is_left() {
    let text = "use a; // crate::b\nconst S: &str = \"crate::c\\\"\";\nlet r = r#\"crate::\"d\"#;\nlet q = '\"';\n\
                fn f<'a>() {}\n#[cfg(test)]\nmod tests {\n    use super::*;\n}\nuse e;\n\
                #[cfg(all(test, not(loom)))]\nmod others {\n    use super::*;\n}\n#[cfg(not(test))]\nuse g;\n";
    let left = tokens(&without_tests(&code(text))).join(" ");
    assert_eq!(
        left,
        "use a ; const S : & str = ; let r = ; let q = ; fn f < ' a > ( ) { } use e ; # [ cfg ( not ( test ) ) ] use g ;"
    );
}
