//! The directories of a simulated disk: which names exist, and which of them are durable.
//!
//! A change of names is visible at once, and durable when its directory is synced. At a crash each change
//! that is not durable has reached the disk or not, independently of those before it. A rename is one change:
//! at least one of the two names always exists, unless the file had no durable name.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::directory_of;
use crate::Entropy;

#[derive(Clone, Debug)]
enum NameChange {
    Create { path: PathBuf, file: usize },
    Rename { from: PathBuf, to: PathBuf, file: usize },
    Remove { path: PathBuf },
}

impl NameChange {
    fn directory(&self) -> &Path {
        match self {
            NameChange::Create { path, .. }
            | NameChange::Remove { path }
            | NameChange::Rename { to: path, .. } => directory_of(path),
        }
    }

    fn make(self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            NameChange::Create { path, file } => {
                names.insert(path, file);
            }
            NameChange::Rename { from, to, file } => {
                if names.get(&from) == Some(&file) {
                    names.remove(&from);
                }
                names.insert(to, file);
            }
            NameChange::Remove { path } => {
                names.remove(&path);
            }
        }
    }
}

/// Names, each with the number of its file.
#[derive(Clone, Default, Debug)]
pub(super) struct Names {
    seen: BTreeMap<PathBuf, usize>,
    durable: BTreeMap<PathBuf, usize>,
    /// Changes that are not durable, in order.
    unsynced: Vec<NameChange>,
}

impl Names {
    pub(super) fn get(&self, path: &Path) -> Option<usize> {
        self.seen.get(path).copied()
    }

    /// The files that have names.
    pub(super) fn files(&self) -> impl Iterator<Item = usize> {
        self.seen.values().copied()
    }

    pub(super) fn list(&self, directory: &Path) -> Vec<OsString> {
        let inside = self.seen.keys().filter(|path| directory_of(path) == directory);
        inside.filter_map(|path| path.file_name()).map(OsString::from).collect()
    }

    fn change(&mut self, change: NameChange) {
        change.clone().make(&mut self.seen);
        self.unsynced.push(change);
    }

    pub(super) fn create(&mut self, path: &Path, file: usize) {
        self.change(NameChange::Create { path: path.to_owned(), file });
    }

    /// Renames a file. The file at `from` must exist.
    pub(super) fn rename(&mut self, from: &Path, to: &Path) {
        let file = self.seen[from];
        self.change(NameChange::Rename { from: from.to_owned(), to: to.to_owned(), file });
    }

    pub(super) fn remove(&mut self, path: &Path) {
        self.change(NameChange::Remove { path: path.to_owned() });
    }

    /// Makes all changes in a directory durable.
    pub(super) fn sync(&mut self, directory: &Path) {
        self.settle(directory, |_| true);
    }

    /// A sync fails: some changes become durable at random, and no later sync makes the others durable.
    pub(super) fn fail_to_sync(&mut self, directory: &Path, entropy: &mut Entropy) {
        self.settle(directory, |_| entropy.one_in(2));
    }

    /// Changes in a directory for which `is_made` is true become durable. The others are forgotten.
    fn settle(&mut self, directory: &Path, mut is_made: impl FnMut(&NameChange) -> bool) {
        let changes = std::mem::take(&mut self.unsynced);
        for change in changes {
            if change.directory() != directory {
                self.unsynced.push(change);
            } else if is_made(&change) {
                change.make(&mut self.durable);
            }
        }
    }

    /// A crash: only the names on the disk are left.
    pub(super) fn crash(&mut self, entropy: &mut Entropy) {
        let count = self.unsynced.len() as u64;
        // All changes, none, those before some moment, or each independently.
        let (mode, moment) = (entropy.below(4), entropy.below(count + 1));
        for (index, change) in (0..).zip(std::mem::take(&mut self.unsynced)) {
            let is_made = match mode {
                0 => true,
                1 => false,
                2 => index < moment,
                _ => entropy.one_in(2),
            };
            if is_made {
                change.make(&mut self.durable);
            }
        }
        self.seen.clone_from(&self.durable);
    }
}
