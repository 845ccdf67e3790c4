//! Temporary folders, each for one test.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::random;

/// A folder for one test, removed at its end. If the process is killed it stays; `scripts/test` removes those, too.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates an empty folder in the temporary directory. `name` is the start of its name, for people.
    pub fn new(name: &str) -> Scratch {
        Scratch::within(std::env::temp_dir(), name)
    }

    /// Creates an empty folder in `place`, for tests of certain file systems.
    pub fn within(place: impl AsRef<Path>, name: &str) -> Scratch {
        loop {
            let path = place.as_ref().join(format!("darter-{name}-{:08x}", random() as u32));
            match fs::create_dir(&path) {
                Ok(()) => return Scratch(path),
                // Another test has this folder.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).expect("the scratch folder can be written to");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that cannot be removed stays in the temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_folders_of_one_name_are_two() {
        let (one, other) = (Scratch::new("same"), Scratch::new("same"));
        one.file("a", "1");
        other.file("a", "2");
        assert_eq!(fs::read_to_string(one.path("a")).unwrap(), "1");
        let gone = one.folder().to_owned();
        drop(one);
        assert!(!gone.exists() && other.folder().exists());
    }
}
