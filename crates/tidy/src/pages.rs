//! Checks the references of pages: every relative link names an existing file, and a heading of it; every path of the
//! repository between backticks exists.
//!
//! A heading's anchor is formed as on GitHub: lower case, without punctuation, spaces as hyphens.
//!
//! A path may leave out what precedes it (`pop.rs`, `list/pop.rs`) and the folder `src`: `commands/list/pop.rs` is
//! `crates/commands/src/list/pop.rs`. Words between backticks are taken for a path if they end like one of our sources
//! or pages, or begin with a crate or a folder of the root; only the first word counts, since arguments may follow.
//!
//! Not here: other addresses (`https:`), which cannot be checked without a network.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::sources::root;

/// Folders without pages of ours.
const LEFT_OUT: [&str; 3] = ["target", "node_modules", "shared"];

/// Files and folders, by path from the root.
fn everything() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable folder").path();
            let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
            if path.is_dir() && !path.is_symlink() {
                if name.starts_with('.') || LEFT_OUT.contains(&name.as_str()) {
                    continue;
                }
                folders.push(path.clone());
            }
            found.insert(path.strip_prefix(root()).expect("it is below").to_owned());
        }
    }
    found
}

/// The pages, by path from the root.
fn pages() -> BTreeMap<PathBuf, String> {
    everything()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ending| ending == "md") && root().join(path).is_file())
        .map(|path| {
            let text = fs::read_to_string(root().join(&path)).expect("a readable page");
            (path, text)
        })
        .collect()
}

/// The lines of a page outside of fenced blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_fenced = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

fn anchors(page: &str) -> Vec<String> {
    prose(page)
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            heading
                .chars()
                .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
                .map(|letter| if letter == ' ' { '-' } else { letter })
                .collect()
        })
        .collect()
}

/// The targets of a page's links: `](target)`.
fn links(page: &str) -> impl Iterator<Item = &str> {
    prose(page).flat_map(|line| line.split("](").skip(1)).filter_map(|rest| rest.split(')').next())
}

/// `path` below `folder`, without `..`.
fn joined(folder: &Path, path: &str) -> PathBuf {
    let mut joined = PathBuf::new();
    for component in folder.join(path).components() {
        match component {
            Component::ParentDir => drop(joined.pop()),
            Component::Normal(name) => joined.push(name),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    joined
}

/// The texts between backticks on a page, the first word of each.
fn quoted(page: &str) -> Vec<String> {
    // Joined, because a pair of backticks may span two lines.
    let text = prose(page).collect::<Vec<_>>().join("\n");
    let quotes = text.split("\n\n").flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2));
    quotes.filter_map(|quote| quote.split_whitespace().next().map(str::to_owned)).collect()
}

/// The paths by which pages may name what is in the repository.
struct Names {
    /// Every path and every end of it, without `src`.
    ends: BTreeSet<String>,
    /// Crates, and folders of the root: a word that begins with one of them and a slash is a path.
    tops: BTreeSet<String>,
}

impl Names {
    fn new<'p>(everything: impl Iterator<Item = &'p Path>) -> Self {
        let mut names = Names { ends: BTreeSet::new(), tops: BTreeSet::new() };
        for path in everything {
            let parts: Vec<&str> = path.iter().map(|part| part.to_str().expect("it is text")).collect();
            if let [top, _, ..] = parts[..] {
                names.tops.insert(top.to_owned());
            }
            if let ["crates", krate, _, ..] = parts[..] {
                names.tops.insert(krate.to_owned());
            }
            let shown: Vec<&str> = parts.into_iter().filter(|part| *part != "src").collect();
            names.ends.extend((0..shown.len()).map(|from| shown[from..].join("/")));
        }
        names
    }

    /// Whether `word` has the form of a path in the repository.
    fn is_path(&self, word: &str) -> bool {
        let is_plain = word.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-./".contains(letter));
        let below_top = || word.split_once('/').is_some_and(|(top, _)| self.tops.contains(top));
        is_plain && (word.ends_with(".rs") || word.ends_with(".md") || below_top())
    }

    fn exists(&self, path: &str) -> bool {
        let shown: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != "src").collect();
        self.ends.contains(&shown.join("/"))
    }

    /// The paths on a page that lead nowhere.
    fn missing(&self, page: &str) -> Vec<String> {
        quoted(page).into_iter().filter(|word| self.is_path(word) && !self.exists(word)).collect()
    }
}

#[test]
fn paths_on_pages_exist() {
    let everything = everything();
    let names = Names::new(everything.iter().map(PathBuf::as_path));
    let mut offenders = Vec::new();
    let mut path_count = 0;
    for (name, page) in pages() {
        if name.starts_with("docs")
            || name == Path::new("ARCHITECTURE.md")
            || name == Path::new("CONTRIBUTING.md")
        {
            path_count += quoted(&page).iter().filter(|word| names.is_path(word)).count();
            offenders.extend(names.missing(&page).iter().map(|path| format!("{}: `{path}`", name.display())));
        }
    }
    assert!(path_count > 200, "pages name files in another way");
    crate::none("paths between backticks that do not exist", &offenders);
}

#[test]
fn a_path_that_does_not_exist_is_found() {
    let everything = [
        "README.md",
        "docs/jobs.md",
        "crates/commands/src/list",
        "crates/commands/src/list/pop.rs",
        "crates/sim/tests/suite/jobs.rs",
    ];
    let names = Names::new(everything.iter().map(Path::new));
    let page = "`pop.rs`, `list/pop.rs`, `commands/list/pop.rs`, `crates/commands/src/list/pop.rs` and `commands/list/`, as\n\
                `sim/tests/suite/jobs.rs`, `docs/jobs.md FILE` and `README.md`, are there; `op.rs`, `list/push.rs`,\n\
                `commands/pop.rs`, `docs/job.md` and `sim/suite` are not. Neither `INFO`, `5/15`, `/metrics`,\n\
                `bull:1/commands.txt` nor `a::pop` is a path.\n\n\
                ```text\n`docs/in-a-block.md`\n```\n";
    assert_eq!(names.missing(page), ["op.rs", "list/push.rs", "commands/pop.rs", "docs/job.md", "sim/suite"]);
}

#[test]
fn links_between_pages_lead_somewhere() {
    let pages = pages();
    assert!(pages.len() > 20, "the pages are elsewhere");
    let mut offenders = Vec::new();
    for (name, page) in &pages {
        for link in links(page).filter(|link| !link.contains(':')) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => name.clone(),
                path => joined(name.parent().unwrap_or(Path::new("")), path),
            };
            let has_anchor =
                || pages.get(&target).is_some_and(|page| anchors(page).iter().any(|it| it == anchor));
            if !root().join(&target).exists() || (!anchor.is_empty() && !has_anchor()) {
                offenders.push(format!("{}: {link}", name.display()));
            }
        }
    }
    crate::none("links that lead nowhere", &offenders);
}
