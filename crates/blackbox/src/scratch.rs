//! Directories that tests write to.

use std::path::PathBuf;

/// A directory for one test, removed at its end.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates an empty directory named after the test.
    pub fn new(test: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("darter-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory can be written to");
        Scratch(path)
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("the scratch directory can be written to");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays in the temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
