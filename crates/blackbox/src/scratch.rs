//! Directories that tests write to.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A directory for one test, removed at its end.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates an empty directory named after the test. No two have the same path: the tests of a program run at the same time.
    pub fn new(test: &str) -> Scratch {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("darter-{}-{count}-{test}", std::process::id()));
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
