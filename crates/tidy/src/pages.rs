//! Checks links between pages: every relative link names an existing file, and a heading of it.
//!
//! A heading's anchor is formed as on GitHub: lower case, without punctuation, spaces as hyphens.
//!
//! Not here: other addresses (`https:`), which cannot be checked without a network.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::sources::root;

/// Folders without pages of ours.
const LEFT_OUT: [&str; 3] = ["target", "node_modules", "shared"];

/// The pages, by path from the root.
fn pages() -> BTreeMap<PathBuf, String> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable folder").path();
            let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
            if path.is_dir() && !path.is_symlink() {
                if !name.starts_with('.') && !LEFT_OUT.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if name.ends_with(".md") {
                let text = fs::read_to_string(&path).expect("a readable page");
                pages.insert(path.strip_prefix(root()).expect("it is below").to_owned(), text);
            }
        }
    }
    pages
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

/// What the links of a page lead to: `](target)`.
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
